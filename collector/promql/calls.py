"""The nodes that function rows build: a vector changed value by value, a function of each window, and the odd ones."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from collector.model.labels import NO_LABELS, Labels
from collector.promql.frame import EMPTY, Distinct, Frame, Instant, Ranges, Relabel, both, drop_names
from collector.promql.matchers import fixed_labels
from collector.promql.querier import Array
from collector.promql.selectors import (
    FrameNode,
    InstantVector,
    RangeNode,
    RangeVector,
    ScalarNode,
    joined,
)
from collector.promql.windows import Window, line, quantile_over


class Each:
    """A function of each value; the metric's name is dropped."""

    def __init__(self, vector: FrameNode, change: Callable[[Array], Array]) -> None:
        self._vector = vector
        self._change = change
        self._unnamed = drop_names()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The elements with their new values."""
        return self.apply(self._vector.eval(now))

    def apply(self, frame: Frame) -> Frame:
        """The same for a frame that is there already."""
        labels = self._unnamed(frame.labels)
        changed = Frame(labels, self._change(frame.values), frame.present, frame.order)
        return changed if labels is frame.labels else self._distinct(changed)


def _lesser(one: Array, other: np.float64) -> Array:
    """Go's minimum: -Inf wins, then NaN; and -0 is less than 0."""
    found = np.where((one == -np.inf) | (other == -np.inf), -np.inf, np.minimum(one, other))
    return np.where((one == 0) & (other == 0), np.where(np.signbit(one), one, other), found)


class Clamp:
    """`clamp(vector, least, most)`: nothing at all where the limits are the wrong way round."""

    def __init__(self, vector: FrameNode, least: ScalarNode, most: ScalarNode) -> None:
        self._vector = vector
        self._least = least
        self._most = most
        self._limits = (-np.inf, np.inf)
        self._each = Each(vector, self._within)

    def _within(self, values: Array) -> Array:
        least, most = self._limits
        return -_lesser(-_lesser(values, np.float64(most)), np.float64(-least))

    def eval(self, now: Instant) -> Frame:
        """The elements within the limits."""
        frame = self._vector.eval(now)
        self._limits = (self._least.eval(now), self._most.eval(now))
        return EMPTY if self._limits[1] < self._limits[0] else self._each.apply(frame)


class Round:
    """`round(vector, to_nearest=1)`: halves go up."""

    def __init__(self, vector: FrameNode, to_nearest: ScalarNode | None = None) -> None:
        self._to_nearest = to_nearest
        self._inverse = np.float64(1.0)
        self._each = Each(vector, lambda values: np.floor(values * self._inverse + 0.5) / self._inverse)

    def eval(self, now: Instant) -> Frame:
        """The rounded elements."""
        if self._to_nearest is not None:
            # inverted, as Prometheus does: fewer rounding errors
            self._inverse = np.float64(1.0) / self._to_nearest.eval(now)
        return self._each.eval(now)


class Scalar:
    """`scalar(vector)`: the value of the only element, else NaN."""

    def __init__(self, vector: FrameNode) -> None:
        self._vector = vector

    def eval(self, now: Instant) -> float:
        """The number."""
        frame = self._vector.eval(now)
        picked = frame.picked()
        return float(frame.values[picked[0]]) if len(picked) == 1 else float("nan")


class Vector:
    """`vector(scalar)`: one element without labels."""

    def __init__(self, scalar: ScalarNode) -> None:
        self._scalar = scalar

    def eval(self, now: Instant) -> Frame:
        """The element."""
        return Frame(_ONE, np.array([self._scalar.eval(now)], float))


_ONE = (NO_LABELS,)


class Now:
    """`time()`: the instant of the evaluation, in Unix seconds."""

    def eval(self, now: Instant) -> float:
        """The instant."""
        return now.at / 1000


