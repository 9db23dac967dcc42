"""From a selector to its series sets: names, matchers, the `le` of histograms.

Asked at every evaluation of every rule, so what can be decided once per selector is decided once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from collector.model.labels import Matcher
from collector.series import celery
from collector.series.buckets import LE_TEXT
from collector.series.catalogue import Catalogue, Family
from collector.series.members import Members, Selection
from collector.series.reading import Buckets, Gauge, Histogram, Series, Sums
from collector.series.sampled import Sampled, Samples

_MOST_PLANS = 2_000  # selectors remembered; ad hoc queries bring ever new ones, then all are decided anew
_NAME = "__name__"
_SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
_ALL_MARKS = tuple(range(len(LE_TEXT)))
_LAST_MARK = len(LE_TEXT) - 1


class Choice:
    """One metric that a selector reaches, and what it asks of it."""

    def __init__(self, name: str, members: Members, family: Family | None, matchers: tuple[Matcher, ...]) -> None:
        by_le = family is not None and family.metric.type == "histogram" and name.endswith("_bucket")
        limits = [matcher for matcher in matchers if by_le and matcher.name == "le"]
        self.name = name
        self.members = members
        self.family = family
        self.matchers = tuple(m for m in matchers if m.name != _NAME and m not in limits)
        self.marks = tuple(mark for mark in _ALL_MARKS if limits and _within(mark, limits))
        """Indexes of the `le` marks asked for; none: the histogram as such."""
        self.is_possible = bool(self.marks) or not limits


def _within(mark: int, limits: list[Matcher]) -> bool:
    """Whether matchers of `le` accept a mark; a rule may say "1" for what Prometheus 3 spells "1.0"."""
    text = LE_TEXT[mark]
    return any(all(limit.matches(spelling) for limit in limits) for spelling in (text, text.removesuffix(".0")))


class Selector:
    """Finds the series of a catalogue of event-fed ones and of the sampled ones."""

    def __init__(self, catalogue: Catalogue, sampled: Samples, by_host: Callable[[str], Family]) -> None:
        self.event_fed: dict[str, Family] = {
            family.metric.name + suffix: family
            for family in catalogue.families
            for suffix in _SUFFIXES[family.metric.type]
        }
        """Metric name as a selector says it -> its family."""
        self._catalogue = catalogue
        self._sampled = sampled
        self._by_host = by_host
        """Begins to count what a name of celery-exporter says, where it is new."""
        self._plans: dict[tuple[str | None, tuple[Matcher, ...]], list[Choice]] = {}
        self._epoch = 0

    def select(self, name: str | None, matchers: tuple[Matcher, ...]) -> tuple[Series, ...]:
        """One set per metric that has any matching series."""
        if self._epoch != self._sampled.epoch or len(self._plans) > _MOST_PLANS:
            self._plans.clear()
            self._epoch = self._sampled.epoch
        choices = self._plans.get((name, matchers))
        if choices is None:
            choices = self._plans[name, matchers] = self._choices(name, matchers)
        found = [self._chosen(choice, choice.members.select(choice.matchers)) for choice in choices]
        return tuple(series for series in found if series.labels)

    def of_rows(self, name: str, rows: Sequence[int]) -> Series | None:
        """The series of a counter or gauge that belong to these rows, without labels; None: there are none.

        No plan is kept for it: it is asked for each alert that fires, and always for other rows.
        """
        family = self.event_fed.get(name)
        if family is None or family.metric.type == "histogram":
            return None
        columns, counts = self._catalogue.of_rows(family, rows), self._catalogue.counts
        if not len(columns):
            return None
        if family.metric.type == "gauge":
            return Gauge(name, (), columns, self._catalogue.downs.take(columns), counts)
        return Series(name, (), columns, counts)

    def _choices(self, name: str | None, matchers: tuple[Matcher, ...]) -> list[Choice]:
        of_name = [matcher for matcher in matchers if matcher.name == _NAME]

        def is_wanted(metric: str) -> bool:
            return name in (None, metric) and all(matcher.matches(metric) for matcher in of_name)

        found = [Choice(key, fam.members, fam, matchers) for key, fam in self.event_fed.items() if is_wanted(key)]
        if name in celery.NAMES and is_wanted(name):
            foreign = self._by_host(name)
            found.append(Choice(name, foreign.members, foreign, matchers))
        sampled = self._sampled.metrics.items()
        found.extend(Choice(key, members, None, matchers) for key, members in sampled if is_wanted(key))
        return [choice for choice in found if choice.is_possible]

    def _chosen(self, choice: Choice, selection: Selection) -> Series:
        series = selection.made.get((choice.name, choice.marks))
        if series is None:
            series = self._made(choice, selection)
            selection.made[choice.name, choice.marks] = series
        return series

    def _made(self, choice: Choice, selection: Selection) -> Series:
        name, labels, columns = choice.name, selection.labels, selection.columns
        counts, histograms = self._catalogue.counts, self._catalogue.histograms
        if choice.family is None:
            return Sampled(name, labels, columns, self._sampled)
        metric = choice.family.metric
        if metric.type == "counter":
            return Series(name, labels, columns, counts)
        if metric.type == "gauge":
            return Gauge(name, labels, columns, self._catalogue.downs.take(columns), counts)
        if name.endswith("_bucket"):
            whole = Histogram(name, labels, columns, histograms)
            return whole.buckets(choice.marks) if choice.marks else whole
        return self._summed(name, selection)

    def _summed(self, name: str, selection: Selection) -> Series:
        """The `_sum` or `_count` of histograms."""
        labels, columns, histograms = selection.labels, selection.columns, self._catalogue.histograms
        if name.endswith("_sum"):
            return Sums(name, labels, columns, histograms)
        if histograms.counts.levels:
            return Series(name, labels, columns, histograms.counts)
        # no rule announced `_count`: the buckets know its past
        return Buckets(name, labels, columns, np.full(len(columns), _LAST_MARK, np.int64), histograms)
