"""celery-exporter's series, counted by host besides: the one label that our own metrics do not have.

They are columns of their own in the same banks, made when a rule, a query or the configuration first names a metric of
the exporter. What was counted until then is taken over under the host `None`, as is what no worker is named for; so the
sum over hosts is always what our own counter says. Run times are those of successes, as the exporter has them, but for
what was taken over, which is of all ends. Hosts are capped: those beyond are counted as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.series import celery
from collector.series.buckets import KEY_BITS
from collector.series.catalogue import Catalogue, Family, Metric
from collector.series.window import NEVER, Array, Pending
from collector.trail.rows import OVERFLOW, Errors, Rows
from collector.trail.transitions import FACT_CODE, MEASURES, RUN, STRIDE

MOST_HOSTS = 200
_NO_HOST, _OTHER_HOST = 0, 1
_MOST_LEAVING = 1_000  # series per call of `expire`, so that it stays a short step


def host_of(worker: str) -> str:
    """What stands behind the first `@` of a worker's name; all of it where there is none."""
    return worker.partition("@")[2] or worker


class Hosts:
    """The exporter's families that were named, and the hosts they know."""

    def __init__(self, catalogue: Catalogue, rows: Rows, errors: Errors) -> None:
        self.families: dict[str, Family] = {}
        """Our metric -> the exporter's family, from when it was first named."""
        self.is_exposed = False
        """Whether /metrics shows them."""
        self.evictions: Counter[str] = Counter()
        """`hosts`: names of hosts that found no room; `celery_series_cap`: facts whose series did not."""
        self._catalogue = catalogue
        self._rows = rows
        self._errors = errors
        self._ids = {"": _NO_HOST, OVERFLOW: _OTHER_HOST}
        self._hosts = [celery.UNKNOWN, OVERFLOW]
        self._of_worker: dict[str | None, int] = {None: _NO_HOST}
        self._by_code: dict[int, Family] = {}
        self._by_measure: dict[int, Family] = {}
        self._columns: dict[tuple[int, int, int, bool], int] = {}

    def intern(self, worker: str | None) -> int:
        """The number of a worker's host."""
        found = self._of_worker.get(worker)
        if found is None:
            host = host_of(worker or "")
            found = self._ids.get(host)
            if found is None:
                if len(self._ids) - 2 >= MOST_HOSTS:
                    self.evictions["hosts"] += 1
                    return _OTHER_HOST
                found = self._ids[host] = len(self._hosts)
                self._hosts.append(host)
            if len(self._of_worker) < 100 * MOST_HOSTS:
                self._of_worker[worker] = found
        return found

    # Over a restart

    @property
    def names(self) -> list[str]:
        """The hosts that are known, in the order of their numbers."""
        return self._hosts

    def restore(self, names: Sequence[str], metrics: Iterable[str]) -> None:
        """Go on with these hosts, and with the families that count our metrics of these names; they are empty yet."""
        self._hosts = list(names)
        self._ids = {name: number for number, name in enumerate(names) if number > _OTHER_HOST}
        self._ids.update({"": _NO_HOST, OVERFLOW: _OTHER_HOST})
        self._of_worker = {None: _NO_HOST}
        self.families, self._by_code, self._by_measure = {}, {}, {}
        self._columns.clear()
        for name in metrics:
            self._add(self._catalogue.family(name).metric)

    # From when on they are counted

    def begin(self, name: str, version: int, facts: Pending, observations: Pending) -> Family:
        """The family behind a name of the exporter, from now on counted; what was counted stands under no host."""
        base = self._catalogue.family(celery.NAMES[name])
        metric = base.metric
        own = self.families.get(metric.name)
        if own is not None:
            return own
        own = self._add(metric)
        is_histogram = metric.type == "histogram"
        places = [place for place, owner in enumerate(base.members.owners) if owner != self._catalogue.NOBODY]
        if places:
            sources = np.array([base.members.columns[place] for place in places], np.int64)
            targets = [self._make(own, base.members.labels[place], _NO_HOST, version) for place in places]
            self._take_over(sources, np.array(targets, np.int64), observations if is_histogram else facts, is_histogram)
        counters = list(self._by_code.values())
        for family in () if is_histogram else counters:
            for labels in list(family.members.labels):
                self._show(labels, family, counters if family is own else [own], version)
        return own

    def _add(self, metric: Metric) -> Family:
        foreign = celery.FOREIGN[metric.name]
        own = self.families[metric.name] = Family(msgspec.structs.replace(metric, name=foreign))
        if metric.type == "histogram":
            self._by_measure[MEASURES.index(metric.feeds[0])] = own
        else:
            self._by_code[FACT_CODE[metric.feeds[0]]] = own
        return own

    def _take_over(self, sources: Array, targets: Array, waiting: Pending, is_histogram: bool) -> None:  # noqa: FBT001
        catalogue = self._catalogue
        bank = catalogue.histograms.counts if is_histogram else catalogue.counts
        heirs = np.full(bank.size, -1, np.int64)
        heirs[sources] = targets
        if is_histogram:
            catalogue.histograms.copy(sources, targets, heirs)
            waiting.repeat(1, heirs, KEY_BITS)
        else:
            bank.copy(sources, targets)
            waiting.repeat(1, heirs, 0)

    # What is counted

    def columns(self, codes: Array, hosts: Array, version: int, errors: Sequence[int] | None = None) -> Array:
        """Columns of `counts` for codes of facts and hosts; -1 for facts that nobody named."""
        found = np.full(len(codes), -1, np.int64)
        for fact, family in self._by_code.items():
            mine = np.flatnonzero(codes & (STRIDE - 1) == fact)
            if len(mine):
                mine_errors = [0] * len(mine) if errors is None else [errors[place] for place in mine.tolist()]
                found[mine] = self._found(family, codes[mine] // STRIDE, hosts[mine], mine_errors, fact, version)
        return found

    def measured(self, codes: Array, hosts: Array, version: int) -> Array:
        """Columns of `histograms` for codes of measures and hosts; -1 for measures that nobody named.

        A host's complement says that the event was a failure: the exporter's run times are those of successes.
        """
        found = np.full(len(codes), -1, np.int64)
        for measure, family in self._by_measure.items():
            mine = np.flatnonzero((codes % len(MEASURES) == measure) & ((hosts >= 0) | (measure != RUN)))
            if len(mine):
                rows, at = codes[mine] // len(MEASURES), hosts[mine]
                at = np.where(at < 0, ~at, at)
                found[mine] = self._found(family, rows, at, [0] * len(mine), measure, version)
        return found

    def _found(  # noqa: PLR0913, PLR0917 - the parts of a series' identity
        self, family: Family, rows: Array, hosts: Array, errors: Sequence[int], number: int, version: int
    ) -> Array:
        is_histogram = family.metric.type == "histogram"
        columns = np.empty(len(rows), np.int64)
        for place, (row, host, error) in enumerate(zip(rows.tolist(), hosts.tolist(), errors, strict=True)):
            key = (row * STRIDE + number, error, host, is_histogram)
            column = self._columns.get(key)
            if column is None:
                column, is_own = self._join(family, row, error, host, version)
                if is_own:  # those that find no room are without number
                    self._columns[key] = column
            columns[place] = column
        return columns

    def _join(self, family: Family, row: int, error: int, host: int, version: int) -> tuple[int, bool]:
        """The column of a series, and whether it has one of its own."""
        catalogue = self._catalogue
        task, queue, source = self._rows.names(row)
        name = self._errors.name(error) if family.metric.by_error else ""
        labels = catalogue.labels_of(task, queue, source, name)
        place = family.members.places.get(self._theirs(family, labels, host))
        is_own = place is not None or not catalogue.is_full
        if not is_own:
            self.evictions["celery_series_cap"] += 1
            labels = catalogue.labels_of(OVERFLOW, OVERFLOW, source, OVERFLOW if family.metric.by_error else "")
            host = _OTHER_HOST
            place = family.members.places.get(self._theirs(family, labels, host))
        column = self._make(family, labels, host, version) if place is None else family.members.columns[place]
        if family.metric.type == "counter":
            self._show(self._theirs(family, labels, host), family, self._by_code.values(), version)
        return column, is_own

    def _show(self, labels: Labels, own: Family, families: Iterable[Family], version: int) -> None:
        """Let other counters than its own be there at 0 for a label set, as the exporter does: its rules add them."""
        plain = tuple(pair for pair in labels if pair[0] != celery.LABELS["error"])
        for family in families:
            if family is own:
                continue
            is_there = plain in family.members.places or (
                not family.metric.by_error and labels in family.members.places
            )
            if not is_there and family.metric.feeds[0] != "sent" and not self._catalogue.is_full:
                family.members.add(plain, self._catalogue.counts.allocate(version, -NEVER))
                self._catalogue.size += 1

    def _theirs(self, family: Family, labels: Labels, host: int) -> Labels:
        return celery.theirs(labels, by_error=family.metric.by_error, host=self._hosts[host])

    def _make(self, family: Family, labels: Labels, host: int, version: int) -> int:
        catalogue = self._catalogue
        is_histogram = family.metric.type == "histogram"
        bank = catalogue.histograms if is_histogram else catalogue.counts
        column = bank.allocate(version)
        family.members.add(self._theirs(family, labels, host), column)
        catalogue.size += 1
        return column

    def expire(self, before: int, busy: Array, busy_histograms: Array) -> None:
        """Let go of series that did not change after version `before`, unless facts for them wait (`busy` columns)."""
        catalogue, room = self._catalogue, _MOST_LEAVING
        for family in self.families.values():
            is_histogram = family.metric.type == "histogram"
            bank = catalogue.histograms.counts if is_histogram else catalogue.counts
            columns = np.array(family.members.columns, np.int64)
            idle = (bank.changed.take(columns) <= before) & ~np.isin(columns, busy_histograms if is_histogram else busy)
            gone = np.flatnonzero(idle)[:room].tolist()
            room -= len(gone)
            for column in columns[gone].tolist():
                (catalogue.histograms if is_histogram else catalogue.counts).release(column)
            if gone:
                family.members.remove(gone)
                catalogue.size -= len(gone)
                self.evictions["series_idle"] += len(gone)
                self._columns.clear()
