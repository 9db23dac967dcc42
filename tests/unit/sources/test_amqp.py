"""What the RabbitMQ sources know without a broker: URLs, the management API, signs of what is off, a missing extra."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from collector.config.source_urls import UrlError, parse_source
from collector.model.clock import SystemClock
from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import amqp_ask
from collector.sources.amqp import AmqpOptions, AmqpSource, Tap
from collector.sources.amqp_ask import Management
from collector.sources.amqp_signs import BATCHES, EVENTS_OFF, EVENTS_OFF_AT, PATIENCE, SENT_OFF, Signs
from collector.sources.amqp_wire import DEEPEST, AmqpAddress, plain
from collector.wiring import plugs


def options(url: str, **written: str) -> AmqpOptions:
    """The options of the source that a URL makes."""
    source = plugs.SOURCES[url.partition(":")[0]].build(parse_source(url, written, Secret))()
    assert isinstance(source, AmqpSource)
    return source._options


def test_celerys_url() -> None:
    """Events on celeryev, dead letters where they are named; virtual host and credentials from the URL."""
    made = options(
        "celery+amqp://me:p%40ss@rabbit/shop%2Feu", dead_letter_exchange="dlx, old", dead_letter_routing_key="o.dead"
    )
    assert made.taps == (
        Tap(exchange="celeryev", role="events"),
        Tap(exchange="dlx", keys=("#", "o.dead"), role="dead_letters"),
        Tap(exchange="old", keys=("#", "o.dead"), role="dead_letters"),
    )
    assert (made.address.host, made.address.port, made.address.vhost) == ("rabbit", 5672, "shop/eu")
    assert (made.address.username, made.address.password.reveal() if made.address.password else "") == ("me", "p@ss")
    assert (made.hint, made.name) == ("", "celery+amqp://rabbit/shop%2Feu")
    assert "dead_letter_exchange=NAME" in options("celery+amqps://rabbit").hint
    assert options("celery+amqps://rabbit").address == AmqpAddress(host="rabbit", port=5671, tls=True)


@pytest.mark.parametrize("vhost", ["", "/", "/%2F"])
def test_an_exchange_and_a_queue(vhost: str) -> None:
    """The path names an exchange to be read, or a queue of which the length is; no virtual host is `/`."""
    exchange = options(f"amqp://h{vhost}/exchange/a%2Fb", routing_key="x.*,y")
    assert (exchange.taps, exchange.queue) == ((Tap(exchange="a/b", keys=("x.*", "y")),), "")
    queue = options(f"amqps://h{vhost}/queue/q")
    assert (queue.taps, queue.queue, queue.address.vhost, queue.address.tls) == ((), "q", "/", True)


def test_dramatiqs_url() -> None:
    """Nothing that costs the broker or touches a queue is on unless it is asked for, and what is off is said."""
    plain_url = options("dramatiq+amqp://h/jobs")
    assert (plain_url.taps, plain_url.peeks, plain_url.management) == ((), (), "")
    assert all(word in plain_url.hint for word in ("hook", "firehose=true", "peek=QUEUE.XQ", "management=URL"))
    full = options("dramatiq+amqp://h/jobs?firehose=true&peek=a.XQ,b.XQ")
    (tap,) = full.taps
    assert (tap.exchange, tap.keys, full.peeks) == ("amq.rabbitmq.trace", ("publish.#", "deliver.#"), ("a.XQ", "b.XQ"))
    assert "rabbitmqctl trace_on -p jobs" in full.hint


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://h/v", "the path has another form: write amqp://"),
        ("amqp://h/v/topic/a", "the path has another form"),
        ("amqp://h/exchange/", "the path has another form"),
        ("celery+amqp://h/a/b", "the path has another form: write celery+amqp://"),
        ("celery+amqp://h?management=h:15672", "`management`: write http://host:port"),
        ("dramatiq+amqp://h?firehose=yes", "`firehose` is one of true, false"),
        ("dramatiq+amqp://h?dead_letter_exchange=x", "unknown option of dramatiq+amqp sources"),
    ],
)
def test_wrong_urls(url: str, words: str) -> None:
    """What is wrong is said with the right form."""
    with pytest.raises(UrlError) as raised:
        parse_source(url, {}, Secret)
    assert words in str(raised.value)


@pytest.mark.parametrize("url", ["celery+amqp://h", "dramatiq+amqp://h", "amqp://h/exchange/x", "amqp://h/queue/q"])
def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Without aio-pika a source is refused before it starts, with what to install; everything else works."""
    monkeypatch.setitem(sys.modules, "aio_pika", None)
    with pytest.raises(SourceError, match=r"pip install 'tasktrail\[amqp\]'"):
        plugs.feed(parse_source(url, {}, Secret))


