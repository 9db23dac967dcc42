"""Dramatiq from outside: what polls, the firehose and peeks say, and what they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.formats import FORMATS, dramatiq
from collector.model.event import Event
from collector.model.record import Batch

NOW = 1_790_000_000.0
SENT = int((NOW - 10) * 1000)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/worker.py", line 560, in process\n    res = actor()\n          ^^^^^^^\n'
    '  File "/srv/app.py", line 3, in ship\n    raise carriers.Gone("x")\n'
    "carriers.Gone: it went\nSecond: line\n"
)


def message(identity: str = "m1", queue: str = "parcels", **options: Any) -> dict[str, Any]:
    """A message as Dramatiq writes it."""
    return {
        "queue_name": queue,
        "actor_name": "ship",
        "args": [1],
        "kwargs": {},
        "options": options,
        "message_id": identity,
        "message_timestamp": SENT,
    }


class Redis:
    """A decoder that is shown keys."""

    def __init__(self, namespace: str = "dramatiq") -> None:
        self.namespace = namespace
        self.decode = FORMATS["dramatiq"].new()

    def poll(self, at: float = NOW, **keys: Any) -> list[Event]:
        """The events of one poll; `__` in a name stands for a dot, a value None for a key that is gone."""
        about, bodies = [], []
        for name, value in keys.items():
            key = name.replace("__", ".") if not name.startswith("_") else name
            kind = {dict: "hash", set: "set", list: "zset", tuple: "list"}.get(type(value), "none")
            about.append({"db": 0, "key": f"{self.namespace}:{key}", "type": kind, "pttl": -1})
            content = (
                {k: json.dumps(v) if isinstance(v, dict) else v for k, v in value.items()} if kind == "hash" else value
            )
            bodies.append(b"" if value is None else json.dumps(sorted(content) if kind == "set" else content).encode())
        self.out = self.decode(batch("redis-key", about, bodies, at))
        assert len(self.out.events) + len(self.out.rejects) + self.out.ignored >= len(keys)
        return self.out.events


def batch(tap: str, about: list[dict[str, Any]], bodies: list[bytes], at: float = NOW) -> Batch:
    """Records of one tap."""
    receipts = list(range(len(bodies)))
    return Batch(
        source="s",
        place="p",
        bodies=bodies,
        receipts=receipts,
        received_at=at,
        times=[at] * len(bodies),
        tap=tap,
        about=about,
    )


def told(events: list[Event]) -> list[tuple[str, str, int | None]]:
    """Kind, id and attempt of each."""
    return [(event.kind, event.task_id, event.attempt) for event in events]


def test_a_life_in_redis() -> None:
    """Sent, fetched, tried again with the error of what failed, fetched again, dead; each told once."""
    redis = Redis()
    sent = redis.poll(parcels__msgs={"r1": message()})
    assert sent == [Event(kind="sent", task_id="m1", task="ship", queue="parcels", time=SENT / 1000)]
    assert redis.poll(parcels__msgs={"r1": message()}) == []
    worker = "b68f0f3f-65aa-486d-b93c-243a09508ab6"
    fetched = {f"__acks__.{worker}.parcels": {"r1"}}
    received = Event(kind="received", task_id="m1", task="ship", queue="parcels", worker=worker, attempt=1)
    assert redis.poll(**fetched) == [received]
    failed_at = SENT + 2000
    again = message(queue="parcels.DQ", retries=1, traceback=TRACEBACK, requeue_timestamp=failed_at, eta=SENT + 9000)
    assert redis.poll(parcels__msgs=None, parcels__DQ__msgs={"r2": again}) == [
        Event(
            kind="retried",
            task_id="m1",
            task="ship",
            queue="parcels",
            attempt=1,
            time=failed_at / 1000,
            error="Gone",
            error_message="it went\nSecond: line",
        )
    ]
    assert redis.poll(**{f"__acks__.{worker}.parcels.DQ": {"r2"}}) == []
    last = message(retries=1, traceback=TRACEBACK)
    assert redis.poll(parcels__DQ__msgs=None, parcels__msgs={"r3": last}) == []
    assert told(redis.poll(**{f"__acks__.{worker}.parcels": {"r3"}})) == [("received", "m1", 2)]
    died = (NOW - 1) * 1000
    (dead,) = redis.poll(parcels__XQ__msgs={"r3": last}, parcels__XQ=[["r3", died]])
    assert (dead.kind, dead.attempt, dead.time, dead.error) == ("dead_lettered", 2, died / 1000, None)


def test_retries_between_two_polls_are_not_lost() -> None:
    """The number of retries tells of attempts that no poll saw fail; only the last one's error is known."""
    events = Redis().poll(parcels__msgs={"r0": message("other")}, at=NOW - 60)
    redis = Redis()
    redis.poll(parcels__msgs={"r0": message("other")}, at=NOW - 60)
    events = redis.poll(parcels__DQ__msgs={"r9": message(retries=3, traceback=TRACEBACK)})
    assert told(events) == [("sent", "m1", None), ("retried", "m1", 1), ("retried", "m1", 2), ("retried", "m1", 3)]
    assert [event.error for event in events] == [None, None, None, "Gone"]


