"""What every format gives: the events of a batch, and what could not be read, with a reason from a closed list."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from collector.model.event import Event
from collector.model.personal import masked
from collector.model.record import Batch

Several = TypeVar("Several", bound=Collection[Any])

REASONS: tuple[str, ...] = (
    "empty",
    "too_large",
    "too_deep",
    "not_utf8",
    "not_json",
    "not_msgpack",
    "not_protobuf",
    "not_base64",
    "not_pickle",
    "not_an_object",
    "missing_kind",
    "unknown_kind",
    "missing_id",
    "bad_id",
    "bad_time",
    "bad_field",
    "foreign",
)
"""Why a body, or one element of a list in it, is not an event. Closed: these become values of a label."""

LONGEST_BODY = 8 * 1024 * 1024  # bytes: eight times a Kafka broker's default, and decoded within one stall
SMALL_BODY = 64 * 1024
"""Bytes of a body that is read within a few milliseconds, whatever is in it."""
MOST_CONTAINERS, MOST_COMMAS = 50_000, 200_000
"""Lists and objects, and what lies between values, in a body: each of them may have to be built."""
MOST_ELEMENTS = 10_000
"""Elements of a list of events in one body: so many are read within one short step. A push is split before."""
COMMAS_AN_ELEMENT = 10
"""At least so many are believed to be in an event, before anything of a list is read."""
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
    """A decoded batch; `len(events) + len(rejects) + ignored` is the number of events that were read."""

    events: list[Event]
    sources: list[int] | None
    """For each event the index of its body; None where they are one to one."""
    rejects: list[Reject]
    channels: list[str] | None = None
    """For each event the channel that told of it, where a source has several (worker events, result backend): the same
    fact over two of them counts once. None: all came over the same one."""
    ignored: int = 0
    """Things that were understood and say nothing of a task or a worker."""
    arguments: dict[str, str] | None = None
    """What tasks were called with, by their ids; only where that was asked for (`formats.arguments`)."""


Decode: TypeAlias = Callable[[Batch], Decoded]
"""A format: bytes in, events out. Raises nothing, whatever the bytes are."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One wire form. A format may remember what it read before: each source has a decoder of its own."""

    new: Callable[[], Decode]
    """Makes a decoder."""
    is_mine: Callable[[str, Mapping[str, Any], bytes], bool]
    """Whether a record of a capture is in this form, by how it was tapped (`tap`), `about` and its body."""
    facts: Mapping[str, str] = {}
    """Which facts the form gives: a row of `FACTS` → "yes", or what has to be switched on for it; absent: unknown."""


FACTS: tuple[str, ...] = (
    "sent",
    "received",
    "started",
    "succeeded",
    "failed",
    "retried",
    "dead_lettered",
    "rejected",
    "revoked",
    "redelivered",
    "task",
    "queue",
    "worker",
    "attempt",
    "error",
    "wait",
    "run",
    "trace",
    "heartbeat",
)
"""What may be known of a task, as the README's table of frameworks lists it."""


class MalformedError(Exception):
    """One element is not an event. Raised and met inside a format; outside it is a `Reject`."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


def check_length(body: bytes) -> None:
    """Raises MalformedError for what is longer, or made of more parts, than anything that is read."""
    if len(body) <= SMALL_BODY:
        return
    if len(body) > LONGEST_BODY:
        raise MalformedError("too_large", f"{len(body)} bytes, at most {LONGEST_BODY} are read")
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS or body.count(b",") > MOST_COMMAS:
        raise MalformedError("too_large", f"more than {MOST_CONTAINERS} lists or {MOST_COMMAS} commas")


def too_long() -> MalformedError:
    """Of a list that has more elements than are read."""
    return MalformedError("too_large", f"a list of more than {MOST_ELEMENTS} elements")


def few(elements: Several) -> Several:
    """The elements of a list, hash or set. Raises MalformedError where they are more than are read."""
    if len(elements) > MOST_ELEMENTS:
        raise too_long()
    return elements


def check_list(text: bytes) -> None:
    """Raises MalformedError for a JSON list that is too long, as far as a look tells that costs next to nothing."""
    if text[:1] == b"[" and text.count(b",") > COMMAS_AN_ELEMENT * MOST_ELEMENTS:
        raise too_long()


NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec's JSON decoder raises."""


def not_json(error: Exception, misfit: str = "bad_field") -> MalformedError:
    """Why it raised one of `NOT_JSON`; `misfit` is the reason where it is JSON, but of another shape."""
    text = str(error)
    if isinstance(error, RecursionError):
        return MalformedError("too_deep", "nested deeper than the decoder goes")
    if isinstance(error, msgspec.ValidationError):
        return MalformedError(misfit, text)
    is_text = not isinstance(error, UnicodeDecodeError) and "UTF-8" not in text
    return MalformedError("not_json" if is_text else "not_utf8", text)


def first_bytes(body: bytes) -> str:
    """The first bytes of a body for people: what is not UTF-8 replaced, masked."""
    return masked(body[:FIRST_BYTES].decode("utf-8", "replace"))


def beginning(batch: Batch, index: int) -> str:
    """How a record begins, for people: its body, or the fields of one that has no body."""
    fields = batch.fields[index] if batch.fields else None
    said = json.dumps(dict(fields), ensure_ascii=False) if fields else ""
    return first_bytes(batch.bodies[index] or said.encode("utf-8", "replace"))
