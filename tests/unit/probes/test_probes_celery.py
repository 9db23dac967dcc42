"""Celery's queues on Redis: lists by priority, and what workers hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from collector.probes import celery
from collector.probes.celery import CeleryQueues
from tests.fakes.redis_keys import Ranked, RedisKeys
from tests.unit.probes.looks import NOW, lengths, look

SEPARATOR = "\x06\x16"


def bound(*queues: str, exchange: str = "tasks", prefix: str = "") -> dict[str, set[str]]:
    """The binding of queues, each under its own name."""
    return {
        f"{prefix}_kombu.binding.{exchange}": {f"{queue}{SEPARATOR}{SEPARATOR}{queue}" for queue in queues},
    }


def held(exchange: str, key: str, eta: datetime | str | None = None) -> str:
    """A value of the hash `unacked`."""
    text = eta.isoformat() if isinstance(eta, datetime) else eta
    return json.dumps([{"body": "e30=", "headers": {"id": "x", "eta": text}, "properties": {}}, exchange, key])


def holding(messages: dict[str, str], prefix: str = "") -> dict[str, object]:
    """What workers hold, by delivery tag."""
    index = Ranked(dict.fromkeys(messages, NOW - 5))
    return {f"{prefix}unacked": messages, f"{prefix}unacked_index": index}


@pytest.mark.case("K12.1")
async def test_a_queue_is_as_long_as_its_lists_of_all_priorities():
    """Whatever priority steps the application has, they are summed."""
    keys = {"mail": ["a"] * 2, f"mail{SEPARATOR}3": ["b"], f"mail{SEPARATOR}5": ["c"], f"mail{SEPARATOR}9": ["d"] * 4}
    reading = await look(CeleryQueues(), RedisKeys({**bound("mail"), **keys}))
    assert lengths(reading) == {"mail": {"ready": 8, "unacked": 0, "scheduled": 0}}
    assert not reading.unknown


async def test_what_waits_for_its_eta_is_told_from_what_is_worked_on():
    """A message that a worker holds until later is scheduled; one that is due, or has no ETA, is not acknowledged."""
    later, before = (datetime.fromtimestamp(NOW, UTC) + timedelta(hours=hours) for hours in (1, -1))
    messages = {
        "1": held("tasks", "mail"),
        "2": held("tasks", "mail", later),
        "3": held("tasks", "mail", before),
        "4": held("tasks", "mail", later.replace(tzinfo=None)),
        "5": held("tasks", "mail", "tomorrow"),
        "6": held("", "pages", later),
    }
    reading = await look(CeleryQueues(), RedisKeys({**bound("mail"), **holding(messages)}))
    assert lengths(reading) == {
        "mail": {"ready": 0, "unacked": 3, "scheduled": 2},
        "pages": {"ready": 0, "unacked": 0, "scheduled": 1},
    }


async def test_a_message_belongs_to_the_queue_that_its_exchange_leads_to():
    """A routing key is not a queue's name where a binding says otherwise."""
    keys = {"_kombu.binding.topic": {f"image.*{SEPARATOR}{SEPARATOR}pages", f"img{SEPARATOR}{SEPARATOR}pages"}}
    reading = await look(CeleryQueues(), RedisKeys({**keys, **holding({"1": held("topic", "img")})}))
    assert lengths(reading)["pages"]["unacked"] == 1


async def test_a_held_message_is_read_once():
    """What a delivery tag stands for does not change: of the next look only the new ones are asked."""
    server = RedisKeys({**bound("mail"), **holding({str(tag): held("tasks", "mail") for tag in range(120)})})
    kind = CeleryQueues()
    assert lengths(await look(kind, server))["mail"]["unacked"] == 120
    server.keys |= holding({str(tag): held("tasks", "mail") for tag in range(119, 122)})
    server.asked.clear()
    assert lengths(await look(kind, server))["mail"]["unacked"] == 3
    assert [words for words in server.asked if words[0] == "HGET"] == [
        ("HGET", "unacked", "120"),
        ("HGET", "unacked", "121"),
    ]


async def test_what_workers_hold_is_unknown_rather_than_wrong(monkeypatch):
    """With more messages than are looked at, nothing is said of any queue; what is no message of Celery is nobody's."""
    monkeypatch.setattr(celery, "MOST_HELD", 3)
    server = RedisKeys({**bound("mail"), **holding({str(tag): held("tasks", "mail") for tag in range(4)})})
    reading = await look(CeleryQueues(), server)
    assert lengths(reading) == {"mail": {"ready": 0}}
    assert reading.unknown == {"mail"}
    assert "whose they are is not known" in reading.says
    server.keys |= holding({"1": "[]", "2": "no JSON", "3": held("tasks", "mail")})
    assert lengths(await look(CeleryQueues(), server))["mail"]["unacked"] == 1


async def test_large_messages_are_not_read(monkeypatch):
    """One that is too large is nobody's, and then no queue's number is known; many are read over several looks."""
    monkeypatch.setattr(celery, "LARGEST", 200)
    large = held("tasks", "mail").replace("e30=", "x" * 200)
    server = RedisKeys({**bound("mail"), **holding({"1": held("tasks", "mail"), "2": large})})
    assert lengths(await look(CeleryQueues(), server)) == {"mail": {"ready": 0}}
    assert ("HGET", "unacked", "2") not in server.asked
    monkeypatch.setattr(celery, "MOST_BYTES", 500)
    server.keys |= holding({str(tag): held("tasks", "mail") for tag in range(8)})
    kind = CeleryQueues()
    seen = [lengths(await look(kind, server))["mail"].get("unacked") for _ in range(4)]
    assert seen[0] is None
    assert seen[-1] == 8


async def test_prefixes_stand_before_keys_and_not_in_names():
    """The application's key prefix is found or configured; the queue is called as its tasks call it."""
    keys = {**bound("mail", prefix="acme:"), "acme:mail": ["a"], **holding({"1": held("tasks", "mail")}, "acme:")}
    expected = {"mail": {"ready": 1, "unacked": 1, "scheduled": 0}}
    for kind in (CeleryQueues(), CeleryQueues("acme:")):
        assert lengths(await look(kind, RedisKeys(dict(keys)))) == expected
    other = await look(CeleryQueues("other:"), RedisKeys(dict(keys)))
    assert lengths(other) == {}


async def test_what_workers_tell_one_another_is_no_queue():
    """Remote control and events are left out, also where somebody knows their names."""
    keys = {
        **bound("celeryev.1234", exchange="celeryev"),
        **bound("w1@a.celery.pidbox", exchange="celery.pidbox"),
        **bound("celery_delayed_3", exchange="celery_delayed_3"),
    }
    assert lengths(await look(CeleryQueues(), RedisKeys(keys), ["w1@a.celery.pidbox", "celeryev.7"])) == {}


@pytest.mark.case("K12.1")
async def test_a_key_that_is_gone_is_a_queue_that_is_empty():
    """A queue that is known is 0 without a key; one whose key is no list is unknown, and not 0."""
    reading = await look(CeleryQueues(), RedisKeys({"odd": {"a": "b"}}), ["mail", "odd"])
    assert lengths(reading)["mail"]["ready"] == 0
    assert "ready" not in lengths(reading)["odd"]
    assert reading.unknown == {"odd"}


async def test_configured_queues_are_known_from_the_beginning():
    """Besides those that are found: an empty one is 0 before anything was ever in it."""
    reading = await look(CeleryQueues(queues=("bills",)), RedisKeys(bound("mail")), ["more"])
    assert lengths(reading).keys() == {"bills", "mail", "more"}
    assert lengths(reading)["bills"]["ready"] == 0
