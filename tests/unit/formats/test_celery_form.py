"""Celery's form: what each event says, what is malformed, and what is remembered."""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import msgspec
import pytest

from collector.formats import FORMATS, REASONS, celery
from collector.formats.celery_errors import error_of
from collector.formats.celery_memory import Recent
from collector.formats.decoded import FACTS, LONGEST_BODY
from collector.model.record import Batch

T = 1_790_000_000.0
TRACE = "00-a3be57c188efc1bd8470ad1148e4b1fc-e9dd99473d0ad699-03"


def batch(*bodies: Any, tap: str = "redis-pubsub", **about: Any) -> Batch:
    """Records of one place."""
    about = about or {"channel": "/0.celeryev/task.multi"}
    encoded = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
    return Batch(
        source="s",
        place="p",
        bodies=encoded,
        receipts=list(range(len(bodies))),
        received_at=T,
        tap=tap,
        about=[about] * len(bodies),
    )


def envelope(told: Any, tag: str | None = None, content_type: str = "application/json") -> dict[str, Any]:
    """What kombu publishes on Redis."""
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    properties: dict[str, Any] = {"body_encoding": "base64"}
    if tag is not None:
        properties["delivery_tag"] = tag
    return {"body": base64.b64encode(body).decode(), "content-type": content_type, "properties": properties}


def event(kind: str, uuid: str = "a", **fields: Any) -> dict[str, Any]:
    """A worker event."""
    return {"type": kind, "uuid": uuid, "hostname": "w1@node-a", "timestamp": T, "utcoffset": 0, "clock": 1, **fields}


def decode(*batches: Batch) -> Any:
    """What one decoder makes of batches, the last one's result."""
    read = FORMATS["celery"].new()
    return [read(each) for each in batches][-1]


GOOD = envelope([event("task-started")])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"\x80\x04\x95", "not_json"),
        (b"[" * 5000, "not_an_object"),
        ([], "not_an_object"),
        ("text", "not_an_object"),
        ({"hello": "a foreign channel"}, "not_an_object"),
        ({**GOOD, "body": "%%%"}, "not_base64"),
        ({**GOOD, "body": GOOD["body"][:-3]}, "not_base64"),
        (envelope([[event("task-started")]]), "not_an_object"),
        (envelope(17), "not_an_object"),
        (envelope({"uuid": "a"}), "not_an_object"),
        (envelope(b"{"), "not_json"),
        (envelope(b"[" * 20_000), "too_deep"),
        (envelope(event("task-started", uuid=None)), "missing_id"),
        (envelope(event("task-started", uuid="a" * 1001)), "bad_id"),
        (envelope(event("task-started", uuid=7)), "bad_id"),
        (envelope(event("task-started", timestamp=1.79e12)), "bad_time"),
        (envelope(event("task-started", timestamp="yesterday")), "bad_time"),
        (envelope({"type": "worker-heartbeat", "timestamp": T}), "bad_field"),
        (envelope(pickle.dumps(event("task-started")), content_type="application/x-python-serialize"), "not_json"),
        (envelope(b"\xc1", content_type="application/x-msgpack"), "not_msgpack"),
        (b" " * (LONGEST_BODY + 1), "too_large"),
    ],
)
def test_what_is_malformed_is_counted_by_its_reason(body: Any, reason: str) -> None:
    """A record that is no event is rejected for its own reason, and the events around it count."""
    out = decode(batch(GOOD, body, GOOD))
    assert [(reject.index, reject.reason) for reject in out.rejects] == [(1, reason)]
    assert reason in REASONS
    assert [one.kind for one in out.events] == ["started", "started"]


@pytest.mark.parametrize(("freq", "every"), [(2.0, "2"), (30, "30"), (0, None), (-1, None), ("2", None), (1e9, None)])
def test_a_worker_says_how_often_its_heartbeats_come(freq: Any, every: str | None) -> None:
    """What can be no interval is not taken for one."""
    told = {"type": "worker-heartbeat", "hostname": "w1", "timestamp": T, "active": 1, "processed": 20, "freq": freq}
    (found,) = decode(batch(envelope(told))).events
    assert found.labels == {"active": "1", "begun": "20"} | ({"every": every} if every else {})


