"""Too long: stuck (runs beyond its limit), never started (waits beyond it), forecast (will miss its deadline).

The limits are the contract's where it has them, else many times what is usual of the task; nothing is found of a task
of which neither is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from collector.model.contract import Contract
from collector.trail.findings.sight import Sight, Verdict
from collector.trail.findings.usual import Usual
from collector.trail.lifecycle import IS_FINAL, LOST, RECEIVED, RETRIED, SENT, STARTED, SUCCEEDED
from collector.trail.tally import Life, Placed, executions

TIMES_USUAL = 5.0
"""Beyond so many times the 99th percentile."""
LEAST_SECONDS = 60.0
"""What takes less is never found without a contract: a trail is looked at that often."""
LEAST_WAIT = 900.0


def run_limit(terms: Contract, usual: Usual, row: int, at: float) -> float | None:
    """The longest run of a try that began at `at`, seconds; None: unknown."""
    if terms.time_limit is not None:
        return terms.time_limit
    p99 = usual.run(row, 0.99, at)
    return None if p99 is None else max(LEAST_SECONDS, TIMES_USUAL * p99)


def wait_limit(terms: Contract, usual: Usual, row: int, at: float) -> float:
    """The longest wait for the first start of what was sent at `at`, seconds."""
    if terms.deadline is not None:
        return terms.deadline
    return max(LEAST_WAIT, TIMES_USUAL * (usual.wait(row, 0.99, at) or 0.0))


def stuck(sight: Sight) -> Iterator[Verdict]:
    """A try that ran longer than its limit, still running or not. One that was lost is not stuck besides."""
    gone = {one.key for one in sight.found if one.name == LOST}
    for start, end_at in executions(sight.life):
        limit = run_limit(sight.terms, sight.usual, sight.row, start.fact.at)
        if limit is None:
            continue
        due = start.fact.at + limit
        if (end_at is None or end_at > due) and start.when not in gone:
            yield Verdict(start, due + sight.grace, f"runs longer than {limit:.3g} s")
    limit = run_limit(sight.terms, sight.usual, sight.row, sight.decided)
    if limit is not None and sight.is_latest and sight.life.final_when is None:
        yield Verdict(None, sight.decided + limit)  # what starts after this look cannot be stuck before


def never_started(sight: Sight) -> Iterator[Verdict]:
    """Sent or received, and nothing else in time: only of sources that tell of starts."""
    first = sight.life.order[0]
    if first.kind not in (SENT, RECEIVED):
        return
    limit = wait_limit(sight.terms, sight.usual, sight.row, first.fact.at)
    due = _ready_at(first) + limit
    others = (p.fact.at for p in sight.life.order if p.kind not in (SENT, RECEIVED))
    if sight.telling_since <= due < min(others, default=inf):
        yield Verdict(first, due + sight.grace, f"waits longer than {limit:.3g} s")


def forecast(sight: Sight) -> Iterator[Verdict]:
    """The deadline will not be held: what is left of it is less than 95 of 100 runs take. Told before it is over."""
    life, terms = sight.life, sight.terms
    sent = next((p for p in life.order if p.kind == SENT), None)
    p95 = None if sent is None else sight.usual.run(sight.row, 0.95, sent.fact.at)
    if terms.deadline is None or p95 is None or sent is None or p95 >= terms.deadline:
        return
    over = _ready_at(sent) + terms.deadline
    latest = over - p95
    """The last moment at which a try can begin and be done in time, by the usual."""
    success = min((p.fact.at for p in life.order if p.kind == SUCCEEDED), default=over)
    final = min((p.fact.at for p in life.order if IS_FINAL[p.kind]), default=over)
    found = [retry.fact.at for retry in life.of(RETRIED) if _again_at(retry, terms) > latest]
    if not _is_running(life, latest):
        found.append(latest)
    at = min(found, default=over)
    if at < min(success, final) and at + sight.grace < over:
        yield Verdict(sent, at + sight.grace, f"{over - at:.3g} s are left, and a run takes {p95:.3g} s")


def _ready_at(first: Placed) -> float:
    """When it could begin, axis time."""
    return first.fact.at + max(0.0, first.fact.eta - first.when)


def _again_at(retry: Placed, terms: Contract) -> float:
    """When the try after a failed one can begin at the earliest, axis time."""
    wait = terms.backoff.before(retry.attempt) if terms.backoff else 0.0
    return retry.fact.at + max(0.0, retry.fact.eta - retry.when, wait)


def _is_running(life: Life, at: float) -> bool:
    """Whether a try was under way, or all was over."""
    if any(IS_FINAL[p.kind] and p.fact.at <= at for p in life.order):
        return True
    runs = executions(life)
    return any(start.kind == STARTED and start.fact.at <= at < (end or at + 1.0) for start, end in runs)
