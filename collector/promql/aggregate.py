"""Aggregations over groups of elements. Groups stand in the order of their first element."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from collector.model.labels import Labels, labels_of
from collector.promql.errors import PromqlError
from collector.promql.frame import EMPTY, Frame, Instant, known_rows
from collector.promql.querier import Array
from collector.promql.selectors import Constant, FrameNode, ScalarNode
from collector.promql.sums import EXACT, Layout, mean, neumaier, padded, quantile


class By(msgspec.Struct, frozen=True):
    """`by (names)` or `without (names)`; neither is `by ()`."""

    names: tuple[str, ...] = ()
    is_without: bool = False

    def key(self, labels: Labels) -> Labels:
        """The labels of the group that a row belongs to."""
        if self.is_without:
            return tuple(pair for pair in labels if pair[0] not in self.names and pair[0] != "__name__")
        return tuple(pair for pair in labels if pair[0] in self.names) if self.names else ()

    def needs_name(self) -> bool:
        """Whether the metric's name makes a difference to the groups."""
        return not self.is_without and "__name__" in self.names


class Grouping:
    """Which group each row belongs to. When series come or go, only the new ones are looked at."""

    def __init__(self, key: Callable[[Labels], Labels]) -> None:
        self._key = key
        self._groups: dict[Labels, int] = {}
        self._index: list[int] = []
        self._seen: tuple[Labels, ...] = ()
        self.labels: tuple[Labels, ...] = ()
        """The groups' own labels; the same object while no group comes or goes."""
        self.layout = Layout(np.zeros(0, np.intp), 0)

    def of(self, labels: tuple[Labels, ...]) -> Layout:
        """The groups of these rows."""
        if labels is not self._seen:
            count = len(self._seen)
            if labels[:count] == self._seen:
                self._add(map(self._key, labels[count:]))
            else:
                known = known_rows(self._seen, map(self.labels.__getitem__, self._index))
                self._groups, self._index = {}, []
                self._add(known[id(row)] if id(row) in known else self._key(row) for row in labels)
            self.layout = Layout(np.array(self._index, np.intp), len(self._groups))
            self._seen = labels
        return self.layout

    def _add(self, keys: Iterable[Labels]) -> None:
        groups = self._groups
        self._index += [groups.setdefault(key, len(groups)) for key in keys]
        made = tuple(groups)
        self.labels = self.labels if made == self.labels else made


def _sum(values: Array, present: Array | None, layout: Layout) -> Array:
    room = padded(values, present, -0.0)
    if _is_exact(room):
        whole: Array = np.bincount(layout.index, weights=room[:-1], minlength=layout.count)
        return whole
    out = np.zeros(layout.count)
    for groups, lines in layout.spread(room, -0.0):
        plain, lost = neumaier(lines)
        out[groups] = np.where(np.isinf(plain), plain, plain + lost)
    return out


def _is_exact(values: Array) -> bool:
    """Whether these add up without any rounding: whole numbers, not too large."""
    return bool(np.abs(values).sum() < EXACT and (values == np.trunc(values)).all())


def _avg(values: Array, present: Array | None, layout: Layout) -> Array:
    room = padded(values, present, -0.0)
    counts = _count(values, present, layout)
    if _is_exact(room):
        return np.bincount(layout.index, weights=room[:-1], minlength=layout.count) / counts
    out = np.zeros(layout.count)
    for groups, lines in layout.spread(room, -0.0):
        plain, lost = neumaier(lines)
        out[groups] = plain / counts[groups] + lost / counts[groups]
        for at in np.flatnonzero(~np.isfinite(plain)).tolist():
            members = _members(values, present, layout, int(groups[at]))
            out[groups[at]] = mean(members) if len(members) else np.nan
    return out


def _count(values: Array, present: Array | None, layout: Layout) -> Array:  # noqa: ARG001 - one signature for all
    return np.bincount(layout.index if present is None else layout.index[present], minlength=layout.count) * 1.0


def _group(values: Array, present: Array | None, layout: Layout) -> Array:  # noqa: ARG001 - one signature for all
    return np.ones(layout.count)


def _extreme(choose: np.ufunc) -> Callable[[Array, Array | None, Layout], Array]:
    """The least or greatest; NaN only where there is nothing else."""

    def extreme(values: Array, present: Array | None, layout: Layout) -> Array:
        out = np.empty(layout.count)
        for groups, lines in layout.spread(padded(values, present, np.nan), np.nan):
            out[groups] = choose.reduce(lines, axis=1)
        return out

    return extreme


def _members(values: Array, present: Array | None, layout: Layout, group: int) -> Array:
    mine = layout.index == group
    members: Array = values[mine if present is None else mine & present]
    return members


def _each_group(work: Callable[[Array], float]) -> Callable[[Array, Array | None, Layout], Array]:
    def over(values: Array, present: Array | None, layout: Layout) -> Array:
        out = np.full(layout.count, np.nan)
        for group in range(layout.count):
            members = _members(values, present, layout, group)
            if len(members):
                out[group] = work(members)
        return out

    return over


