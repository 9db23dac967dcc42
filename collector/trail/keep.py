"""Where trails are kept: open ones by application, finished ones frozen, and how each of them leaves.

Everything here is bounded, dated, and leaves for a reason of the closed tuple REASONS, counted in `evictions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import TypeAlias

import msgspec

from collector.trail.arguments import Arguments
from collector.trail.calendar import Calendar
from collector.trail.memory import Generations, Stamp
from collector.trail.settle import Settler
from collector.trail.trace import Links
from collector.trail.trail import M_DOWN, M_FINAL, M_IRREGULAR, M_UP, Trail
from collector.trail.transitions import FLIGHT_DOWN, Transitions
from collector.trail.wheel import Decisions, Wheel

REASONS: tuple[str, ...] = (
    "open_count",  # more open trails than the bound
    "open_bytes",  # open and finished trails are estimated to take more than the bound
    "open_age",  # no end for longer than the bound
    "finished_early",  # a finished id was forgotten before its time: too many, or too many bytes
    "trail_facts",  # one trail had more facts than the bound; its oldest were cut
    "dead_letters",  # more open dead letters than are remembered beside their trails
    "keys_early",  # an idempotency key was forgotten before its time
    "deadlines",  # something was not judged: too much was open, its trail had left, or overlaps a hole of its source
    "names",  # a task, queue or source had no room for a name of its own, and was counted as `_other`
)

_OPEN_BYTES = 640
_FACT_BYTES = 250
_FROZEN_BYTES = 150
"""What a finished trail costs beyond its encoded form: bytes header, id, its place in the dict."""
_ELDERS = 1_024
_SPARSE = 2.0
"""Seconds that a batch may span whose trails are looked at again together."""
_REVISIT_LONGEST = 300.0


Frozen: TypeAlias = dict[int, dict[str, bytes]]
"""Finished trails, encoded, by generation and id."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept. Seconds are of the axis."""

    open_trails: int = 500_000
    open_seconds: float = 86_400.0
    bytes: int = 1 << 30
    """Open and finished trails together, estimated."""
    finished_seconds: float = 900.0
    finished_ids: int = 1_000_000
    horizon_seconds: float = 60.0
    """How long a finished trail is kept at hand for what was overtaken by its end, before it is frozen."""
    trail_facts: int = 96
    dead_letters: int = 100_000
    keys: int = 200_000
    deadlines: int = 1_000_000


class Home:
    """The ids of one application, or of one source that shares with none."""

    __slots__ = ("calendar", "elders", "finished", "index", "links", "name", "open", "touched")

    def __init__(self, index: int, name: str, bounds: Bounds) -> None:
        self.index = index
        self.name = name
        self.open: dict[str, Trail] = {}
        self.calendar = Calendar()
        self.finished: Generations[bytes] = Generations(bounds.finished_seconds, bounds.finished_ids)
        self.links = Links(bounds.finished_seconds + 2 * _REVISIT_LONGEST, bounds.finished_ids + bounds.open_trails)
        self.elders: deque[Trail] = deque()
        """The next to leave when there are too many, oldest first; refilled when empty."""
        self.touched: dict[str, bool] = {}
        """Where somebody saves: ids whose trail came, changed, moved or left; whether more than its place changed."""


