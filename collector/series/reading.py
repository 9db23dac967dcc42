"""Series sets: what a selector matched in one metric, and how each kind of it is read.

A set is a name, a kind, label sets and the columns behind them. Instants are Unix seconds, `start` and `end` of an
increase are ticks; every array that comes back is parallel to `labels`.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np

from collector.model.labels import Labels, labels_of
from collector.series.buckets import LE_TEXT
from collector.series.histogram import Histograms
from collector.series.window import NEVER, SECOND, Array, Bank, ticks_from, ticks_of

Kind: TypeAlias = Literal["counter", "histogram", "gauge", "sampled"]


class SeriesSet(Protocol):
    """What others see of a set."""

    @property
    def name(self) -> str:
        """The metric's name."""
        ...

    @property
    def kind(self) -> Kind:
        """How the series are fed."""
        ...

    @property
    def labels(self) -> tuple[Labels, ...]:
        """Without `__name__`."""
        ...


class Series:
    """An event-fed set: the whole numbers of `bank`, `unit` of which make one of the metric's."""

    kind: Kind = "counter"

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, bank: Bank, unit: int = 1) -> None:
        self.name = name
        self.labels = labels
        self.columns = columns
        self._bank = bank
        self._unit = unit

    def value(self, at: float) -> tuple[Array, Array | None]:
        """Values at an instant, and the mask of those that existed then (None: all)."""
        tick = ticks_of(at)
        there = self._births() <= tick
        return self._numbers(tick) / self._unit, None if there.all() else there

    def _births(self) -> Array:
        return self._bank.births.take(self.columns)

    def born_at(self) -> Array:
        """Instant of each one's first event; -Inf: it stood at 0 before, +Inf: none came yet."""
        births = self._births()
        return np.where(np.abs(births) == NEVER, np.copysign(np.inf, births), births / SECOND)

    def known_from(self) -> float:
        """The instant from which on the past is known; -Inf: all of it."""
        return _instant(self._known_from())

    def _known_from(self) -> int:
        return self._bank.known_from

    def _numbers(self, tick: int) -> Array:
        return self._bank.value(self.columns, tick)

    def increase(self, start: int, end: int) -> Array:
        """What was added in (start, end]."""
        return self._bank.increase(self.columns, start, end) / self._unit

    def samples(self, start: float, end: float, step: float) -> list[tuple[Array, Array]]:
        """The series as if sampled at `end` and every `step` before it, as far back as it existed."""
        times = end - step * np.arange(int((end - start) / step) + 1)[::-1]
        times = times[times > start]
        births = self._births()
        values = [self._numbers(ticks_of(at)) / self._unit for at in times.tolist()]
        table = np.array(values).reshape(len(times), len(self.labels)).T
        there = ticks_from(times) >= births[:, None]
        return [(times[mask], row[mask]) for row, mask in zip(table, there, strict=True)]

    def born(self) -> Array:
        """Which have had an event."""
        return self._bank.value(self.columns, self._bank.frontier) > 0

    def changed(self, since: int) -> bool:
        """Whether any changed after a version of the store."""
        return self._bank.version > since and bool((self._bank.changed.take(self.columns) > since).any())


def _instant(tick: int) -> float:
    return -np.inf if tick == -NEVER else tick / SECOND


class Sums(Series):
    """The `_sum` of histograms: an observation of 0 is an event too.

    Its past is exact where a rule announced it, else made of the bins, at most 1% off.
    """

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, histograms: Histograms) -> None:
        super().__init__(name, labels, columns, histograms.sums, SECOND)
        self._counts = histograms.counts
        self._histograms = histograms

    def _known_from(self) -> int:
        return super()._known_from() if self._bank.levels else self._histograms.slots.known_from

    def _numbers(self, tick: int) -> Array:
        if self._bank.levels or tick >= self._bank.frontier:
            return super()._numbers(tick)
        now = super()._numbers(self._bank.frontier)
        then: Array = now - self._histograms.summed(self.columns, tick, self._bank.frontier) * SECOND
        return then

    def increase(self, start: int, end: int) -> Array:
        """Seconds that were added in (start, end]."""
        if self._bank.levels:
            return super().increase(start, end)
        return self._histograms.summed(self.columns, start, end)

    def born(self) -> Array:
        """Which have had an observation."""
        return self._counts.value(self.columns, self._counts.frontier) > 0


class Gauge(Series):
    """What went up less what came down."""

    kind: Kind = "gauge"

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, downs: Array, bank: Bank) -> None:
        super().__init__(name, labels, columns, bank)
        self._downs = downs

    def _births(self) -> Array:
        return np.minimum(super()._births(), self._bank.births.take(self._downs))

    def _numbers(self, tick: int) -> Array:
        return self._bank.value(self.columns, tick) - self._bank.value(self._downs, tick)

    def born(self) -> Array:
        """Which have had an event, up or down."""
        return self._births() <= self._bank.frontier

    def changed(self, since: int) -> bool:
        """Whether any went up or down after a version of the store."""
        return super().changed(since) or bool((self._bank.changed.take(self._downs) > since).any())


class Buckets(Series):
    """`le` series of histograms, as counters; histogram by histogram, `marks` (indexes of `le`) parallel."""

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, marks: Array, source: Histograms) -> None:
        super().__init__(name, labels, columns, source.counts)
        self._marks = marks
        self._histograms = source

    def _known_from(self) -> int:
        return self._histograms.slots.known_from

    def _numbers(self, tick: int) -> Array:
        return self._histograms.value(self.columns, self._marks, tick)

    def increase(self, start: int, end: int) -> Array:
        """Observations at or below each mark in (start, end]."""
        return self._histograms.increase(self.columns, self._marks, start, end)


class Histogram(Series):
    """Histograms as such, for quantiles."""

    kind: Kind = "histogram"

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, source: Histograms) -> None:
        super().__init__(name, labels, columns, source.counts)
        self._histograms = source
        self._buckets: dict[tuple[int, ...], Buckets] = {}

    def _known_from(self) -> int:
        return self._histograms.slots.known_from

    def buckets(self, marks: tuple[int, ...] = tuple(range(len(LE_TEXT)))) -> Buckets:
        """The `le` series at these marks; the same object as long as this set is."""
        found = self._buckets.get(marks)
        if found is None:
            labels = tuple(labels_of((*of, ("le", LE_TEXT[mark]))) for of in self.labels for mark in marks)
            columns = np.repeat(self.columns, len(marks))
            of_each = np.tile(np.array(marks, np.int64), len(self.labels))
            found = self._buckets[marks] = Buckets(self.name, labels, columns, of_each, self._histograms)
        return found

    def value(self, at: float) -> tuple[Array, Array | None]:
        """A histogram is no number, its `le` series are: ValueError."""
        msg = f"{self.name} has no value at {at} without le: ask for its buckets"
        raise ValueError(msg)