def test_good_events_of_a_bad_list_go_on() -> None:
    """One element that is none costs no other."""
    out = decode(batch(envelope([event("task-started", "a"), [], 7, event("task-started", "b")])))
    assert [one.task_id for one in out.events] == ["a", "b"]
    assert [reject.reason for reject in out.rejects] == ["not_an_object"] * 2


def test_a_record_that_was_tapped_elsewhere_is_foreign() -> None:
    """What cannot be Celery's by its tap is rejected as foreign, not guessed at."""
    assert [reject.reason for reject in decode(batch(GOOD, tap="kafka")).rejects] == ["foreign"]


def test_hostile_pickles_are_not_looked_into() -> None:
    """A result that is pickled is rejected and nothing of it is run."""

    class Bomb:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit",)

    out = decode(batch(pickle.dumps(Bomb()), channel="celery-task-meta-a"))
    assert [reject.reason for reject in out.rejects] == ["not_json"]


def test_packed_events_are_read() -> None:
    """`event_serializer` may be msgpack."""
    packed = msgspec.msgpack.encode([event("task-started")])
    assert [one.kind for one in decode(batch(envelope(packed, content_type="application/x-msgpack"))).events] == [
        "started"
    ]


def test_huge_fields_are_cut() -> None:
    """Names longer than an event may hold are cut; the event counts."""
    out = decode(batch(envelope(event("task-received", name="n" * 5000, hostname="h" * 5000, retries=10**9))))
    assert [(len(one.task), len(one.worker), one.attempt) for one in out.events] == [(1000, 1000, None)]


def test_a_publication_that_came_twice_counts_once() -> None:
    """Sentinel's compatibility mode publishes each event on two channels: the delivery tag tells."""
    twice = envelope([event("task-started"), event("task-succeeded")], tag="t1")
    published = batch(twice, twice, envelope(event("task-started", "b"), tag="t2"))
    published.about = [{"channel": f"/{number}.celeryev/task.multi"} for number in ("0", "{db}", "0")]
    out = decode(published)
    assert ([one.task_id for one in out.events], out.ignored) == (["a", "a", "b"], 2)


def test_a_batch_that_failed_leaves_nothing_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where our own code fails, records are read again one by one: what the batch had told is not told with them."""
    read = FORMATS["celery"].new()
    sent = batch(*(envelope(event("task-started", f"t{number}")) for number in range(3)))
    with monkeypatch.context() as patch:
        patch.setattr(celery, "completed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            read(sent)
    assert [one.task_id for one in read(sent).events] == ["t0", "t1", "t2"]


def test_what_is_remembered_is_bounded() -> None:
    """At most twice the limit is kept, and the newest always is."""
    recent: Recent[int] = Recent(10)
    for number in range(1000):
        recent.put(str(number), number)
        assert recent.get(str(number)) == number
        assert sum(recent.get(str(other)) is not None for other in range(number + 1)) <= 20


def test_republications_are_no_new_work() -> None:
    """A retry and a replacement are published by the framework: nobody sent them, and they are their own parent."""
    retry = event("task-sent", name="t", queue="q", retries=1, parent_id="a", eta="2026-09-21T14:13:30+00:00")
    replaced = event("task-sent", name="other", queue="q", retries=0, parent_id="a")
    received = event("task-received", name="t", retries=1, parent_id="a", root_id="a")
    out = decode(batch(envelope([retry, received, event("task-retried", exception="OSError(1)"), replaced])))
    assert [(one.kind, one.attempt, one.parent_id, one.root_id) for one in out.events] == [
        ("received", 2, None, None),
        ("retried", None, None, None),
    ]
    assert (out.events[1].eta, out.ignored) == (1790000010.0, 2)


@pytest.mark.case("K19.1")
def test_a_zone_is_no_drift() -> None:
    """A worker's time is Unix seconds, whatever it says of its offset from UTC."""
    told = [envelope([event("task-started", f"t{zone}", utcoffset=zone)]) for zone in (-11, 0, 5.5, 7)]
    told.append(envelope([event("worker-heartbeat", utcoffset=7, active=0)]))
    assert [one.time for one in decode(batch(*told)).events] == [T] * 5


