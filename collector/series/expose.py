"""The series as others read them whole: families for /metrics, sums per task for replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.series.buckets import LE_TEXT
from collector.series.catalogue import Family
from collector.series.store import Store
from collector.series.window import SECOND


class Exposed(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family with its present values."""

    name: str
    type: str
    """`counter`, `gauge` or `histogram`."""
    help: str
    samples: list[tuple[Labels, float]] = []
    """Of a counter or gauge."""
    histograms: list[tuple[Labels, tuple[tuple[str, float], ...], float]] = []
    """Labels, cumulative counts as (le, count) up to `+Inf` (the `_count`), and the `_sum` in seconds."""


def families(store: Store) -> Iterator[Exposed]:
    """Every metric that has series, event-fed ones first, at the frontier; one at a time, so a caller may pause."""
    for family in store.catalogue.families:
        metric = family.metric
        if not family.members.labels:
            continue
        yield Exposed(
            name=metric.name,
            type=metric.type,
            help=metric.help,
            samples=_samples(store, metric.name) if metric.type != "histogram" else [],
            histograms=_histograms(store, family) if metric.type == "histogram" else [],
        )
    fed = {family.metric.name for family in store.catalogue.families}
    for name in sorted(store.sampled.metrics):
        if name not in fed and (samples := _samples(store, name)):
            yield Exposed(name=name, type="gauge", help="", samples=samples)


def _samples(store: Store, name: str) -> list[tuple[Labels, float]]:
    found: list[tuple[Labels, float]] = []
    for series in store.select(name, ()):
        values, there = store.value(series, store.frontier)
        mask = [True] * len(values) if there is None else there.tolist()
        found.extend(
            (labels, value)
            for labels, value, is_there in zip(series.labels, values.tolist(), mask, strict=True)
            if is_there
        )
    return found


def _histograms(store: Store, family: Family) -> list[tuple[Labels, tuple[tuple[str, float], ...], float]]:
    source = store.catalogue.histograms
    columns = np.array(family.members.columns, np.int64)
    sums = source.sums.value(columns, source.sums.frontier) / SECOND
    there = source.counts.births.take(columns) <= source.counts.frontier
    rows = zip(family.members.labels, source.totals(columns).tolist(), sums.tolist(), there.tolist(), strict=True)
    return [
        (labels, tuple(zip(LE_TEXT, counts, strict=True)), total)
        for labels, counts, total, is_there in rows
        if is_there
    ]


def totals(store: Store) -> dict[str, dict[str, int]]:
    """Task -> fact -> how often it was counted, over queues, sources and errors; every counter of each task.

    Waiting facts and series that have left are in it; a task without a name is "".
    """
    facts = [family.metric.feeds[0] for family in store.catalogue.families if family.metric.type == "counter"]
    counts = store.catalogue.counts
    waiting = np.bincount(store.facts.column(1), minlength=counts.size)
    found: Counter[tuple[str, str]] = Counter(store.catalogue.retired)
    for family in store.catalogue.families:
        if family.metric.type == "counter" and family.members.labels:
            columns = np.array(family.members.columns, np.int64)
            numbers = counts.value(columns, counts.frontier) + waiting.take(columns)
            for labels, number in zip(family.members.labels, numbers.tolist(), strict=True):
                found[dict(labels).get("task", ""), family.metric.feeds[0]] += number
    tasks = {task: dict.fromkeys(facts, 0) for task in sorted({task for task, _ in found})}
    for (task, fact), number in found.items():
        tasks[task][fact] = number
    return tasks
