"""The bins of all histograms, and counts in them: what quantiles and `le` buckets are read from.

Bins are left-open and geometric between the fixed `le` marks; every mark is an edge, so that `le` counts are exact.
A bin answers the harmonic middle of its edges, at most 1% away from anything in it, between 1 microsecond and 100 days.
Below, 0 answers 0 and the rest 1 microsecond; above, all answers 100 days.

`Pages` counts (histogram, bin) keys. It holds pages of 64 bins, only where something was observed, and the sum of each
page beside it; a quantile looks at the sums first, then into one page per histogram.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from collector.series.window import Array

LE: tuple[float, ...] = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, math.inf),
)
"""The 20 upper bounds of /metrics, in seconds."""
LE_TEXT: tuple[str, ...] = tuple("+Inf" if mark == math.inf else repr(mark) for mark in LE)
"""As Prometheus 3 spells them."""

_SMALLEST = 1e-6
_LARGEST = 8_640_000.0
_GAMMA = 1.02  # (gamma - 1) / (gamma + 1) is the largest error of the harmonic middle: 0.99%


def _bounds() -> Array:
    edges = [0.0]
    for low, high in pairwise((_SMALLEST, *LE[:-1], _LARGEST)):
        steps = math.ceil(math.log(high / low) / math.log(_GAMMA))
        edges.extend(low * (high / low) ** (step / steps) for step in range(steps))
    return np.array([*edges, _LARGEST])


EDGES: Array = _bounds()
"""Upper edge of each bin; one more bin lies above the last."""
MIDDLES: Array = np.concatenate(
    [[0.0, _SMALLEST], 2 * EDGES[1:-1] * EDGES[2:] / (EDGES[1:-1] + EDGES[2:]), [_LARGEST]],
)
"""What each bin answers, in seconds."""

KEY_BITS = 11
"""A key is `histogram << KEY_BITS | bin`, as uint32."""
_PAGE_BITS = 6
_PAGE = 1 << _PAGE_BITS
_PAGES = 1 << (KEY_BITS - _PAGE_BITS)

_LE_BIN: Array = np.append(np.searchsorted(EDGES, LE[:-1]), len(EDGES))
LE_OF_BIN: Array = np.searchsorted(_LE_BIN, np.arange(len(MIDDLES)))
"""Index of the lowest `le` that holds each bin."""


# A cell is what floats share whose first 8 bits of mantissa are the same: 0.4% wide, so at most one edge lies in it. By
# cell, from the last below all edges but 0 to the first above all: the bin of its lower end.
_CELL_BITS = 44
_FIRST_CELL, _LAST_CELL = (int(cell) for cell in np.array([_SMALLEST, _LARGEST]).view(np.int64) >> _CELL_BITS)
_FIRST_CELL -= 1
_LAST_CELL += 1
_BIN_OF_CELL: Array = np.searchsorted(EDGES, (np.arange(_FIRST_CELL, _LAST_CELL + 1) << _CELL_BITS).view(np.float64))
_BIN_OF_CELL[0] = 0
_EDGE_OF_BIN: Array = np.append(EDGES, math.inf)


def bins_of(seconds: Array) -> Array:
    """The bin in which each duration lies: as by `np.searchsorted(EDGES, seconds)`, in half the time or less."""
    cells = (seconds.view(np.int64) >> _CELL_BITS) - _FIRST_CELL
    bins = _BIN_OF_CELL.take(cells, mode="clip")
    bins += _EDGE_OF_BIN.take(bins) < seconds
    return bins


class Pages:
    """Counts of keys, which may be added and taken away again."""

    def __init__(self, histograms: int) -> None:
        self._sums = np.zeros(histograms * _PAGES, np.int32)
        self._table = np.zeros(histograms * _PAGES, np.int32)
        """Page number of each (histogram, part of the range); page 0 is empty and shared."""
        self._pool = np.zeros(4 * _PAGE, np.int32)
        self._used = 1
        self._free: list[int] = []

    def widen(self, histograms: int) -> None:
        """Make room for so many histograms."""
        if histograms * _PAGES > len(self._table):
            room = max(histograms, len(self._table) // _PAGES * 5 // 4) * _PAGES
            self._sums.resize(room, refcheck=False)
            self._table.resize(room, refcheck=False)

    def add(self, keys: Array, amounts: Array | None = None) -> None:
        """Count keys, each once or `amounts` times."""
        parts = keys >> _PAGE_BITS
        pages = self._table.take(parts)
        if not pages.all():
            for part in np.unique(parts[pages == 0]).tolist():
                self._table[part] = self._page()
            pages = self._table.take(parts)
        counts = np.int32(1) if amounts is None else amounts.astype(np.int32)
        np.add.at(self._pool, (pages << _PAGE_BITS) | (keys & (_PAGE - 1)), counts)
        np.add.at(self._sums, parts, counts)

    def remove(self, keys: Array, amounts: Array | None = None) -> None:
        """Take away keys that were counted; a page that falls empty is used again."""
        parts = keys >> _PAGE_BITS
        pages = self._table.take(parts)
        counts = np.int32(1) if amounts is None else amounts.astype(np.int32)
        np.subtract.at(self._pool, (pages << _PAGE_BITS) | (keys & (_PAGE - 1)), counts)
        np.subtract.at(self._sums, parts, counts)
        emptied = np.unique(parts[self._sums.take(parts) == 0])
        self._free.extend(self._table.take(emptied).tolist())
        self._table[emptied] = 0

    def _page(self) -> int:
        if self._free:
            return self._free.pop()
        if (self._used + 1) * _PAGE > len(self._pool):
            self._pool.resize((self._used + max(self._used // 4, 4)) * _PAGE, refcheck=False)
        self._used += 1
        return self._used - 1

    def quantile(self, histograms: Array, groups: Array, count: int, q: float) -> Array:
        """The q-quantile of what each of `count` groups of histograms holds; NaN where it holds nothing.

        It is the middle of the bin of the ceil(q * n)-th smallest observation. As in Prometheus, q below 0 gives -Inf,
        above 1 +Inf.
        """
        answer = np.full(count, np.nan)
        if not len(histograms) or math.isnan(q):
            return answer
        if len(groups) > 1 and (groups[1:] < groups[:-1]).any():
            order = np.argsort(groups, kind="stable")
            histograms, groups = histograms[order], groups[order]
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        sums = self._summed(self._sums.reshape(-1, _PAGES).take(histograms, axis=0), starts)
        ranks = np.maximum(np.ceil(q * sums[:, -1] * (1 - 1e-12)), 1)  # 0.07 * 100 is a little more than 7
        parts = np.minimum((sums < ranks[:, None]).sum(axis=1), _PAGES - 1)
        row = np.arange(len(starts))
        ranks -= np.where(parts > 0, sums[row, parts - 1], 0)
        part_of = np.repeat(parts, np.diff(np.append(starts, len(groups))))
        pages = self._table.take(histograms * _PAGES + part_of)
        fine = self._summed(self._pool.reshape(-1, _PAGE).take(pages, axis=0), starts)
        places = np.minimum((fine < ranks[:, None]).sum(axis=1), _PAGE - 1)
        found = MIDDLES.take(np.minimum(parts * _PAGE + places, len(MIDDLES) - 1))
        if not 0 <= q <= 1:
            found[:] = math.copysign(math.inf, q)
        found[sums[:, -1] == 0] = np.nan
        answer[groups[starts]] = found
        return answer

    @staticmethod
    def _summed(counts: Array, starts: Array) -> Array:
        """Rows summed per group, then cumulated along the range."""
        if len(starts) < len(counts):
            counts = np.add.reduceat(counts, starts, axis=0)
        return np.cumsum(counts, axis=1, dtype=np.int64)

    def at_most(self, histograms: Array) -> Array:
        """Cumulative counts at the 20 `le` marks: shape (histograms, 20)."""
        counts = [np.zeros((0, len(LE)), np.int64)]
        for begin in range(0, len(histograms), _PAGE):  # in parts, because spread out they are 8 KB each
            pages = self._table.reshape(-1, _PAGES).take(histograms[begin : begin + _PAGE], axis=0)
            fine = self._pool.reshape(-1, _PAGE).take(pages, axis=0).reshape(len(pages), -1)
            counts.append(np.cumsum(fine, axis=1, dtype=np.int64)[:, _LE_BIN])
        return np.concatenate(counts)
