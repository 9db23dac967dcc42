"""How long a life waited, ran and took: pure functions over a tallied life, by senders' times only.

Never negative, unknown (left out) rather than guessed.
"""

from __future__ import annotations

from collector.trail.lifecycle import IS_FINAL, IS_TRY_END, RETRIED, SENT, STARTED
from collector.trail.tally import Group, Life, Placed, is_same

Duration = tuple[Placed, float, float]
"""The fact that it is told by, seconds, and the axis time at which it was known."""


def waits(life: Life) -> list[Duration]:
    """One per attempt: from when it could have started (sent, or the eta) to its first start."""
    found: list[Duration] = []
    for (kind, attempt), group in life.groups.items():
        if kind != STARTED:
            continue
        start = min(group.counted, key=lambda p: p.when)
        ready = _ready(life, attempt)
        if ready is not None and start.fact.time:
            seconds = start.fact.time - ready[0]
            if seconds >= 0.0:
                found.append((start, seconds, max(start.fact.at, ready[1])))
    return found


def _ready(life: Life, attempt: int) -> tuple[float, float] | None:
    """When an attempt could start, and the axis time of the fact that says so."""
    sent = life.groups.get((SENT, attempt))
    if sent:
        first = min(sent.counted, key=lambda p: p.when).fact
        time = max(first.time, first.eta) if first.time else first.eta
        return (time, first.at) if time else None
    retried = life.groups.get((RETRIED, attempt - 1))
    if retried:
        last = retried.counted[-1].fact
        return (last.eta, last.at) if last.eta else None
    return None


def runs(life: Life) -> list[Duration]:
    """One per attempt: the worker's own number, else from its start to its end on the same worker."""
    found: dict[int, Duration] = {}
    for (kind, attempt), group in life.groups.items():
        if not IS_TRY_END[kind]:
            continue
        shortest: list[tuple[float, float] | None] = []  # looked for once, whichever end it is of: it is a square
        for end in group.counted:
            run = _told(end, group)
            if run is None:
                shortest = shortest or [_shortest(life, attempt, group)]
                run = shortest[0]
            if run is not None and (attempt not in found or end.when < found[attempt][0].when):
                found[attempt] = (end, *run)
    return list(found.values())


def _told(end: Placed, group: Group) -> tuple[float, float] | None:
    """The worker's own number, also where another channel's fact of the same end is the one that counts."""
    own = (p.fact for p in (end, *group.facts) if p.fact.run >= 0.0 and is_same(p.fact.worker, end.fact.worker))
    told = next(own, None)
    return None if told is None else (told.run, told.at)


def _shortest(life: Life, attempt: int, group: Group) -> tuple[float, float] | None:
    """From a start to an end of an attempt. Channels have clocks of their own: start and end are told by one."""
    started = life.groups.get((STARTED, attempt))
    if started is None:
        return None
    pairs = [
        (one.time - start.fact.time, max(one.at, start.fact.at))
        for one in (p.fact for p in group.facts)
        for start in started.facts
        if 0.0 < start.fact.time <= one.time
        and start.fact.source == one.source
        and is_same(start.fact.worker, one.worker)
    ]
    return min(pairs, default=None)


def total(life: Life) -> Duration | None:
    """From the first `sent` to the first final end."""
    end = next((p for p in life.order if IS_FINAL[p.kind]), None)
    sent = next((p for p in life.order if p.kind == SENT), None)
    if end is None or sent is None or not end.fact.time or not sent.fact.time or end.fact.time < sent.fact.time:
        return None
    return end, end.fact.time - sent.fact.time, max(end.fact.at, sent.fact.at)
