"""The retry policy of a contract, held against what was done: too many tries, the wrong ones, too few, too soon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.trail.findings.sight import Sight, Verdict
from collector.trail.lifecycle import DEAD_LETTERED, FAILED, RETRIED, STARTED
from collector.trail.tally import Placed

_SHARE, _SECONDS = 0.02, 0.1
"""How much sooner than declared a try may come: clocks differ, and timers are rounded."""


def _is_among(error: str, classes: Sequence[str]) -> bool:
    """Whether an error is of one of these classes, which may be written with or without their module."""
    return error in classes or error.rpartition(".")[2] in classes


def max_attempts(sight: Sight) -> Iterator[Verdict]:
    """The first start of an attempt beyond those allowed."""
    most = sight.terms.max_attempts
    for start in sight.life.of(STARTED) if most is not None else ():
        if start.attempt > (most or 0):
            yield Verdict(start, start.fact.at + sight.grace, f"attempt {start.attempt} of {most}")
            return


def not_retryable(sight: Sight) -> Iterator[Verdict]:
    """A retry after an error that must not be tried again."""
    classes = sight.terms.not_retryable
    for retry in sight.life.of(RETRIED) if classes else ():
        error = sight.error(retry.fact.error)
        if _is_among(error, classes):
            yield Verdict(retry, retry.fact.at + sight.grace, f"retried after {error}")


def not_retried(sight: Sight) -> Iterator[Verdict]:
    """Given up after an error that must be tried again, with attempts left."""
    classes, most = sight.terms.retryable, sight.terms.max_attempts
    for end in (*sight.life.of(FAILED), *sight.life.of(DEAD_LETTERED)) if classes else ():
        error = sight.error(end.fact.error)
        if _is_among(error, classes) and (most is None or end.attempt < most):
            of = "" if most is None else f" of {most}"
            yield Verdict(end, end.fact.at + sight.grace, f"given up after {error} at attempt {end.attempt}{of}")
            return


def backoff(sight: Sight) -> Iterator[Verdict]:
    """A try that came sooner after the failed one than declared."""
    declared = sight.terms.backoff
    if declared is None:
        return
    for retry in sight.life.of(RETRIED):
        start = _next(sight, retry)
        if start is None or not start.fact.time or not retry.fact.time:
            continue
        least = declared.before(retry.attempt)
        waited = start.when - retry.when
        if waited < least - max(_SECONDS, least * _SHARE):
            at = max(start.fact.at, retry.fact.at) + sight.grace
            yield Verdict(start, at, f"waited {waited:.3g} s of {least:.3g} s before attempt {start.attempt}")


def _next(sight: Sight, retry: Placed) -> Placed | None:
    """The start of the attempt after a retry."""
    group = sight.life.groups.get((STARTED, retry.attempt + 1))
    starts = (start for start in group.counted if start.when >= retry.when) if group else ()
    return min(starts, key=lambda start: start.when, default=None)
