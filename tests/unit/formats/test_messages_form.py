"""Messages of hand-written consumers: hops that are joined by the id alone."""

from __future__ import annotations

import json

import pytest

from collector.formats import FORMATS
from collector.model.record import Batch
from collector.model.redrive import HEADER, Mark

T0 = 1_790_000_000


def entry(stream: str, number: int, **fields: str) -> Batch:
    """One entry of a stream."""
    entry_id = f"{(T0 + number) * 1000}-0"
    about = {"stream": stream, "id": entry_id, "fields": fields}
    return Batch(source="s", place=stream, bodies=[b""], receipts=[entry_id], received_at=T0 + number,
                 times=[T0 + number], tap="redis-stream", about=[about])  # fmt: skip


def poll(number: int, *pending: int, last: int) -> Batch:
    """What is asked about the stream's group: up to which entry it was given, and which wait for an ack."""
    listed = [
        {"message_id": f"{(T0 + one) * 1000}-0", "consumer": "c", "time_since_delivered": 10, "times_delivered": 1}
        for one in pending
    ]
    info = {"name": "g", "last-delivered-id": f"{(T0 + last) * 1000}-0", "pending": len(listed)}
    body = {"len": 3, "groups": [{"info": info, "consumers": [{"name": "c", "idle": 5}], "pending": listed}]}
    about = {"key": "orders", "type": "stream"}
    return Batch(source="s", place="orders", bodies=[json.dumps(body).encode()], receipts=["x"],
                 received_at=T0 + number, tap="redis-key", about=[about])  # fmt: skip


def test_a_dead_letter_that_has_only_its_id_in_common_is_no_success():
    """The entry that was given up and then acknowledged is dead-lettered, and was started once; the other succeeded."""
    decode = FORMATS["messages"].new()
    told = []
    for batch in (
        entry("orders", 1, id="7", type="bill"),
        entry("orders", 2, id="8", type="bill"),
        poll(3, 1, 2, last=2),
        entry("orders.dlq", 4, id="7", type="bill"),
        poll(5, last=2),
        poll(6, last=2),
    ):
        told += [(event.kind, event.task_id, event.queue) for event in decode(batch).events]
    assert [one for one in told if one[1] == "7"] == [
        ("sent", "7", "orders"), ("started", "7", None), ("dead_lettered", "7", "orders")
    ]  # fmt: skip
    assert [kind for kind, task_id, _ in told if task_id == "8"] == ["sent", "started", "succeeded"]


def test_what_was_never_seen_pending_has_no_times_of_its_own():
    """A poll only tells that it was given and acknowledged, not when: waits and runs stay unknown."""
    decode = FORMATS["messages"].new()
    told = []
    for batch in (entry("orders", 1, id="7", type="bill"), poll(9, last=1), poll(10, last=1)):
        told += [(event.kind, event.time) for event in decode(batch).events]
    assert told == [("sent", T0 + 1), ("started", None), ("succeeded", None)]


def test_an_entry_id_is_one_of_its_own_stream():
    """A dead entry that happens to have the id of another message's entry ends nothing of that one."""
    decode = FORMATS["messages"].new()
    told = []
    dead = entry("orders.dlq", 2, id="7", type="bill", original_id=f"{(T0 + 1) * 1000}-0", original_stream="orders")
    also = entry("orders.dlq", 1, id="6", type="bill", original_id=f"{T0 * 1000}-0", original_stream="orders")
    sent = [entry("orders", number, id=str(6 + number), type="bill") for number in (0, 1, 2)]
    for batch in (*sent, poll(3, 0, 1, 2, last=2), also, dead, poll(5, last=2), poll(6, last=2)):
        told += [(event.kind, event.task_id) for event in decode(batch).events]
    assert [task_id for kind, task_id in told if kind == "succeeded"] == ["8"]


@pytest.mark.parametrize(
    ("place", "queue"),
    [
        ("orders.DLT", "orders"),
        ("dlq.orders", "orders"),
        ("dlq", "dlq"),
        ("orders-retry-1", "orders"),
        ("dead-orders", "orders"),
        ("dead-letter-orders", "orders"),
        ("Dead_Letters.orders", "orders"),
        ("orders-dead-letters", "orders"),
        ("dead_letters", "dead_letters"),
        ("dead-letter", "dead-letter"),
        ("dead.letters", "dead.letters"),
        ("dead-letter-", "dead-letter-"),
    ],
)
def test_where_nothing_else_tells_the_name_of_its_place_says_whose_dead_letter_it_is(place, queue):
    """It is work of the topic that it came from; sent again, it is that of no other."""
    decode = FORMATS["messages"].new()
    assert [event.queue for event in decode(entry(place, 1, id="7", type="bill")).events] == [queue]
    again = entry("orders", 2, id="7", type="bill", **{HEADER: str(Mark("0" * 16, 1, "7"))})
    assert [(event.kind, event.queue) for event in decode(again).events] == [("sent", "orders")]
    main = FORMATS["messages"].new(dead_letter=("*.dead",))
    assert [event.queue for event in main(entry("orders.DLT", 1, id="7", type="bill")).events] == ["orders.DLT"]


