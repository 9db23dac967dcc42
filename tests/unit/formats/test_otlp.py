"""OTLP spans: old and new names of the conventions, both encodings, links, and what is no export."""

from __future__ import annotations

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.formats import FORMATS
from collector.model.record import Batch

T0 = 1_790_000_000
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def json_export(attributes, *, kind=5, events=(), status=None, links=(), resource=None, start=T0, end=T0 + 2):
    """One span as OTLP/JSON."""
    span = {
        "name": "a",
        "kind": kind,
        "traceId": TRACE,
        "spanId": SPAN,
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str(end * 10**9),
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        "events": list(events),
        "links": list(links),
        "status": status or {},
    }
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in (resource or {}).items()]
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": pairs}, "scopeSpans": [{"spans": [span]}]}]}
    ).encode()


def decoded(*bodies, tap="otlp-json", content_type="application/json"):
    """What the format makes of these exports."""
    about = [{"path": "/v1/traces", "headers": {"content-type": content_type}} for _ in bodies]
    batch = Batch(
        source="s", place="p", bodies=list(bodies), receipts=[*range(len(bodies))], received_at=T0, tap=tap, about=about
    )
    return FORMATS["otlp"].new()(batch)


def text(value):
    """A string attribute."""
    return {"stringValue": value}


NEW = {"messaging.operation.type": text("process"), "messaging.destination.name": text("orders")}
OLD = {"messaging.operation": text("process"), "messaging.destination": text("orders")}


@pytest.mark.parametrize(("names", "id_name"), [(NEW, "messaging.message.id"), (OLD, "messaging.message_id")])
def test_old_and_new_names_mean_the_same(names, id_name):
    """A processing span is a start and a success, by whichever convention it was named."""
    started, succeeded = decoded(json_export({**names, id_name: text("7")}, resource={"host.name": "w"})).events
    assert (started.kind, started.task_id, started.queue, started.worker, started.time) == (
        "started", "7", "orders", "w", T0
    )  # fmt: skip
    assert (succeeded.kind, succeeded.time, succeeded.run_seconds, succeeded.trace_id) == (
        "succeeded", T0 + 2, 2.0, TRACE
    )  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "kind", "kinds"),
    [
        ("send", 4, ["sent"]),
        ("publish", 4, ["sent"]),
        ("create", 4, ["sent"]),
        ("receive", 5, ["received"]),
        ("process", 5, ["started", "succeeded"]),
        ("settle", 5, []),
    ],
)
def test_every_operation_tells_its_facts(operation, kind, kinds):
    """Sending, receiving and processing are told apart; settling is nothing of its own."""
    out = decoded(
        json_export({"messaging.operation.type": text(operation), "messaging.message.id": text("7")}, kind=kind)
    )
    assert [event.kind for event in out.events] == kinds
    assert out.ignored == (not kinds)


def test_a_failed_span_gives_class_and_message():
    """The exception's class without its module, and what it said."""
    exception = {
        "name": "exception",
        "attributes": [
            {"key": "exception.type", "value": text("billing.errors.CardDeclined")},
            {"key": "exception.message", "value": text("no funds")},
        ],
    }
    attributes = {**NEW, "messaging.message.id": text("7")}
    _, failed = decoded(json_export(attributes, events=[exception], status={"code": 2})).events
    assert (failed.kind, failed.error, failed.error_message) == ("failed", "CardDeclined", "no funds")


def test_a_link_joins_the_producers_trace():
    """A consumer that links instead of continuing belongs to the trace of the message."""
    other = "11111111111111111111111111111111"
    attributes = {**NEW, "messaging.message.id": text("7")}
    started, _ = decoded(json_export(attributes, links=[{"traceId": other, "spanId": SPAN}])).events
    assert started.trace_id == other


def test_a_kafka_message_is_known_by_its_place():
    """Without a message id: topic, partition and offset, also where the offset is a number."""
    attributes = {
        **NEW,
        "messaging.destination.partition.id": text("3"),
        "messaging.kafka.offset": {"intValue": "41"},
    }
    assert {event.task_id for event in decoded(json_export(attributes)).events} == {"orders-3-41"}


def test_other_spans_are_nothing_to_us():
    """Server spans and messages without an id are read and ignored."""
    out = decoded(json_export({**NEW, "messaging.message.id": text("7")}, kind=2), json_export(NEW))
    assert (out.events, out.rejects, out.ignored) == ([], [], 1)


def test_protobuf_gives_what_json_gives():
    """The same span in both encodings is the same two events."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(
        name="a",
        kind=5,
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        start_time_unix_nano=T0 * 10**9,
        end_time_unix_nano=(T0 + 2) * 10**9,
    )  # fmt: skip
    for key, value in {**NEW, "messaging.message.id": text("7")}.items():
        span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value["stringValue"])))
    binary = decoded(request.SerializeToString(), tap="otlp-http", content_type="application/x-protobuf")
    assert binary.events == decoded(json_export({**NEW, "messaging.message.id": text("7")})).events


@pytest.mark.parametrize(
    ("body", "tap", "content_type", "reason"),
    [
        (b"\xff\xff\xff", "otlp-http", "application/x-protobuf", "not_protobuf"),
        (b"{", "otlp-json", "", "not_json"),
        (b"[" * 20_000, "otlp-json", "", "bad_field"),
        (b'{"resourceSpans": 3}', "otlp-json", "", "bad_field"),
        (b'{"resourceSpans": [{"resource": {"attributes": [{"key": "a", "value": {"intValue": "x"}}]}}]}',
         "otlp-json", "", "not_json"),
    ],
)  # fmt: skip
def test_what_is_no_export_is_rejected_with_its_reason(body, tap, content_type, reason):
    """It is counted by reason, and a good export beside it is read."""
    out = decoded(body, tap=tap, content_type=content_type)
    assert [reject.reason for reject in out.rejects] == [reason]


def test_a_span_of_nonsense_costs_only_itself():
    """An impossible time is that span's fault."""
    out = decoded(json_export({**NEW, "messaging.message.id": text("7")}, start=1, end=2))
    assert [reject.reason for reject in out.rejects] == ["bad_time"]
