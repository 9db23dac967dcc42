"""What a dead-letter place tells: from whatever a tap hands over."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collector.model.event import Event
from collector.model.record import Batch
from collector.shell import dead_places

T0 = 1_790_000_000.0
TEXT = st.text(max_size=30) | st.sampled_from(
    [
        "\udcff\udc80",
        "jobs.XQ",
        "dramatiq:jobs.XQ.msgs",
        "rq:results:a",
        "bull:q:events",
        "amq.rabbitmq.trace",
        "1-0",
        "",
    ]
)
NAMES = TEXT | st.sampled_from(
    ["topic", "partition", "offset", "headers", "properties", "queue", "exchange", "routing_key", "key", "stream", "id",
     "fields", "x-death", "x-first-death-queue", "original_id", "kind", "kafka_dlt-original-topic",
     "kafka_dlt-original-partition", "kafka_dlt-original-offset", "kafka_dlt-exception-stacktrace"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


@given(
    st.sampled_from(["kafka", "redis-stream", "redis-key", "amqp", "amqp-get", "native"]),
    st.none() | st.dictionaries(NAMES, VALUES, max_size=6),
    st.none() | st.dictionaries(NAMES, TEXT, max_size=6),
    st.binary(max_size=60) | st.sampled_from([b'{"a": "x"}', b'{"a": {"b64": ""}}', b"[[", b"\xff", b""]),
    TEXT,
    st.sampled_from(["dead_lettered", "failed"]),
)
def test_whatever_is_handed_over_gives_a_record_that_can_be_written(tap, about, fields, body, place, kind):
    """Nothing of it ends the process, and all of it is text."""
    batch = Batch(source="s", place=place, bodies=[body], receipts=["1"], received_at=T0, tap=tap,
                  about=None if about is None else [about], fields=None if fields is None else [fields])  # fmt: skip
    found = dead_places.found(batch, 0, Event(kind=kind, task_id="a"), T0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=dead_places.Found) == found
    assert all(len(text) <= 300 for text in (found.place, found.receipt, found.preview, found.error, found.frame))


def test_each_of_many_messages_of_one_hash_is_found():
    """By its own id, not by one that stands in its options."""
    message = '{{"options":{{"pipe_target":{{"message_id":"m{0}0"}}}},"message_id":"m{0}","message_timestamp":1}}'
    body = msgspec.json.encode({f"f{number}": message.format(number) for number in range(200)})
    about = {"key": "dramatiq:jobs.XQ.msgs", "type": "hash"}
    batch = Batch(source="s", place="p", bodies=[body], receipts=["1"], received_at=T0, tap="redis-key", about=[about])
    for number in range(200):
        found = dead_places.found(batch, 0, Event(kind="dead_lettered", task_id=f"m{number}"), T0)
        assert (found.receipt, found.preview) == (f"f{number}", message.format(number))


def test_a_failed_job_lies_where_its_own_id_says():
    """Though its failure was held back, and is told while the results of another job are read."""
    about = [{"stream": "rq:results:other", "fields": {"type": "2"}}]
    read = Batch(source="s", place="rq:results:other", bodies=[b""], receipts=["1-0"], received_at=1.0,
                 tap="redis-stream", about=about)  # fmt: skip
    for task_id in ("mine", "other"):
        told = dead_places.found(read, 0, Event(kind="failed", task_id=task_id, queue="work"), 1.0)
        assert (told.place, told.receipt) == ("rq:failed:work", task_id)
