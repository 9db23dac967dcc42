"""JSON answers, encoded by msgspec; `Infinity` and `NaN` are text, as in Prometheus' API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from collector.gotext.floats import format_float
from collector.model.alert import Alert

T = TypeVar("T")
UNKEPT = "Tasktrail-Unkept"
"""The header that says why what was done is not on the disk, of answers that have no room for it."""
_encode = msgspec.json.encode


def json(body: Any, status: int = 200) -> web.Response:
    """A JSON response."""
    return web.Response(body=_encode(body), status=status, content_type="application/json")


def kept(answer: web.Response, unkept: str) -> web.Response:
    """An answer to what was done, with a header where it is not kept (`unkept`, for people; "": it is)."""
    if unkept:
        answer.headers[UNKEPT] = unkept.encode("ascii", "replace").decode().replace("\n", " ")
    return answer


async def walked(steps: Iterator[T | None]) -> T:
    """What the last step gives; everybody else has a turn after each."""
    for step in steps:
        if step is not None:
            return step
        await asyncio.sleep(0)
    msg = "a walk ends with what it found"
    raise AssertionError(msg)


def not_found(what: str) -> web.Response:
    """404 with a sentence."""
    return json({"error": what}, status=404)


def text(value: Any) -> str:
    """JSON to put into other JSON."""
    return _encode(value).decode()


def number(value: float) -> str:
    """A sample value as Prometheus spells it: without an exponent from 1e-6 to 1e21."""
    shortest = repr(value)
    if shortest.endswith(".0"):
        return shortest[:-2]
    if "e" not in shortest and "n" not in shortest:
        return shortest
    return format_float(value, "f" if 1e-6 <= abs(value) < 1e21 else "e")


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
        "value": format_float(one.value, "e"),
        "blind": one.blind,
        "fingerprint": one.fingerprint,
        "evidence": one.evidence,
    }
