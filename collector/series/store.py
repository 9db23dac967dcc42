"""The series: what is counted, what is sampled, and what an evaluation may ask of them (PromQL's querier).

Takes facts with their axis times and samples; gives values, exact window counts and quantiles. All that lies at or
before the *frontier* is folded in; facts beyond it wait. A fact that comes late counts from then on, in the present and
in the past windows where it belongs. Never reads the clock, never logs; one owner, no locks.

A series set is good until the next fact or `advance`: select again for every evaluation (it costs a look-up).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from collector.model.labels import Labels, Matcher
from collector.series import celery
from collector.series.buckets import KEY_BITS, bins_of
from collector.series.catalogue import ALWAYS_KEPT, Catalogue, Family, Metric
from collector.series.hosts import Hosts
from collector.series.reading import Histogram, Series, SeriesSet
from collector.series.sampled import Samples
from collector.series.selector import Selector
from collector.series.window import FINEST, MINUTE, SECOND, Array, Pending, ticks_from, ticks_of
from collector.trail.rows import Errors, Rows


class Store:
    """Every series of the process."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        rows: Rows,
        errors: Errors,
        *,
        cap: int = 100_000,
        idle_seconds: float = 90_000.0,
    ) -> None:
        """Series of `metrics`, named by `rows` and `errors`: at most `cap`, each until it is idle for so long."""
        self.frontier = 0.0
        self.version = 0
        self.catalogue = Catalogue(metrics, rows, errors, cap)
        self.sampled = Samples()
        self.facts = Pending()
        """(ticks, columns) beyond the frontier."""
        self.observations = Pending()
        """(ticks, keys, microseconds) beyond the frontier."""
        self.tick = 0
        """The frontier in ticks."""
        self._idle = ticks_of(idle_seconds)
        self._reach = ALWAYS_KEPT
        self.ages: list[tuple[int, int]] = []
        """Once a minute: frontier and version, so that a version tells how old a change is."""
        self.hosts = Hosts(self.catalogue, rows, errors)
        self._selector = Selector(self.catalogue, self.sampled, self._by_host)

    # What the rules announce

    def keep(self, window_seconds: float, name: str | None = None) -> None:
        """A rule reads so far back: in the metric `name` (as a selector says it), or anywhere (None).

        `_count` and `_sum` of histograms keep no past until a rule reads them: it is more than the histogram itself.
        """
        if name in celery.NAMES:
            self._by_host(name)
            name = celery.ours(name)
        window = ticks_of(window_seconds)
        if window <= 0:
            return
        self._reach = max(self._reach, window)
        self.sampled.reach = max(self.sampled.reach, window_seconds)
        counts, histograms = self.catalogue.counts, self.catalogue.histograms
        for metric in (family.metric for family in self.catalogue.families):
            if metric.type != "histogram" and name in {None, metric.name}:
                counts.keep(window)
            elif metric.type == "histogram":
                for suffix, keep in (
                    ("_bucket", histograms.keep),
                    ("_count", histograms.counts.keep),
                    ("_sum", histograms.sums.keep),
                ):
                    if name in {None, metric.name + suffix}:
                        keep(window)

    def count_by_host(self, names: Iterable[str] = celery.NAMES) -> None:
        """Count what these names of celery-exporter say by host from now on."""
        for name in names:
            self._by_host(name)

    def _by_host(self, name: str) -> Family:
        return self.hosts.begin(name, self.version, self.facts, self.observations)

    def expect(self, name: str, labels: Labels) -> None:
        """Let a counter or histogram exist from 0 for these labels, before any event. Other names do nothing."""
        family = self._selector.event_fed.get(name)
        if family is not None and family.metric.type != "gauge":
            self.catalogue.expect(family, labels, self.version)

    # What comes in

    def count(
        self,
        codes: Array,
        ats: Array,
        errors: Sequence[tuple[int, int, float]] = (),
        hosts: tuple[Array, Array] | None = None,
    ) -> None:
        """Count facts: parallel arrays, in any order; and facts (code, error id, at) of families by error.

        `hosts`: the host of each code, and of each of `errors`; None: none is known.
        """
        columns = [self.catalogue.columns(codes, self.version) if len(codes) else codes]
        times = [ats]
        if errors:
            columns.append(np.array([self.catalogue.error_column(*one[:2], self.version) for one in errors]))
            times.append(np.array([at for _, _, at in errors]))
        if self.hosts.families:
            columns += self._hosted(codes, errors, hosts)
            times += times
        found, when = np.concatenate(columns), np.concatenate(times)
        if self.hosts.families:
            known = found >= 0
            found, when = found[known], when[known]
        late = self._wait(self.facts, ticks_from(when), found)
        if late is not None:
            self.catalogue.counts.add_late(self.version, *late)

    def _hosted(
        self, codes: Array, errors: Sequence[tuple[int, int, float]], hosts: tuple[Array, Array] | None
    ) -> list[Array]:
        """The exporter's columns of the same facts; -1 for what nobody named."""
        of_codes, of_errors = hosts or (np.zeros(len(codes), np.int64), np.zeros(len(errors), np.int64))
        columns = [self.hosts.columns(codes, of_codes, self.version)]
        if errors:
            failed = np.array([code for code, _, _ in errors], np.int64)
            columns.append(self.hosts.columns(failed, of_errors, self.version, [error for _, error, _ in errors]))
        return columns

    def measure(self, codes: Array, seconds: Array, ats: Array, hosts: Array | None = None) -> None:
        """Observe durations, of these hosts where they are known; parallel, not empty, in any order."""
        columns = self.catalogue.measured(codes, self.version)
        if self.hosts.families:
            of_codes = np.zeros(len(codes), np.int64) if hosts is None else hosts
            hosted = self.hosts.measured(codes, of_codes, self.version)
            known = np.flatnonzero(hosted >= 0)
            columns = np.concatenate((columns, hosted[known]))
            seconds, ats = np.concatenate((seconds, seconds[known])), np.concatenate((ats, ats[known]))
        keys = ((columns << KEY_BITS) | bins_of(seconds)).astype(np.uint32)
        late = self._wait(self.observations, ticks_from(ats), keys, ticks_from(seconds))
        if late is not None:
            self.catalogue.histograms.add_late(self.version, *late)

    def _wait(self, pending: Pending, ticks: Array, *columns: Array) -> tuple[Array, ...] | None:
        """Put what lies beyond the frontier with the pending; give the rest, sorted, with a new version."""
        run = (ticks, *columns)
        if (ticks[1:] < ticks[:-1]).any():
            order = np.argsort(ticks, kind="stable")
            run = tuple(array[order] for array in run)
        split = int(np.searchsorted(run[0], self.tick, "right"))
        if split < len(ticks):
            pending.push(tuple(array[split:] for array in run) if split else run)
        if not split:
            return None
        self.version += 1
        return tuple(array[:split] for array in run)

    def put(self, name: str, labels: Labels, at: float, value: float) -> None:
        """Take a sample of a sampled series; Prometheus' stale marker ends it."""
        self.version += 1
        self.sampled.put(name, labels, at, value, self.version)

    # How time goes on

    def advance(self, at: float) -> None:
        """Move the frontier to an instant, and fold in what lies up to it; an instant in the past does nothing."""
        tick = ticks_of(at)
        if tick <= self.tick:
            return
        counts, histograms = self.catalogue.counts, self.catalogue.histograms
        facts, observations = self.facts.take(tick), self.observations.take(tick)
        if facts is not None or observations is not None:
            self.version += 1
        if facts is not None:
            counts.fold(tick, self.version, *facts)
        if observations is not None:
            histograms.fold(tick, self.version, *observations)
        counts.advance(tick)
        histograms.advance(tick)
        self.tick, self.frontier = tick, at
        self.sampled.frontier = at
        if not self.ages or tick >= self.ages[-1][0] + MINUTE:
            self._expire(tick)

    def _expire(self, tick: int) -> None:
        self.ages.append((tick, self.version))
        self.sampled.expire()
        before = tick - max(self._idle, self._reach + MINUTE)
        old = [entry for entry in self.ages if entry[0] <= before]
        if old:
            del self.ages[: len(old) - 1]
            busy = self.observations.column(1) >> KEY_BITS
            self.catalogue.expire(old[-1][1], self.facts.column(1), busy, self.version)
            self.hosts.expire(old[-1][1], self.facts.column(1), busy)

    def pending_instants(self, until: float) -> list[float]:
        """The 100 ms grid points, up to `until`, at which waiting facts will have changed something."""
        tick = ticks_of(until)
        found = self.facts.instants(tick, FINEST) | self.observations.instants(tick, FINEST)
        return [tick / SECOND for tick in sorted(found)]

    @property
    def evictions(self) -> dict[str, int]:
        """How many series left or found no room, by reason."""
        return dict(self.catalogue.evictions + self.hosts.evictions)

    # What an evaluation asks

    def select(self, name: str | None, matchers: tuple[Matcher, ...]) -> tuple[Series, ...]:
        """The matching series, one set per metric that has any; a matcher of `le` gives a histogram's `le` series."""
        return self._selector.select(name, matchers)

    def of_rows(self, name: str, rows: Sequence[int]) -> Series | None:
        """The series of an event-fed counter or gauge of these rows, without labels; None: there are none."""
        return self._selector.of_rows(name, rows)

    def buckets(self, series: SeriesSet) -> Series:
        """The 20 `le` series of each histogram of a set of kind "histogram", as counters; else TypeError."""
        if not isinstance(series, Histogram):
            msg = f"{series.name} is no histogram of this store"
            raise TypeError(msg)
        return series.buckets()

    def value(self, series: SeriesSet, at: float) -> tuple[Array, Array | None]:
        """Values at an instant, and the mask of those present (None: all). Not of kind "histogram": ValueError."""
        return _own(series).value(at)

    def increase(self, series: SeriesSet, start: float, end: float) -> Array:
        """Events in (start, end] of each series of kind "counter": exact at multiples of the grain."""
        return _own(series).increase(ticks_of(start), ticks_of(end))

    def quantile(  # noqa: PLR0913, PLR0917 - the querier's question
        self, series: SeriesSet, groups: Array, count: int, q: float, start: float, end: float
    ) -> Array:
        """The q-quantile of each group of histograms over (start, end], at most 1% off; NaN where nothing was observed.

        `groups[i]` (0 to `count` - 1) is the group of series i.
        """
        return self.catalogue.histograms.quantile(
            _own(series).columns, groups, count, q, ticks_of(start), ticks_of(end)
        )

    def samples(self, series: SeriesSet, start: float, end: float, step: float) -> list[tuple[Array, Array]]:
        """Times and values of each series in (start, end]; event-fed ones at `end` and every `step` before it."""
        return _own(series).samples(start, end, step)

    def born(self, series: SeriesSet) -> Array:
        """Which of the series have had any event or sample; the others exist only to be 0."""
        return _own(series).born()

    def known_from(self, series: SeriesSet) -> float:
        """The instant from which on the past of the series is known, -Inf: all of it; earlier there is nothing."""
        return _own(series).known_from()

    def born_at(self, series: SeriesSet) -> Array:
        """Instant of each one's first event; -Inf where it is not known, +Inf where none came yet."""
        return _own(series).born_at()

    def changed(self, series: SeriesSet, since: int) -> bool:
        """Whether any of the series changed after the store's version `since`."""
        return _own(series).changed(since)


def _own(series: SeriesSet) -> Series:
    if not isinstance(series, Series):
        msg = f"not a series set of this store: {series!r}"
        raise TypeError(msg)
    return series
