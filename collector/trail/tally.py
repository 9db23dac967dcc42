"""What a set of facts of one task id amounts to: a pure function, whatever order they came in.

Takes facts, gives lives with their counted facts, executions, dead letters and durations. Changes nothing and knows no
clock: what must wait for `grace` is only marked so.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from collector.trail.lifecycle import (
    DEAD_LETTERED,
    FAILED,
    IS_FINAL,
    IS_TRY_END,
    RECEIVED,
    RETRIED,
    SENT,
    STARTED,
    STOPS_FLIGHT,
    SUCCEEDED,
    TIE,
    state_of,
)
from collector.trail.trail import LANDED, Fact


class Placed:
    """One fact in its place: when it was (by the sender, else on the axis) and which attempt it is about."""

    __slots__ = ("attempt", "fact", "kind", "when")

    def __init__(self, fact: Fact, when: float) -> None:
        self.fact = fact
        self.kind = fact.kind
        self.when = when
        self.attempt = fact.attempt


class Group:
    """The facts of one kind and attempt in one life, and those of them that count."""

    __slots__ = ("counted", "distinct", "facts")

    def __init__(self) -> None:
        self.facts: list[Placed] = []
        self.counted: list[Placed] = []
        self.distinct = 0


class Life:
    """From one `sent` to the final end, and all that came after it until the next `sent`."""

    __slots__ = ("closed_at", "final_when", "groups", "order", "starts")

    def __init__(self) -> None:
        self.order: list[Placed] = []
        self.groups: dict[tuple[int, int], Group] = {}
        self.final_when: float | None = None
        self.closed_at: float | None = None
        """Axis time of the `sent` that opened the next life."""
        self.starts: list[Placed] = []

    @property
    def state(self) -> str:
        """The highest fact."""
        return state_of((p.kind, p.attempt, p.kind == SENT and p.fact.eta > p.when) for p in self.order)

    @property
    def attempts(self) -> int:
        """The highest attempt that any fact is about."""
        return max((p.attempt for p in self.order), default=0)

    def of(self, kind: int) -> list[Placed]:
        """The facts of a kind that count, by sender's time."""
        found = [p for (k, _), group in self.groups.items() if k == kind for p in group.counted]
        if len(found) > 1:
            found.sort(key=_when)
        return found


def _when(placed: Placed) -> float:
    return placed.when


def lives_of(facts: Sequence[Fact], grace: float) -> list[Life]:
    """The lives of one task id, in order; an empty list for no facts."""
    leading, following = _by_lead(facts)
    lives: list[Life] = []
    life = Life()
    order = _in_order(leading, grace)
    for index, first in enumerate(order):
        placed = first
        if placed.kind == STARTED and not placed.attempt:
            placed = _retry_first(order, index, life)
        if not life.order:
            lives.append(life)
        elif placed.kind == SENT and life.final_when is not None and placed.when > life.final_when:
            life.closed_at = placed.fact.at
            life = Life()
            lives.append(life)
        _place(life, placed)
    for placed in _in_order(following, grace):
        _follow(lives, placed, grace)
    for each in lives:
        _count(each)
    return lives


def _by_lead(facts: Sequence[Fact]) -> tuple[Sequence[Fact], list[Fact]]:
    """The facts, and apart from them those of channels that tell ends but no starts, where another tells starts.

    Their senders are others (a result is stored by the child process before its parent says that it started), so their
    order among the rest means nothing.
    """
    first = facts[0].source if facts else 0
    if all(fact.source == first for fact in facts):
        return facts, []
    starting = {fact.source for fact in facts if fact.kind == STARTED}
    ending = {fact.source for fact in facts if IS_FINAL[fact.kind] or IS_TRY_END[fact.kind]}
    followers = ending - starting if starting else set()
    return [fact for fact in facts if fact.source not in followers], [f for f in facts if f.source in followers]


def _follow(lives: list[Life], placed: Placed, grace: float) -> None:
    """Put an end of a following channel to its start: the n-th of its kind is about what the n-th of the others is.

    It is not before its start, which is told by another clock.
    """
    life = next((life for life in reversed(lives) if life.order[0].when <= placed.when), lives[0])
    ends = [p for p in life.order if p.kind == placed.kind]
    leads = [p for p in ends if p.fact.source != placed.fact.source]
    if not placed.attempt:
        number = len(ends) - len(leads)
        if number < len(leads):
            placed.attempt = leads[number].attempt
        else:
            earlier = (s.attempt for s in reversed(life.starts) if s.when <= placed.when)
            placed.attempt = next(earlier, life.starts[0].attempt if life.starts else 1)
    elif all(p.attempt != placed.attempt for p in leads):
        # It counts attempts that were before our time: the end beside it was numbered by what was heard.
        taken = {p.attempt for p in ends if p.fact.source == placed.fact.source}
        beside = [p for p in leads if not p.fact.attempt and p.attempt not in taken]
        nearest = min(beside, key=lambda p: abs(p.when - placed.when), default=placed)
        if abs(nearest.when - placed.when) <= grace:
            placed.attempt = nearest.attempt
    starts = [s.when for s in life.starts if s.attempt == placed.attempt and is_same(s.fact.worker, placed.fact.worker)]
    if starts and not any(start <= placed.when for start in starts) and min(starts) <= placed.when + grace:
        placed.when = min(starts)
    if IS_FINAL[placed.kind]:
        life.final_when = placed.when if life.final_when is None else min(life.final_when, placed.when)
    insort(life.order, placed, key=_order)
    _group(life, placed)


