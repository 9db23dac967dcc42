"""What the consumer groups of a Redis stream are doing: XINFO GROUPS and CONSUMERS, XPENDING; nothing is changed.

Gives one value per stream, in the form that captures have: `{"len", "groups": [{"info", "consumers", "pending"}]}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.model.errors import SourceError
from collector.sources.redis_wire import RedisConnection

MOST_GROUPS = 20
MOST_PENDING = 1000
"""Pending entries per group that are looked at, oldest first: those that hang."""


_GONE = "NOGROUP"


async def groups(connection: RedisConnection, stream: bytes) -> dict[str, Any] | None:
    """The groups of a stream; None where it has none, or is not there. Raises SourceError."""
    try:
        infos = await connection.ask("XINFO", "GROUPS", stream)
    except SourceError as error:
        if "no such key" in str(error):
            return None
        raise
    if not infos:
        return None
    length = await connection.ask("XLEN", stream)
    found = [await _group(connection, stream, _pairs(info)) for info in infos[:MOST_GROUPS]]
    return {"len": length, "groups": [group for group in found if group is not None]}


async def _group(connection: RedisConnection, stream: bytes, info: dict[str, Any]) -> dict[str, Any] | None:
    """One group; None where somebody has deleted it just now."""
    name = info["name"]
    listed = await connection.ask("XINFO", "CONSUMERS", stream, name, tolerated=_GONE)
    rows: Any = []
    if info["pending"]:
        rows = await connection.ask("XPENDING", stream, name, "-", "+", str(MOST_PENDING), tolerated=_GONE)
    if listed is None or rows is None:
        return None
    return {"info": info, "consumers": list(map(_pairs, listed)), "pending": list(map(_pending, rows))}


def _pending(row: Sequence[Any]) -> dict[str, Any]:
    entry_id, consumer, idle, count = row
    return {
        "message_id": entry_id.decode(),
        "consumer": consumer.decode("utf-8", "replace"),
        "time_since_delivered": idle,
        "times_delivered": count,
    }


def _pairs(flat: Sequence[Any]) -> dict[str, Any]:
    """A flat reply as a map; texts decoded."""
    return {
        name.decode(): value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in zip(flat[::2], flat[1::2], strict=True)
    }
