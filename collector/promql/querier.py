"""What an evaluation asks of whoever keeps the series. Declared here, fitted by the store: neither imports the other.

Times are Unix seconds. Arrays are numpy: float64 for values and times, bool for masks, intp for indexes; every array
of a series set is parallel to its `labels`.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import numpy.typing as npt

from collector.model.labels import Labels, Matcher

Array: TypeAlias = npt.NDArray[Any]

Kind: TypeAlias = Literal["counter", "histogram", "gauge", "sampled"]
"""Counters, histograms and gauges are fed by events and exact; sampled series follow Prometheus."""


class SeriesSet(Protocol):
    """The series of one metric that one selector matches; cheap to ask for again."""

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
        """Without `__name__`. The same object until the membership changes: caches hang on its identity."""
        ...


class Querier(Protocol):
    """The series as an evaluation sees them."""

    @property
    def version(self) -> int:
        """Grows with every change of any series."""
        ...

    def select(self, name: str | None, matchers: tuple[Matcher, ...]) -> tuple[SeriesSet, ...]:
        """The matching series, one set per metric; without a name all metrics whose `__name__` matchers hold."""
        ...

    def value(self, series: SeriesSet, at: float) -> tuple[Array, Array | None]:
        """Values at an instant and the mask of those present (None: all).

        Sampled series: the newest sample of the last 5 minutes (left-open), none where that is a stale marker.
        """
        ...

    def increase(self, series: SeriesSet, start: float, end: float) -> Array:
        """Number of events of each counter in (start, end], exact; NaN where it is not known."""
        ...

    def quantile(  # noqa: PLR0913, PLR0917 - one call must say all of it, or the histograms would have to be copied out
        self, series: SeriesSet, groups: Array, count: int, q: float, start: float, end: float
    ) -> Array:
        """The q-quantile (0 <= q <= 1) of what each of `count` groups observed in (start, end]; NaN where nothing.

        `groups[i]` is the group of series i.
        """
        ...

    def samples(self, series: SeriesSet, start: float, end: float, step: float) -> list[tuple[Array, Array]]:
        """Times and values of each series in (start, end], without stale markers; event-fed ones every `step`."""
        ...

    def born(self, series: SeriesSet) -> Array:
        """Mask of the series that have had any event or sample; the others exist only to be 0."""
        ...

    def changed(self, series: SeriesSet, since: int) -> bool:
        """Whether any of the series changed after the store's version `since`."""
        ...
