"""Captures: one JSON object a line, what a tap received and when.

Takes lines and gives the records that were in them, or takes records and gives lines. A file of plain native events
is told apart by its first line: a capture line has `t` and `source`, an event has `kind`. Written by `record`, read by
`replay`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from collector.formats.spelling import readable
from collector.model.event import EARLIEST
from collector.model.record import BODY_FIELDS, Batch, Receipt


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
    headers_b64: list[tuple[str, str]] | None = None
    """Kafka's, whose values are bytes: written where one is no text."""
    body: Any = None
    body_b64: str | None = None
    kind: Any = None
    """Never in a capture: what tells an event that has a `t` and a `source` of its own."""


NATIVE = "native"
_decode = msgspec.json.Decoder(Line).decode
_decode_about = msgspec.json.Decoder(dict[str, Any]).decode
_ELSEWHERE = frozenset(["t", "source", "body", "body_b64"])
"""What of a line is no part of `about`: the batch has it."""
_encode = msgspec.json.Encoder().encode

OPENINGS = '{["'
"""What the body of an entry in BODY_FIELDS begins with; msgpack is not text, so it is in `body_b64`."""


def is_capture(first_line: bytes) -> bool:
    """Whether a file that begins with this line is a capture."""
    try:
        return _decode(first_line).kind is None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def unpack(batch: Batch) -> list[Batch]:
    """The records that a batch of capture lines holds, placed at their receive times: a batch per run of one tap.

    A line that is not one stays as it is: the format behind counts it as malformed.
    """
    records = list(_records(batch))
    runs = [(tap, list(run)) for tap, run in groupby(records, key=lambda record: record.tap)]
    return [_batch(batch, tap, run) for tap, run in runs] or [batch]


class _Record(msgspec.Struct):
    """One line, taken apart."""

    tap: str
    body: bytes
    fields: Mapping[str, str] | None
    at: float
    about: Mapping[str, Any]
    receipt: Receipt


def _records(batch: Batch) -> Iterator[_Record]:
    last, tap = batch.received_at, NATIVE
    for body, receipt in zip(batch.bodies, batch.receipts, strict=True):
        try:
            line = _decode(body)
            about = _decode_about(body)
            for name in _ELSEWHERE.intersection(about):
                del about[name]
            content, fields = _content(line)
            last, tap = _time(line), line.source
            yield _Record(tap, content, fields, last, about, receipt)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            yield _Record(tap, body, None, last, {}, receipt)


def _batch(batch: Batch, tap: str, records: list[_Record]) -> Batch:
    fields = [record.fields for record in records]
    return Batch(
        source=batch.source,
        place=batch.place,
        bodies=[record.body for record in records],
        receipts=[record.receipt for record in records],
        received_at=batch.received_at,
        times=[record.at for record in records],
        fields=fields if any(one is not None for one in fields) else None,
        tap=tap,
        about=[record.about for record in records],
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
    if line.headers_b64 is not None:
        values = [(name, base64.b64decode(value, validate=True)) for name, value in line.headers_b64]
        return {name: value.decode("utf-8", "surrogateescape") for name, value in values}
    if isinstance(line.headers, list):
        return {str(name): str(value) for name, value in line.headers}
    if isinstance(line.headers, dict):
        return {name: value for name, value in line.headers.items() if isinstance(value, str)}
    return None


def lines(batch: Batch) -> list[bytes]:
    """A batch as capture lines."""
    if batch.about is not None:
        rows = zip(batch.about, batch.bodies, strict=True)
        return [_encode({"t": batch.received_at, "source": batch.tap, **about, **_written(body)}) + b"\n"
                for about, body in rows]  # fmt: skip
    return [_encode(_line(batch, batch.tap, index)) + b"\n" for index in range(len(batch.bodies))]


def _written(body: bytes) -> dict[str, str]:
    """A body as a line holds it; nothing where `about` holds the content (a stream entry's fields)."""
    try:
        return {"body": body.decode()} if body else {}
    except UnicodeDecodeError:
        return {"body_b64": base64.b64encode(body).decode()}


def _line(batch: Batch, tap: str, index: int) -> Line:
    line = Line(t=batch.received_at, source=tap)
    body, fields = batch.bodies[index], batch.fields[index] if batch.fields else None
    if tap == "kafka":
        line.topic, _, partition = batch.place.rpartition("/")
        line.partition, line.offset = int(partition), int(batch.receipts[index])
        line.timestamp = None if batch.times is None else round(batch.times[index] * 1000)
        if fields is not None:
            line.headers = [(name, readable(value)) for name, value in fields.items()]
            raw = [(name, value.encode("utf-8", "surrogateescape")) for name, value in fields.items()]
            if any(value != fields[name] for name, value in line.headers):
                line.headers_b64 = [(name, base64.b64encode(value).decode()) for name, value in raw]
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
