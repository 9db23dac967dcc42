"""Sampled series: gauges that somebody measured, read as Prometheus reads its own.

A value holds for 5 minutes at most, a stale marker ends it at once, and a range holds the raw samples without markers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from collector.model.labels import Labels
from collector.series.members import Members
from collector.series.reading import Kind, Series
from collector.series.window import Array

LOOK_BACK = 300.0
"""How long a sample holds, in seconds."""
_TRIMMED_FROM = 32  # samples; old ones leave when they are at least half of this many
_STALE_BITS = (0x7FF0000000000002, 0x7FF8000000000002)  # some hardware sets the quiet bit when it moves the number


def stale_mask(values: Array) -> Array:
    """Which values are stale markers."""
    return np.isin(values.view(np.uint64), _STALE_BITS)


Sample: TypeAlias = tuple[str, Labels, float, float]
"""Metric, labels, instant, value."""


class Samples:
    """All sampled series of all metrics; columns number them across metrics."""

    def __init__(self) -> None:
        self.reach = 0.0
        """How far back a rule reads, in seconds."""
        self.frontier = 0.0
        """Samples older than this by more than `reach` and the look-back may leave."""
        self.known_from = -np.inf
        """Samples before this instant may have left."""
        self.metrics: dict[str, Members] = {}
        self.epoch = 0
        """Grows when a metric comes or goes."""
        self.version = 0
        self.log: list[Sample] | None = None
        """Where somebody saves: what was put."""
        self._newest_at = np.zeros(64)
        self._newest = np.zeros(64)
        self._changed = np.zeros(64, np.int64)
        self._times: list[array[float]] = []
        self._values: list[array[float]] = []
        self._free: list[int] = []

    def put(self, name: str, labels: Labels, at: float, value: float, version: int) -> None:
        """Add a sample; one for the same instant replaces it."""
        if self.log is not None:
            self.log.append((name, labels, at, value))
        members = self.metrics.get(name)
        if members is None:
            members = self.metrics[name] = Members()
            self.epoch += 1
        place = members.places.get(labels)
        if place is None:
            column = self._allocate()
            members.add(labels, column)
        else:
            column = members.columns[place]
        times, values = self._times[column], self._values[column]
        if not times or at > times[-1]:
            times.append(at)
            values.append(value)
        else:
            index = bisect_left(times, at)
            if times[index] == at:
                values[index] = value
            else:
                times.insert(index, at)
                values.insert(index, value)
        self._newest_at[column], self._newest[column] = times[-1], values[-1]
        self._changed[column] = self.version = version
        if len(times) >= _TRIMMED_FROM and times[len(times) // 2] <= self._horizon():
            gone = bisect_right(times, self._horizon())
            del times[:gone]
            del values[:gone]
            self.known_from = self._horizon()

    def everything(self) -> Iterator[list[Sample]]:
        """All samples, one series after the other."""
        for name, members in self.metrics.items():
            for labels, column in zip(members.labels, members.columns, strict=True):
                pairs = zip(self._times[column], self._values[column], strict=True)
                yield [(name, labels, at, value) for at, value in pairs]

    def _horizon(self) -> float:
        return self.frontier - self.reach - LOOK_BACK

    def _allocate(self) -> int:
        if self._free:
            return self._free.pop()
        column = len(self._times)
        self._times.append(array("d"))
        self._values.append(array("d"))
        if column >= len(self._newest):
            for numbers in (self._newest_at, self._newest, self._changed):
                numbers.resize(2 * column, refcheck=False)
        return column

    def expire(self) -> int:
        """Drop series without a sample in reach; gives how many."""
        before, dropped = self._horizon(), 0
        for name, members in list(self.metrics.items()):
            gone = np.flatnonzero(self._newest_at.take(members.columns) <= before).tolist()
            for column in (members.columns[place] for place in gone):
                self._times[column], self._values[column] = array("d"), array("d")
                self._free.append(column)
            if gone:
                members.remove(gone)
                dropped += len(gone)
                self.known_from = before
            if not members.labels:
                del self.metrics[name]
                self.epoch += 1
        return dropped

    def value(self, columns: Array, at: float) -> tuple[Array, Array]:
        """The newest samples in (at - 5m, at], and which series have one that is not stale."""
        times, values = self._newest_at.take(columns), self._newest.take(columns)
        for index in np.flatnonzero(times > at).tolist():
            column = int(columns[index])
            place = bisect_right(self._times[column], at) - 1
            times[index] = self._times[column][place] if place >= 0 else -np.inf
            values[index] = self._values[column][place]
        return values, (times > at - LOOK_BACK) & ~stale_mask(values)

    def samples(self, columns: Array, start: float, end: float) -> list[tuple[Array, Array]]:
        """Times and values in (start, end] of each series."""
        found = []
        for column in columns.tolist():
            times = self._times[column]
            window = slice(bisect_right(times, start), bisect_right(times, end))
            values = np.array(self._values[column][window])
            real = ~stale_mask(values)
            found.append((np.array(times[window])[real], values[real]))
        return found

    def changed(self, columns: Array, since: int) -> bool:
        """Whether any of the columns changed after version `since`."""
        return self.version > since and bool((self._changed.take(columns) > since).any())


class Sampled(Series):
    """Series that somebody measured."""

    kind: Kind = "sampled"

    def __init__(self, name: str, labels: tuple[Labels, ...], columns: Array, samples: Samples) -> None:
        self.name = name
        self.labels = labels
        self.columns = columns
        self._samples = samples

    def value(self, at: float) -> tuple[Array, Array | None]:
        """The newest samples of the last 5 minutes."""
        values, there = self._samples.value(self.columns, at)
        return values, None if there.all() else there

    def known_from(self) -> float:
        """Samples before this instant may have left."""
        return self._samples.known_from

    def born_at(self) -> Array:
        """Of the samples themselves only the oldest that is held is known: `samples` says it."""
        return np.full(len(self.labels), -np.inf)

    def increase(self, start: int, end: int) -> Array:
        """Only events can be counted; samples are extrapolated by who asks."""
        msg = f"{self.name} is sampled: {start} to {end} holds samples, not events"
        raise ValueError(msg)

    def samples(self, start: float, end: float, step: float) -> list[tuple[Array, Array]]:  # noqa: ARG002 - raw ones
        """The samples themselves."""
        return self._samples.samples(self.columns, start, end)

    def born(self) -> Array:
        """All: a sampled series begins with a sample."""
        return np.ones(len(self.labels), np.bool_)

    def changed(self, since: int) -> bool:
        """Whether any got a sample after a version of the store."""
        return self._samples.changed(self.columns, since)
