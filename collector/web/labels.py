"""`/api/v1/series`, `labels`, `label/{name}/values`, `metadata`: which series there are, and what they are about.

Event-fed series are there from their first event on; sampled ones where they have a sample in the time that is asked
for. Views under other names (celery-exporter's) are found only by their name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from aiohttp import web

from collector.model.labels import Labels, labels_of
from collector.promql import SeriesSet
from collector.series.buckets import LE_TEXT
from collector.series.observe import METRICS
from collector.shell.telemetry import METRICS as OWN_METRICS
from collector.web.budget import Pace
from collector.web.prometheus import FOREVER, ApiError, Parameters, endpoint, success, truncated
from collector.web.view import VIEW, View

LOOKED_AT = 1000
"""Series that are looked at in one step."""


@endpoint
async def series(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The label sets of all series that `match[]` selects; event-fed histograms as their buckets."""
    if not parameters.every("match[]"):
        raise ApiError("bad_data", "no match[] parameter provided")
    limit, warnings = parameters.count(), list[str]()
    found: dict[Labels, None] = {}
    async for name, labels, has_buckets in _matching(request, parameters):
        for one in labels:
            own = (*one, ("__name__", name))
            marks = LE_TEXT if has_buckets else ("",)
            found.update(dict.fromkeys(labels_of((*own, ("le", mark)) if mark else own) for mark in marks))
        if 0 < limit < len(found):
            break
    return success([dict(one) for one in truncated(list(found), limit, warnings)], warnings)


@endpoint
async def labels(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The label names of the series."""
    limit, warnings = parameters.count(), list[str]()
    names: set[str] = set()
    async for _, found, has_buckets in _matching(request, parameters):
        names.update({"__name__", "le"} if has_buckets else {"__name__"})
        names.update(name for one in found for name, _ in one)
    return success(truncated(sorted(names), limit, warnings), warnings)


@endpoint
async def label_values(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The values that a label has."""
    wanted = request.match_info["name"]
    limit, warnings = parameters.count(), list[str]()
    values: set[str] = set()
    async for name, found, has_buckets in _matching(request, parameters):
        if wanted == "__name__":
            values.add(name)
        elif wanted == "le" and has_buckets:
            values.update(LE_TEXT)
        values.update(value for one in found for label, value in one if label == wanted)
    return success(truncated(sorted(values), limit, warnings), warnings)


@endpoint
async def metadata(_request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """Type and help of every metric that is known beforehand."""
    limit = parameters.count()
    known: dict[str, tuple[str, str]] = {metric.name: (metric.type, metric.help) for metric in METRICS}
    for name, (kind, text, _) in OWN_METRICS.items():
        known[name if kind == "gauge" else f"{name}_total"] = kind, text
    wanted = parameters.text("metric")
    names = [name for name in known if wanted in {"", name}]
    return success(
        {name: [{"type": known[name][0], "help": known[name][1], "unit": ""}] for name in names[: limit or None]}
    )


async def _matching(request: web.Request, parameters: Parameters) -> AsyncIterator[tuple[str, list[Labels], bool]]:
    """Metric name, label sets, and whether each stands for a histogram's buckets: some series at a time."""
    view = request.app[VIEW]
    selectors = [(one.name, one.matchers) for one in parameters.selectors()] or [(None, ())]
    start, end = parameters.time("start", -FOREVER), parameters.time("end", FOREVER)
    pace = Pace(request, view)
    pace.start()
    for name, matchers in selectors:
        for one in view.store.select(name, matchers):
            there = np.flatnonzero(_is_there(view, one, start, end)).tolist()
            for begin in range(0, len(there), LOOKED_AT):
                found = [one.labels[place] for place in there[begin : begin + LOOKED_AT]]
                yield one.name, found, one.kind == "histogram"
                await pace.rest()


def _is_there(view: View, one: SeriesSet, start: float, end: float) -> np.typing.NDArray[np.bool_]:
    if one.kind == "sampled":
        return np.array([len(times) > 0 for times, _ in view.store.samples(one, start, end, 1.0)], bool)
    return (view.store.born_at(one) <= min(end, view.store.frontier)) & (start <= view.now())
