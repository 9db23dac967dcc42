"""Quantiles and shares of histograms.

Classic ones come as a series per bucket with the label `le`, and are interpolated as Prometheus does. Event-fed ones
have no buckets to show: `histogram_quantile(q, sum by (le, x) (rate(name_bucket[w])))` is recognised as a whole and
asked of the querier, which is exact to its own resolution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from collector.model.labels import Labels
from collector.promql.aggregate import Aggregate, By, Grouping
from collector.promql.calls import Increase
from collector.promql.frame import EMPTY, Distinct, Frame, Instant, PerLabels, Relabel, drop_names, label_value
from collector.promql.querier import Array, SeriesSet
from collector.promql.selectors import FrameNode, RangeVector, ScalarNode

LE = "le"
SAME = 1e-12
"""Relative difference of two buckets' counts that is taken for a rounding error."""

SmallArray = list[tuple[float, float]]
"""Upper bound and cumulative count per bucket, ascending."""


def without_le(labels: Labels) -> Labels:
    """The labels that all buckets of one histogram share."""
    return tuple(pair for pair in labels if pair[0] != LE)


def upper_bound(labels: Labels) -> float:
    """The bound that `le` names; NaN where it names none."""
    try:
        return float(label_value(labels, LE).replace("_", "x"))
    except ValueError:
        return float("nan")


class Buckets:
    """Reads a frame of bucket series as histograms."""

    def __init__(self) -> None:
        self._grouping = Grouping(without_le)
        self._bounds = PerLabels(lambda labels: np.array([upper_bound(one) for one in labels], float))
        self._unnamed = drop_names()
        self._distinct = Distinct()

    def each(self, frame: Frame, work: Callable[[SmallArray], float]) -> Frame:
        """One element per histogram: what `work` makes of its buckets."""
        layout = self._grouping.of(frame.labels)
        bounds = self._bounds(frame.labels)
        usable = ~np.isnan(bounds)
        if frame.present is not None:
            usable &= frame.present
        rows = np.flatnonzero(usable)
        rows = rows[np.lexsort((bounds[rows], layout.index[rows]))]
        if not len(rows):
            return EMPTY
        groups, firsts = np.unique(layout.index[rows], return_index=True)
        out = np.full(layout.count, np.nan)
        present = np.zeros(layout.count, bool)
        present[groups] = True
        for group, members in zip(groups.tolist(), np.split(rows, firsts[1:]), strict=True):
            out[group] = work(list(zip(bounds[members].tolist(), frame.values[members].tolist(), strict=True)))
        return self._distinct(Frame(self._unnamed(self._grouping.labels), out, present))


def _coalesced(buckets: SmallArray) -> SmallArray:
    """Buckets with equal bounds as one."""
    merged: SmallArray = []
    for bound, count in buckets:
        if merged and merged[-1][0] == bound:
            merged[-1] = (bound, merged[-1][1] + count)
        else:
            merged.append((bound, count))
    return merged


def _nearly(a: float, b: float) -> bool:
    if a == b or (np.isnan(a) and np.isnan(b)):
        return True
    size = abs(a) + abs(b)
    if a == 0 or b == 0 or size < 2.2250738585072014e-308:
        return abs(a - b) < SAME * 2.2250738585072014e-308
    return bool(abs(a - b) / min(size, np.finfo(float).max) < SAME)


def _monotonic(buckets: SmallArray) -> SmallArray:
    """Counts that never fall: a count that is lower, or higher by a rounding error only, becomes the one before."""
    fixed = buckets[:1]
    before = buckets[0][1]
    for bound, count in buckets[1:]:
        if not (count < before or _nearly(before, count)):
            before = count
        fixed.append((bound, before))
    return fixed


def bucket_quantile(q: float, buckets: SmallArray) -> float:
    """The q-quantile, linear within a bucket; the first bucket starts at 0, the last one ends where it starts."""
    if not 0 <= q <= 1:
        return float("nan") if np.isnan(q) else float(np.copysign(np.inf, q))
    if buckets[-1][0] != np.inf:
        return float("nan")
    buckets = _monotonic(_coalesced(buckets))
    observations = buckets[-1][1]
    if len(buckets) < 2 or observations == 0:
        return float("nan")
    rank = q * observations
    at = bisect_left(buckets[:-1], x=True, key=lambda bucket: bucket[1] >= rank)
    if at == len(buckets) - 1:
        return buckets[-2][0]
    bound, count = buckets[at]
    if at == 0 and bound <= 0:
        return bound
    start, below = buckets[at - 1] if at else (0.0, 0.0)
    return float(start + (bound - start) * (np.float64(rank - below) / (count - below)))


