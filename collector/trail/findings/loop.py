"""A requeue loop: given back again and again without a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from collector.trail.findings.sight import Sight, Verdict
from collector.trail.lifecycle import REQUEUED

_TIMES = 5
"""A worker that stops gives back what it holds once or twice; more is a loop."""


def requeue_loop(sight: Sight) -> Iterator[Verdict]:
    """The fifth time that one life was given back."""
    requeues = sight.life.of(REQUEUED)
    if len(requeues) >= _TIMES:
        fifth = requeues[_TIMES - 1]
        yield Verdict(fifth, fifth.fact.at + sight.grace, f"given back {_TIMES} times")
