"""What a check is given: one rule in its group, the tree of its expression, and what is known around the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from collector.alerting.rulefile import GroupSpec, RuleSpec
from collector.documents import Place
from collector.model.contract import Contract
from collector.model.errors import Problem
from collector.model.labels import labels_of
from collector.promql.syntax import parse

DAY = 86_400.0
DEFAULT_INTERVAL = 15.0


class Known(msgspec.Struct, frozen=True):
    """A metric that may be read. None: not known, so anything goes."""

    kind: Literal["counter", "gauge", "bucket"] | None = None
    labels: frozenset[str] | None = None
    values: Mapping[str, frozenset[str]] = {}
    """Labels that have no other values than these."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What is known around the files that are checked. Durations in seconds."""

    metrics: Mapping[str, Known]
    labels: frozenset[str] = frozenset()
    """Labels of events that the configuration makes labels of every task metric."""
    pages: Mapping[str, frozenset[str]] = {}
    """Rule file → the names of the runbook pages that it can link to."""
    contracts: tuple[Contract, ...] = ()
    """What alerts can get what their rules do not say from."""
    interval: float = DEFAULT_INTERVAL
    """Of groups that set none."""
    kept: float = DAY
    """How far back series reach at most."""

    def of(self, name: str | None) -> Known:
        """What is known of a metric."""
        return self.metrics.get(name or "", _ANYTHING)

    def labels_of(self, name: str | None) -> frozenset[str] | None:
        """The labels that a metric's series can have; None: any."""
        labels = self.of(name).labels
        return None if labels is None else labels | self.labels


_ANYTHING = Known()

Identity: TypeAlias = tuple[Any, ...]
"""What makes two rules the same."""


class Subject:
    """One rule under inspection."""

    def __init__(self, group: GroupSpec, rule: RuleSpec, ground: Ground, first: Mapping[Identity, RuleSpec]) -> None:
        self.group = group
        self.rule = rule
        self.ground = ground
        self.first = first
        """The first rule of each identity in the files that are checked."""

    @cached_property
    def tree(self) -> Any:
        """The parser's tree of the expression."""
        return parse(self.rule.expr.text)

    @property
    def interval(self) -> float:
        """Seconds between evaluations."""
        return self.group.interval or self.ground.interval

    @property
    def expression(self) -> Place:
        """The expression's first character: the parser gives no places inside."""
        return self.rule.place.at("expr").content()

    def wrong(self, message: str) -> Problem:
        """A problem of the expression."""
        return self.expression.problem(message)

    def wrong_at(self, key: str, name: str, message: str) -> Problem:
        """A problem of a label or an annotation; of the rule where the group has it."""
        return self.rule.place.at(key).key(name).problem(message)


def identity(rule: RuleSpec) -> Identity:
    """What must differ between any two rules."""
    # an empty label is as none on an alert, and takes one away from what is recorded
    labels = labels_of(rule.written_labels) if rule.kind == "alert" else rule.written_labels
    return rule.kind, rule.name, labels, " ".join(rule.expr.text.split())