def bucket_fraction(lower: float, upper: float, buckets: SmallArray) -> float:
    """The share of observations between two values, linear within a bucket."""
    if buckets[-1][0] != np.inf:
        return float("nan")
    buckets = _coalesced(buckets)
    count = buckets[-1][1]
    if count == 0 or np.isnan([count, lower, upper]).any():
        return float("nan")
    if lower >= upper:
        return 0.0
    return (_rank(upper, buckets) - _rank(lower, buckets)) / count


def _rank(value: float, buckets: SmallArray) -> float:
    """How many observations lie below a value."""
    start = 0.0 if buckets[0][0] > 0 else float("-inf")
    below = 0.0
    for bound, count in buckets:
        if start >= value:
            return min(below, buckets[-1][1])
        if bound > value:
            inside = count if np.isinf(start) else below + (count - below) * (value - start) / (bound - start)
            return min(inside, buckets[-1][1])
        start, below = bound, count
    return buckets[-1][1]


class HistogramQuantile:
    """`histogram_quantile(q, vector)` over classic buckets."""

    def __init__(self, q: ScalarNode, vector: FrameNode) -> None:
        self._q = q
        self._vector = vector
        self._buckets = Buckets()

    def eval(self, now: Instant) -> Frame:
        """One element per histogram."""
        q = self._q.eval(now)
        return self._buckets.each(self._vector.eval(now), lambda buckets: bucket_quantile(q, buckets))


class HistogramFraction:
    """`histogram_fraction(lower, upper, vector)` over classic buckets."""

    def __init__(self, lower: ScalarNode, upper: ScalarNode, vector: FrameNode) -> None:
        self._lower = lower
        self._upper = upper
        self._vector = vector
        self._buckets = Buckets()

    def eval(self, now: Instant) -> Frame:
        """One element per histogram."""
        lower, upper = self._lower.eval(now), self._upper.eval(now)
        return self._buckets.each(self._vector.eval(now), lambda buckets: bucket_fraction(lower, upper, buckets))


class EventQuantile:
    """`histogram_quantile(q, [sum by (...)] (rate|increase(name_bucket[w])))`, where the buckets may be event-fed."""

    def __init__(self, q: ScalarNode, source: RangeVector, by: By | None, classic: HistogramQuantile) -> None:
        self._q = q
        self._source = source
        self._classic = classic
        self._by = by
        self._groups: dict[str, Grouping] = {}
        self._unnamed = Relabel(without_le)
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """One element per group of event-fed histograms, then those of classic histograms, if there are any."""
        sets = self._source.source.whole(now)
        frames = [self._native(now, one) for one in sets if one.kind == "histogram"]
        if len(frames) < len(sets) or not sets:
            frames.append(self._classic.eval(now))
        return self._distinct(concatenated(frames))

    def _native(self, now: Instant, one: SeriesSet) -> Frame:
        start, end = self._source.span(now)
        labels, index, count = self._grouped(one)
        q = self._q.eval(now)
        if 0 <= q <= 1:
            return Frame(labels, now.querier.quantile(one, index, count, q, start, end))
        return Frame(labels, np.full(count, bucket_quantile(q, [])))

    def _grouped(self, one: SeriesSet) -> tuple[tuple[Labels, ...], Array, int]:
        if self._by is None:
            return one.labels, np.arange(len(one.labels)), len(one.labels)
        by = self._by
        grouping = self._groups.get(one.name)
        if grouping is None:
            grouping = self._groups[one.name] = Grouping(lambda labels: without_le(by.key(labels)))
        layout = grouping.of(one.labels)
        return grouping.labels, layout.index, layout.count


def concatenated(frames: list[Frame]) -> Frame:
    """Several frames one after the other."""
    frames = [frame for frame in frames if frame.labels]
    if len(frames) < 2:
        return frames[0] if frames else EMPTY
    masks = [np.ones(len(one.labels), bool) if one.present is None else one.present for one in frames]
    labels = tuple(row for one in frames for row in one.labels)
    return Frame(labels, np.concatenate([one.values for one in frames]), np.concatenate(masks))


def histogram_quantile(q: ScalarNode, vector: FrameNode) -> FrameNode:
    """The node for `histogram_quantile(q, vector)`: one that can read event-fed histograms where the form allows it."""
    classic = HistogramQuantile(q, vector)
    by, rate = (vector.by, vector.inner) if isinstance(vector, Aggregate) and vector.op == "sum" else (None, vector)
    if not isinstance(rate, Increase) or not isinstance(rate.ranges, RangeVector):
        return classic
    rate.ranges.skips_histograms = True
    return EventQuantile(q, rate.ranges, by, classic)
