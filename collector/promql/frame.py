"""What flows between the nodes of a compiled expression: frames (a value per series) and ranges (samples per series).

A frame keeps the labels of all its series and says with a mask which of them have a value now: a comparison that
filters changes the mask, not the labels. So the labels stay the same object from instant to instant, and whatever
was worked out from them (groups, matches, names dropped) is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.promql.errors import SAME_LABELSET, PromqlError
from collector.promql.querier import Array, Querier

METADATA = ("__name__", "__type__", "__unit__")
"""Labels that an operation which changes the meaning of a value takes away."""


class Frame:
    """An instant vector. `labels`, `values` (float64) and `present` (bool, None: all) are parallel."""

    __slots__ = ("labels", "order", "present", "values")

    def __init__(
        self, labels: tuple[Labels, ...], values: Array, present: Array | None = None, order: Array | None = None
    ) -> None:
        self.labels = labels
        self.values = values
        self.present = present
        self.order = order
        """Row numbers in the order of the result, where a function sorted; absent rows may be missing from it."""

    def rows(self) -> list[tuple[Labels, float]]:
        """The elements that are present, in order."""
        picked = self.picked().tolist()
        values = self.values[picked].tolist()
        return [(self.labels[row], value) for row, value in zip(picked, values, strict=True)]

    def picked(self) -> Array:
        """Row numbers of the elements that are present, in order."""
        if self.order is None:
            return np.arange(len(self.labels)) if self.present is None else np.flatnonzero(self.present)
        return self.order if self.present is None else self.order[self.present[self.order]]

    def compact(self) -> Frame:
        """The same elements without absent rows."""
        picked = self.picked()
        return Frame(tuple(self.labels[row] for row in picked.tolist()), self.values[picked])

    def __len__(self) -> int:
        return len(self.labels) if self.present is None else int(np.count_nonzero(self.present))

    def with_values(self, values: Array) -> Frame:
        """Other values for the same elements."""
        return Frame(self.labels, values, self.present, self.order)


EMPTY = Frame((), np.zeros(0))


def both(left: Array | None, right: Array | None) -> Array | None:
    """The mask of what is present in both."""
    if left is None:
        return right
    return left if right is None else left & right


class Ranges:
    """A range vector: times and values per series, of the window (start, end] in Unix seconds."""

    __slots__ = ("end", "labels", "series", "start")

    def __init__(self, labels: tuple[Labels, ...], series: list[tuple[Array, Array]], start: float, end: float) -> None:
        self.labels = labels
        self.series = series
        self.start = start
        self.end = end


class Instant(msgspec.Struct, frozen=True):
    """One evaluation: the series, and when. Times in milliseconds, as Prometheus counts them."""

    querier: Querier
    at: int
    start: int
    """`@ start()`; with `end` the same as `at` but in a range query."""
    end: int
    step: float
    """The group's interval in seconds: how often event-fed series are sampled for functions that want samples."""
    subquery_step: int
    """Resolution of a subquery that names none."""
    within: int = 1
    """How many instants the subqueries around this one evaluate."""
    born_only: bool = False
    """Inside absent(): a series without any event is not there."""


T = TypeVar("T")


class PerLabels(Generic[T]):
    """Something worked out from a labels tuple, kept as long as the tuple is the same object."""

    __slots__ = ("_kept", "_labels", "_work")

    def __init__(self, work: Callable[[tuple[Labels, ...]], T]) -> None:
        self._work = work
        self._labels: tuple[Labels, ...] | None = None
        self._kept: T

    def __call__(self, labels: tuple[Labels, ...]) -> T:
        """The result for these labels."""
        if labels is not self._labels:
            self._kept = self._work(labels)
            self._labels = labels
        return self._kept


class Relabel:
    """A change of every row's labels. When series come or go, only the new ones are worked on."""

    __slots__ = ("_change", "_made", "_seen")

    def __init__(self, change: Callable[[Labels], Labels]) -> None:
        self._change = change
        self._seen: tuple[Labels, ...] = ()
        self._made: tuple[Labels, ...] = ()

    def __call__(self, labels: tuple[Labels, ...]) -> tuple[Labels, ...]:
        """The changed labels; the very same tuple where nothing changes."""
        if labels is self._seen:
            return self._made
        count = len(self._seen)
        if labels[:count] == self._seen:
            made = self._made + tuple(map(self._change, labels[count:]))
        else:
            known = known_rows(self._seen, self._made)
            made = tuple(known[id(row)] if id(row) in known else self._change(row) for row in labels)
        if made != self._made:
            self._made = labels if made == labels else made
        self._seen = labels
        return self._made


def known_rows(labels: tuple[Labels, ...], found: Iterable[T]) -> dict[int, T]:
    """What was found for rows that are still held, by the rows' identity: cheaper than hashing their labels."""
    return dict(zip(map(id, labels), found, strict=True))


def without_name(labels: Labels) -> Labels:
    """The labels without what names the metric."""
    for name, _ in labels:
        if name in METADATA:
            return tuple(pair for pair in labels if pair[0] not in METADATA)
    return labels


def drop_names() -> Relabel:
    """A cache of `without_name`, for one node."""
    return Relabel(without_name)


class Distinct:
    """Refuses a frame in which two present elements have the same labels, as Prometheus does."""

    __slots__ = ("_are_distinct",)

    def __init__(self) -> None:
        self._are_distinct = PerLabels(lambda labels: len(set(labels)) == len(labels))

    def __call__(self, frame: Frame) -> Frame:
        """The frame. Raises PromqlError where an element is there twice."""
        if not self._are_distinct(frame.labels):
            present = [frame.labels[row] for row in frame.picked().tolist()]
            if len(set(present)) != len(present):
                raise PromqlError(SAME_LABELSET)
        return frame


def label_value(labels: Labels, name: str) -> str:
    """A label's value, "" where it is not there."""
    for key, value in labels:
        if key == name:
            return value
    return ""
