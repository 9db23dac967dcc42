"""/metrics: families rendered one by one by prometheus-client, so that no scrape holds the loop for long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from collector.series.store import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _One:
    """A registry of one family; `generate_latest` asks no more of a registry than `collect`."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def family_metric(family: Family) -> Metric:
    """One of the store's families in prometheus-client's form."""
    metric: Metric
    if family.type == "histogram":
        metric = HistogramMetricFamily(family.name, family.help)
        for labels, histogram in family.histograms:
            buckets = [(bound, float(count)) for bound, count in histogram.buckets]
            metric.add_sample(family.name, {}, 0)
            metric.samples.pop()
            for bound, count in buckets:
                metric.add_sample(family.name + "_bucket", {**dict(labels), "le": bound}, count)
            metric.add_sample(family.name + "_count", dict(labels), float(histogram.count))
            metric.add_sample(family.name + "_sum", dict(labels), histogram.sum)
        return metric
    kind = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help)
    for labels, value in family.samples:
        metric.add_sample(family.name, dict(labels), value)
    return metric


async def render(metrics: Iterable[Metric]) -> AsyncIterator[bytes]:
    """The exposition in pieces."""
    for metric in metrics:
        yield generate_latest(cast("CollectorRegistry", _One(metric)))
