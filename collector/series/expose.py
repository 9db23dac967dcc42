"""The series as others read them whole: families for /metrics, sums per task for replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.series import celery
from collector.series.catalogue import Family, Metric
from collector.series.store import Store
from collector.series.window import NEVER, SECOND, Array

HELP: dict[str, str] = {
    "queue_length": "Items of a queue by state, as its broker says.",
    "queue_oldest_age_seconds": "How long the item that waits longest has waited.",
    "queue_consumers": "Who consumes a queue.",
    "consumer_lag": "Records that a group has before it.",
    "consumer_lag_seconds": "Age of the first record that a group has before it.",
    "consumer_lag_verdicts": "Partitions in which a group stopped, stalls or was put back.",
    "consumer_pending_idle_seconds": "The longest silence of a consumer that holds entries.",
    "consumer_pending_deliveries": "How often one of the oldest pending entries was delivered.",
    "tasktrail_probe_up": "1 while a source's queues can be asked for.",
    **dict.fromkeys(celery.PROBED.values(), "The same by the name that celery-exporter has for it."),
}
"""What is sampled by probes."""


class Exposed(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family with its present values; everything is parallel to `labels`."""

    name: str
    type: str
    """`counter`, `gauge` or `histogram`."""
    help: str
    labels: list[Labels]
    born_at: Array
    """When each had its first event, Unix seconds; -Inf where that is not known."""
    values: Array
    """Of a counter or gauge; of a histogram its `_sum` in seconds."""
    buckets: Array | None = None
    """Of a histogram: cumulative counts at the 20 marks of `LE_TEXT`, the last is the `_count`: shape (series, 20)."""


def families(store: Store) -> Iterator[Exposed]:
    """Every metric that has series, event-fed ones first, at the frontier; one at a time, so a caller may pause."""
    foreign = store.hosts.families.values() if store.hosts.is_exposed else ()
    for family in (*store.catalogue.families, *foreign):
        if family.members.labels:
            is_histogram = family.metric.type == "histogram"
            yield _histograms(store, family) if is_histogram else _numbers(store, family.metric.name, family.metric)
    fed = {family.metric.name for family in store.catalogue.families}
    if not store.hosts.is_exposed:
        fed.update(celery.PROBED.values())
    for name in sorted(store.sampled.metrics):
        if name not in fed and (exposed := _numbers(store, name, None)).labels:
            yield exposed


def _numbers(store: Store, name: str, metric: Metric | None) -> Exposed:
    labels: list[Labels] = []
    values, births = [np.empty(0)], [np.empty(0)]
    for series in store.select(name, ()):
        found, there = store.value(series, store.frontier)
        kept = np.arange(len(found)) if there is None else np.flatnonzero(there)
        labels += [series.labels[place] for place in kept.tolist()]
        values.append(found[kept])
        births.append(store.born_at(series)[kept])
    return Exposed(
        name=name,
        type=metric.type if metric else "gauge",
        help=metric.help if metric else HELP.get(name, ""),
        labels=labels,
        born_at=np.concatenate(births),
        values=np.concatenate(values),
    )


def _histograms(store: Store, family: Family) -> Exposed:
    source = store.catalogue.histograms
    columns = np.array(family.members.columns, np.int64)
    births = source.counts.births.take(columns)
    there = np.flatnonzero(births <= source.counts.frontier)
    columns, births = columns[there], births[there]
    return Exposed(
        name=family.metric.name,
        type="histogram",
        help=family.metric.help,
        labels=[family.members.labels[place] for place in there.tolist()],
        born_at=np.where(births == -NEVER, -np.inf, births / SECOND),
        values=source.sums.value(columns, source.sums.frontier) / SECOND,
        buckets=source.totals(columns),
    )


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
