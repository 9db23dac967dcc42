"""Functions of a window of samples, as Prometheus 3 has them: a series' times and values in, one number or nothing out.

Times are Unix seconds and exact to the millisecond; differences are taken in whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from collector.promql.frame import Ranges
from collector.promql.querier import Array
from collector.promql.sums import mean, neumaier, quantile, total, variance

Window: TypeAlias = Callable[[Array, Array, Ranges], "float | None"]
"""Times, values (at least one sample) and the window they lie in, to a number; None: no element."""


def millis(seconds: Array) -> Array:
    """Times as the whole milliseconds they stand for."""
    rounded: Array = np.rint(seconds * 1000)
    return rounded


def whole(seconds: float) -> float:
    """One time as the whole milliseconds it stands for."""
    return float(round(seconds * 1000))


def extrapolated(*, is_counter: bool, is_rate: bool) -> Window:
    """`rate`, `increase` and `delta`: the difference over the samples, stretched towards the ends of the window."""

    def work(times: Array, values: Array, ranges: Ranges) -> float | None:
        gaps = len(values) - 1
        if gaps < 1:
            return None
        first, last = whole(times[0]), whole(times[-1])
        start, end = whole(ranges.start), whole(ranges.end)
        change = float(values[-1] - values[0])
        if is_counter:
            for lost in values[:-1][values[1:] < values[:-1]].tolist():
                change += lost
        sampled = (last - first) / 1000
        between = sampled / gaps
        to_start, to_end = (first - start) / 1000, (end - last) / 1000
        if to_start >= between * 1.1:
            to_start = between / 2
        if is_counter and change > 0 and values[0] >= 0:
            to_start = min(to_start, sampled * (float(values[0]) / change))
        if to_end >= between * 1.1:
            to_end = between / 2
        factor = (sampled + to_start + to_end) / sampled
        return change * (factor / ((end - start) / 1000) if is_rate else factor)

    return work


def instant_change(*, is_rate: bool) -> Window:
    """`irate` and `idelta`: the difference of the last two samples."""

    def work(times: Array, values: Array, ranges: Ranges) -> float | None:  # noqa: ARG001 - one signature for all
        if len(values) < 2:
            return None
        before, after = float(values[-2]), float(values[-1])
        change = after if is_rate and after < before else after - before
        return change / ((whole(times[-1]) - whole(times[-2])) / 1000) if is_rate else change

    return work


def line(times: Array, values: Array, at: float) -> tuple[float, float]:
    """Slope per second, and value at a time (ms), of the least-squares line."""
    if (values[1:] == values[0]).all():
        flat = float(values[0])
        return (np.nan, np.nan) if np.isinf(flat) else (0.0, flat)
    x = (millis(times) - at) / 1000
    count = len(values)
    sum_x, sum_y, sum_xy, sum_xx = (sum(map(float, neumaier(part))) for part in (x, values, x * values, x * x))
    slope = (sum_xy - sum_x * sum_y / count) / np.float64(sum_xx - sum_x * sum_x / count)
    return float(slope), float(sum_y / count - slope * sum_x / count)


def deriv(times: Array, values: Array, ranges: Ranges) -> float | None:  # noqa: ARG001 - one signature for all
    """The slope of the least-squares line."""
    return None if len(values) < 2 else line(times, values, whole(times[0]))[0]


def plain(work: Callable[[Array], float]) -> Window:
    """A function of the values alone."""
    return lambda times, values, ranges: work(values)  # noqa: ARG005 - one signature for all


def extreme(choose: np.ufunc) -> Window:
    """The least or greatest value; NaN only where there is nothing else."""
    return plain(lambda values: float(choose.reduce(values)))


def changes(values: Array) -> float:
    """How often the value changed; NaN to NaN is no change."""
    before, after = values[:-1], values[1:]
    return float(np.count_nonzero((after != before) & ~(np.isnan(after) & np.isnan(before))))


def resets(values: Array) -> float:
    """How often the value fell."""
    return float(np.count_nonzero(values[1:] < values[:-1]))


def quantile_over(q: float) -> Window:
    """The q-quantile of the values."""
    return plain(lambda values: quantile(q, values))


sum_over = plain(total)
avg_over = plain(mean)
stdvar_over = plain(lambda values: variance(values.tolist()))
stddev_over = plain(lambda values: float(np.sqrt(variance(values.tolist()))))
count_over = plain(lambda values: float(len(values)))
present_over = plain(lambda values: 1.0)  # noqa: ARG005 - a value is there, whatever it is
first_over = plain(lambda values: float(values[0]))
last_over = plain(lambda values: float(values[-1]))
