"""Captures: what was received is written down untouched, and is the same batch again when it is read."""

from __future__ import annotations

import json

import msgspec
import pytest

from collector.formats import capture, native
from collector.model.event import Event
from collector.model.record import Batch

T0 = 1_750_000_000.0
SENT = b'{"kind":"sent","task_id":"1"}'
PACKED = msgspec.msgpack.encode({"kind": "sent", "task_id": "1"})


def received(body: bytes, fields: dict[str, str] | None = None, **others: object) -> Batch:
    """One record."""
    return Batch(
        **{
            "source": "s",
            "place": "p",
            "bodies": [body],
            "receipts": [1],
            "received_at": T0,
            "fields": None if fields is None else [fields],
            **others,
        }
    )


def again(batch: Batch, tap: str) -> Batch:
    """Written, and read from the file."""
    tapped = msgspec.structs.replace(batch, tap=tap)
    (replayed,) = capture.unpack(received(b"", bodies=[line.strip() for line in capture.lines(tapped)]))
    return replayed


def meaning(batch: Batch) -> tuple[list[Event], list[str]]:
    """The events of a batch, and why the others are none."""
    decoded = native.decode(batch)
    return decoded.events, [reject.reason for reject in decoded.rejects]


BODIES = [
    pytest.param(SENT, None, id="json"),
    pytest.param(PACKED, None, id="msgpack"),
    pytest.param(b"\xff\x00", None, id="binary"),
    pytest.param(b"", None, id="empty"),
    pytest.param(b"not json", None, id="text"),
    pytest.param('{"kind":"sent","task_id":"\u00e9\u2028"}'.encode(), None, id="utf-8"),
    pytest.param(b"[" + SENT + b"]", None, id="list"),
    pytest.param(SENT, {"task": "a", "queue": "q"}, id="fields beside"),
    pytest.param(PACKED, {"task": "a", "body": "other"}, id="binary with fields beside"),
    pytest.param(b"", {"kind": "sent", "task_id": "1"}, id="fields alone"),
    pytest.param(SENT, {"data": "7", "task": "a"}, id="a field named like a body"),
]


@pytest.mark.parametrize(("body", "fields"), BODIES)
@pytest.mark.parametrize(
    ("tap", "others"),
    [
        ("native", {"place": "/var/events.ndjson"}),
        ("kafka", {"place": "a/b/3", "receipts": [41], "times": [T0 - 7.125]}),
        ("redis-stream", {"place": "stream", "receipts": ["1749999990500-3"], "times": [T0 - 9.5]}),
    ],
)
def test_a_capture_means_what_was_received(
    body: bytes, fields: dict[str, str] | None, tap: str, others: dict[str, object]
) -> None:
    """Whatever was delivered, its capture gives the same events, the same rejects and the same times."""
    batch = received(body, fields, **others)
    replayed = again(batch, tap)
    assert meaning(replayed) == meaning(batch)
    assert replayed.times == (batch.times or [T0])


def test_places_are_written_as_each_tap_names_them() -> None:
    """Kafka records have topic, partition and offset, stream entries their stream and id, all else a channel."""
    (kafka,) = capture.lines(received(SENT, {"h": "1"}, place="a/b/3", receipts=[41], times=[T0], tap="kafka"))
    assert json.loads(kafka) == {
        "t": T0,
        "source": "kafka",
        "topic": "a/b",
        "partition": 3,
        "offset": 41,
        "timestamp": 1_750_000_000_000,
        "headers": [["h", "1"]],
        "body": SENT.decode(),
    }
    (entry,) = capture.lines(received(SENT, place="st", receipts=["5-0"], tap="redis-stream"))
    assert json.loads(entry) == {
        "t": T0,
        "source": "redis-stream",
        "stream": "st",
        "id": "5-0",
        "fields": {"data": SENT.decode()},
    }
    (pushed,) = capture.lines(received(SENT))
    assert json.loads(pushed) == {"t": T0, "source": "native", "channel": "p", "body": SENT.decode()}


def test_a_kafka_record_without_a_time_was_received_when_it_was() -> None:
    """Without a broker's time a record lies where it was received."""
    assert again(received(SENT, place="t/0"), "kafka").times == [T0]


@pytest.mark.parametrize("entry_id", ["5-0", "x-1", "", "12345"])
def test_made_up_entry_ids_are_no_times(entry_id: str) -> None:
    """An entry whose id somebody made up lies where it was received."""
    line = json.dumps({"t": T0, "source": "redis-stream", "stream": "s", "id": entry_id, "fields": {"data": "x"}})
    assert capture.unpack(received(line.encode()))[0].times == [T0]


def test_captures_of_others_are_read() -> None:
    """Bodies may stand as JSON values, headers as pairs or as a map, and unknown fields do no harm."""
    line = {"t": T0, "source": "amqp", "exchange": "celeryev", "headers": [["task", "a"]], "body": {"kind": "sent"}}
    (batch,) = capture.unpack(received(json.dumps(line).encode()))
    assert (json.loads(batch.bodies[0]), batch.fields) == ({"kind": "sent"}, [{"task": "a"}])
    line = {"t": T0, "source": "otlp-http", "headers": {"a": "b"}, "path": "/v1/traces"}
    (batch,) = capture.unpack(received(json.dumps(line).encode()))
    assert (batch.bodies, batch.fields) == ([b""], [{"a": "b"}])
    line = {"t": T0, "source": "amqp", "headers": 7, "body": "x"}
    assert capture.unpack(received(json.dumps(line).encode()))[0].fields is None


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"t":1}', b'{"t":1,"source":"kafka","body_b64":"*"}', b"\xff"])
def test_a_broken_line_stays_what_it_is(line: bytes) -> None:
    """A line that is no captured record is handed on as it is, at the time of the one before it, to be counted."""
    good = b'{"t":%d,"source":"native","body":"{}"}' % T0
    (batch,) = capture.unpack(received(b"", bodies=[good, line], receipts=[1, 2], received_at=1.0))
    assert batch.bodies == [b"{}", line]
    assert batch.times == [T0, T0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"t":1,"source":"kafka"}', True),
        (b'{"t":1,"source":"kafka","kind":"sent","task_id":"1"}', False),
        (SENT, False),
        (b"", False),
        (b"[" * 5000, False),
    ],
)
def test_captures_are_told_apart_by_their_first_line(line: bytes, *, expected: bool) -> None:
    """A capture's line has `t` and `source` and no `kind`; everything else is a file of events."""
    assert capture.is_capture(line) is expected
