"""Which event-fed series exist: their identity, their columns, how they come and how they leave.

A series is a family, a row (task, queue, source) and, in some families, an error class. It gets its column when its
first fact comes. Beyond the cap facts are counted in a family's `_other` series; a series that is idle for long leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.ma  # by np.unique, at the first event else: then there may be no descriptor left to read it

from collector.model.labels import Labels, labels_of
from collector.series.histogram import Histograms
from collector.series.members import Members
from collector.series.window import MINUTE, NEVER, Array, Bank
from collector.trail.rows import OVERFLOW, Errors, Rows
from collector.trail.transitions import FACTS, MEASURES, STRIDE

ALWAYS_KEPT = 5 * MINUTE
"""How far back counts and quantiles always reach, so that a question nobody announced has an answer."""
SUFFIXES = ("_bucket", "_count", "_sum")
"""What stands behind the name of a histogram."""
_ERRORS = 1 << 24
"""The owner of a series, who feeds it, is `row * _ERRORS + error id`, or one of these."""
_NOBODY = -1  # it only has to be 0
_OTHERS = -2  # everything beyond the cap
_MOST_LEAVING = 1_000  # series per call of `expire`, so that it stays a short step


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric that trails feed."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    feeds: tuple[str, ...]
    """A counter's fact; a gauge's fact that goes up and the one that goes down; a histogram's measure."""
    by_error: bool = False
    detail: str = "error"
    """What the label is called that `by_error` adds."""


