"""Exact counts over sliding windows: cumulative numbers of many columns, and what they were at past slots.

Takes facts as (axis time, column, amount) arrays; gives the amount in any window that was announced by `keep`. Times
are integers here, microseconds since 1970 ("ticks"), so that no sum and no comparison depends on an order or on a
rounding. A slot (s - g, s] is left-open: a fact at exactly s belongs to slot s.

A level holds one row of cumulative numbers per slot *in which something happened*: an idle hour costs nothing, and a
look-up is one bisection. Rows are as long as there were columns when they were written; growth copies nothing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SECOND = 1_000_000
MINUTE = 60 * SECOND
NEVER = 1 << 62
"""A tick after all others; its negative lies before all others."""

GRAINS: tuple[tuple[int, int], ...] = (
    # windows up to, slots of; each grain is a multiple of the one before
    (MINUTE - 1, SECOND // 10),
    (10 * MINUTE, SECOND),
    (60 * MINUTE, 5 * SECOND),
    (1440 * MINUTE, MINUTE),
    (NEVER, 10 * MINUTE),
)
FINEST = GRAINS[0][1]
_NEAR = 1 << 16
_SPARE = 2  # slots kept beyond a level's span, for evaluations that are a little late


def ticks_of(seconds: float) -> int:
    """An instant or a duration in seconds as whole microseconds."""
    return round(seconds * SECOND)


def ticks_from(seconds: Array) -> Array:
    """The same for an array."""
    return np.rint(seconds * float(SECOND)).astype(np.int64)


def slots_of(ticks: Array, grain: int) -> Array:
    """The number of the left-open slot in which each tick lies; slot k ends at tick k * grain."""
    return -(-ticks // grain)


def order_of(slots: Array) -> Array:
    """The stable order of slot numbers; not of an empty array. Those of one turn lie close: 16 bits sort by radix."""
    first = slots.min()
    near = slots.max() - first < _NEAR
    return np.argsort((slots - first).astype(np.uint16) if near else slots, kind="stable")


def runs_of(slots: Array) -> Iterator[tuple[int, int]]:
    """Begin and end of each stretch of equal numbers; not of an empty array."""
    return pairwise([0, *(np.flatnonzero(slots[1:] != slots[:-1]) + 1).tolist(), len(slots)])


def grain_of(window: int) -> int:
    """The slot width that a window of this many ticks is read with."""
    return next(grain for longest, grain in GRAINS if window <= longest)


class Pending:
    """Facts beyond the frontier, as runs sorted by tick; cheap to look at the front of, whatever lies behind."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, tuple[Array, ...]]] = []
        self.serial = 0

    def __len__(self) -> int:
        return sum(len(run[2][0]) for run in self.runs)

    def push(self, run: tuple[Array, ...]) -> None:
        """Add parallel arrays, ticks first and sorted by them; not empty."""
        self.serial += 1
        heapq.heappush(self.runs, (int(run[0][0]), self.serial, run))

    def take(self, until: int) -> tuple[Array, ...] | None:
        """Remove and give what lies at or before a tick (in no order), or None."""
        due = []
        while self.runs and self.runs[0][0] <= until:
            run = heapq.heappop(self.runs)[2]
            if run[0][-1] <= until:
                due.append(run)
                continue
            end = int(np.searchsorted(run[0], until, "right"))
            due.append(tuple(array[:end] for array in run))
            self.push(tuple(array[end:] for array in run))
        if len(due) < 2:
            return due[0] if due else None
        return tuple(np.concatenate(arrays) for arrays in zip(*due, strict=True))

    def repeat(self, index: int, heirs: Array, shift: int) -> None:
        """Add what waits again for the heirs of columns (-1: none), whose numbers are the bits from `shift` on."""
        for _, _, run in list(self.runs):
            numbers = run[index].astype(np.int64)
            heir = heirs.take(numbers >> shift)
            mine = np.flatnonzero(heir >= 0)
            if len(mine):
                parts = [array[mine] for array in run]
                own = heir[mine] << shift | numbers[mine] & ((1 << shift) - 1)
                parts[index] = own.astype(run[index].dtype)
                self.push(tuple(parts))

    def instants(self, until: int, grain: int) -> set[int]:
        """The ends, up to `until`, of the slots in which something lies."""
        found: set[int] = set()
        last = until // grain * grain
        for head, _, (ticks, *_) in self.runs:
            if head <= last:
                first, final = -(-head // grain), -(-int(ticks[-1]) // grain)
                if final <= first + 1 and final * grain <= last:  # a batch of a busy place: nothing to search for
                    found.update((first * grain, final * grain))
                    continue
                slots = slots_of(ticks[: int(np.searchsorted(ticks, last, "right"))], grain)
                found.update((slots[np.append(True, slots[1:] != slots[:-1])] * grain).tolist())
        return found

    def column(self, index: int) -> Array:
        """One of the parallel arrays, of everything that waits."""
        return np.concatenate([np.empty(0, np.int64), *(run[2][index] for run in self.runs)])


class Level:
    """Rows of cumulative numbers at the ends of slots of one grain, as far back as `span` ticks."""

    def __init__(self, grain: int, span: int, first: Array, since: int) -> None:
        self.grain = grain
        self.span = span
        self.since = since
        """The tick from which on rows were written; before, only `first` is known."""
        self.slots = [-NEVER]
        self.rows = [first]
        """Row i holds from the end of slot i to the end of slot i + 1; the first stands for all that went before."""
        self.open: int | None = None
        """The slot that has facts but no row yet, because the frontier has not passed its end."""
        self.touched: set[int] | None = None
        """Where somebody saves: slots whose row differs from the one before by something else than it did."""

    def horizon(self, at: int) -> int:
        """The oldest slot that is needed when the frontier is at `at`."""
        return (at - self.span) // self.grain - _SPARE

    def enter(self, slot: int, current: Array, horizon: int) -> None:
        """Facts of this slot are about to be added to `current`: write the row of the one before."""
        if self.open is not None and self.open != slot:
            self._push(self.open, current, horizon)
        self.open = slot

    def close(self, at: int, current: Array) -> None:
        """The frontier has come to `at`: write the row of the open slot if it ended, let go of what nobody reads."""
        horizon = self.horizon(at)
        if self.open is not None and self.open * self.grain <= at:
            self._push(self.open, current, horizon)
            self.open = None
        if len(self.slots) > 1 and self.slots[1] <= horizon:
            gone = bisect_right(self.slots, horizon) - 1
            del self.slots[:gone]
            del self.rows[:gone]

    def _push(self, slot: int, current: Array, horizon: int) -> None:
        row = current.astype(self.rows[0].dtype)
        if slot <= horizon:  # a long step of the frontier: only the newest of these rows matters
            self.slots, self.rows = [slot], [row]
        else:
            self.slots.append(slot)
            self.rows.append(row)
        if self.touched is not None:
            self.touched.add(slot)

    def row(self, at: int, width: int) -> Array:
        """The numbers at the last slot end at or before tick `at`, or the oldest known, at least `width` long."""
        return self._wide(max(bisect_right(self.slots, at // self.grain) - 1, 0), width)

    @property
    def known_from(self) -> int:
        """The tick from which on the past is known; -NEVER: all of it."""
        return self.since if self.slots[0] == -NEVER else max(self.since, self.slots[0] * self.grain)

    def _wide(self, index: int, width: int) -> Array:
        row = self.rows[index]
        if len(row) < width:  # columns born since: they stood at 0
            row = np.concatenate([row, np.zeros(width - len(row), row.dtype)])
            self.rows[index] = row
        return row

    def copy(self, sources: Array, targets: Array, width: int) -> None:
        """Let columns have the same past as others."""
        for index in range(len(self.rows)):
            row = self._wide(index, width)
            row[targets] = row[sources]
        if self.touched is not None:
            self.touched.update(self.slots)

    def amend(self, slots: Array, columns: Array, amounts: Array, width: int) -> None:
        """Add late facts (sorted by slot, all of ended slots) to every row from their slot on."""
        for slot in np.unique(slots).tolist():
            index = bisect_left(self.slots, slot)
            if index and (index == len(self.slots) or self.slots[index] != slot):
                self.slots.insert(index, slot)
                self.rows.insert(index, self.rows[index - 1].copy())
            if self.touched is not None:
                self.touched.add(slot)
        touched, places = np.unique(columns, return_inverse=True)
        delta = np.zeros(len(touched), self.rows[0].dtype)
        done = 0
        for index in range(bisect_left(self.slots, int(slots[0])), len(self.slots)):
            due = int(np.searchsorted(slots, self.slots[index], "right"))
            np.add.at(delta, places[done:due], amounts[done:due].astype(delta.dtype))
            done = due
            self._wide(index, width)[touched] += delta


class Bank:
    """Columns of cumulative whole numbers, their present state at the frontier, and their past at several grains.

    `row_type` bounds what one window can hold (differences wrap around correctly): uint32 for counts of events,
    int64 for sums of microseconds.
    """

    def __init__(self, row_type: type[np.uint32 | np.int64]) -> None:
        self.size = 0
        self.frontier = 0
        self.version = 0
        """Version of the store when anything here last changed."""
        self.current = np.zeros(64, np.int64)
        self.bases = np.zeros(64, np.int64)
        """What a column stood at when its present owner got it; the difference is the owner's value."""
        self.births = np.full(64, NEVER, np.int64)
        """Tick of the first fact of each column's owner."""
        self.changed = np.zeros(64, np.int64)
        """Version of the store when the column last changed."""
        self.levels: list[Level] = []
        self.is_copied = False
        """Whether columns have changed without a new version; whoever saves resets it."""
        self.free: list[int] = []
        self._late: list[tuple[Array, Array, Array]] = []
        self._row_type = row_type

    def keep(self, window: int) -> None:
        """Hold as many slots as windows of this many ticks need."""
        grain = grain_of(window)
        for level in self.levels:
            if level.grain == grain:
                level.span = max(level.span, window)
                return
        self.settle()
        since = self.frontier if self.version else -NEVER
        self.levels.append(Level(grain, window, self.current[: self.size].astype(self._row_type), since))
        self.levels.sort(key=lambda level: level.grain)

    def allocate(self, version: int, birth: int = NEVER) -> int:
        """A column that stands at 0."""
        if self.free:
            column = self.free.pop()
        else:
            column = self.size
            self.size += 1
            if self.size > len(self.current):
                self._grow()
        self.bases[column] = self.current[column]
        self.births[column] = birth
        self.changed[column] = version
        return column

    def copy(self, sources: Array, targets: Array) -> None:
        """Let columns that were just allocated have the same present and past as others."""
        self.settle()
        for array in (self.current, self.bases, self.births, self.changed):
            array[targets] = array[sources]
        for level in self.levels:
            level.copy(sources, targets, self.size)
        self.is_copied = True

    def _grow(self) -> None:
        room = len(self.current) * 5 // 4
        for array in (self.current, self.bases, self.births, self.changed):
            array.resize(room, refcheck=False)

    def release(self, column: int) -> None:
        """Give a column back. It must have been idle for longer than any window that is kept."""
        self.free.append(column)

    def fold(self, at: int, version: int, ticks: Array, columns: Array, amounts: Array | None = None) -> None:
        """Add facts (of amount 1) of (frontier, at], in any order. `advance` must follow with the same `at`."""
        amounts = np.ones(len(ticks), np.int64) if amounts is None else amounts
        self.settle()
        self._mark(ticks, columns, version)
        if not self.levels:
            np.add.at(self.current, columns, amounts)
            return
        grain = self.levels[0].grain
        slots = slots_of(ticks, grain)
        if slots.min() != slots.max():
            order = order_of(slots)
            slots, columns, amounts = slots[order], columns[order], amounts[order]
        horizons = [level.horizon(at) for level in self.levels]
        for begin, end in runs_of(slots):
            slot_end = int(slots[begin]) * grain
            for level, horizon in zip(self.levels, horizons, strict=True):
                level.enter(-(-slot_end // level.grain), self.current[: self.size], horizon)
            np.add.at(self.current, columns[begin:end], amounts[begin:end])

    def advance(self, at: int) -> None:
        """Move the frontier; never back."""
        self.settle()
        self.frontier = at
        for level in self.levels:
            level.close(at, self.current[: self.size])

    def add_late(self, version: int, ticks: Array, columns: Array, amounts: Array | None = None) -> None:
        """Add facts at or before the frontier: to the present at once, to past slots before these are next read."""
        amounts = np.ones(len(ticks), np.int64) if amounts is None else amounts
        self._mark(ticks, columns, version)
        np.add.at(self.current, columns, amounts)
        if self.levels:
            self._late.append((ticks, columns, amounts))

    def _mark(self, ticks: Array, columns: Array, version: int) -> None:
        self.version = version
        self.changed[columns] = version
        np.minimum.at(self.births, columns, ticks)

    def settle(self) -> None:
        """Put the late facts into the past slots."""
        if not self._late:
            return
        ticks, columns, amounts = (np.concatenate(arrays) for arrays in zip(*self._late, strict=True))
        self._late.clear()
        order = np.argsort(ticks, kind="stable")
        ticks, columns, amounts = ticks[order], columns[order], amounts[order]
        for level in self.levels:
            slots = slots_of(ticks, level.grain)
            ended = int(np.searchsorted(slots, self.frontier // level.grain, "right"))
            if ended < len(slots):
                level.open = int(slots[-1])
            if ended:
                level.amend(slots[:ended], columns[:ended], amounts[:ended], self.size)

    def _level(self, at: int) -> Level | None:
        for level in self.levels:
            if at >= level.since and at // level.grain >= level.horizon(self.frontier):
                return level
        return self.levels[-1] if self.levels else None

    @property
    def known_from(self) -> int:
        """The tick from which on the past is known; -NEVER: all of it."""
        if not self.levels:
            return self.frontier if self.version else -NEVER
        return min(level.known_from for level in self.levels)

    def _raw(self, columns: Array, at: int) -> Array:
        """Cumulative numbers modulo the row type; without any level the present stands for the past."""
        level = None if at >= self.frontier else self._level(at)
        if level is None:
            return self.current.take(columns).astype(self._row_type)
        self.settle()
        return level.row(at, self.size).take(columns)

    def increase(self, columns: Array, start: int, end: int) -> Array:
        """What was added in (start, end], as float64; exact where both lie on the grain, or `end` at the frontier.

        NaN where no window is kept at all.
        """
        if not self.levels:
            return np.full(len(columns), np.nan)
        return (self._raw(columns, end) - self._raw(columns, start)).astype(np.float64)

    def value(self, columns: Array, at: int) -> Array:
        """What the columns' owners stood at, as int64."""
        now = self.current.take(columns)
        if at < self.frontier:
            now -= (now.astype(self._row_type) - self._raw(columns, at)).astype(np.int64)
        now -= self.bases.take(columns)
        return now
