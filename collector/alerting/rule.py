"""What alerting and recording rules have in common: their spec, what they read, and how they are."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from collector.alerting.budget import Pace
from collector.alerting.expression import Selector
from collector.alerting.rulefile import GroupSpec, RuleSpec

Health: TypeAlias = Literal["unknown", "ok", "err"]

_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")
_CLOCK = re.compile(r"\b(?:time|minute|hour|day_of_(?:week|month|year)|days_in_month|month|year)\s*\(")


class Rule:
    """A rule at work."""

    def __init__(self, spec: RuleSpec, group: GroupSpec) -> None:
        self.spec = spec
        self.group = group
        self.name = spec.name
        self.selectors: tuple[Selector, ...] = tuple(spec.expr.selectors)
        """What the expression itself reads."""
        self.reads_clock = self.calls(_CLOCK)
        """Whether the result changes though nothing happens."""
        self.recordings: tuple[Rule, ...] = ()
        """The recording rules that it reads, each after those that it reads itself; set by `connect`."""
        self.health: Health = "unknown"
        self.last_error = ""
        self.evaluated_at: float | None = None
        """When it was last evaluated, at a slot or between; the wall's time where there is one."""
        self.evaluation_seconds = 0.0
        """What that took, CPU seconds."""
        self.pace = Pace()
        self.complaints: list[str] = []
        """What went wrong in the running evaluation, for the group to hand on."""

    def calls(self, functions: re.Pattern[str]) -> bool:
        """Whether the expression, without the texts in it, matches a pattern of calls."""
        return functions.search(_TEXT.sub("", self.spec.expr.text)) is not None

    @property
    def place(self) -> str:
        """Where it is written, `file:line`, as its alerts say."""
        return f"{self.spec.place.file}:{self.spec.place.line}"

    @property
    def inputs(self) -> tuple[Selector, ...]:
        """All that can change its result: its own selectors and those of the recording rules behind it."""
        return self.selectors + tuple(selector for rule in self.recordings for selector in rule.selectors)

    @property
    def windows(self) -> tuple[float, ...]:
        """How far back it reads, in seconds."""
        return self.spec.expr.windows

    def complain(self, message: str) -> None:
        """Unhealthy, though the evaluation goes on."""
        self.health = "err"
        self.last_error = message
        self.complaints.append(message)

    def template_failed(self, message: str) -> None:
        """A template failed: the alert goes out with a plain text."""
        self.complaints.append(f"template of {message}")
