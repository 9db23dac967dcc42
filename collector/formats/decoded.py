"""What every format gives: the events of a batch, and what could not be read, with a reason from a closed list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from collector.model.event import Event
from collector.model.record import Batch
from collector.model.secret import mask

REASONS: tuple[str, ...] = (
    "empty",
    "too_large",
    "too_deep",
    "not_utf8",
    "not_json",
    "not_msgpack",
    "not_an_object",
    "missing_kind",
    "unknown_kind",
    "missing_id",
    "bad_id",
    "bad_time",
    "bad_field",
)
"""Why a body, or one element of a list in it, is not an event. Closed: these become values of a label."""

LONGEST_BODY = 16 * 1024 * 1024  # bytes: sixteen times a Kafka broker's default, and decoded within one stall
FIRST_BYTES = 200  # how much of a body is kept for people


class Reject(msgspec.Struct, frozen=True):
    """One thing that could not be read as an event."""

    index: int
    """Which of the batch's bodies it was in."""
    reason: str
    """One of `REASONS`."""
    detail: str
    """For people. It never quotes the body, so there is nothing in it to mask."""


class Decoded(msgspec.Struct):
    """A decoded batch; `len(events) + len(rejects)` is the number of events that were read."""

    events: list[Event]
    sources: list[int] | None
    """For each event the index of its body; None where they are one to one."""
    rejects: list[Reject]


Decode: TypeAlias = Callable[[Batch], Decoded]
"""A format: bytes in, events out. Raises nothing, whatever the bytes are."""


class MalformedError(Exception):
    """One element is not an event. Raised and met inside a format; outside it is a `Reject`."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


def first_bytes(body: bytes) -> str:
    """The first bytes of a body for people: what is not UTF-8 replaced, secrets masked."""
    return mask(body[:FIRST_BYTES].decode("utf-8", "replace"))