class Timestamp:
    """`timestamp(vector)`: when each sample was taken, for a selector; else the instant of the evaluation."""

    def __init__(self, vector: FrameNode) -> None:
        self._vector = vector
        self._unnamed = drop_names()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The elements with their times as values."""
        if isinstance(self._vector, InstantVector):
            frame = self._vector.times(now)
        else:
            frame = self._vector.eval(now)
            frame = frame.with_values(np.full(len(frame.labels), now.at / 1000))
        return self._distinct(Frame(self._unnamed(frame.labels), frame.values, frame.present, frame.order))


class Sort:
    """`sort` and `sort_desc`: NaN comes last."""

    def __init__(self, vector: FrameNode, *, is_descending: bool) -> None:
        self._vector = vector
        self._sign = -1.0 if is_descending else 1.0

    def eval(self, now: Instant) -> Frame:
        """The elements in order."""
        frame = self._vector.eval(now)
        picked = frame.picked()
        order = picked[np.argsort(self._sign * frame.values[picked], kind="stable")]
        return Frame(frame.labels, frame.values, frame.present, order)


class Absent:
    """`absent(vector)`: one element, with the labels that the selector fixes, where the vector has none."""

    def __init__(self, vector: FrameNode) -> None:
        self._vector = vector
        self._labels = (fixed_labels(vector.source.matchers) if isinstance(vector, InstantVector) else NO_LABELS,)

    def eval(self, now: Instant) -> Frame:
        """That element, or nothing. A series without any event counts as not there."""
        found = self._vector.eval(msgspec.structs.replace(now, born_only=True))
        return EMPTY if len(found) else Frame(self._labels, np.ones(1))


class AbsentOverTime:
    """`absent_over_time(ranges)`: as `absent`, over a window."""

    def __init__(self, ranges: RangeNode) -> None:
        self._ranges = ranges
        self._labels = (fixed_labels(ranges.source.matchers) if isinstance(ranges, RangeVector) else NO_LABELS,)

    def eval(self, now: Instant) -> Frame:
        """That element, or nothing."""
        found = self._ranges.eval(msgspec.structs.replace(now, born_only=True))
        return EMPTY if any(len(times) for times, _ in found.series) else Frame(self._labels, np.ones(1))


class Over:
    """A function of each series' window; a series without samples in it, or without a result, is not there."""

    def __init__(self, ranges: RangeNode, work: Window, *, keeps_name: bool = False) -> None:
        self._ranges = ranges
        self._work = work
        self._unnamed = Relabel(lambda labels: labels) if keeps_name else drop_names()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """One element per series."""
        is_one = False
        if isinstance(self._ranges, RangeVector):
            is_one = len(self._ranges.sets(now)) == 1
        ranges = self._ranges.eval(now)
        values, present = self.over(ranges, ranges.series)
        return self.named(ranges.labels, values, present, is_one_metric=is_one)

    def over(self, ranges: Ranges, series: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """The results of some series of the window, and which have one."""
        found = [self._work(times, values, ranges) if len(times) else None for times, values in series]
        present = np.array([result is not None for result in found], bool)
        return np.array([np.nan if result is None else result for result in found], float), present

    def named(self, labels: tuple[Labels, ...], values: Array, present: Array | None, *, is_one_metric: bool) -> Frame:
        """The frame of the results under the right labels; those of one metric cannot be the same without its name."""
        frame = Frame(self._unnamed(labels), values, present)
        return frame if is_one_metric else self._distinct(frame)


class Increase:
    """`increase(ranges)`: exact for event-fed counters, extrapolated for sampled series."""

    def __init__(self, ranges: RangeNode, work: Window) -> None:
        self.ranges = ranges
        self._sampled = Over(ranges, work)

    def eval(self, now: Instant) -> Frame:
        """One element per series."""
        source = self.ranges
        if not isinstance(source, RangeVector):
            return self._sampled.eval(now)
        sets = source.sets(now)
        if not sets:
            return EMPTY
        start, end = source.span(now)
        parts: list[tuple[Array, Array | None]] = []
        for one in sets:
            if one.kind == "counter":
                events = now.querier.increase(one, start, end)
                mask = now.querier.born(one) if now.born_only else None
                known = ~np.isnan(events)
                parts.append((self.exact(events, end - start), mask if known.all() else both(known, mask)))
            else:
                series = now.querier.samples(one, start, end, now.step)
                parts.append(self._sampled.over(Ranges(one.labels, series, start, end), series))
        labels = source.source.labels(sets)
        return self._sampled.named(labels, *joined(parts), is_one_metric=len(sets) == 1)

    def exact(self, events: Array, window: float) -> Array:  # noqa: ARG002 - rate needs it
        """What the number of events in the window gives."""
        return events


class Rate(Increase):
    """`rate(ranges)`: the increase per second of the window."""

    def exact(self, events: Array, window: float) -> Array:
        """Events per second."""
        return events / (round(window * 1000) / 1000)


class QuantileOverTime:
    """`quantile_over_time(q, ranges)`."""

    def __init__(self, q: ScalarNode, ranges: RangeNode) -> None:
        self._q = q
        self._over = Over(ranges, self._quantile)
        self._work = quantile_over(0.0)

    def _quantile(self, times: Array, values: Array, ranges: Ranges) -> float | None:
        return self._work(times, values, ranges)

    def eval(self, now: Instant) -> Frame:
        """One element per series."""
        self._work = quantile_over(self._q.eval(now))
        return self._over.eval(now)


class PredictLinear:
    """`predict_linear(ranges, seconds)`: where the least-squares line will be, seconds after the evaluation."""

    def __init__(self, ranges: RangeNode, ahead: ScalarNode) -> None:
        self._ahead = ahead
        self._over = Over(ranges, self._predict)
        self._from = (0.0, 0.0)

    def _predict(self, times: Array, values: Array, ranges: Ranges) -> float | None:  # noqa: ARG002 - one signature
        if len(values) < 2:
            return None
        at, ahead = self._from
        slope, level = line(times, values, at)
        return slope * ahead + level

    def eval(self, now: Instant) -> Frame:
        """One element per series."""
        self._from = (float(now.at), self._ahead.eval(now))
        return self._over.eval(now)
