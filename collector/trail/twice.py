"""Run twice and done twice, told to people: after what, how long after it, and which setting lets it happen.

Reads a trail's lives, changes nothing; the counting is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.trail.lifecycle import LOST, STARTED, SUCCEEDED
from collector.trail.rows import Rows
from collector.trail.tally import Life, Placed, executions
from collector.trail.trail import DUPLICATE, REDELIVERED, Trail

GUILTY: tuple[tuple[str, str], ...] = (
    ("celery+redis", "the visibility_timeout of the Redis transport (an hour by default) is shorter than the task"),
    (
        "celery+amqp",
        "it was not acknowledged: the connection was lost, or RabbitMQ's consumer_timeout passed",
    ),
    ("bullmq", "its lock ran out (lockDuration), so that it was taken for stalled"),
    ("kafka", "its group was rebalanced before the offset was committed (max.poll.interval.ms)"),
    ("redis-stream", "its entry was claimed again (the min-idle-time of XAUTOCLAIM is shorter than the task)"),
    ("taskiq+redis", "its entry was claimed again (idle_timeout is shorter than the task)"),
    (
        "dramatiq+redis",
        "its worker's heartbeat was missed (heartbeat_timeout), so that its work was given out again",
    ),
    ("arq+redis", "its in-progress key ran out (job_timeout), so that another worker took it"),
)
"""How a source's name begins by default, and what gives a run out again while it goes on."""
Line = tuple[str, float, str]
"""Kind, axis time, detail."""


def twice(trail: Trail, lives: Sequence[Life], rows: Rows) -> Iterator[Line]:
    """A line for each start that was a redelivery, and for each success that was a duplicate."""
    lost = {one.key for one in trail.findings or () if one.name == LOST}
    for life in lives:
        for placed in life.order:
            if placed.kind == STARTED and placed.fact.flags & REDELIVERED:
                yield "redelivered", placed.fact.at, _why(life, placed, lost, rows)
        successes = life.of(SUCCEEDED)
        further = sum(bool(placed.fact.flags & DUPLICATE) for placed in successes)
        for placed in successes[len(successes) - further :]:  # which of them came first means nothing
            yield "duplicate_success", placed.fact.at, _before(life, placed, trail)


def _why(life: Life, again: Placed, lost: set[float], rows: Rows) -> str:
    earlier = [(start, end) for start, end in executions(life) if start.when < again.when]
    if not earlier:
        return "after its end"
    start, end_at = earlier[-1]
    after = f"{again.when - start.when:.3g} s after the start on {start.fact.worker or 'another worker'}"
    if start.when in lost:
        return f"{after}, which was lost"
    if end_at is not None and end_at <= again.fact.at:
        return f"{after}, which had ended"
    source = rows.names(again.fact.row)[2] if again.fact.row >= 0 else ""
    guilty = next((cause for prefix, cause in GUILTY if source.startswith(prefix)), "")
    return f"{after}, which still runs" + (f": {guilty}" if guilty else "")


def _before(life: Life, again: Placed, trail: Trail) -> str:
    first = next((p for p in life.order if p.kind == SUCCEEDED and p is not again), None)
    if first is None or first.when > again.when:
        return f"the idempotency key {trail.key} was done before" if trail.key else "done before"
    return f"first done {again.when - first.when:.3g} s before on {first.fact.worker or 'another worker'}"
