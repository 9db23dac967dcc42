"""The plan of a redrive: what can go back, and why the rest cannot."""

from __future__ import annotations

import pytest

from collector.deadletter.redrive import LARGEST_BATCH, Letter, batch_size, mark, plan
from collector.model.redrive import Mark

KAFKA = {
    "id": "k", "task_id": "t", "source": "s", "at": 1.0, "state": "open", "is_virtual": False, "place": "pay-dlt/0",
    "receipt": "7", "origin": {"topic": "pay", "partition": 2}, "queue": "pay",
}  # fmt: skip
STREAM = {
    **KAFKA,
    "id": "s",
    "place": "pay:dead",
    "receipt": "1795970270294-0",
    "origin": {"topic": "pay", "id": "1-0"},
}


def anything(_name):
    """All may be written to."""
    return True


def test_a_record_goes_back_to_where_its_headers_say():
    """Of Kafka to its partition, of a stream to its stream."""
    assert plan([KAFKA], "kafka", anything).letters == [
        Letter(id="k", task_id="t", source="s", place="pay-dlt/0", receipt="7", target="pay", partition=2)
    ]
    assert plan([STREAM], "redis-stream", anything).letters == [
        Letter(id="s", task_id="t", source="s", place="pay:dead", receipt="1795970270294-0", target="pay")
    ]


@pytest.mark.parametrize(
    ("kind", "change", "place", "target"),
    [
        ("rabbitmq", {"place": "pay.XQ", "origin": {"queue": "pay", "reason": "rejected"}}, "pay.XQ", "pay"),
        ("rabbitmq", {"place": "dlx/k", "origin": {"queue": "pay", "reason": "expired"}}, "pay.dead", "pay"),
        ("dramatiq", {"place": "my:ns:pay.XQ.msgs", "receipt": "r"}, "my:ns:pay.XQ.msgs", "pay"),
        ("rq", {"place": "rq:failed:pay:eu", "receipt": "j"}, "rq:failed:pay:eu", "pay:eu"),
    ],
)
def test_what_lies_in_a_queue_goes_back_to_the_queue_it_died_in(kind, change, place, target):
    """Each framework by the form of its place; of an exchange somebody has to say where its messages lie now."""
    lies_in = "pay.dead" if "/" in change["place"] else ""
    (letter,) = plan([{**KAFKA, "receipt": "", **change}], kind, anything, lies_in).letters
    assert (letter.place, letter.target) == (place, target)
    assert plan([{**KAFKA, **change}], "kafka", anything).letters == []
    if lies_in:
        assert list(plan([{**KAFKA, **change}], kind, anything).refused) == [
            "RabbitMQ: say with --from in which queue it lies: its record names only the exchange"
        ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state": "discarded"}, "it has been decided already"),
        ({"state": "expired"}, "its place should have deleted it by now"),
        ({"is_virtual": True}, "nothing keeps its message"),
        ({"place": ""}, "where it lies is not known"),
        (
            {"origin": {}},
            "it has no header such as kafka_dlt-original-topic; if it was pay, name that alone in --target",
        ),
        ({"origin": {}, "queue": "pay-dlt"}, "it has no header such as kafka_dlt-original-topic"),
        ({"origin": {"topic": "other"}}, "its origin other is not named in --target"),
        ({"place": "jobs.XQ"}, "Dramatiq: name the target"),
        ({"place": "rq:failed:work"}, "RQ: name the target"),
        ({"place": "bull:mail:failed"}, "BullMQ: retry"),
        ({"place": "dlx/orders.dead", "receipt": ""}, "RabbitMQ: name the target amqp://"),
        ({"place": "pay:dead", "receipt": "1-0"}, "it does not lie in a topic of Kafka"),
    ],
)
def test_what_cannot_go_back_has_a_reason(change, why):
    """With what to do by hand, where there is something."""
    found = plan([{**KAFKA, **change}], "kafka", lambda name: name == "pay")
    assert found.letters == []
    ((said, count),) = found.refused.items()
    assert (why in said, count) == (True, 1)


@pytest.mark.parametrize(
    ("kind", "record", "change", "target"),
    [
        ("redis-stream", STREAM, {}, "pay"),
        ("kafka", KAFKA, {}, "pay"),
        ("redis-stream", STREAM, {"queue": "other"}, None),
        ("redis-stream", STREAM, {"queue": "pay:dead"}, None),
        ("redis-stream", STREAM, {"queue": ""}, None),
        ("redis-stream", STREAM, {"origin": {"topic": "other"}}, "other"),
    ],
)
def test_of_an_untold_origin_the_target_decides(kind, record, change, target):
    """Where it names the one queue that the task was in; where that is not known, or the dead place, nothing does."""
    name = change.get("queue", "pay")
    found = plan([{**record, "origin": {}, **change}], kind, anything, named="pay" if name == "other" else name)
    assert [(one.target, one.partition) for one in found.letters] == ([(target, None)] if target else [])
    assert not plan([{**record, "origin": {}}], kind, anything).letters


def test_the_first_to_die_goes_first():
    """However they were listed."""
    records = [{**KAFKA, "id": str(n), "at": float(10 - n)} for n in range(3)]
    assert [one.id for one in plan(records, "kafka", anything).letters] == ["2", "1", "0"]


def test_a_message_that_keeps_coming_back_is_left():
    """The guard counts by the message's own mark, whoever has forgotten the earlier rounds."""
    letter = plan([KAFKA], "kafka", anything).letters[0]
    assert mark(letter, None, 2) == Mark("k", 1, "t")
    assert mark(letter, Mark("older", 1, "t"), 2) == Mark("k", 2, "t")
    assert "came back 2 times" in mark(letter, Mark("older", 2, "t"), 2)


@pytest.mark.parametrize(("rate", "size"), [(0.0, LARGEST_BATCH), (10.0, 10), (0.5, 1), (1e6, LARGEST_BATCH)])
def test_what_goes_together_is_a_second_of_the_rate(rate, size):
    """At least one, and never more than a batch."""
    assert batch_size(rate) == size