def _in_order(facts: Sequence[Fact], grace: float) -> list[Placed]:
    """By sender's time. A fact without one that came shortly after the final end is taken for overtaken by it."""
    order = [Placed(fact, fact.time or fact.at) for fact in facts]
    if not all(fact.time for fact in facts):
        ends = sorted(p.when for p in order if IS_FINAL[p.kind])
        for placed in order:
            if placed.kind <= STARTED and not placed.fact.time:
                placed.when = next((end for end in ends if end < placed.when <= end + grace), placed.when)
    order.sort(key=_order)
    return order


def _order(placed: Placed) -> tuple[float, int, int, int, str]:
    return placed.when, TIE[placed.kind], placed.kind, placed.attempt, placed.fact.worker


def _retry_first(order: list[Placed], index: int, life: Life) -> Placed:
    """With one sender's time for both, the retry of what is running comes before the next start."""
    placed = order[index]
    last = next((p for p in reversed(life.order) if p.kind == STARTED or IS_TRY_END[p.kind]), None)
    if last is not None and last.kind == STARTED:
        end = next((n for n in range(index, len(order)) if order[n].when != placed.when), len(order))
        retries = [p for p in order[index:end] if p.kind == RETRIED]
        first = next((p for p in retries if p.fact.worker), retries[0] if retries else None)
        if first is not None:
            moved = [p for p in retries if is_same(p.fact.worker, first.fact.worker)]
            order[index:end] = [*moved, *(p for p in order[index:end] if p not in moved)]
    return order[index]


def _place(life: Life, placed: Placed) -> None:
    """Put the next fact into a life; an absent attempt follows from what came before."""
    kind = placed.kind
    if not placed.attempt:
        if kind in (SENT, RECEIVED):
            placed.attempt = 1
        elif kind == STARTED:
            retried = (group for (k, _), group in life.groups.items() if k == RETRIED)
            counted = 1 + sum(max(map(len, _channels(group.facts))) for group in retried)
            placed.attempt = _received(life, placed.fact.worker, counted)
        else:
            worker = placed.fact.worker
            started = (s.attempt for s in reversed(life.starts) if is_same(s.fact.worker, worker))
            placed.attempt = next(started, 0) or _told(life, placed)
    if kind == STARTED:
        life.starts.append(placed)
    if IS_FINAL[kind] and life.final_when is None:
        life.final_when = placed.when
    life.order.append(placed)
    _group(life, placed)


def _received(life: Life, worker: str, counted: int) -> int:
    """The highest attempt that a worker has received so far: what came before that may never have been told."""
    higher = (
        attempt
        for (kind, attempt), group in life.groups.items()
        if kind == RECEIVED and attempt > counted and any(is_same(p.fact.worker, worker) for p in group.facts)
    )
    return max(higher, default=counted)


def _told(life: Life, end: Placed) -> int:
    """The attempt that another channel told of the same end just before, where no start was seen; else the first."""
    others = (p for p in reversed(life.order) if p.kind == end.kind and p.fact.source != end.fact.source)
    return next((p.attempt for p in others), 1)


def _group(life: Life, placed: Placed) -> None:
    group = life.groups.get((placed.kind, placed.attempt))
    if group is None:
        group = life.groups[placed.kind, placed.attempt] = Group()
    group.facts.append(placed)


def is_same(worker: str, other: str) -> bool:
    """Whether two workers do not differ where both are named."""
    return worker == other or not worker or not other


def _channels(facts: list[Placed]) -> list[list[Placed]]:
    """The different facts of a group, once per channel that tells of it."""
    if len(facts) == 1:
        return [facts]
    by_source: dict[int, list[Placed]] = {}
    for placed in facts:
        by_source.setdefault(placed.fact.source, []).append(placed)
    return [distinct(each) for each in by_source.values()]


