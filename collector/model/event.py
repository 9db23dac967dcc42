"""The event: one lifecycle fact of one task (or of one worker), as product.md section 4 defines it.

Takes the spellings that senders use, gives one struct. Unknown fields are ignored, so a sender may add its own.
"""

from __future__ import annotations

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

Time: TypeAlias = float | str | None


class Event(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    """One fact. `time`, `eta` and `expires` may be RFC 3339 text as decoded; `unix_seconds` reads them."""

    kind: Kind
    task_id: str = ""
    time: Time = None
    task: str | None = None
    queue: str | None = None
    worker: str | None = None
    caller: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_id: str | None = None
    root_id: str | None = None
    traceparent: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    error: str | None = None
    error_message: str | None = None
    run_seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    eta: Time = None
    expires: Time = None
    idempotency_key: str | None = None
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


def trace_context(traceparent: str) -> tuple[str, str] | None:
    """Trace id and span id of a W3C `traceparent` (version-trace-span-flags), or None where it is not one."""
    parts = traceparent.split("-")
    if len(parts) < 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    try:
        if not int(parts[1], 16) or not int(parts[2], 16):
            return None
    except ValueError:
        return None
    return parts[1].lower(), parts[2].lower()
