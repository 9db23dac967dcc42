"""/metrics: families rendered by prometheus-client, some lines at a time, so that no scrape holds the loop for long."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from collector.series.expose import Exposed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


SAMPLES = 1000
"""Lines that are written in one step of the loop."""
_HEAD = re.compile(rb"^# (?:HELP|TYPE) .*\n", re.MULTILINE)


class _One:
    """A registry of one family; `generate_latest` asks no more of a registry than `collect`."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def family_metric(family: Exposed) -> Metric:
    """One of the store's families in prometheus-client's form."""
    base = family.name.removesuffix("_total") if family.type == "counter" else family.name
    metric = Metric(base, family.help, family.type)
    for labels, value in family.samples:
        metric.add_sample(family.name, dict(labels), value)
    for labels, buckets, total in family.histograms:
        own = dict(labels)
        for bound, count in buckets:
            metric.add_sample(f"{family.name}_bucket", {**own, "le": bound}, count)
        metric.add_sample(f"{family.name}_count", own, buckets[-1][1])
        metric.add_sample(f"{family.name}_sum", own, total)
    return metric


async def render(metrics: Iterable[Metric]) -> AsyncIterator[bytes]:
    """The exposition in pieces; between them everyone else has a turn, within a large family too."""
    for metric in metrics:
        for start in range(0, len(metric.samples) or 1, SAMPLES):
            text = generate_latest(cast("CollectorRegistry", _One(_part(metric, start))))
            yield text if start == 0 else _HEAD.sub(b"", text)
            await asyncio.sleep(0)


def _part(metric: Metric, start: int) -> Metric:
    part = Metric(metric.name, metric.documentation, metric.type)
    part.samples = metric.samples[start : start + SAMPLES]
    return part
