"""Histograms over sliding windows: every observation by slot, and running counts for the windows that rules ask for.

Takes observations as (axis time, key, microseconds) arrays; gives quantiles and `le` counts of any kept window, and the
`_count` and `_sum` of each histogram. All of it is counted in whole numbers, so no answer depends on an order.
"""

from __future__ import annotations

import numpy as np

from collector.series.buckets import KEY_BITS, LE, LE_OF_BIN, MIDDLES, Pages
from collector.series.slots import Slots
from collector.series.window import NEVER, SECOND, Array, Bank

_UNUSED = 3600 * SECOND  # a running window that nobody asked for this long is dropped; asking again builds it anew


_ALL = 1 << 62  # later than any slot


class Running:
    """The counts of one window width that ends at the frontier."""

    def __init__(self, pages: Pages, start: int, at: int) -> None:
        self.pages = pages
        self.start = start
        self.used_at = at


class Histograms:
    """Histograms as columns: `counts` and `sums` are banks, the same column in both."""

    def __init__(self, window: int) -> None:
        self.counts = Bank(np.uint32)
        self.sums = Bank(np.int64)
        """In microseconds."""
        self.slots = Slots(window)
        self.lowest = np.zeros(64 * len(LE), np.int64)
        """Observations since the beginning, by column and lowest `le`."""
        self._kept = {window}
        self._running: dict[int, Running] = {}

    def resume(self, lowest: Array) -> None:
        """Banks and slots were filled with what was saved; `lowest`: 20 numbers for each column there is room for."""
        self.lowest = lowest
        self._running.clear()  # built anew when they are next asked for

    def keep(self, window: int) -> None:
        """Hold as much as windows of this many ticks need; quantiles over just these are kept running."""
        self._kept.add(window)
        self.slots.keep(window)

    def copy(self, sources: Array, targets: Array, heirs: Array) -> None:
        """Let columns that were just allocated hold what others hold; `heirs`: by column its copy, or -1."""
        self.counts.copy(sources, targets)
        self.sums.copy(sources, targets)
        totals = self.lowest.reshape(-1, len(LE))
        totals[targets] = totals[sources]
        self.slots.repeat(heirs, KEY_BITS)
        self._running.clear()  # built anew when they are next asked for

    def allocate(self, version: int, birth: int = NEVER) -> int:
        """A column without observations."""
        column = self.counts.allocate(version, birth)
        self.sums.allocate(version, birth)
        room = len(self.counts.current) * len(LE)
        if room > len(self.lowest):
            self.lowest.resize(room, refcheck=False)
        self.lowest[column * len(LE) : (column + 1) * len(LE)] = 0
        for running in self._running.values():
            running.pages.widen(self.counts.size)
        return column

    def release(self, column: int) -> None:
        """Give a column back that has been idle for longer than any kept window."""
        self.counts.release(column)
        self.sums.release(column)

    def fold(self, at: int, version: int, ticks: Array, keys: Array, micros: Array) -> None:
        """Add observations of (frontier, at], in any order. `advance` must follow with the same `at`."""
        order = np.argsort(ticks, kind="stable")
        ticks, keys, micros = ticks[order], keys[order], micros[order]
        columns = self._count(ticks, keys)
        self.counts.fold(at, version, ticks, columns)
        self.sums.fold(at, version, ticks, columns, micros)

    def add_late(self, version: int, ticks: Array, keys: Array, micros: Array) -> None:
        """Add observations at or before the frontier, sorted by tick."""
        columns = self._count(ticks, keys)
        self.counts.add_late(version, ticks, columns)
        self.sums.add_late(version, ticks, columns, micros)

    def _count(self, ticks: Array, keys: Array) -> Array:
        self.slots.add(ticks, keys)
        for running in self._running.values():
            inside = keys[np.searchsorted(ticks, running.start, "right") :]
            if len(inside):
                running.pages.add(inside)
        columns = (keys >> KEY_BITS).astype(np.int64)
        lowest = LE_OF_BIN.take(keys & ((1 << KEY_BITS) - 1))
        np.add.at(self.lowest, columns * len(LE) + lowest, 1)
        return columns

    def advance(self, at: int) -> None:
        """Move the frontier."""
        self.counts.advance(at)
        self.sums.advance(at)
        if self.slots.ages(at):
            self._running = {w: run for w, run in self._running.items() if at - run.used_at <= _UNUSED}
            for window, running in self._running.items():  # their past ends must not get lost in a merged slot
                self._move(running, max(running.start, self.slots.floor(at - window, at)))
            self.slots.age(at)

    def _move(self, running: Running, start: int) -> None:
        """Let the window begin at another slot end."""
        for keys, counts in self.slots.read(running.start, start):
            running.pages.remove(keys, counts)
        for keys, counts in self.slots.read(start, running.start):
            running.pages.add(keys, counts)
        running.start = start

    def _window(self, columns: Array, start: int, end: int) -> Pages:
        """Counts of (start, end], of at least these columns."""
        frontier = self.counts.frontier
        begin = self.slots.floor(start, frontier)
        # Up to the frontier is all that is there: the slot under way ends beyond it.
        until = _ALL if end >= frontier else self.slots.floor(end, frontier)
        if end >= frontier and end - start in self._kept:
            running = self._running.get(end - start)
            if running is None:
                running = Running(self._built(None, begin, until), begin, frontier)
                self._running[end - start] = running
            elif running.start != begin:
                self._move(running, begin)
            running.used_at = frontier
            return running.pages
        return self._built(columns, begin, until)

    def _built(self, columns: Array | None, start: int, end: int) -> Pages:
        pages = Pages(max(self.counts.size, 1))
        wanted = np.zeros(self.counts.size, np.bool_)
        wanted[slice(None) if columns is None else columns] = True
        for keys, counts in self.slots.read(start, end):
            mine = wanted.take(keys >> KEY_BITS)
            pages.add(keys[mine], None if counts is None else counts[mine])
        return pages

    def quantile(  # noqa: PLR0913, PLR0917 - the querier's question
        self, columns: Array, groups: Array, count: int, q: float, start: int, end: int
    ) -> Array:
        """The q-quantile per group of columns over (start, end], in seconds, at most 1% off; NaN where empty."""
        return self._window(columns, start, end).quantile(columns, groups, count, q)

    def increase(self, columns: Array, marks: Array, start: int, end: int) -> Array:
        """Observations in (start, end] at or below the `le` mark of that index, for each pair of column and mark."""
        distinct, places = np.unique(columns, return_inverse=True)
        return self._window(distinct, start, end).at_most(distinct)[places, marks].astype(np.float64)

    def summed(self, columns: Array, start: int, end: int) -> Array:
        """Seconds observed in (start, end] by each column, at most 1% off: from the middles of the bins."""
        frontier = self.counts.frontier
        begin = self.slots.floor(start, frontier)
        until = _ALL if end >= frontier else self.slots.floor(end, frontier)
        found = np.zeros(self.counts.size)
        for keys, counts in self.slots.read(begin, until):
            seconds = MIDDLES.take(keys & ((1 << KEY_BITS) - 1))
            np.add.at(found, keys >> KEY_BITS, seconds if counts is None else seconds * counts)
        return found.take(columns)

    def value(self, columns: Array, marks: Array, at: int) -> Array:
        """Observations up to `at`, at or below the `le` mark of that index, for each pair of column and mark."""
        distinct, places = np.unique(columns, return_inverse=True)
        counts = self.totals(distinct)[places, marks]
        frontier = self.counts.frontier
        return counts if at >= frontier else counts - self.increase(columns, marks, at, frontier).astype(np.int64)

    def totals(self, columns: Array) -> Array:
        """Cumulative counts at the 20 `le` marks since each column's beginning: shape (columns, 20)."""
        return np.cumsum(self.lowest.reshape(-1, len(LE)).take(columns, axis=0), axis=1)