def test_users_own_events_are_ignored() -> None:
    """Progress and custom events are no lifecycle facts, whatever is in them."""
    told = [event("task-progress", step=1), event("deploy", None), event("billing-made", {"no": "id"}, queue=[1])]
    out = decode(batch(*map(envelope, told)))
    assert (out.events, out.rejects, out.ignored) == ([], [], 3)


@pytest.mark.parametrize("channel", ["celery-taskset-meta-6e9c.s", "acme:celery-taskset-meta-6e9c.s"])
def test_the_size_of_a_chord_is_ignored(channel: str) -> None:
    """Celery up to 5.4 publishes it, a bare number: Celery's own, and no lifecycle fact."""
    assert FORMATS["celery"].is_mine("redis-pubsub", {"channel": channel}, b"2")
    out = decode(batch(b"2", channel=channel))
    assert (out.events, out.rejects, out.ignored) == ([], [], 1)


def test_a_worker_given_up_at_shutdown_says_nothing() -> None:
    """`task-cancelled` is requeued or lost, and both look the same."""
    out = decode(batch(envelope(event("task-cancelled"))))
    assert (out.events, out.ignored) == ([], 1)


FRAMES = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    raise X\n    ^^^^^\n'


@pytest.mark.parametrize(
    ("shown", "traceback", "error", "message"),
    [
        ("KeyError('missing')", None, "KeyError", "missing"),
        ("SoftTimeLimitExceeded()", None, "SoftTimeLimitExceeded", None),
        ("requests.exceptions.HTTPError('no')", None, "HTTPError", "no"),
        ("Retry(Retry(...), ConnectionError('away\\nsecond'), 1)", None, "ConnectionError", None),
        ("ExceptionWithTraceback()", FRAMES + "billiard.exceptions.TimeLimitExceeded: TimeLimitExceeded(1,)\n",
         "TimeLimitExceeded", "TimeLimitExceeded(1,)"),
        ("no class here", FRAMES + "app.errors.Broken: first\nsecond: line\n\nThird: x\n",
         "Broken", "first\nsecond: line\n\nThird: x"),
        ("None", FRAMES + "celery.exceptions.Retry: Retry in 1s\n", "Retry", "Retry in 1s"),
        ("None", FRAMES + "KeyboardInterrupt\n", "KeyboardInterrupt", None),
        ("None", None, None, None),
        (None, "  not a traceback", None, None),
        (17, 4, None, None),
        ("plain words", None, None, "plain words"),
    ],
)  # fmt: skip
def test_the_error_class(shown: Any, traceback: Any, error: str | None, message: str | None) -> None:
    """The class is the repr's; the traceback's where the repr names none, and never a line of the message."""
    got = error_of(shown, traceback)
    assert got[0] == error
    if message is not None:
        assert got[1] == message


REJECT = FRAMES + "celery.exceptions.Reject: ('not today', "


@pytest.mark.parametrize(
    ("shown", "traceback", "kind"),
    [
        ("reject requeue=False: not today", REJECT + "False)\n", "rejected"),
        ("reject requeue=True: not today", None, "requeued"),
        ("ExceptionWithTraceback()", REJECT + "False)\n", "rejected"),
        ("ExceptionWithTraceback()", REJECT + "True)\n", "requeued"),
        ("ExceptionWithTraceback()", FRAMES + "app.errors.Reject: ('not today', False)\n", "failed"),
        ("ExceptionWithTraceback()", FRAMES + "ValueError: no\ncelery.exceptions.Reject: ('no', False)\n", "failed"),
        ("ValueError('no')", REJECT + "False)\n", "failed"),
    ],
)
def test_a_reject_is_no_failure(shown: str, traceback: str | None, kind: str) -> None:
    """`task-failed` of a `Reject` is its rejection, also from pools without child processes: their repr hides it."""
    (told,) = decode(batch(envelope(event("task-failed", exception=shown, traceback=traceback)))).events
    assert told.kind == kind