def test_what_failed_before_we_looked_is_past() -> None:
    """Of a message that was sent before the first look only the latest retry is told."""
    events = Redis().poll(parcels__DQ__msgs={"r9": message(retries=3)})
    assert told(events) == [("sent", "m1", None), ("retried", "m1", 3)]


@pytest.mark.case("K07.1")
def test_a_delayed_message_is_sent_once() -> None:
    """It is told with the time it waits for; that it moves to its queue, under a new id in Redis, is no new message."""
    redis = Redis()
    (sent,) = redis.poll(parcels__DQ__msgs={"r1": message(queue="parcels.DQ", eta=SENT + 5000)})
    assert (sent.queue, sent.eta) == ("parcels", SENT / 1000 + 5)
    assert redis.poll(parcels__msgs={"r2": message()}) == []


def test_the_message_behind_a_message_knows_it() -> None:
    """A message of a pipeline is the child of the one before it; one of a group names its group."""
    redis = Redis()
    (first,) = redis.poll(parcels__msgs={"r1": message(pipe_target=message("m2"), group_completion_uuid="g1")})
    (second,) = redis.poll(parcels__msgs={"r2": message("m2")})
    assert (first.parent_id, first.labels, second.parent_id, second.labels) == (None, {"group": "g1"}, "m1", None)


def test_another_namespace() -> None:
    """Keys of any namespace are recognised by their form and read the same; names with colons, too."""
    redis = Redis("shop:jobs")
    assert told(redis.poll(parcels__msgs={"r1": message()})) == [("sent", "m1", None)]
    mine = [
        ("hash", "x:parcels.msgs", b'{"r1":"{\\"actor_name\\":1,\\"message_id\\":2}"}'),
        ("none", "x:parcels.msgs", b""),
        ("zset", "x:parcels.XQ", b"[]"),
        ("list", "x:parcels.DQ", b"[]"),
        ("set", "x:__acks__.w.parcels", b"[]"),
        ("zset", "x:__heartbeats__", b"[]"),
        ("list", "dramatiq:parcels", b"[]"),
    ]
    for kind, key, body in mine:
        assert dramatiq.FORMAT.is_mine("redis-key", {"key": key, "type": kind}, body), key
        assert dramatiq.FORMAT.is_mine("redis-pubsub", {"channel": f"__keyspace@3__:{key}"}, b"zadd"), key
    others = [
        ("hash", "rq:job:1", b"{}"),
        ("hash", "x.msgs", b"{}"),
        ("list", "x:parcels", b"[]"),
        ("zset", "arq:queue", b"[]"),
    ]
    for kind, key, body in others:
        assert not dramatiq.FORMAT.is_mine("redis-key", {"key": key, "type": kind}, body), key
    assert not dramatiq.FORMAT.is_mine("redis-pubsub", {"channel": "events:x.msgs"}, b"{}")


def test_old_dead_letters_are_no_news() -> None:
    """What was dead for more than an hour when it was first seen is not told: not at every start of the daemon."""
    redis = Redis()
    hour = [["r1", (NOW - 3601) * 1000], ["r2", (NOW - 3599) * 1000]]
    events = redis.poll(parcels__XQ=hour, parcels__XQ__msgs={"r1": message("m1"), "r2": message("m2")})
    assert told(events) == [("sent", "m2", None), ("dead_lettered", "m2", 1)]


def test_only_workers_beat() -> None:
    """Publishers beat too, when they publish: a heartbeat counts from one that has fetched something."""
    redis = Redis()
    beats = lambda seconds: [["w", (NOW + seconds) * 1000], ["publisher", (NOW + seconds) * 1000]]  # noqa: E731
    assert redis.poll(__heartbeats__=beats(0)) == []
    redis.poll(**{"__acks__.w.parcels": set[str]()})
    (beat,) = redis.poll(__heartbeats__=beats(1))
    assert (beat.kind, beat.worker, beat.task_id, beat.time) == ("heartbeat", "w", "", NOW + 1)
    assert redis.poll(__heartbeats__=beats(2)) == []
    assert len(redis.poll(__heartbeats__=beats(3))) == 1


