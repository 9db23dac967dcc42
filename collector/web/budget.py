"""What one query may cost: time in all, time in one uninterrupted step, samples at once.

`Pace` gives everyone else a turn between steps. `Metered` stands between an evaluation and the store; it counts what is
read, and says where a question reaches further back than what is kept: there it answers with what is.
"""

from __future__ import annotations

import asyncio

import numpy as np
from aiohttp import web

from collector.model.labels import Matcher
from collector.promql import Array, SeriesSet
from collector.series.store import Store
from collector.web.prometheus import ApiError
from collector.web.view import View

STEP = 0.005
"""Seconds after which others get their turn."""
LONGEST_STEP = 0.5
"""Seconds that one instant of a query may hold the loop; it cannot be interrupted, only given up."""
LONGEST = 30.0
"""Seconds that a query may take, whatever `timeout` says."""
MOST_SAMPLES = 1_000_000
"""Samples that one instant may look at, one by one."""
MOST_POINTS = 2_000_000
"""Points that a query may give."""
LOOK_BACK = 300.0
"""How long after the frontier an event-fed series still has its last value, seconds."""

TOO_MANY = "query processing would load too many samples into memory in query execution"
TOO_LATE = "query timed out in expression evaluation"


class Pace:
    """The time of one query. Steps end where `rest` is awaited."""

    def __init__(self, request: web.Request, view: View, timeout: float = LONGEST) -> None:
        self._request = request
        self._monotonic = view.monotonic
        self._began = view.monotonic()
        self._deadline = self._began + min(timeout, LONGEST)

    def start(self) -> None:
        """The first step begins."""
        self._began = self._monotonic()

    async def rest(self) -> None:
        """Let others go on, where this step was long. Raises ApiError when the time is over or the client is gone."""
        now = self._monotonic()
        if now > self._deadline:
            raise ApiError("timeout", TOO_LATE)
        if now - self._began >= STEP:
            await asyncio.sleep(0)
            if self._request.transport is None or self._request.transport.is_closing():
                raise ApiError("canceled", "query was canceled in expression evaluation")
            self._began = self._monotonic()

    def check(self) -> None:
        """Raises ApiError where the step under way is too long."""
        now = self._monotonic()
        if now > self._deadline:
            raise ApiError("timeout", TOO_LATE)
        if now - self._began > LONGEST_STEP:
            raise ApiError(
                "execution",
                f"one instant of the query takes longer than {LONGEST_STEP} s: narrow its selectors, its windows, or "
                "its subqueries, or record a part of it by a rule",
            )


class Metered:
    """A store as one query may use it."""

    def __init__(self, store: Store, pace: Pace) -> None:
        self._store = store
        self._pace = pace
        self._samples = 0
        self._short: dict[str, float] = {}
        """Metric -> from when on it is known, where that is later than what was asked for."""

    @property
    def version(self) -> int:
        """Grows with every change of any series."""
        return self._store.version

    @property
    def warnings(self) -> list[str]:
        """What the answer lacks."""
        return [
            f"{name}: nothing is kept from before {int(at)}; the answer is made of what is kept (a rule that reads "
            "further back keeps more)"
            for name, at in sorted(self._short.items())
        ]

    def begin(self) -> None:
        """Another instant."""
        self._samples = 0

    def _known_from(self, series: SeriesSet, start: float) -> float:
        self._pace.check()
        known = self._store.known_from(series)
        if start < known:
            self._short[series.name] = known
        return known

    def select(self, name: str | None, matchers: tuple[Matcher, ...]) -> tuple[SeriesSet, ...]:
        """The matching series."""
        self._pace.check()
        return self._store.select(name, matchers)

    def value(self, series: SeriesSet, at: float) -> tuple[Array, Array | None]:
        """Values at an instant and the mask of those present; none where nothing is known yet, or any more."""
        count = len(series.labels)
        is_known = at >= self._known_from(series, at)
        if series.kind != "sampled" and not (is_known and at <= self._store.frontier + LOOK_BACK):
            return np.full(count, np.nan), np.zeros(count, bool)
        return self._store.value(series, at)

    def increase(self, series: SeriesSet, start: float, end: float) -> Array:
        """Events in the part of (start, end] that is known; NaN where none of it is."""
        known = self._known_from(series, start)
        if end <= known:
            return np.full(len(series.labels), np.nan)
        return self._store.increase(series, max(start, known), end)

    def quantile(  # noqa: PLR0913, PLR0917 - the querier's question
        self, series: SeriesSet, groups: Array, count: int, q: float, start: float, end: float
    ) -> Array:
        """Quantiles over the part of (start, end] that is known."""
        self._known_from(series, start)
        return self._store.quantile(series, groups, count, q, start, end)

    def samples(self, series: SeriesSet, start: float, end: float, step: float) -> list[tuple[Array, Array]]:
        """Samples of the part of (start, end] that is known. Raises ApiError where they are too many."""
        known = self._known_from(series, start)
        if series.kind == "sampled":
            found = self._store.samples(series, start, end, step)
            self._loaded(sum(len(times) for times, _ in found))
            return found
        start = min(max(start, known), end)
        self._loaded(int((end - start) / step + 1) * len(series.labels))
        return self._store.samples(series, start, end, step)

    def _loaded(self, samples: int) -> None:
        self._samples += samples
        if self._samples > MOST_SAMPLES:
            raise ApiError("execution", TOO_MANY)

    def born(self, series: SeriesSet) -> Array:
        """Which have had any event or sample."""
        return self._store.born(series)

    def changed(self, series: SeriesSet, since: int) -> bool:
        """Whether any changed after a version of the store."""
        return self._store.changed(series, since)
