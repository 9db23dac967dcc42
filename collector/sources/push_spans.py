"""A pushed OTLP export as smaller exports, each of which is read in one short step.

Takes the bytes of one export and knows nothing of it but where its spans begin and end: what they mean is the
decoder's. Source: opentelemetry-proto 1.x, where `resource_spans` (1) hold `resource` (1) and `scope_spans` (2), and
these hold `spans` (2).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from collector.model.errors import TooManyError
from collector.model.record import Batch
from collector.sources.push import PLACE

AT_ONCE = 200
"""Spans that are decoded in one step."""
MOST_SPANS = 50_000
"""Spans of one export."""
MOST_PARTS = 20_000
"""Resources and scopes of one export: each costs a little, also where nothing is in it."""
MOST_OBJECTS = 500_000
"""Opening braces of one JSON export; the longest that is taken, full of spans, has fewer."""
LARGEST_SPAN = 256 * 1024
"""Bytes of one span, or of a resource; a larger one is not read."""
FIRST_BYTES = 200
"""Of what is not read: what is kept for people."""

_RESOURCE_SPANS, _RESOURCE, _SCOPE_SPANS, _SPANS = 1, 1, 2, 2
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
"""Wire type to size in bytes."""
_LONGEST_VARINT = 10


class Export(msgspec.Struct):
    """One export, taken apart."""

    resources: list[tuple[bytes, list[bytes]]]
    """For each resource its own bytes, and its spans."""
    too_large: list[bytes]
    """How those begin that are too large to be read."""
    form: str
    """`json` or `protobuf`."""

    def steps(self) -> Iterator[list[bytes]]:
        """Exports that hold at most `AT_ONCE` spans together, time and again."""
        write = _WRITERS[self.form]
        together: list[bytes] = []
        room = AT_ONCE
        for resource, spans in self.resources:
            start = 0
            while start < len(spans):
                some = spans[start : start + room]
                together.append(write(resource, some))
                start, room = start + len(some), room - len(some)
                if not room:
                    yield together
                    together, room = [], AT_ONCE
        if together:
            yield together


def taken_apart(body: bytes, *, is_json: bool) -> Export | None:
    """The export's spans; None where it is none, for the decoder to say why. Raises TooManyError."""
    try:
        if is_json:
            return _of_json(body)
        return _of_protobuf(body)
    except (msgspec.DecodeError, RecursionError, ValueError, IndexError):
        return None


def batches(
    export: Export | None, body: bytes, content_type: str, *, source: str, received_at: float
) -> Iterator[Batch]:
    """What `taken_apart` gave of a body, as batches of one short step each; each is the head."""
    about = {"path": "/v1/traces", "headers": {"content-type": content_type}}
    for bodies in [[body]] if export is None else export.steps():
        yield Batch(
            source=source,
            place=PLACE,
            bodies=bodies,
            receipts=[1] * len(bodies),
            received_at=received_at,
            tap="otlp-http",
            about=[about] * len(bodies),
            is_head=True,
        )


class _Scope(msgspec.Struct, gc=False):
    spans: tuple[msgspec.Raw, ...] = ()


class _ResourceSpans(msgspec.Struct, rename="camel", gc=False):
    resource: msgspec.Raw = msgspec.Raw(b"null")
    scope_spans: tuple[_Scope, ...] = ()


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: tuple[_ResourceSpans, ...] = ()


_decode = msgspec.json.Decoder(_Export).decode


def _of_json(body: bytes) -> Export:
    """Raises TooManyError and what the decoder raises."""
    if body.count(b"{") > MOST_OBJECTS:
        raise TooManyError(f"more than {MOST_OBJECTS} objects in one export: send fewer spans at once")
    found = _Taking("json")
    for one in _decode(body).resource_spans:
        spans = found.resource(bytes(one.resource))
        for scope in one.scope_spans:
            found.count()
            for span in scope.spans:
                found.span(spans, bytes(span))
    return found.export


def _of_protobuf(body: bytes) -> Export:
    """Raises TooManyError, and ValueError or IndexError where it is no protobuf."""
    found = _Taking("protobuf")
    for field, start, end in _fields(body, 0, len(body), found):
        if field == _RESOURCE_SPANS:
            parts = list(_fields(body, start, end, found))
            resource = b"".join(body[first:last] for number, first, last in parts if number == _RESOURCE)
            spans = found.resource(resource)
            for number, first, last in parts:
                if number == _SCOPE_SPANS:
                    for inner, at, until in _fields(body, first, last, found):
                        if inner == _SPANS:
                            found.span(spans, body[at:until])
    return found.export


def _fields(body: bytes, at: int, end: int, found: _Taking) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each field with a length. Raises ValueError or IndexError where that cannot be."""
    while at < end:
        found.count()
        key, at = _varint(body, at)
        kind = key & 7
        if kind == _BYTES:
            size, at = _varint(body, at)
            if at + size > end:
                raise ValueError("a field reaches beyond its message")
            yield key >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            _, at = _varint(body, at)
        else:
            at += _FIXED.get(kind, end)
    if at != end:
        raise ValueError("a field reaches beyond its message")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for place in range(_LONGEST_VARINT):
        byte = body[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number without an end")


class _Taking:
    """An export while it is taken apart, within its bounds."""

    def __init__(self, form: str) -> None:
        self.export = Export([], [], form)
        self._parts = self._spans = 0

    def count(self) -> None:
        """One part more, whatever it is. Raises TooManyError."""
        self._parts += 1
        if self._parts > MOST_PARTS + self._spans:
            raise TooManyError(f"more than {MOST_PARTS} resources and scopes in one export: send fewer at once")

    def resource(self, resource: bytes) -> list[bytes]:
        """A resource; where its spans go. Raises TooManyError."""
        self.count()
        spans: list[bytes] = []
        if len(resource) > LARGEST_SPAN:
            self.export.too_large.append(resource[:FIRST_BYTES])
            resource = b"null" if self.export.form == "json" else b""
        self.export.resources.append((resource, spans))
        return spans

    def span(self, spans: list[bytes], span: bytes) -> None:
        """A span of that resource. Raises TooManyError."""
        self._spans += 1
        if self._spans > MOST_SPANS:
            raise TooManyError(f"more than {MOST_SPANS} spans in one export: send fewer at once")
        if len(span) > LARGEST_SPAN:
            self.export.too_large.append(span[:FIRST_BYTES])
        else:
            spans.append(span)


def _json(resource: bytes, spans: list[bytes]) -> bytes:
    return b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"spans":[%b]}]}]}' % (resource, b",".join(spans))


def _protobuf(resource: bytes, spans: list[bytes]) -> bytes:
    scope = b"".join(_field(_SPANS, span) for span in spans)
    return _field(_RESOURCE_SPANS, _field(_RESOURCE, resource) + _field(_SCOPE_SPANS, scope))


def _field(number: int, content: bytes) -> bytes:
    size, written = len(content), bytearray([number << 3 | _BYTES])
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written) + content


_WRITERS = {"json": _json, "protobuf": _protobuf}