def traced(key: str, body: dict[str, Any], **headers: Any) -> tuple[dict[str, Any], bytes]:
    """A record of the firehose."""
    about = {"exchange": "amq.rabbitmq.trace", "routing_key": key, "headers": headers, "properties": {}}
    return about, json.dumps(body).encode()


def rabbit(*records: tuple[dict[str, Any], bytes], tap: str = "amqp", decode: Any = None) -> list[Event]:
    """The events of some records."""
    decode = decode or FORMATS["dramatiq"].new()
    assert all(dramatiq.FORMAT.is_mine(tap, about, body) for about, body in records)
    return list(decode(batch(tap, [about for about, _ in records], [body for _, body in records])).events)


def test_the_firehose() -> None:
    """Published is sent or retried, delivered is received by the connection that took it, again when it is again."""
    retry = message(queue="parcels.DQ", retries=1, traceback=TRACEBACK)
    took = {"connection": "10.0.0.7:60038 -> 10.0.0.1:5672", "redelivered": 0}
    events = rabbit(
        traced("publish.", message()),
        traced("deliver.parcels", message(), **took),
        traced("publish.", retry),
        traced("deliver.parcels.DQ", retry, **took),
        traced("publish.", message(retries=1)),
        traced("deliver.parcels", message(retries=1), **took),
        traced("deliver.parcels", message(retries=1), connection="10.0.0.8:1 -> 10.0.0.1:5672", redelivered=1),
    )
    assert told(events) == [
        ("sent", "m1", None),
        ("received", "m1", 1),
        ("retried", "m1", 1),
        ("received", "m1", 2),
        ("received", "m1", 2),
    ]
    assert [event.worker for event in events] == [None, "10.0.0.7:60038", None, "10.0.0.7:60038", "10.0.0.8:1"]


def test_a_dead_letter_does_not_die_before_it_is_sent() -> None:
    """RabbitMQ names whole seconds: within the second in which it was sent a message dies when it was sent."""
    death = {"reason": "rejected", "queue": "parcels", "time": "2026-09-21T14:13:10+00:00", "count": 1}
    about = {"queue": "parcels.XQ", "exchange": "", "routing_key": "parcels.XQ", "headers": {"x-death": [death]}}
    body = message() | {"message_timestamp": 1_790_000_000_000 - 9_517}
    decode = FORMATS["dramatiq"].new()
    events = rabbit((about, json.dumps(body).encode()), tap="amqp-get", decode=decode)
    assert told(events) == [("sent", "m1", None), ("dead_lettered", "m1", 1)]
    assert events[1].time == events[0].time
    assert rabbit((about, json.dumps(body).encode()), tap="amqp-get", decode=decode) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "not_json"),
        ("[]", "not_an_object"),
        ("{}", "missing_id"),
        ('{"message_id":""}', "bad_id"),
        ('{"message_id":7}', "bad_id"),
        ('{"message_id":"a","actor_name":"b","queue_name":"c","options":{"retries":-1}}', "bad_field"),
        ('{"message_id":"a","actor_name":"b","queue_name":"c","options":{"retries":"x"}}', "bad_field"),
        ('{"args":' + "[" * 20_000, "too_deep"),
        ({"b64": "gASV"}, "not_json"),
    ],
)
def test_what_is_no_message_is_counted_once(value: Any, reason: str) -> None:
    """By its reason, at the first poll that shows it; good ones beside it go on."""
    decode = FORMATS["dramatiq"].new()
    body = json.dumps({"r1": value, "r2": json.dumps(message())}).encode()
    about = [{"key": "dramatiq:parcels.msgs", "type": "hash"}]
    first = decode(batch("redis-key", about, [body]))
    assert ([reject.reason for reject in first.rejects], told(first.events)) == ([reason], [("sent", "m1", None)])
    again = decode(batch("redis-key", about, [body]))
    assert (again.rejects, again.events, again.ignored) == ([], [], 1)


def test_a_made_up_number_of_retries_costs_little() -> None:
    """No more than a hundred retries are told at once, whatever the message says."""
    redis = Redis()
    redis.poll(parcels__msgs={"r0": message("other")}, at=NOW - 60)
    events = redis.poll(parcels__msgs={"r1": message(retries=999_999)})
    assert len(events) == 1 + dramatiq.MOST_RETRIES_AT_ONCE
    assert events[-1].attempt == 999_999


def test_memories_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of messages has a limit; the one unseen for longest goes first."""
    kept = dramatiq._Recent[int](3)
    for number in range(3):
        kept.put(str(number), number + 1)
    assert kept.get("0") == 1
    kept.put("3", 4)
    assert [kept.get(str(number)) for number in range(4)] == [1, None, 3, 4]