class Keep:
    """All trails, and their ways out."""

    def __init__(self, bounds: Bounds, settler: Settler) -> None:
        self.bounds = bounds
        self.homes: list[Home] = []
        self.wheel = Wheel()
        self.decisions = Decisions()
        self.evictions: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.is_saved = False
        """Whether somebody saves, so that it is noted what was touched."""
        self.arguments: Arguments | None = None
        """None: they are hidden."""
        self.irregular_facts = 0
        """Facts held by open trails, for the estimate of bytes."""
        self.leave: Callable[[Trail, float], None] | None = None
        """Told of each trail before it is frozen or let go, with the axis time."""
        self.overlook: Callable[[Trail, float], None] = lambda _trail, _at: None
        """Told of each open trail that is not over, when the wheel comes round, with the axis time."""
        self.kept: Callable[[Trail, bytes, float], None] | None = None
        """Told of each trail that is frozen (with its encoded form) or let go (with nothing), with the axis time."""
        self.seen_open: Callable[[Trail, float], None] = lambda _trail, _at: None
        """Told of the same after `overlook`, when what is found of it is known."""
        self.farewell: Callable[[Trail], None] = lambda _trail: None
        """Told of each trail before it is frozen or let go; it may change what is found of it."""
        self._settler = settler
        self._by_name: dict[str, Home] = {}
        self._frozen_bytes = 0.0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Trail).decode

    def home(self, name: str) -> Home:
        """The home of an application or source."""
        home = self._by_name.get(name)
        if home is None:
            home = self._by_name[name] = Home(len(self.homes), name, self.bounds)
            self.homes.append(home)
        return home

    def by_name(self, name: str) -> Home | None:
        """The home of this name, where there is one."""
        return self._by_name.get(name)

    def welcome(self, home: Home, fresh: list[Trail], ats: Sequence[float]) -> None:
        """New trails of one batch: look at them again later, and index the traces that they know.

        `ats`: the axis times of the batch. A trail that is older, and new only to its trace, is looked at anyway.
        """
        at = ats[-1]
        if at - fresh[0].born > _SPARSE:
            oldest = min(ats)
            for trail in fresh:
                if trail.born >= oldest:
                    self.wheel.arm(trail, trail.born + self.bounds.horizon_seconds)
        else:
            self.wheel.arm_all(fresh, at + self.bounds.horizon_seconds)
        home.links.welcome(fresh, at)
        home.calendar.welcome(fresh, ats)

    def holds(self, trail: Trail) -> bool:
        """Whether this very trail is still open."""
        return self.homes[trail.home].open.get(trail.task_id) is trail

    def count(self) -> int:
        """Open trails."""
        return sum(len(home.open) for home in self.homes)

    def bytes(self) -> int:
        """What all trails are estimated to take."""
        return self.count() * _OPEN_BYTES + self.irregular_facts * _FACT_BYTES + int(self._frozen_bytes)

    def thaw(self, home: Home, task_id: str, at: float) -> Trail | None:
        """Take a finished trail back among the open ones, where it is still remembered."""
        data = home.finished.take(task_id)
        if data is None:
            return None
        self._frozen_bytes -= len(data) + _FROZEN_BYTES
        trail = self._decode(data)
        self.irregular_facts += len(trail.facts or ())
        home.open[task_id] = trail
        self.wheel.arm(trail, at + self.bounds.horizon_seconds)
        return trail

    def restore(self, home: Home, stamp: Stamp, opened: dict[str, Trail], parts: Frozen) -> None:
        """Begin a home with what was saved of it; `resume` follows, once."""
        home.open = opened
        home.finished.restore(stamp, parts)

    def resume(self, decided: float) -> None:
        """After `restore`: look at every trail when its time comes, and index the traces that they know."""
        bounds = self.bounds
        for home in self.homes:
            for part in home.finished.generations():
                self._frozen_bytes += sum(map(len, part.values())) + len(part) * _FROZEN_BYTES
                for trail in map(self._decode, part.values()):
                    home.links.add(trail, decided)
                    home.calendar.welcome((trail,), (trail.born,))
                    home.calendar.froze(trail)
            for trail in home.open.values():
                home.links.add(trail, decided)
                home.calendar.welcome((trail,), (trail.born,))
                self.irregular_facts += len(trail.facts or ())
                if trail.due:
                    self.decisions.arm(trail, trail.due)
                pause = min(_REVISIT_LONGEST, max(bounds.horizon_seconds, (decided - trail.born) / 4))
                again = trail.born + bounds.horizon_seconds
                if self._is_over(trail):
                    again = trail.end_at + bounds.horizon_seconds
                elif again <= decided:
                    again = min(decided + pause, trail.born + bounds.open_seconds)
                self.wheel.arm(trail, again)

    def look(self, home: Home, task_id: str, since: float = -inf) -> Trail | None:
        """An open trail, or a copy of a finished one; of those that were over before `since`, only of some."""
        trail = home.open.get(task_id)
        if trail is None:
            data = home.finished.get(task_id, since)
            return None if data is None else self._decode(data)
        return trail

    def revisit(self, trail: Trail, at: float, out: Transitions) -> None:
        """The wheel came round: freeze what is over, let go what is too old, look at the rest again later."""
        if not self.holds(trail):
            return
        bounds = self.bounds
        is_over = self._is_over(trail)
        if is_over and trail.end_at + bounds.horizon_seconds <= at:
            self._freeze(trail, at)
        elif trail.born + bounds.open_seconds <= at and not is_over:
            self.evict(trail, "open_age", at, out)
        else:
            home = self.homes[trail.home]
            if trail.trace_id or trail.parent_id or trail.root_id:
                home.links.add(trail, at)
            if is_over:
                self.wheel.arm(trail, trail.end_at + bounds.horizon_seconds)
                return
            self.overlook(trail, at)
            self.seen_open(trail, at)
            pause = min(_REVISIT_LONGEST, max(bounds.horizon_seconds, (at - trail.born) / 4))
            self.wheel.arm(trail, min(at + pause, trail.born + bounds.open_seconds))

    def evict(self, trail: Trail, reason: str, at: float, out: Transitions) -> None:
        """Let an open trail go: what it still holds back is decided now, and nothing of it stays in flight."""
        home = self.homes[trail.home]
        if self.leave is not None:
            self.leave(trail, at)
        self.farewell(trail)
        if trail.marks & M_IRREGULAR:
            if trail.due:
                self._settler.settle(trail, float("inf"), out)
            self._settler.land(trail.facts or (), at, out)
        elif trail.marks & M_UP and not trail.marks & M_DOWN:
            out.count(trail.row, FLIGHT_DOWN, max(at, trail.started_at))
        trail.due = 0.0
        if self.kept is not None:
            self.kept(trail, b"", at)
        if self.is_saved:
            home.touched[trail.task_id] = True
        del home.open[trail.task_id]
        self.irregular_facts -= len(trail.facts or ())
        _empty(trail)
        self.evictions[reason] += 1

    def bound(self, at: float, out: Transitions) -> None:
        """Hold the bounds on count and bytes: the oldest leave. Paid once per batch."""
        while self.count() > self.bounds.open_trails:
            self._evict_oldest("open_count", at, out)
        while self.bytes() > self.bounds.bytes:
            if not self._shed_finished() and not self._evict_oldest("open_bytes", at, out):
                break
        while sum(len(home.finished) for home in self.homes) > self.bounds.finished_ids:
            self._shed_finished()

    def _shed_finished(self) -> bool:
        """Forget the oldest generation of the home that has most; False where there is none."""
        home = max(self.homes, key=lambda home: len(home.finished), default=None)
        if home is None or not len(home.finished):
            return False
        before = len(home.finished)
        self.evictions["finished_early"] += home.finished.shed()
        self._frozen_bytes *= len(home.finished) / before
        return True

    def forget(self, at: float) -> None:
        """Drop finished trails whose time is over."""
        due = self.wheel.next_due()
        for home in self.homes:
            if due is None or due > at:
                home.links.looked_at(at - self.bounds.horizon_seconds - 1.0)
            before = len(home.finished)
            home.finished.forget(at)
            if before:
                self._frozen_bytes *= len(home.finished) / before
            home.calendar.sweep(len(home.open) + len(home.finished), partial(self.look, home))

    def _evict_oldest(self, reason: str, at: float, out: Transitions) -> bool:
        oldest: tuple[float, Trail] | None = None
        for home in self.homes:
            elder = self._elder(home)
            if elder is not None and (oldest is None or elder.born < oldest[0]):
                oldest = (elder.born, elder)
        if oldest is None:
            return False
        if self._is_over(oldest[1]):
            self._freeze(oldest[1], at)
        else:
            self.evict(oldest[1], reason, at, out)
        return True

    def _elder(self, home: Home) -> Trail | None:
        """The oldest open trail of a home. Refilled by many: the front of a dict is slow to find again and again."""
        elders = home.elders
        while True:
            while elders and home.open.get(elders[0].task_id) is not elders[0]:
                elders.popleft()
            if elders or not home.open:
                return elders[0] if elders else None
            elders.extend(islice(home.open.values(), _ELDERS))

    @staticmethod
    def _is_over(trail: Trail) -> bool:
        """Whether a trail needs nothing more, as far as is known."""
        if trail.marks & M_IRREGULAR:
            return trail.end_at > 0.0 and not trail.due
        return bool(trail.marks & M_FINAL)

    def _freeze(self, trail: Trail, at: float) -> None:
        home = self.homes[trail.home]
        if self.leave is not None:
            self.leave(trail, at)
        self.farewell(trail)
        if trail.trace_id or trail.parent_id or trail.root_id:
            home.links.add(trail, at)
        data = self._encode(trail)
        if self.kept is not None:
            self.kept(trail, data, at)
        if self.is_saved:
            home.touched.setdefault(trail.task_id, False)
        del home.open[trail.task_id]
        home.calendar.froze(trail)
        self.irregular_facts -= len(trail.facts or ())
        _empty(trail)
        before = len(home.finished)
        early = home.finished.put(trail.task_id, data, at)
        self._frozen_bytes += len(data) + _FROZEN_BYTES
        if early:
            self.evictions["finished_early"] += early
            self._frozen_bytes *= len(home.finished) / (before + 1)


def _empty(trail: Trail) -> None:
    """What a trail that has left need not hold until its turn on the wheel: under load those are many."""
    trail.message = ""
    trail.facts = trail.found = trail.findings = None