def test_headers_are_json() -> None:
    """Whatever AMQP's tables hold can be written as JSON, however deep."""
    deep: Any = "end"
    for _ in range(DEEPEST + 5):
        deep = {"in": [deep]}
    moment = dt.datetime(2026, 11, 29, 16, 26, 25, tzinfo=dt.UTC)
    table = {
        "t": moment,
        "d": Decimal("1.50"),
        "b": b"\xff",
        "u": bytearray(b"text"),
        "n": None,
        "l": [True, 1, 2.5],
        "deep": deep,
    }
    shown = json.loads(json.dumps(plain(table)))
    del shown["deep"]
    assert shown == {
        "t": "2026-11-29T16:26:25+00:00",
        "d": "1.50",
        "b": {"b64": "/w=="},
        "u": "text",
        "n": None,
        "l": [True, 1, 2.5],
    }


def keys(*names: str) -> list[dict[str, str]]:
    """Records with these routing keys."""
    return [{"routing_key": name} for name in names]


def test_events_that_are_off() -> None:
    """Heartbeats and no task events for ten seconds, workers without any, and events none of which is a publisher's."""
    signs = Signs()
    assert signs.missing(100) == []
    signs.note(keys("worker.online", "worker.heartbeat"), 100)
    signs.note(keys("worker.heartbeat"), 102)
    assert signs.missing(99 + PATIENCE) == []
    assert signs.missing(100 + PATIENCE) == [EVENTS_OFF]
    signs.note(keys("task.multi"), 120)
    assert signs.missing(130) == []
    signs.note(keys(*["task.multi"] * BATCHES), 131)
    assert signs.missing(131) == [SENT_OFF]
    assert signs.missing(131, ["w3@h"]) == [EVENTS_OFF_AT.format("w3@h")]
    signs.note(keys("task.sent"), 132)
    assert signs.missing(132) == []


class Api:
    """A management API."""

    def __init__(self) -> None:
        self.rows: Any = []
        self.status = 200
        self.asked: list[tuple[str, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        """The list of queues."""
        self.asked.append((request.raw_path, request.headers["Authorization"]))
        return web.json_response(self.rows, status=self.status)


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, str]]:
    """A management API and its address."""
    api = Api()
    app = web.Application()
    app.router.add_get("/{tail:.*}", api.answer)
    async with TestServer(app) as server:
        yield api, str(server.make_url("/"))


async def looked(management: Management) -> tuple[dict[str, Any], bytes] | None:
    """What one poll finds."""
    assert management.look() is None  # it asks beside everything else
    assert management._asking is not None
    await asyncio.wait([management._asking])
    return management.look()


async def test_dead_letter_exchanges_are_found(api: tuple[Api, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a queue's arguments or its policy; plumbing is left out; what cannot be bound is said."""
    monkeypatch.setattr(amqp_ask, "_POLL", 0.0)
    server, base = api
    server.rows = [
        {"name": "orders", "arguments": {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "orders.dead"}},
        {
            "name": "mail",
            "effective_policy_definition": {"dead-letter-exchange": "dlx"},
            "arguments": {},
            "messages": 3,
        },
        {"name": "jobs", "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.XQ"}},
        {"name": "celery_delayed_27", "arguments": {"x-dead-letter-exchange": "celery_delayed_26"}},
        {"name": "w1@node.celery.pidbox", "arguments": {}},
        {"name": "celeryev.7", "arguments": {}},
        {"name": "tasktrail.events.node.1", "arguments": {}},
    ]
    address = AmqpAddress(vhost="/shop", username="me", password=Secret("p"))
    management = Management(base, address, SystemClock())
    try:
        found = await looked(management)
        assert found is not None
        about, body = found
        assert about == {"path": "/api/queues/%2Fshop"}
        assert [row["name"] for row in json.loads(body)] == ["orders", "mail", "jobs"]
        assert json.loads(body)[1]["messages"] == 3
        assert server.asked == [("/api/queues/%2Fshop", "Basic bWU6cA==")]
        assert management.dead_letters == {"dlx": {"#", "orders.dead", "mail"}}
        assert "dead letters of jobs go over the default exchange" in management.says
        assert await looked(management) is None  # nothing has changed
    finally:
        await management.close()


@pytest.mark.parametrize(("status", "rows"), [(401, []), (200, {"a": 1}), (200, [1])])
async def test_an_api_that_fails_is_said(
    api: tuple[Api, str], monkeypatch: pytest.MonkeyPatch, status: int, rows: Any
) -> None:
    """A refusal or nonsense stops nothing: it is said, and asked again."""
    monkeypatch.setattr(amqp_ask, "_POLL", 0.0)
    server, base = api
    server.status, server.rows = status, rows
    management = Management(base, AmqpAddress(), SystemClock())
    try:
        assert await looked(management) is None
        assert management.says.startswith("the management API is not read: ")
        server.status, server.rows = 200, []
        assert await looked(management) is not None
        assert management.says == ""
    finally:
        await management.close()
