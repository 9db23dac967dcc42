"""Captures: one JSON object a line, what a tap received and when.

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

from collector.model.event import EARLIEST
from collector.model.record import BODY_FIELDS, Batch


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
    kind: Any = None
    """Never in a capture: what tells an event that has a `t` and a `source` of its own."""


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode

OPENINGS = '{["'
"""What the body of an entry in BODY_FIELDS begins with; msgpack is not text, so it is in `body_b64`."""


def is_capture(first_line: bytes) -> bool:
    """Whether a file that begins with this line is a capture."""
    try:
        return _decode(first_line).kind is None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


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
            last = _time(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            content, entry = body, None
        bodies.append(content)
        fields.append(entry)
        times.append(last)
    return msgspec.structs.replace(
        batch, bodies=bodies, times=times, fields=fields if any(entry is not None for entry in fields) else None
    )


def _time(line: Line) -> float:
    """The broker's time where the place has one, else when it was received; Unix seconds."""
    if line.timestamp is not None:
        return line.timestamp / 1000
    millis = line.id.partition("-")[0] if line.id else ""
    return int(millis) / 1000 if millis.isascii() and millis.isdigit() and int(millis) >= EARLIEST * 1000 else line.t


def _content(line: Line) -> tuple[bytes, Mapping[str, str] | None]:
    entry = line.fields
    if line.body_b64 is not None:
        try:
            return base64.b64decode(line.body_b64, validate=True), entry or _headers(line)
        except binascii.Error as error:
            raise ValueError(str(error)) from error
    if line.body is not None:
        return line.body.encode() if isinstance(line.body, str) else _encode(line.body), entry or _headers(line)
    if entry is None:
        return b"", _headers(line)
    if len(entry) == 1:
        return next(iter(entry.values())).encode(), None
    for name, text in entry.items():
        if name in BODY_FIELDS and text and text[0] in OPENINGS:
            return text.encode(), {other: value for other, value in entry.items() if other != name}
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
        line.fields = None if fields is None else dict(fields)
    else:
        line.channel = batch.place
        line.headers = None if fields is None else dict(fields)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        line.body_b64 = base64.b64encode(body).decode()
        return line
    if tap != "redis-stream":
        line.body = text
    elif body or not fields:  # an entry is all fields; what the one with the event was called was not handed over
        others = line.fields or {}
        line.fields = {next(name for name in BODY_FIELDS if name not in others): text, **others}
    return line
