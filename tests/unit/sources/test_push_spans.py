"""A pushed export in short steps: every span once, whole, with its resource, and never too much at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.model.errors import TooManyError
from collector.sources import push_spans
from collector.sources.push_spans import AT_ONCE, LARGEST_SPAN, MOST_OBJECTS, MOST_PARTS, MOST_SPANS, taken_apart

Shape = list[tuple[str, list[int]]]


def protobuf(shape: Shape) -> bytes:
    """An export: resources, each with scopes of so many spans, named by their number."""
    export = ExportTraceServiceRequest()
    count = 0
    for name, scopes in shape:
        resource = export.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = name
        for spans in scopes:
            scope = resource.scope_spans.add()
            scope.scope.name = "s"
            for _ in range(spans):
                scope.spans.add(name=f"{count}", kind=4, start_time_unix_nano=count)
                count += 1
    return export.SerializeToString()


def as_json(shape: Shape) -> bytes:
    """The same as OTLP/JSON."""
    counted = iter(range(10**6))
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]},
                    "scopeSpans": [
                        {"scope": {"name": "s"}, "spans": [{"name": f"{next(counted)}"} for _ in range(spans)]}
                        for spans in scopes
                    ],
                }
                for name, scopes in shape
            ]
        }
    ).encode()


def read(body: bytes, *, is_json: bool) -> list[tuple[str, str]]:
    """Resource and name of each span of an export."""
    if is_json:
        return [
            (one["resource"]["attributes"][0]["value"]["stringValue"], span["name"])
            for one in json.loads(body)["resourceSpans"]
            for scope in one["scopeSpans"]
            for span in scope["spans"]
        ]
    return [
        (one.resource.attributes[0].value.string_value, span.name)
        for one in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in one.scope_spans
        for span in scope.spans
    ]


@pytest.mark.parametrize("is_json", [False, True], ids=["protobuf", "json"])
@given(st.lists(st.tuples(st.text("ab", max_size=200), st.lists(st.integers(0, 300), max_size=4)), max_size=4))
def test_every_span_is_in_one_step(is_json: bool, shape: Shape) -> None:  # noqa: FBT001 - a case
    """The steps together hold what the export held, in its order, and none of them too many."""
    body = (as_json if is_json else protobuf)(shape)
    export = taken_apart(body, is_json=is_json)
    assert export is not None
    steps = [[span for one in bodies for span in read(one, is_json=is_json)] for bodies in export.steps()]
    assert [span for step in steps for span in step] == read(body, is_json=is_json)
    assert all(len(step) == AT_ONCE for step in steps[:-1])
    assert all(0 < len(step) <= AT_ONCE for step in steps)
    assert export.too_large == []


@pytest.mark.parametrize(
    ("body", "is_json"),
    [
        (b"\x0a\x00" * (MOST_PARTS + 1), False),
        (b"\x0a\x02\x12\x00" * MOST_PARTS, False),
        (b"\x08\x01" * (MOST_PARTS + 1), False),
        (push_spans._field(1, push_spans._field(2, b"\x12\x00" * (MOST_SPANS + 1))), False),
        (b'{"resourceSpans":[' + b"{}," * MOST_PARTS + b"{}]}", True),
        (b'{"resourceSpans":[{"scopeSpans":[' + b"{}," * MOST_PARTS + b"{}]}]}", True),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * MOST_SPANS + b"{}]}]}]}", True),
        (b'{"a":' * (MOST_OBJECTS + 1), True),
    ],
)
def test_too_much_of_nothing_is_refused(body: bytes, is_json: bool) -> None:  # noqa: FBT001 - a case
    """An export of more parts than anybody sends is refused before it is read, however empty they are."""
    with pytest.raises(TooManyError, match="send fewer"):
        taken_apart(body, is_json=is_json)


@pytest.mark.parametrize("is_json", [False, True], ids=["protobuf", "json"])
def test_a_span_that_is_too_large_hides_no_other(is_json: bool) -> None:  # noqa: FBT001 - a case
    """It is given by its beginning, also a resource that is, and the others are read."""
    huge = "x" * LARGEST_SPAN
    export = ExportTraceServiceRequest()
    one = export.resource_spans.add()
    one.resource.attributes.add(key="service.name").value.string_value = huge
    scope = one.scope_spans.add()
    for name in ("a", huge, "b"):
        scope.spans.add(name=name)
    body = export.SerializeToString()
    if is_json:
        spans = [{"name": name} for name in ("a", huge, "b")]
        body = json.dumps({"resourceSpans": [{"resource": {"x": huge}, "scopeSpans": [{"spans": spans}]}]}).encode()
    taken = taken_apart(body, is_json=is_json)
    assert taken is not None
    assert [len(beginning) for beginning in taken.too_large] == [200, 200]
    ((left,),) = taken.steps()
    assert len(left) < 200
    assert b"a" in left
    assert b"b" in left


@given(st.binary(max_size=60), st.booleans())
def test_what_is_no_export_is_left_to_the_decoder(body: bytes, is_json: bool) -> None:  # noqa: FBT001 - a case
    """Any bytes at all are taken apart, or handed on whole: nothing else happens."""
    export = taken_apart(body, is_json=is_json)
    (one, *_) = [*push_spans.batches(export, body, "", source="s", received_at=1.0), None]
    assert export is not None or (one is not None and one.bodies == [body])
