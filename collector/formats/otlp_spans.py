"""OTLP trace exports as plain spans: protobuf, OTLP/JSON, and protobuf's own JSON mapping.

Takes the body of one export, gives its messaging spans. Ids come out as lower-case hex whatever they came as: raw bytes
in protobuf, hex in OTLP/JSON, base64 in protobuf's mapping. Source: opentelemetry-proto 1.x, `trace/v1/trace.proto`,
and the OTLP specification's section on JSON.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

PRODUCER, CONSUMER = 4, 5
_KINDS = {"SPAN_KIND_PRODUCER": PRODUCER, "SPAN_KIND_CONSUMER": CONSUMER}
ERROR = 2
_STATUS = {"STATUS_CODE_ERROR": ERROR}

Attributes: TypeAlias = Mapping[str, str | int | float | bool]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A producer's or consumer's span."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    started: float
    """Unix seconds, as `ended`."""
    ended: float
    attributes: Attributes
    resource: Attributes
    status: int
    message: str
    """What the status says."""
    exception: Attributes
    """The attributes of the last span event `exception`."""
    linked_trace: str
    """The trace id of the first link, "" without one."""


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None


class _Pair(msgspec.Struct):
    key: str = ""
    value: _Value | None = None


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str = ""


class _Event(msgspec.Struct):
    name: str = ""
    attributes: list[_Pair] = []


class _Status(msgspec.Struct):
    code: int | str = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel"):
    name: str = ""
    kind: int | str = 0
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Pair] = []
    events: list[_Event] = []
    links: list[_Link] = []
    status: _Status | None = None


class _Scope(msgspec.Struct):
    spans: list[_Span] = []


class _Resource(msgspec.Struct):
    attributes: list[_Pair] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_Scope] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


_decode = msgspec.json.Decoder(_Export).decode


def from_json(body: bytes) -> Iterator[Span]:
    """The messaging spans of a JSON export. Raises ValueError (also msgspec's) or RecursionError."""
    for of_resource in _decode(body).resource_spans:
        resource = _pairs(of_resource.resource.attributes) if of_resource.resource else {}
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                kind = _KINDS.get(span.kind, 0) if isinstance(span.kind, str) else span.kind
                if kind in (PRODUCER, CONSUMER):
                    yield _from_json(span, kind, resource)


def _from_json(span: _Span, kind: int, resource: Attributes) -> Span:
    status = span.status or _Status()
    return Span(
        name=span.name,
        kind=kind,
        trace_id=_hex(span.trace_id, 16),
        span_id=_hex(span.span_id, 8),
        parent_id=_hex(span.parent_span_id, 8),
        started=int(span.start_time_unix_nano) / 1e9,
        ended=int(span.end_time_unix_nano) / 1e9,
        attributes=_pairs(span.attributes),
        resource=resource,
        status=_STATUS.get(status.code, 0) if isinstance(status.code, str) else status.code,
        message=status.message,
        exception=next((_pairs(e.attributes) for e in reversed(span.events) if e.name == "exception"), {}),
        linked_trace=_hex(span.links[0].trace_id, 16) if span.links else "",
    )


def _pairs(pairs: list[_Pair]) -> Attributes:
    """Attributes by key. Lists and maps are nothing that an event could hold."""
    found: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        value = pair.value
        if value is None:
            continue
        if value.string_value is not None:
            found[pair.key] = value.string_value
        elif value.int_value is not None:
            found[pair.key] = int(value.int_value)
        elif value.bool_value is not None:
            found[pair.key] = value.bool_value
        elif value.double_value is not None:
            found[pair.key] = float(value.double_value)
    return found


def _hex(text: str, size: int) -> str:
    """An id of `size` bytes as hex; "" for what is neither hex nor base64 of that many."""
    if len(text) == 2 * size:
        return text.lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == size else ""


def from_protobuf(body: bytes) -> Iterator[Span]:
    """The messaging spans of a protobuf export. Raises ValueError."""
    # Imported when the first such body comes: 25 ms and 6 MB that most daemons never need.
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415

    try:
        export = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    for of_resource in export.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                if span.kind in (PRODUCER, CONSUMER):
                    yield _from_protobuf(span, resource)


def _from_protobuf(span: Any, resource: Attributes) -> Span:
    return Span(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        started=span.start_time_unix_nano / 1e9,
        ended=span.end_time_unix_nano / 1e9,
        attributes=_values(span.attributes),
        resource=resource,
        status=span.status.code,
        message=span.status.message,
        exception=next((_values(e.attributes) for e in reversed(span.events) if e.name == "exception"), {}),
        linked_trace=span.links[0].trace_id.hex() if span.links else "",
    )


def _values(pairs: Any) -> Attributes:
    found: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        if kind in ("string_value", "int_value", "bool_value", "double_value"):
            found[pair.key] = getattr(pair.value, kind)
    return found
