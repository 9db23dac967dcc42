"""JSON answers, encoded by msgspec; `Infinity` and `NaN` are text, as in Prometheus' API."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from collector.model.alert import Alert

_encode = msgspec.json.encode


def json(body: Any, status: int = 200) -> web.Response:
    """A JSON response."""
    return web.Response(body=_encode(body), status=status, content_type="application/json")


def success(data: Any) -> web.Response:
    """Prometheus' envelope of a good answer."""
    return json({"status": "success", "data": data})


def not_found(what: str) -> web.Response:
    """404 with a sentence."""
    return json({"error": what}, status=404)


def number(value: float) -> str:
    """A sample value as Prometheus spells it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value) if value != int(value) or abs(value) >= 1e15 else str(int(value))


def rfc3339(at: float) -> str:
    """Unix seconds as Prometheus' API spells an instant."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def alert(one: Alert) -> dict[str, Any]:
    """An alert as /api/v1/alerts lists it, with our `blind` and evidence besides Prometheus' fields."""
    return {
        "labels": dict(one.labels),
        "annotations": dict(one.annotations),
        "state": one.state,
        "activeAt": rfc3339(one.active_at),
        "value": number(one.value),
        "blind": one.blind,
        "fingerprint": one.fingerprint,
        "evidence": one.evidence,
    }
