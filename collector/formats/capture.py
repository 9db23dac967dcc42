"""Captures: one JSON object a line, what a tap received and when (product.md section 7).

Takes lines and gives the records that were in them, or takes records and gives lines. A file of plain native events
is told apart by its first line: a capture line has `t` and `source`, an event has `kind`. Written by `record`, read by
`replay`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.model.record import Batch


class Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One captured record. Of the places only those that its `source` has are set."""

    t: float
    source: str
    channel: str | None = None
    stream: str | None = None
    id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    """Kafka's, milliseconds."""
    fields: dict[str, str] | None = None
    headers: Any = None
    body: Any = None
    body_b64: str | None = None


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode

BODY_FIELDS = ("data", "event", "payload", "body")
"""Where a stream entry may hold its event as one JSON or msgpack body (product.md section 3)."""


def is_capture(first_line: bytes) -> bool:
    """Whether a file that begins with this line is a capture."""
    try:
        _decode(first_line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def unpack(batch: Batch) -> Batch:
    """The records that a batch of capture lines holds, placed at their receive times.

    A line that is not one stays as it is: the format behind counts it as malformed.
    """
    bodies: list[bytes] = []
    times: list[float] = []
    fields: list[Mapping[str, str] | None] = []
    last = batch.received_at
    for body in batch.bodies:
        try:
            line = _decode(body)
            content, entry = _content(line)
            last = line.t if line.timestamp is None else line.timestamp / 1000
        except (msgspec.MsgspecError, ValueError, RecursionError):
            content, entry = body, None
        bodies.append(content)
        fields.append(entry)
        times.append(last)
    return msgspec.structs.replace(
        batch, bodies=bodies, times=times, fields=fields if any(entry is not None for entry in fields) else None
    )


def _content(line: Line) -> tuple[bytes, Mapping[str, str] | None]:
    if line.body_b64 is not None:
        try:
            return base64.b64decode(line.body_b64, validate=True), _headers(line)
        except binascii.Error as error:
            raise ValueError(str(error)) from error
    if line.body is not None:
        return line.body.encode() if isinstance(line.body, str) else _encode(line.body), _headers(line)
    entry = line.fields
    if entry is None:
        return b"", _headers(line)
    for name in BODY_FIELDS if len(entry) > 1 else entry:
        if name in entry:
            return entry[name].encode(), None
    return b"", entry


def _headers(line: Line) -> Mapping[str, str] | None:
    if isinstance(line.headers, list):
        return {str(name): str(value) for name, value in line.headers}
    return line.headers if isinstance(line.headers, dict) else None


def lines(batch: Batch, tap: str) -> list[bytes]:
    """A batch as capture lines. `tap`: how it was received, `kafka`, `redis-stream`, or `native` (pushes and files)."""
    return [_encode(_line(batch, tap, index)) + b"\n" for index in range(len(batch.bodies))]


def _line(batch: Batch, tap: str, index: int) -> Line:
    line = Line(t=batch.received_at, source=tap)
    body, fields = batch.bodies[index], batch.fields[index] if batch.fields else None
    if tap == "kafka":
        line.topic, _, partition = batch.place.rpartition("/")
        line.partition, line.offset = int(partition), int(batch.receipts[index])
        line.timestamp = None if batch.times is None else round(batch.times[index] * 1000)
        line.headers = None if fields is None else list(fields.items())
    elif tap == "redis-stream":
        line.stream, line.id = batch.place, str(batch.receipts[index])
        if fields is not None:
            line.fields = dict(fields)
            return line
    else:
        line.channel = batch.place
        line.headers = None if fields is None else dict(fields)
    try:
        line.body = body.decode()
    except UnicodeDecodeError:
        line.body_b64 = base64.b64encode(body).decode()
    return line