def _stdvar(values: Array) -> float:
    """Welford's way, from the first value on, as Prometheus sums it."""
    members = values.tolist()
    first = average = members[0]
    squares = 0.0 if np.isfinite(first) else float("nan")
    for count, value in enumerate(members[1:], 2):
        delta = value - average
        average += delta / count
        squares += delta * (value - average)
    return float(squares / len(members))


SIMPLE: dict[str, Callable[[Array, Array | None, Layout], Array]] = {
    "sum": _sum,
    "avg": _avg,
    "count": _count,
    "group": _group,
    "min": _extreme(np.fmin),
    "max": _extreme(np.fmax),
    "stdvar": _each_group(_stdvar),
    "stddev": _each_group(lambda values: float(np.sqrt(_stdvar(values)))),
}
"""Aggregations without a parameter: values, mask and groups to one value per group."""


class Aggregate:
    """`sum by (x) (inner)` and its like."""

    def __init__(self, op: str, inner: FrameNode, by: By) -> None:
        self.op = op
        self.by = by
        self.inner = inner
        self._work = SIMPLE[op]
        self._grouping = Grouping(by.key)

    def eval(self, now: Instant) -> Frame:
        """One element per group that has any."""
        return self.aggregate(self.inner.eval(now))

    def aggregate(self, frame: Frame) -> Frame:
        """The same for a frame that is there already."""
        layout = self._grouping.of(frame.labels)
        values = self._work(frame.values, frame.present, layout)
        return Frame(self._grouping.labels, values, seen(frame.present, layout))


def seen(present: Array | None, layout: Layout) -> Array | None:
    """Mask of the groups that have an element now."""
    if present is None or present.all():
        return None
    return np.bincount(layout.index[present], minlength=layout.count) > 0


class Quantile:
    """`quantile by (x) (q, inner)`."""

    def __init__(self, q: ScalarNode, inner: FrameNode, by: By) -> None:
        self._q = q
        self._inner = inner
        self._grouping = Grouping(by.key)

    def eval(self, now: Instant) -> Frame:
        """The q-quantile of each group."""
        q = self._q.eval(now)
        frame = self._inner.eval(now)
        layout = self._grouping.of(frame.labels)
        work = _each_group(lambda values: quantile(q, values))
        return Frame(self._grouping.labels, work(frame.values, frame.present, layout), seen(frame.present, layout))


class TopK:
    """`topk(k, inner)` and `bottomk`: the elements themselves, in their groups' order, best first."""

    def __init__(self, k: ScalarNode, inner: FrameNode, by: By, *, greatest: bool) -> None:
        self._k = k
        self._inner = inner
        self._sign = -1.0 if greatest else 1.0
        self._grouping = Grouping(by.key)

    def eval(self, now: Instant) -> Frame:
        """Up to k elements of each group; NaN comes last, the earlier of equals first."""
        frame = self._inner.eval(now)
        most = _whole_number(self._k.eval(now))
        if most < 1:
            return EMPTY
        layout = self._grouping.of(frame.labels)
        picked = frame.picked()
        ranked = picked[np.argsort(self._sign * frame.values[picked], kind="stable")]
        ranked = ranked[np.argsort(layout.index[ranked], kind="stable")]
        groups = layout.index[ranked]
        firsts = np.searchsorted(groups, groups)
        best = ranked[np.arange(len(ranked)) - firsts < most]
        present = np.zeros(len(frame.labels), bool)
        present[best] = True
        return Frame(frame.labels, frame.values, present, best)


def _whole_number(parameter: float) -> int:
    if np.isnan(parameter):
        raise PromqlError("Parameter value is NaN")
    if parameter >= 2.0**63:
        raise PromqlError(f"Scalar value {parameter:g} overflows int64")
    return int(max(parameter, 0.0))


class CountValues:
    """`count_values by (x) ("label", inner)`: how many elements have each value."""

    def __init__(self, label: Constant, inner: FrameNode, by: By) -> None:
        self._label = str(label.value)
        self._inner = inner
        self._by = by if by.is_without else By((*by.names, self._label))
        if not self._label:
            raise PromqlError(f'invalid label name "{self._label}"')

    def eval(self, now: Instant) -> Frame:
        """One element per group and value."""
        counts: dict[Labels, int] = {}
        for labels, value in self._inner.eval(now).rows():
            group = self._by.key(labels_of({**dict(labels), self._label: go_float(value)}))
            counts[group] = counts.get(group, 0) + 1
        return Frame(tuple(counts), np.array(list(counts.values()), float))


def go_float(value: float) -> str:
    """A number as Go prints it with 'f' and -1: the fewest digits that read back the same, never an exponent."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return np.format_float_positional(value, trim="-")
