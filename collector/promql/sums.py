"""Sums per group that agree with Prometheus to the last digit: Neumaier's compensated sum, in the order of the rows.

A running sum is sequential by nature, but `np.add.accumulate` is exactly that, in C; the error of each step follows
from the running sums all at once. Groups of like size lie side by side as the rows of a matrix.
"""

from __future__ import annotations

import numpy as np

from collector.promql.querier import Array

EXACT = float(2**53)
"""Whole numbers below this add up without rounding, in any order."""


class Layout:
    """Which rows belong to which group: `index[i]` is the group of row i."""

    __slots__ = ("_blocks", "count", "index")

    def __init__(self, index: Array, count: int) -> None:
        self.index = index
        self.count = count
        self._blocks: list[tuple[Array, Array]] | None = None

    def _lines(self) -> list[tuple[Array, Array]]:
        """(groups, rows): matrices of row numbers, a line per group, padded with the number of rows."""
        index, count = self.index, self.count
        blocks: list[tuple[Array, Array]] = []
        sizes = np.bincount(index, minlength=count)
        by_group = np.argsort(index, kind="stable")
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if count else sizes
        classes = np.ceil(np.log2(np.maximum(sizes, 1)))
        for size_class in np.unique(classes[sizes > 0]):
            groups = np.flatnonzero((classes == size_class) & (sizes > 0))
            columns = np.arange(sizes[groups].max())
            cells = starts[groups][:, None] + columns
            inside = columns < sizes[groups][:, None]
            rows = np.where(inside, by_group[np.where(inside, cells, 0)], len(index))
            blocks.append((groups, rows))
        return blocks

    def spread(self, values: Array, padding: float) -> list[tuple[Array, Array]]:
        """(groups, values as a line per group) for each block; `values` has a cell more than rows, for padding."""
        if self._blocks is None:
            self._blocks = self._lines()
        values[-1] = padding
        return [(groups, values[rows]) for groups, rows in self._blocks]


def padded(values: Array, present: Array | None, absent: float) -> Array:
    """The values with one more cell at the end, and `absent` where there is none."""
    room = np.empty(len(values) + 1)
    room[:-1] = values if present is None else np.where(present, values, absent)
    room[-1] = absent
    return room


def neumaier(lines: Array) -> tuple[Array, Array]:
    """Sum and compensation of each line of a matrix (or of the one line of a vector)."""
    sums = np.add.accumulate(lines, axis=-1)
    before = sums[..., :-1]
    after = sums[..., 1:]
    added = lines[..., 1:]
    errors = np.where(np.abs(before) >= np.abs(added), (before - after) + added, (added - after) + before)
    total = sums[..., -1]
    if errors.shape[-1] == 0:
        return total, np.zeros_like(total)
    return total, np.add.accumulate(errors, axis=-1)[..., -1]


def total(values: Array) -> float:
    """The compensated sum of a series' values, infinite where the plain sum is."""
    plain, lost = neumaier(values)
    return float(plain if np.isinf(plain) else plain + lost)


def mean(values: Array) -> float:
    """The mean of one or more values, by the compensated sum, or step by step where the sum overflows."""
    plain, lost = neumaier(values)
    if np.isfinite(plain):
        return float(plain / len(values) + lost / len(values))
    return _stepwise_mean(values.tolist())


def _add(added: float, plain: float, lost: float) -> tuple[float, float]:
    after = plain + added
    if after in (np.inf, -np.inf):
        return after, 0.0
    if abs(plain) >= abs(added):
        return after, lost + ((plain - after) + added)
    return after, lost + ((added - after) + plain)


def _stepwise_mean(values: list[float]) -> float:
    plain, lost, count = values[0], 0.0, 1
    average: float | None = None
    for value in values[1:]:
        count += 1
        if average is None:
            after, still_lost = _add(value, plain, lost)
            if after not in (np.inf, -np.inf):
                plain, lost = after, still_lost
                continue
            average, lost = plain / (count - 1), lost / (count - 1)
        share = (count - 1) / count
        average, lost = _add(value / count, share * average, share * lost)
    return plain / count + lost / count if average is None else average + lost


def variance(values: list[float]) -> float:
    """The population variance of a series' values, by Welford's way with compensation."""
    average = lost = squares = squares_lost = 0.0
    for count, value in enumerate(values, 1):
        delta = value - (average + lost)
        average, lost = _add(delta / count, average, lost)
        squares, squares_lost = _add(delta * (value - (average + lost)), squares, squares_lost)
    return (squares + squares_lost) / len(values)


def quantile(q: float, values: Array) -> float:
    """The q-quantile between the two nearest values; NaN counts as the least, infinite outside 0 to 1."""
    if len(values) == 0 or np.isnan(q):
        return float("nan")
    if q < 0 or q > 1:
        return float("-inf") if q < 0 else float("inf")
    ascending = np.sort(values)  # NaN last
    unknown = int(np.count_nonzero(np.isnan(values)))
    ascending = np.roll(ascending, unknown)
    rank = q * (len(values) - 1)
    lower = int(rank)
    upper = min(len(values) - 1, lower + 1)
    weight = rank - lower
    return float(ascending[lower] * (1 - weight) + ascending[upper] * weight)