COPY = {"type": "bill", "original_id": "1-0", "original_stream": "orders"}


@pytest.mark.parametrize(
    ("stream", "fields", "kind"),
    [
        ("orders.failed", {**COPY, "error": "KeyError: x"}, "dead_lettered"),
        ("graveyard", {**COPY, "deliveries": "3"}, "dead_lettered"),
        ("orders-retry", {**COPY, "error": "KeyError: x"}, "retried"),
        ("orders", {**COPY, "error": "KeyError: x"}, "sent"),
        ("copies", COPY, "sent"),
        ("bills", {"type": "bill", "original_id": "b-7", "original_stream": "orders", "error": "none"}, "sent"),
        ("bills", {"type": "bill", "original_id": "1-0", "error": "none"}, "sent"),
    ],
)
def test_a_copy_of_an_entry_that_says_why_it_left_its_stream_is_dead(stream, fields, kind):
    """Whatever the stream is called in which it lies; with globs those alone say what it is."""
    assert [event.kind for event in FORMATS["messages"].new()(entry(stream, 5, **fields)).events] == [kind]
    (event,) = FORMATS["messages"].new(dead_letter=("*.dead",))(entry(stream, 5, **fields)).events
    assert event.kind == "sent"


@pytest.mark.parametrize(
    ("topic", "before", "kind"),
    [
        ("orders-parked", "orders-retry-1", "dead_lettered"),
        ("orders-retry-1", "orders-retry-0", "retried"),
        ("orders.again", "orders", "retried"),
        ("orders", "orders-retry-1", "retried"),
    ],
)
def test_what_retry_topics_passed_on_to_one_that_is_none_is_dead(topic, before, kind):
    """Its headers are those of a retry, and it is named neither so nor as dead letters are, nor as their main topic."""
    headers = {"kafka_original-topic": before, "kafka_original-partition": "0", "kafka_original-offset": "3"}
    batch = Batch(source="s", place=f"{topic}/0", bodies=[b'{"id": "7"}'], receipts=[5], received_at=T0, times=[T0],
                  fields=[headers], tap="kafka")  # fmt: skip
    assert [event.kind for event in FORMATS["messages"].new()(batch).events] == [kind]


def test_a_redriven_entry_is_its_task_sent_again():
    """By its mark, though it has no id of its own and the first message was never seen."""
    mark = str(Mark("0" * 16, 1, "the task"))
    batch = entry("orders", 5, type="bill", original_id="1-0", original_stream="orders", **{HEADER: mark})
    (event,) = FORMATS["messages"].new()(batch).events
    assert (event.kind, event.task_id, event.queue) == ("sent", "the task", "orders")


def test_a_redriven_record_is_sent_though_the_headers_of_its_death_are_on_it():
    """In its main topic; where it dies again it is dead once more, and still the same task."""
    dead = {
        "kafka_dlt-original-topic": "orders",
        "kafka_dlt-original-partition": "0",
        "kafka_dlt-original-offset": "3",
        HEADER: str(Mark("0" * 16, 1, "orders-0-3")),
    }
    decode = FORMATS["messages"].new()
    told = []
    for place, offset in (("orders/0", 9), ("orders-dlt/0", 5)):
        batch = Batch(source="s", place=place, bodies=[b"{}"], receipts=[offset], received_at=T0, times=[T0],
                      fields=[dead], tap="kafka")  # fmt: skip
        told += [(event.kind, event.task_id) for event in decode(batch).events]
    assert told == [("sent", "orders-0-3"), ("dead_lettered", "orders-0-3")]


@pytest.mark.parametrize("topic", ["orders", "orders-retry-1"])
def test_a_dead_letter_that_is_read_before_its_message_is_of_the_queue_that_its_header_names(topic):
    """Its own topic is no queue: nobody consumes it."""
    headers = {
        "kafka_dlt-original-topic": topic,
        "kafka_dlt-original-partition": "0",
        "kafka_dlt-original-offset": "3",
    }
    batch = Batch(source="s", place="orders-dlt/0", bodies=[b"{}"], receipts=[5], received_at=T0, times=[T0],
                  fields=[headers], tap="kafka")  # fmt: skip
    (event,) = FORMATS["messages"].new()(batch).events
    assert (event.kind, event.task_id, event.queue) == ("dead_lettered", f"{topic}-0-3", "orders")
