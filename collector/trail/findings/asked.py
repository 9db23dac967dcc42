"""Which trails are worth a look, and when, told without their history: what a contract asks, what takes long."""

from __future__ import annotations

from math import inf

from collector.model.contract import Contract
from collector.trail.findings.late import LEAST_SECONDS, run_limit, wait_limit
from collector.trail.findings.usual import Usual
from collector.trail.trail import M_END, M_IRREGULAR, M_STARTED, M_SUCCEEDED, Trail


def asks(terms: Contract) -> bool:
    """Whether a contract has something to hold new trails against."""
    return is_strict(terms) or any(limit is not None for limit in (terms.time_limit, terms.deadline, terms.period))


def is_strict(terms: Contract) -> bool:
    """Whether a failed try can be against a contract, or endanger it."""
    has_limit = any(limit is not None for limit in (terms.max_attempts, terms.backoff, terms.deadline))
    return has_limit or bool(terms.retryable or terms.not_retryable)


def first_look(terms: Contract, usual: Usual, trail: Trail) -> float:
    """Seconds after which a new trail may have reached a limit of its contract."""
    deadline, limit = terms.deadline, terms.time_limit
    if deadline is None:
        return limit or 0.0
    latest = max(deadline - (usual.run(trail.row, 0.95, trail.born) or 0.0), 0.0)
    return latest if limit is None else min(latest, limit)


def next_look(trail: Trail, terms: Contract, usual: Usual, at: float) -> float:
    """When a flat trail that is not over may have waited or run too long; infinity: never, as far as is known."""
    limit = run_limit(terms, usual, trail.row, trail.started_at or at)
    later = inf if limit is None else at + limit
    if trail.marks & M_END:
        return later
    if trail.marks & M_STARTED:
        return inf if limit is None else trail.started_at + limit
    wait = max(0.0, trail.eta - trail.sent_time) if trail.eta else 0.0
    return min(later, trail.born + wait + wait_limit(terms, usual, trail.row, trail.born))


def is_plain(trail: Trail, terms: Contract, usual: Usual) -> bool:
    """Whether a trail is done at the first try, and so fast that nothing can be found of it; most are."""
    if trail.marks & (M_IRREGULAR | M_SUCCEEDED) != M_SUCCEEDED or trail.facts or trail.attempt != 1:
        return False
    least = min(LEAST_SECONDS, terms.time_limit or inf)
    if terms.deadline is not None:
        least = min(least, terms.deadline - (usual.run(trail.row, 0.95, trail.born) or 0.0))
    return trail.end_at - trail.born < least
