"""Which trails that leave are worth keeping: by how they went, by the trace they belong to, a share of the good ones.

Told of each trail that is frozen or goes; of a regular one that costs a few tests. What is worth it waits, encoded as
it is frozen anyway, in a bounded list for whoever keeps it. With one trail its whole trace is kept: what was over
before is looked for, what ends later is known by the marks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from zlib import crc32

import msgspec

from collector.model.contract import Contracts
from collector.trail.findings.usual import PERIOD, Usual
from collector.trail.keep import Keep
from collector.trail.lifecycle import FAILED, RETRIED, STARTED, SUCCEEDED
from collector.trail.listing import listed
from collector.trail.memory import Generations
from collector.trail.remains import Remains
from collector.trail.rows import Errors, Rows
from collector.trail.timeline import findings_of, view
from collector.trail.trail import (
    DUPLICATE,
    M_DUPLICATE,
    M_FAILED,
    M_IRREGULAR,
    M_RETRIED,
    M_SUCCEEDED,
    REDELIVERED,
    Fact,
    Trail,
)
from collector.trail.transitions import FACT_CODE

OUTCOME, TRACE, SLOW, SUCCESS = "outcome", "trace", "slow", "success"
"""Why a trail is kept: how it went; another of its trace is kept; slower than its 99th percentile; `keep_success`."""
RANKS: dict[str, int] = {SUCCESS: 0, SLOW: 0, TRACE: 1, OUTCOME: 2}
"""What leaves first where there is no room: the lowest."""
SHED: tuple[str, ...] = (
    "kept_load",  # more is to be kept than can be written in time
    "kept_disk",  # the same, while the disk takes nothing
    "kept_slow",  # more slow trails than the bound of a minute
    "kept_trace",  # more trails of one trace than are kept
    "kept_marks",  # more traces than are remembered: what comes later of them is not kept for their sake
)
"""Why a trail that is worth keeping is not kept."""

MOST_WAITING = 50_000
MOST_WAITING_BYTES = 32 * 1024 * 1024
MOST_OF_TRACE = 1_000
SLOW_PER_MINUTE = 300
SLOW_OF_ROW_PER_MINUTE = 10
"""Of one task and queue."""
MARKED_SECONDS = 86_400.0
"""What comes so long after the last part of a kept trail is kept with it, whatever it is."""
MOST_MARKED = 200_000
_SHORTEST = 0.001
"""Seconds: what takes less is not slow."""
_MINUTE = 60.0

_TELLING = M_FAILED | M_RETRIED | M_DUPLICATE
_BAD_KINDS = frozenset(
    {FAILED, RETRIED, FACT_CODE["dead_lettered"], FACT_CODE["rejected"], FACT_CODE["expired"]},
)


class Worth(msgspec.Struct, frozen=True):
    """A trail that is to be kept."""

    home: str
    trace: str
    """The trace that it is found under; "" for none."""
    reason: str
    remains: Remains


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    home: int
    trace: str
    reason: str
    data: bytes


class _Mark(msgspec.Struct, gc=False):
    """A trace of which something is kept."""

    trace: str
    kept: int = 0


class Sieve:
    """What of one stitcher's trails is to be kept. Costs nothing until `begin`."""

    def __init__(self, keep: Keep, rows: Rows, errors: Errors, usual: Usual, grace: float) -> None:
        self.shed: dict[str, int] = dict.fromkeys(SHED, 0)
        self.is_disk_well: Callable[[], bool] = lambda: True
        self._keep = keep
        self._rows = rows
        self._errors = errors
        self._usual = usual
        self._grace = grace
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._marks: Generations[_Mark] = Generations(MARKED_SECONDS, MOST_MARKED)
        self._unexplored: deque[tuple[str, _Mark, float, str]] = deque()
        self._contracts: Contracts | None = None
        self._shares: dict[int, float] = {}
        self._floors: dict[int, float] = {}
        self._period = -1.0
        self._minute = -1.0
        self._slow: dict[int, int] = {}
        """By row, of this minute."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Trail).decode

    def begin(self) -> None:
        """Somebody keeps what is worth it: look at each trail that leaves from now on."""
        self._keep.kept, self._keep.seen_open = self.left, self.seen_open

    def use(self, contracts: Contracts | None) -> None:
        """Keep the share of successes that these say."""
        declared = contracts.declared if contracts else ()
        self._contracts = contracts if any(one.keep_success for one in declared) else None
        self._shares = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._unexplored)

    # What the keeper of trails tells

    def left(self, trail: Trail, data: bytes, at: float) -> None:
        """A trail is frozen or goes, at an axis time; `data`: encoded, or empty where it was not yet."""
        marks = trail.marks
        is_telling = marks & _TELLING or trail.facts or trail.found or trail.findings
        reason = self._how_it_went(trail) if is_telling else ""
        mark = self._mark_of(trail) if self._marks.size else None
        if not reason and mark is not None:
            reason = TRACE
        if not reason and (marks & M_SUCCEEDED or marks & M_IRREGULAR):
            reason = self._by_its_run(trail, at)
        if reason:
            self._accept(trail, data, reason, mark, at)

    def seen_open(self, trail: Trail, at: float) -> None:
        """A trail is open for long: where it goes wrong, the rest of its trace may be over and forgotten before it."""
        if (trail.marks & _TELLING or trail.facts or trail.found or trail.findings) and self._how_it_went(trail):
            self._mark(trail, self._mark_of(trail) or _Mark(trail.trace_id or ""), at)

    @staticmethod
    def _how_it_went(trail: Trail) -> str:
        is_bad = trail.marks & _TELLING or trail.gone or trail.findings or findings_of(trail)
        return OUTCOME if is_bad or any(map(_is_bad, trail.facts or ())) else ""

    def _mark_of(self, trail: Trail) -> _Mark | None:
        trace_id, task_id, parent_id, root_id = trail.trace_id, trail.task_id, trail.parent_id, trail.root_id
        for part in self._marks.generations():
            if trace_id and trace_id in part:
                return part[trace_id]
            if task_id in part:
                return part[task_id]
            if parent_id and parent_id in part:
                return part[parent_id]
            if root_id and root_id in part:
                return part[root_id]
        return None

    def _by_its_run(self, trail: Trail, at: float) -> str:
        """Whether a success is slow, or one of the share that is kept."""
        run = trail.run if trail.run >= 0 else trail.end_time - trail.started_time
        facts = trail.facts if trail.marks & M_IRREGULAR else None
        if facts is not None:
            run = _longest(facts)
        if run > _SHORTEST and run > self._floor(trail.row, at) and self._is_within(trail.row, at):
            return SLOW
        if self._contracts is not None and trail.row >= 0:
            share = self._share(trail.row)
            if share and (facts is None or any(fact.kind == SUCCEEDED for fact in facts)):
                return SUCCESS if _place(trail) < share else ""
        return ""

    def _floor(self, row: int, at: float) -> float:
        """What a run of a row must take to be slow, seconds."""
        if at // PERIOD != self._period:
            self._period = at // PERIOD
            self._floors.clear()
        floor = self._floors.get(row)
        if floor is None:
            p99 = self._usual.run(row, 0.99, at)
            floor = self._floors[row] = inf if p99 is None else p99
        return floor

    def _is_within(self, row: int, at: float) -> bool:
        """Whether there is room for one more slow trail."""
        if at // _MINUTE != self._minute:
            self._minute = at // _MINUTE
            self._slow.clear()
            self._slow[-1] = 0
        count = self._slow.get(row, 0)
        if count >= SLOW_OF_ROW_PER_MINUTE or self._slow[-1] >= SLOW_PER_MINUTE:
            self.shed["kept_slow"] += 1
            return False
        self._slow[row] = count + 1
        self._slow[-1] += 1
        return True

    def _share(self, row: int) -> float:
        share = self._shares.get(row)
        if share is None:
            task, queue, _ = self._rows.names(row)
            terms = self._contracts.of(task, queue) if self._contracts else None
            share = self._shares[row] = (terms.keep_success if terms else None) or 0.0
        return share

    def _accept(self, trail: Trail, data: bytes, reason: str, mark: _Mark | None, at: float) -> None:
        if mark is None:
            mark = _Mark(trail.trace_id or "")
        elif trail.trace_id and not mark.trace:
            mark.trace = trail.trace_id
        if mark.kept >= MOST_OF_TRACE and reason != OUTCOME:
            self.shed["kept_trace"] += 1
            return
        most = MOST_WAITING if RANKS[reason] else MOST_WAITING // 2
        if len(self._waiting) >= most or self._bytes >= MOST_WAITING_BYTES:
            self.shed["kept_load" if self.is_disk_well() else "kept_disk"] += 1
            return
        mark.kept += 1
        data = data or self._encode(trail)
        self._bytes += len(data)
        self._waiting.append(_Waiting(trail.home, trail.trace_id or mark.trace, reason, data))
        self._mark(trail, mark, at)

    def _mark(self, trail: Trail, mark: _Mark, at: float) -> None:
        """What is of this trail's trace is worth keeping from now on, and what is over of it is to be looked for."""
        for key in (trail.trace_id, trail.task_id, trail.parent_id, trail.root_id):
            if key and self._marks.get(key) is None:
                self.shed["kept_marks"] += self._marks.put(key, mark, at)
                self._unexplored.append((key, mark, at, trail.task_id))
                if len(self._unexplored) > 2 * MOST_WAITING:
                    self._unexplored.popleft()
                    self.shed["kept_load"] += 1

    # What the keeper of trails is asked

    def explore(self, most: int) -> bool:
        """Look for what was over of the traces of so many kept trails; whether there is more."""
        for _ in range(min(most, len(self._unexplored))):
            self._explore(*self._unexplored.popleft())
        return bool(self._unexplored)

    def take(self, most: int) -> Iterator[Worth]:
        """Up to so many trails to keep, oldest first."""
        for _ in range(min(most, len(self._waiting))):
            one = self._waiting.popleft()
            self._bytes -= len(one.data)
            trail, home = self._decode(one.data), self._keep.homes[one.home]
            timeline = view(trail, self._rows, self._errors, self._grace, home.links.under(trail.task_id))
            yield Worth(home.name, one.trace, one.reason, Remains(listed(timeline, trail), timeline))

    def forget(self, at: float) -> None:
        """Drop the marks whose time is over."""
        self._marks.forget(at)

    def remember(self, keys: Iterable[tuple[str, str]], at: float) -> None:
        """Of these ids and traces something was kept by a former process: id or trace, and its trace."""
        for key, trace in keys:
            if key and self._marks.get(key) is None:
                mark = (self._marks.get(trace) if trace else None) or _Mark(trace)
                self._marks.put(key, mark, at)
                if trace and trace != key:
                    self._marks.put(trace, mark, at)

    def _explore(self, key: str, mark: _Mark, at: float, by: str) -> None:
        """Keep what was frozen of a trace, or beside a task, before it was known to be worth it."""
        for home in self._keep.homes:
            members = dict.fromkeys((key, *home.links.of_trace(key), *home.links.under(key)))
            for task_id in islice(members, MOST_OF_TRACE):
                data = home.finished.get(task_id)
                if data is None or task_id == by:
                    continue
                trail = self._decode(data)
                if self._how_it_went(trail):
                    continue  # it was kept when it was frozen
                self._accept(trail, data, TRACE, mark, at)


def _is_bad(fact: Fact) -> bool:
    return fact.kind in _BAD_KINDS or bool(fact.flags & (DUPLICATE | REDELIVERED))


def _longest(facts: list[Fact]) -> float:
    """About how long the last run of an irregular trail took, seconds; -1: nothing tells."""
    run = max((fact.run for fact in facts), default=-1.0)
    started = max((fact.time for fact in facts if fact.kind == STARTED and fact.time), default=inf)
    ended = max((fact.time for fact in facts if fact.kind == SUCCEEDED), default=-inf)
    return run if run >= 0 else max(-1.0, ended - started)


def _place(trail: Trail) -> float:
    """Where a trail stands between 0 and 1: the same for all of one trace, and at every time."""
    key = trail.trace_id or trail.root_id or trail.task_id
    return crc32(key.encode("utf-8", "surrogatepass")) / 2**32
