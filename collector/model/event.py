"""The event: one lifecycle fact of one task (or of one worker).

The types are strict, so that a body that decodes as an `Event` is right as it stands and costs nothing more. Other
spellings (times as text, `traceparent`, empty strings) fail to decode; the formats read those the long way.
Unknown fields are ignored, so a sender may add its own.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal[
    "sent",
    "received",
    "started",
    "succeeded",
    "failed",
    "retried",
    "dead_lettered",
    "rejected",
    "requeued",
    "revoked",
    "expired",
    "heartbeat",
    "online",
    "offline",
]

TASK_KINDS: tuple[str, ...] = (
    "sent",
    "received",
    "started",
    "succeeded",
    "failed",
    "retried",
    "dead_lettered",
    "rejected",
    "requeued",
    "revoked",
    "expired",
)
WORKER_KINDS: tuple[str, ...] = ("heartbeat", "online", "offline")
KINDS: tuple[str, ...] = TASK_KINDS + WORKER_KINDS
KIND_CODE: dict[str, int] = {kind: code for code, kind in enumerate(KINDS)}
"""Kinds as small ints for the hot loop; task kinds come first, so `code < len(TASK_KINDS)` is "about a task"."""

EARLIEST = 946_684_800.0  # 2000-01-01: a clock before this was never set
LATEST = 4_102_444_800.0  # 2100-01-01: a time after this is milliseconds, or nonsense

LONGEST_TEXT = 1000  # characters of an id, name or message: kept by the million, and enough to see what is wrong

Time: TypeAlias = Annotated[float, msgspec.Meta(ge=EARLIEST, lt=LATEST)] | None
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]
TraceId: TypeAlias = Annotated[str, msgspec.Meta(min_length=32, max_length=32)]
SpanId: TypeAlias = Annotated[str, msgspec.Meta(min_length=16, max_length=16)]


class Event(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    """One fact, in its one regular spelling: times are Unix seconds, what is absent is None, never an empty string."""

    # Near the order in which workers write them: a decoder looks for a name behind the one before it.

    kind: Kind
    worker: Text | None = None
    task_id: Text
    """Required, because every task kind needs one; the formats give worker kinds without a task the id ""."""
    time: Time = None
    task: Text | None = None
    queue: Text | None = None
    root_id: Text | None = None
    parent_id: Text | None = None
    attempt: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    eta: Time = None
    expires: Time = None
    run_seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e9)] | None = None
    error: Text | None = None
    error_message: Text | None = None
    caller: Text | None = None
    trace_id: TraceId | None = None
    span_id: SpanId | None = None
    traceparent: None = None
    """A spelling of `trace_id` and `span_id`, never kept: the field is here so that a body that has one is noticed."""
    idempotency_key: Text | None = None
    labels: dict[str, str] | None = None


def unix_seconds(value: float | str) -> float:
    """A sender's time as Unix seconds.

    Raises ValueError for text that is not RFC 3339 with an offset, for NaN, and for years outside 2000 to 2099.
    """
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            msg = "a time without a UTC offset"
            raise ValueError(msg)
        value = moment.timestamp()
    if not EARLIEST <= value < LATEST:  # also False for NaN
        msg = "a time outside the years 2000 to 2099"
        raise ValueError(msg)
    return value


_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


def trace_context(traceparent: str) -> tuple[str, str] | None:
    """Trace id and span id of a W3C `traceparent` (version-trace-span-flags), or None where it is not one."""
    match = _TRACEPARENT.fullmatch(traceparent.strip().lower())
    return (match[1], match[2]) if match else None
