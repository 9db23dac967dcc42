"""/metrics: families rendered by prometheus-client, some lines at a time, so that no scrape holds the loop for long.

Text by default, OpenMetrics where it is asked for; only that one has a place for when a counter began.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from collector.series.buckets import LE_TEXT
from collector.series.expose import Exposed

SAMPLES = 400
"""Lines that are written in one step of the loop."""
_HEAD = re.compile(rb"^# (?:HELP|TYPE|UNIT) .*\n", re.MULTILINE)
_END = b"# EOF\n"

Encoder: TypeAlias = Callable[[Any], bytes]


def negotiated(accept: str) -> tuple[Encoder, str, bool]:
    """How to write for an `Accept` header: the encoder, its content type, and whether that is OpenMetrics."""
    try:
        encoder, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encoder, content_type = choose_encoder("")
    return cast("Encoder", encoder), content_type, content_type.startswith("application/openmetrics-text")


class _One:
    """A registry of one family; encoders ask no more of a registry than `collect`."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def pieces(family: Exposed, started_at: float | None) -> Iterator[Metric]:
    """One of the store's families in prometheus-client's form, some series at a time.

    With `started_at`, the start of the process, each counter says when it began: there, or at its first event.
    """
    fill = _fill_numbers if family.buckets is None else _fill_histograms
    most = max(1, SAMPLES if family.buckets is None else SAMPLES // len(LE_TEXT))
    base = family.name.removesuffix("_total") if family.type == "counter" else family.name
    for begin in range(0, len(family.labels) or 1, most):
        metric = Metric(base, family.help, family.type)
        fill(metric, family, slice(begin, begin + most), None if family.type == "gauge" else started_at)
        yield metric


def _fill_numbers(metric: Metric, family: Exposed, part: slice, started_at: float | None) -> None:
    numbers = zip(family.labels[part], family.values[part].tolist(), family.born_at[part].tolist(), strict=True)
    for labels, value, born_at in numbers:
        metric.add_sample(family.name, own := dict(labels), value)
        if started_at is not None:
            metric.add_sample(f"{metric.name}_created", own, born_at if math.isfinite(born_at) else started_at)


def _fill_histograms(metric: Metric, family: Exposed, part: slice, started_at: float | None) -> None:
    assert family.buckets is not None  # noqa: S101  only histograms come here
    numbers = zip(family.values[part].tolist(), family.buckets[part].tolist(), strict=True)
    births = family.born_at[part].tolist()
    for labels, (total, counts), born_at in zip(family.labels[part], numbers, births, strict=True):
        own = dict(labels)
        for bound, count in zip(LE_TEXT, counts, strict=True):
            metric.add_sample(f"{metric.name}_bucket", {**own, "le": bound}, count)
        metric.add_sample(f"{metric.name}_count", own, counts[-1])
        metric.add_sample(f"{metric.name}_sum", own, total)
        if started_at is not None:
            metric.add_sample(f"{metric.name}_created", own, born_at if math.isfinite(born_at) else started_at)


async def render(metrics: Iterable[Metric], encoder: Encoder) -> AsyncIterator[bytes]:
    """The exposition in pieces; between them everyone else has a turn. Pieces of one family follow each other."""
    written, end = "", b""
    for metric in metrics:
        text = encoder(cast("CollectorRegistry", _One(metric)))
        if text.endswith(_END):
            text, end = text.removesuffix(_END), _END
        yield _HEAD.sub(b"", text) if metric.name == written else text
        written = metric.name
        await asyncio.sleep(0)
    yield end