def queued(task_id: str, tag: str, **headers: Any) -> str:
    """A message as it lies in a list."""
    return json.dumps(
        {
            "body": "W10=",
            "headers": {"task": "t", "id": task_id, "retries": 0, "root_id": task_id, "parent_id": None, **headers},
            "properties": {"delivery_tag": tag, "delivery_info": {"exchange": "", "routing_key": "orders"}},
        }
    )


def test_a_waiting_message_was_sent_once() -> None:
    """A message in a list is a `sent` on the queue's channel, once however often the list is looked at."""
    listed = batch([queued("a", "1", traceparent=TRACE, group="g")], tap="redis-key", key="orders", type="list")
    read = FORMATS["celery"].new()
    first, second = read(listed), read(listed)
    (sent,) = first.events
    assert (sent.kind, sent.queue, sent.trace_id, sent.labels) == ("sent", "orders", TRACE[3:35], {"group": "g"})
    assert (first.channels, sent.time, second.events, second.ignored) == (["queue"], None, [], 1)


def test_what_a_worker_holds_is_no_fact_but_is_remembered() -> None:
    """An unacknowledged message, a retry's and a restored one count nothing, and tell the next event their queue."""
    held = {"1": json.dumps([json.loads(queued("a", "1", traceparent=TRACE)), "", "orders"])}
    again = [queued("b", "2", retries=1), queued("c", "3", redelivered=True), queued("d", "4", parent_id="d")]
    read = FORMATS["celery"].new()
    assert read(batch(held, tap="redis-key", key="unacked", type="hash")).events == []
    assert read(batch(again, tap="redis-key", key="orders", type="list")).events == []
    told = read(batch(envelope([event("task-started", task_id) for task_id in "abcd"]))).events
    assert [(one.queue, one.trace_id) for one in told] == [("orders", TRACE[3:35]), *[("orders", None)] * 3]


def test_a_message_whose_sending_was_told_is_not_sent_again() -> None:
    """What `task-sent` said of a message, its place in the queue need not say."""
    read = FORMATS["celery"].new()
    read(batch(envelope(event("task-sent", name="t", queue="orders", retries=0))))
    assert read(batch([queued("a", "1")], tap="redis-key", key="orders", type="list")).events == []


def test_broken_messages_cost_no_others() -> None:
    """What is no message in a list or among the unacknowledged is counted, the rest is read."""
    listed = batch(
        ["{", "[]", queued("a", "1"), queued("", "2"), {"b64": "AA=="}], tap="redis-key", key="q", type="list"
    )
    out = decode(listed)
    assert [one.task_id for one in out.events] == ["a"]
    assert [reject.reason for reject in out.rejects] == ["not_an_object", "not_an_object", "missing_id"]
    held = batch({"1": "[1]", "2": "x"}, tap="redis-key", key="unacked", type="hash")
    assert [reject.reason for reject in decode(held).rejects] == ["not_an_object"] * 2


def result(status: str, **fields: Any) -> dict[str, Any]:
    """A stored result."""
    return {"status": status, "task_id": "a", "date_done": "2026-09-21T14:13:20+00:00", **fields}


RETRIED = {"exc_type": "OSError", "exc_message": ["away"], "exc_module": "builtins"}
REVOKED = {"exc_type": "TaskRevokedError", "exc_message": ["revoked"], "exc_module": "celery.exceptions"}


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (result("SUCCESS"), "succeeded", None),
        (result("FAILURE", result=RETRIED), "failed", "OSError"),
        (result("FAILURE", result={"exc_type": "Reject", "exc_message": ["no", False]}), "rejected", None),
        (result("FAILURE", result={"exc_type": "Reject", "exc_message": ["no", True]}), None, None),
        (result("FAILURE", result={"exc_type": "ChordError", "exc_message": ["x"]}), None, None),
        (result("RETRY", result=RETRIED, date_done=None), "retried", "OSError"),
        (result("REVOKED", result=REVOKED), "revoked", None),
        (result("REVOKED", result={**REVOKED, "exc_message": ["expired"]}), "expired", None),
        (result("STARTED", result={"hostname": "w1@a", "pid": 1}), "started", None),
        (result("PROGRESS", result={"done": 1}), None, None),
    ],
)
def test_stored_results(body: dict[str, Any], kind: str | None, error: str | None) -> None:
    """Each state of the result backend is a fact on its own channel, or none."""
    out = decode(batch(body, channel="celery-task-meta-a"))
    assert [(one.kind, one.error) for one in out.events] == ([] if kind is None else [(kind, error)])
    assert out.channels == (None if kind is None else ["result"])


