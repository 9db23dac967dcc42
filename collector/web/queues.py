"""`/api/queues`: what waits where, and how far consumer groups are; what is not known is null, or not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from collector.web import answers
from collector.web.view import VIEW, View

PER_STEP = 500
"""Series that are gone through in one step of the loop."""
_QUEUE = {
    "queue_oldest_age_seconds": "oldest_age_seconds",
    "queue_consumers": "consumers",
    "queue_source:queue_length:growth": "growth",
    "queue_source:queue_length:drain_seconds": "drain_seconds",
}
"""Metric → what it is called beside a queue's length; the last two are what the shipped rules record."""
_GROUP = {"consumer_lag": "lag", "consumer_lag_seconds": "lag_seconds"}
_PLACE = ("group", "topic", "partition", "source")


async def queues(request: web.Request) -> web.Response:
    """Queues, the longest first, and groups, those furthest behind first."""
    view = request.app[VIEW]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    async for labels, value in _present(view, "queue_length"):
        key = labels["source"], labels["queue"]
        one = found.get(key)
        if one is None:
            one = found[key] = {"queue": key[1], "source": key[0], "length": {}, **dict.fromkeys(_QUEUE.values())}
        one["length"][labels["state"]] = value
    for metric, name in _QUEUE.items():
        async for labels, value in _present(view, metric):
            if one := found.get((labels.get("source", ""), labels.get("queue", ""))):
                one[name] = value
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for metric, name in _GROUP.items():
        async for labels, value in _present(view, metric):
            place = tuple(labels.get(label, "") for label in _PLACE)
            one = groups.setdefault(place, {**dict(zip(_PLACE, place, strict=True)), **dict.fromkeys(_GROUP.values())})
            one[name] = value
    longest = sorted(found.values(), key=lambda one: (-one["length"].get("ready", 0), one["queue"], one["source"]))
    furthest = sorted(groups.values(), key=lambda one: (-(one["lag"] or 0), *(one[label] for label in _PLACE)))
    return answers.json({"queues": longest, "groups": furthest})


async def _present(view: View, metric: str) -> AsyncIterator[tuple[dict[str, str], float]]:
    """Labels and value of each series that has one now."""
    store = view.store
    at = store.frontier
    for series in store.select(metric, ()):
        labels = series.labels
        values, there = store.value(series, at)
        for number, (own, value) in enumerate(zip(labels, values.tolist(), strict=True), 1):
            if there is None or there[number - 1]:
                yield dict(own), value
            if number % PER_STEP == 0:
                await asyncio.sleep(0)
