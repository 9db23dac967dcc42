"""The kinds of findings on one trail: what each is called, who finds it, what it is counted as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from collector.trail.findings.late import forecast, never_started, stuck
from collector.trail.findings.loop import requeue_loop
from collector.trail.findings.lost import lost, poison, unseen_end
from collector.trail.findings.policy import backoff, max_attempts, not_retried, not_retryable
from collector.trail.findings.sight import Sight, Verdict
from collector.trail.transitions import FINDINGS, LOST, VIOLATIONS


class Kind(msgspec.Struct, frozen=True):
    """One kind of finding."""

    find: Callable[[Sight], Iterator[Verdict]]
    """Its name is that of the finding, and the value of the metric's label."""
    fact: int
    """What it is counted as."""
    once: Literal["fact", "life", "trail"]
    """How often it may be found: once for what it is about, for each life, or for the trail."""
    is_absence: bool
    """Whether something that is missing says it: then not across a hole of the source."""
    is_of_start: bool = False
    """Whether that is a start: then not while a worker may have begun it without a word, either."""
    is_unknown: bool = False
    """Whether all that is found is that something is not known: counted by no metric of findings."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.find.__name__


KINDS: tuple[Kind, ...] = (
    Kind(lost, LOST, "fact", is_absence=True),
    Kind(unseen_end, FINDINGS, "fact", is_absence=True, is_unknown=True),
    Kind(poison, FINDINGS, "life", is_absence=False),
    Kind(max_attempts, VIOLATIONS, "trail", is_absence=False),
    Kind(not_retryable, VIOLATIONS, "trail", is_absence=False),
    Kind(not_retried, VIOLATIONS, "trail", is_absence=True),
    Kind(backoff, VIOLATIONS, "trail", is_absence=False),
    Kind(requeue_loop, FINDINGS, "life", is_absence=False),
    Kind(stuck, FINDINGS, "fact", is_absence=True),
    Kind(never_started, FINDINGS, "life", is_absence=True, is_of_start=True),
    Kind(forecast, FINDINGS, "life", is_absence=True, is_of_start=True),
)
"""In this order: poison looks at what was found lost, and what was lost is not stuck."""