class Family:
    """A metric and its series."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.members = Members()
        self.expected: dict[tuple[str, str], list[Labels]] = {}
        """Label sets that exist from 0, by task and queue."""

    def expecting(self, task: str, queue: str) -> list[Labels]:
        """The label sets that a series of this task and queue can take the place of."""
        if not self.expected:
            return []
        found = self.expected.get((task, queue), [])
        return [*found, *self.expected.get((task, ""), [])] if queue else list(found)


class Catalogue:
    """Every family, and the tables that lead from a code to a column (-1: not yet)."""

    NOBODY = _NOBODY
    """The owner of a series that only has to be 0."""

    def __init__(self, metrics: Sequence[Metric], rows: Rows, errors: Errors, cap: int) -> None:
        self.counts = Bank(np.uint32)
        self.counts.keep(ALWAYS_KEPT)
        self.histograms = Histograms(ALWAYS_KEPT)
        self.families = [Family(metric) for metric in metrics]
        self.size = 0
        """Series that exist."""
        self.evictions: Counter[str] = Counter()
        """`series_cap`: series that found no room; `series_idle`: series that left. Event-fed ones."""
        self.retired: Counter[tuple[str, str]] = Counter()
        """(task, fact) -> what series that left had counted."""
        self.downs = np.zeros(64, np.int64)
        """Of a gauge's column: the column of what goes down."""
        self._rows = rows
        self._errors = errors
        self.cap = cap
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._by_feed = {feed: family for family in self.families for feed in family.metric.feeds}
        self._by_code = np.full(STRIDE, -1, np.int32)
        self._by_measure = np.full(len(MEASURES), -1, np.int32)
        self._by_error: dict[tuple[int, int], int] = {}

    @property
    def is_full(self) -> bool:
        """Whether a new series finds no room."""
        return self.size >= self.cap

    def family(self, name: str) -> Family:
        """The family of a metric, whose name may have the suffix of a histogram."""
        return next(one for one in self.families if name.removeprefix(one.metric.name) in {"", *SUFFIXES})

    def of_rows(self, family: Family, rows: Sequence[int]) -> Array:
        """Columns of a family's series that belong to these rows; not of the one that stands for the overflow."""
        owners = np.array(family.members.owners, np.int64)
        wanted = (owners >= 0) & np.isin(owners // _ERRORS, rows)
        return np.array(family.members.columns, np.int64)[wanted]

    def columns(self, codes: Array, version: int) -> Array:
        """Columns of `counts` for codes of facts."""
        self._by_code = _reaching(self._by_code, codes)
        columns = self._by_code.take(codes)
        if columns.min() < 0:
            for code in np.unique(codes[columns < 0]).tolist():
                row, fact = divmod(code, STRIDE)
                self._join(self._by_feed[FACTS[fact]], row, 0, version)
            columns = self._by_code.take(codes)
        return columns

    def error_column(self, code: int, error: int, version: int) -> int:
        """Column of `counts` for the code of a fact and an error class."""
        column = self._by_error.get((code, error))
        if column is None:
            row, fact = divmod(code, STRIDE)
            column = self._join(self._by_feed[FACTS[fact]], row, error, version)
        return column

    def measured(self, codes: Array, version: int) -> Array:
        """Columns of `histograms` for codes of measures."""
        self._by_measure = _reaching(self._by_measure, codes)
        columns = self._by_measure.take(codes)
        if columns.min() < 0:
            for code in np.unique(codes[columns < 0]).tolist():
                row, measure = divmod(code, len(MEASURES))
                self._join(self._by_feed[MEASURES[measure]], row, 0, version)
            columns = self._by_measure.take(codes)
        return columns

    def _join(self, family: Family, row: int, error: int, version: int) -> int:
        """The column of a row's series, made where it is new, and from now on found through the tables."""
        task, queue, source = self._rows.names(row)
        name = self._errors.name(error) if family.metric.by_error else ""
        labels = self.labels_of(task, queue, source, name, family.metric.detail)
        members = family.members
        owner = row * _ERRORS + error
        if labels not in members.places and self.size >= self.cap:
            self.evictions["series_cap"] += 1
            owner = _OTHERS
            name = OVERFLOW if family.metric.by_error else ""
            labels = self.labels_of(OVERFLOW, OVERFLOW, source, name, family.metric.detail)
        if labels not in members.places:
            self._make(family, labels, owner, version, self._replaced(family, labels))
        place = members.places[labels]
        if members.owners[place] == _NOBODY:
            members.owners[place] = owner
        self._lead(family, row, error, members.columns[place])
        return members.columns[place]

    def labels_of(self, task: str, queue: str, source: str, error: str, detail: str = "error") -> Labels:
        """The label set; equal pairs are one object, because thousands of series share them."""
        return self.shared(labels_of({"task": task, "queue": queue, "source": source, detail: error}))

    def shared(self, labels: Labels) -> Labels:
        """The same label set, of pairs that others have too."""
        return tuple(self._pairs.setdefault(pair, pair) for pair in labels)

    def resume(self, version: int) -> None:
        """Families and banks were filled with what was saved: what is expected now exists again."""
        for family in self.families:
            for labels in [labels for expected in family.expected.values() for labels in expected]:
                self.expect(family, labels, version)

    def _lead(self, family: Family, row: int, error: int, column: int) -> None:
        """Let the tables lead to a column, or (-1) nowhere."""
        metric = family.metric
        if metric.type == "histogram":
            self._by_measure[row * len(MEASURES) + MEASURES.index(metric.feeds[0])] = column
            return
        code = row * STRIDE + FACTS.index(metric.feeds[0])
        if metric.by_error:
            if column < 0:
                del self._by_error[code, error]
            else:
                self._by_error[code, error] = column
            return
        self._by_code = _reaching(self._by_code, np.array([(row + 1) * STRIDE - 1]))
        self._by_code[code] = column
        if metric.type == "gauge":
            self._by_code[row * STRIDE + FACTS.index(metric.feeds[1])] = -1 if column < 0 else self.downs[column]

    def _make(self, family: Family, labels: Labels, owner: int, version: int, birth: int) -> None:
        if family.metric.type == "histogram":
            column = self.histograms.allocate(version, birth)
        else:
            column = self.counts.allocate(version, birth)
        if family.metric.type == "gauge":
            down = self.counts.allocate(version, birth)
            self.downs.resize(max(len(self.downs), len(self.counts.current)), refcheck=False)
            self.downs[column] = down
        family.members.add(labels, column, owner)
        self.size += 1

    def expect(self, family: Family, labels: Labels, version: int) -> None:
        """Let a series of these labels exist from 0, until one comes that has these labels and more."""
        named = dict(labels)
        expected = family.expected.setdefault((named.get("task", ""), named.get("queue", "")), [])
        if labels not in expected:
            expected.append(labels)
        if self.size < self.cap and not any(set(labels) <= set(known) for known in family.members.labels):
            self._make(family, labels, _NOBODY, version, -NEVER)

    def _replaced(self, family: Family, labels: Labels) -> int:
        """When a new series was born: from the beginning, where it takes the place of an expected one, which leaves."""
        named = dict(labels)
        birth = NEVER
        for expected in family.expecting(named.get("task", ""), named.get("queue", "")):
            if set(expected) <= set(labels):
                birth = -NEVER
                place = family.members.places.get(expected, -1)
                if place >= 0 and family.members.owners[place] == _NOBODY:
                    self._leave(family, [place])
        return birth

    def _leave(self, family: Family, gone: list[int]) -> None:
        """Take series out and give their columns back."""
        for place in gone:
            column, owner = family.members.columns[place], family.members.owners[place]
            if owner >= 0:
                self._lead(family, *divmod(owner, _ERRORS), -1)
            if family.metric.type == "histogram":
                self.histograms.release(column)
                continue
            self.counts.release(column)
            if family.metric.type == "gauge":
                self.counts.release(int(self.downs[column]))
        family.members.remove(gone)
        self.size -= len(gone)

    def expire(self, before: int, busy: Array, busy_histograms: Array, version: int) -> None:
        """Let go of series that did not change after version `before`, unless facts for them wait (`busy` columns).

        Never of a gauge that is not 0: what went up would later come down from nothing. At most 1,000 a call.
        """
        room = _MOST_LEAVING
        for family in self.families:
            histogram = family.metric.type == "histogram"
            bank, waiting = (self.histograms.counts, busy_histograms) if histogram else (self.counts, busy)
            columns = np.array(family.members.columns, np.int64)
            idle = (bank.changed.take(columns) <= before) & ~np.isin(columns, waiting)
            idle &= np.array(family.members.owners, np.int64) >= 0
            if family.metric.type == "gauge":
                downs = self.downs.take(columns)
                idle &= (bank.changed.take(downs) <= before) & ~np.isin(downs, waiting)
                idle &= bank.value(columns, NEVER) == bank.value(downs, NEVER)
            gone = np.flatnonzero(idle)[:room].tolist()
            room -= len(gone)
            if gone:
                self._retire(family, gone, version)

    def _retire(self, family: Family, gone: list[int], version: int) -> None:
        self.evictions["series_idle"] += len(gone)
        pairs: dict[tuple[str, str], None] = {}
        columns = np.array(family.members.columns, np.int64)[gone]
        counted = self.counts.value(columns, NEVER).tolist() if family.metric.type == "counter" else [0] * len(gone)
        for place, number in zip(gone, counted, strict=True):
            named = dict(family.members.labels[place])
            pairs[named.get("task", ""), named.get("queue", "")] = None
            if number:
                self.retired[named.get("task", ""), family.metric.feeds[0]] += number
        self._leave(family, gone)
        for pair in pairs:
            for labels in family.expecting(*pair):
                self.expect(family, labels, version)


def _reaching(table: Array, codes: Array) -> Array:
    """The table, or a longer one (new entries -1) that has a place for every code."""
    most = int(codes.max())
    if most < len(table):
        return table
    return np.concatenate([table, np.full(max(most + 1, len(table) * 5 // 4) - len(table), -1, np.int32)])