DEATH = {"count": 1, "reason": "rejected", "queue": "orders", "exchange": "", "routing-keys": ["orders"]}


@pytest.mark.parametrize(
    ("deaths", "kind"),
    [
        ([DEATH], "dead_lettered"),
        ([{**DEATH, "reason": "delivery_limit"}], "dead_lettered"),
        ([{**DEATH, "reason": "expired"}], "dead_lettered"),
        ([DEATH, {**DEATH, "reason": "expired", "queue": "celery_delayed_3"}], "dead_lettered"),
        ([{**DEATH, "reason": "expired", "queue": "celery_delayed_3"}], None),
        ([], "sent"),
        ("nonsense", None),
    ],
)
def test_dead_letters(deaths: Any, kind: str | None) -> None:
    """A message that died is dead-lettered; one that travelled through Celery's delay queues was only early."""
    headers = {"task": "t", "id": "a", "retries": 0, "x-death": deaths}
    out = decode(batch([[], {}, {}], tap="amqp", exchange="dlx", routing_key="orders.dead", headers=headers))
    assert [one.kind for one in out.events] == (
        [] if kind is None or (headers["retries"] and kind == "sent") else [kind]
    )
    if kind == "dead_lettered":
        assert (out.events[0].attempt, out.events[0].queue) == (1, "orders")
        assert out.events[0].labels == {"reason": deaths[0]["reason"]}


def traced(key: str, **inner: Any) -> Batch:
    """A message in the firehose."""
    headers = {
        "exchange_name": "",
        "routing_keys": ["orders"],
        "properties": {"headers": {"task": "t", "id": "a", "retries": 0, **inner}},
    }
    return batch([], tap="amqp", exchange="amq.rabbitmq.trace", routing_key=key, headers=headers)


@pytest.mark.parametrize(
    ("record", "kind", "queue"),
    [
        (traced("publish."), "sent", "orders"),
        (traced("publish.", retries=1), None, None),
        (traced("deliver.orders"), "received", "orders"),
        (traced("deliver.amq.gen-x"), None, None),
        (traced("deliver.orders.dead", **{"x-death": [DEATH]}), "dead_lettered", "orders"),
        (traced("deliver.orders", **{"x-death": [DEATH]}), "received", "orders"),
    ],
)
def test_the_firehose(record: Batch, kind: str | None, queue: str | None) -> None:
    """What is published was sent, what a worker gets was received, what a reader of dead letters gets had died."""
    out = decode(record)
    assert [(one.kind, one.queue) for one in out.events] == ([] if kind is None else [(kind, queue)])


def test_only_celerys_records_are_taken() -> None:
    """Records of other frameworks in the same broker are left to their own formats."""
    mine = FORMATS["celery"].is_mine
    assert mine("redis-pubsub", {"channel": "acme:/3.celeryev/task.multi"}, b"")
    assert mine("redis-key", {"key": "acme:celery-task-meta-a", "type": "string"}, b"")
    assert mine("amqp", {"exchange": "celeryev", "routing_key": "task.sent", "headers": {}}, b"")
    assert not mine("redis-pubsub", {"channel": "saq:job:default:a"}, b"active")
    assert not mine("redis-key", {"key": "rq:queue:default", "type": "list"}, b'["a"]')
    assert not mine("redis-key", {"key": "orders", "type": "none"}, b"null")
    assert not mine("amqp", {"exchange": "", "routing_key": "q", "headers": {"delay": 1}}, b"{}")
    assert not mine("kafka", {"topic": "celeryev"}, b"{}")


def test_declared_facts_are_rows_of_the_table() -> None:
    """Every format declares facts that the table has."""
    for form in FORMATS.values():
        assert set(form.facts) <= set(FACTS)