def distinct(facts: list[Placed]) -> list[Placed]:
    """The different facts of one kind, attempt and channel.

    Two are the same unless they differ in worker or sender's time where both name it. Since that is not transitive:
    every full pair counts; what names only one of the two and fits no full pair is paired off, the longer list counts.
    """
    if len(facts) == 1:
        return facts
    full = {(p.fact.worker, p.fact.time): p for p in facts if p.fact.worker and p.fact.time}
    if len(full) == len(facts):
        return facts
    workers = {worker for worker, _ in full}
    times = {time for _, time in full}
    by_worker = {p.fact.worker: p for p in facts if not p.fact.time and p.fact.worker and p.fact.worker not in workers}
    by_time = {p.fact.time: p for p in facts if p.fact.time and not p.fact.worker and p.fact.time not in times}
    found = [*full.values(), *by_worker.values(), *list(by_time.values())[len(by_worker) :]]
    return found or facts[:1]


def _count(life: Life) -> None:
    """Decide for each group which of its facts count: over channels the one that names most, ends by their starts."""
    for (kind, attempt), group in life.groups.items():
        channels = _channels(group.facts)
        group.distinct = max(map(len, channels))
        if IS_TRY_END[kind] and group.distinct > 1:
            channels = [_capped(each, _starts(life, attempt)) for each in channels]
        group.counted = channels[0] if len(channels) == 1 else max(channels, key=len)


def _starts(life: Life, attempt: int) -> list[Placed]:
    group = life.groups.get((STARTED, attempt))
    return max(_channels(group.facts), key=len) if group else []


def _capped(ends: list[Placed], starts: list[Placed]) -> list[Placed]:
    """At most as many ends as starts (on the same worker, where named), at least one."""
    on_worker = Counter(start.fact.worker for start in starts)
    used: Counter[str] = Counter()
    kept: list[Placed] = []
    for end in sorted(ends, key=lambda p: (not p.fact.worker, p.when)):
        worker = end.fact.worker
        taken = used[worker] if worker else len(kept)
        room = on_worker[worker] + on_worker[""] if worker else len(starts)
        if taken < max(1, room):
            used[worker] += 1
            kept.append(end)
    return sorted(kept, key=_when)


def redelivered(life: Life) -> list[Placed]:
    """Starts of an attempt that was already started, and starts after the final end. All rest on missing facts."""
    found: list[Placed] = []
    for (kind, _), group in life.groups.items():
        if kind == STARTED:
            starts = sorted(group.counted, key=_when)
            late = (p for p in starts[:1] if life.final_when is not None and p.when > life.final_when)
            found += [*late, *starts[1:]]
    return found


def executions(life: Life) -> list[tuple[Placed, float | None]]:
    """Every counted start with the axis time at which it left flight; None: it is still running."""
    starts = (p for (kind, _), group in life.groups.items() if kind == STARTED for p in group.counted)
    counted = {id(start) for start in starts if not start.fact.flags & LANDED}
    running: list[Placed] = []
    ended: dict[int, float] = {}
    for placed in life.order:
        if id(placed) in counted:
            running.append(placed)
        elif running and STOPS_FLIGHT[placed.kind]:
            over = running if IS_FINAL[placed.kind] else list(_matching(running, placed))[:1]
            for start in over:
                ended[id(start)] = placed.fact.at
            running = [start for start in running if id(start) not in ended]
    return [(p, ended.get(id(p), life.closed_at)) for p in life.order if id(p) in counted]


def _matching(starts: Iterable[Placed], end: Placed) -> Iterable[Placed]:
    """The starts that an end can be the end of."""
    worker, attempt = end.fact.worker, end.attempt
    return (s for s in starts if s.attempt == attempt and is_same(s.fact.worker, worker))


def dead_letter(life: Life, is_must: Callable[[int], bool] | None = None) -> tuple[Placed, float | None] | None:
    """The fact that dead-lettered this life, and when a later success or a newer life closed it (axis time).

    `is_must` tells of a row whether its tasks must be completed: then a failure for good is as good as a dead letter.
    """
    dead = next(iter(life.of(DEAD_LETTERED)), None)
    if dead is None and is_must is not None:
        dead = next((p for p in life.of(FAILED) if p.fact.row >= 0 and is_must(p.fact.row)), None)
    if dead is None:
        return None
    success = (p.fact.at for p in life.order if p.kind == SUCCEEDED and p.when > dead.when)
    return dead, next(success, life.closed_at)


def tries(life: Life) -> list[tuple[int, Placed | None, Placed | None]]:
    """Attempt, start and end of every execution; either may be missing. By attempt, then by time."""
    rows: list[tuple[int, Placed | None, Placed | None]] = []
    ends = [p for (kind, _), group in life.groups.items() if IS_TRY_END[kind] for p in group.counted]
    ends.sort(key=lambda p: (p.when, p.kind))
    for start in life.of(STARTED):
        worker = start.fact.worker
        fits = (e for e in ends if e.attempt == start.attempt and e.when >= start.when)
        end = next((e for e in fits if is_same(e.fact.worker, worker)), None)
        if end is not None:
            ends.remove(end)
        rows.append((start.attempt, start, end))
    rows += [(end.attempt, None, end) for end in ends]
    rows.sort(key=lambda row: (row[0], (row[1] or row[2] or life.order[0]).when))
    return rows
