"""Results of queries as Prometheus' JSON, some series at a time: the text is put together here, by hand, for speed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.promql import Array, Frame, Ranges
from collector.web.answers import number
from collector.web.budget import MOST_POINTS, TOO_MANY, Pace
from collector.web.prometheus import ApiError, timestamp

POINTS = 4000
"""Points that are written in one step."""
ELEMENTS = 500
"""Elements of an instant vector that are written in one step."""


def _metric(labels: Labels) -> str:
    return msgspec.json.encode(dict(labels)).decode()


def _series(labels: Labels, times: list[str], values: list[float]) -> str:
    points = ",".join([f'[{at},"{number(value)}"]' for at, value in zip(times, values, strict=True)])
    return f'{{"metric":{_metric(labels)},"values":[{points}]}}'


def vector(frame: Frame, at: str, limit: int) -> Iterator[str]:
    """The elements of an instant vector in its order, in pieces of the text between the brackets."""
    rows = frame.rows()[: limit or None]
    for begin in range(0, len(rows), ELEMENTS):
        yield ",".join(
            f'{{"metric":{_metric(labels)},"value":[{at},"{number(value)}"]}}'
            for labels, value in rows[begin : begin + ELEMENTS]
        )


def matrix(found: Ranges, limit: int) -> Iterator[str]:
    """The samples of a range vector, ordered by labels, a piece per series."""
    rows = [row for row, (times, _) in enumerate(found.series) if len(times)]
    for row in sorted(rows, key=found.labels.__getitem__)[: limit or None]:
        times, values = found.series[row]
        stamps = [timestamp(at) for at in np.rint(times * 1000).astype(np.int64).tolist()]
        yield _series(found.labels[row], stamps, values.tolist())


class Collected:
    """The frames of a range query, instant after instant; then its series, ordered by labels."""

    def __init__(self) -> None:
        self._ids: dict[Labels, int] = {}
        self._last: tuple[tuple[Labels, ...], Array] = ((), np.zeros(0, np.int64))
        self._instants: list[tuple[str, Array, Array]] = []
        """Time, numbers of the series (once ordered: their ranks, ascending), values."""
        self._points = 0
        self.ordered: list[Labels] = []
        """The series, once they are ordered."""

    def add(self, at: str, frame: Frame) -> None:
        """The frame of one instant. Raises ApiError where the result becomes too large."""
        labels, ids = self._last
        if frame.labels is not labels:
            ids = np.array([self._ids.setdefault(one, len(self._ids)) for one in frame.labels], np.int64)
            self._last = (frame.labels, ids)
        picked = frame.picked()
        self._points += len(picked)
        if self._points > MOST_POINTS:
            raise ApiError("execution", TOO_MANY)
        if len(picked):
            self._instants.append((at, ids[picked], frame.values[picked]))

    async def order(self, pace: Pace) -> None:
        """Put the series that have a point into the order of their labels."""
        have = np.zeros(len(self._ids), bool)
        for _, ids, _ in self._instants:
            have[ids] = True
        known = list(self._ids)
        numbers = sorted(np.flatnonzero(have).tolist(), key=known.__getitem__)
        self.ordered = [known[one] for one in numbers]
        ranks = np.empty(len(known), np.int64)
        ranks[numbers] = np.arange(len(numbers))
        for index, (at, ids, values) in enumerate(self._instants):
            own = ranks[ids]
            order = np.argsort(own, kind="stable")
            self._instants[index] = (at, own[order], values[order])
            await pace.rest()

    def matrix(self, limit: int) -> Iterator[str]:
        """The ordered series, in pieces of the text between the brackets."""
        most = max(1, POINTS // max(1, len(self._instants)))
        labels = self.ordered[: limit or None]
        for begin in range(0, len(labels), most):
            yield self._block(labels[begin : begin + most], begin)

    def _block(self, labels: list[Labels], begin: int) -> str:
        times: list[list[str]] = [[] for _ in labels]
        values: list[list[float]] = [[] for _ in labels]
        for at, ranks, numbers in self._instants:
            low, high = np.searchsorted(ranks, (begin, begin + len(labels)))
            for rank, value in zip((ranks[low:high] - begin).tolist(), numbers[low:high].tolist(), strict=True):
                times[rank].append(at)
                values[rank].append(value)
        return ",".join(map(_series, labels, times, values))
