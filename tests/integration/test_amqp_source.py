"""What is RabbitMQ's own: queues of ours beside exchanges of theirs, what becomes of them, and what was not seen."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aio_pika
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from collector.formats.capture import lines
from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import amqp_ask, amqp_wire
from collector.sources.amqp import _TOO_LONG, AmqpOptions, AmqpSource, Tap
from collector.sources.amqp_wire import AmqpAddress, Limits
from tests import brokers
from tests.brokers.process import wait_until
from tests.contract_suites.rigs import AmqpRig, Notes, amqp_address_of, amqp_exchange, running, until
from tests.integration.live import Daemon

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
async def rig(rabbitmq_url: str) -> AsyncIterator[AmqpRig]:
    """A fresh exchange on the shared broker."""
    async with amqp_exchange(rabbitmq_url) as rig:
        yield rig


@pytest.fixture
async def channel(rabbitmq_url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A channel of a tester's own."""
    async with await aio_pika.connect(rabbitmq_url) as connection:
        yield await connection.channel()


def control(*words: str) -> str:
    """What rabbitmqctl says; a skip where it cannot be asked."""
    try:
        return brokers.control_rabbitmq(*words)
    except brokers.Unavailable as why:
        pytest.skip(str(why))


def ours() -> list[str]:
    """Our queues on the broker."""
    return [name for name in control("list_queues", "name").split() if name.startswith("tasktrail.")]


def close_ours() -> None:
    """An operator closes our connection."""
    for line in control("list_connections", "pid", "client_properties").splitlines():
        if '"tasktrail"' in line:
            control("close_connection", line.split()[0], "for a test")


async def lost(source: AmqpSource, notes: Notes, when: Callable[[], object] | None = None) -> SourceError:
    """Run a source until it is lost; `when`: what is done to it once it is connected."""
    task = asyncio.ensure_future(source.run(notes))
    if when is not None:
        await until(lambda: bool(notes.heads))
        result = when()
        if asyncio.iscoroutine(result):
            await result
    with pytest.raises(SourceError) as raised:
        async with asyncio.timeout(30):
            await task
    return raised.value


async def test_a_record_is_what_a_capture_holds(rig: AmqpRig) -> None:
    """Exchange, key, properties and headers stand beside the body: tables as objects, times in ISO form, bytes too."""
    death = {
        "count": 1,
        "reason": "rejected",
        "time": dt.datetime(2026, 11, 29, 16, 26, 25, tzinfo=dt.UTC),
        "routing-keys": ["orders"],
    }
    headers = {"id": "a", "retries": 2, "x-death": [death], "raw": bytearray(b"\xff\x00")}
    notes = Notes()
    async with running(rig.source(), notes):
        await rig.publish(b'{"a":1}', "orders.dead", headers=headers, content_type="application/json", priority=3)
        await until(lambda: bool(notes.bodies))
    (batch,) = [batch for batch in notes.batches if batch.bodies]
    assert (batch.tap, batch.place, batch.bodies) == ("amqp", rig.exchange, [b'{"a":1}'])
    line = json.loads(lines(batch)[0])
    properties = line.pop("properties")
    assert (properties["content_type"], properties["priority"]) == ("application/json", 3)
    assert line.pop("t") == pytest.approx(time.time(), abs=60)
    assert line == {
        "source": "amqp",
        "exchange": rig.exchange,
        "routing_key": "orders.dead",
        "redelivered": False,
        "headers": {
            "id": "a",
            "retries": 2,
            "x-death": [
                {
                    "count": 1,
                    "reason": "rejected",
                    "time": "2026-11-29T16:26:25+00:00",
                    "routing-keys": ["orders"],
                }
            ],
            "raw": {"b64": "/wA="},
        },
        "body": '{"a":1}',
    }


async def test_only_the_keys_asked_for_come(rig: AmqpRig) -> None:
    """A routing key chooses what is copied to us."""
    rig.options = replace(rig.options, taps=(Tap(exchange=rig.exchange, keys=("orders.*", "mail")),))
    notes = Notes()
    async with running(rig.source(), notes):
        for key in ("orders.1", "orders.1.2", "mail", "other", "orders.2"):
            await rig.publisher.publish(aio_pika.Message(key.encode()), key, mandatory=False)
            if key == "orders.1":
                await rig.publish(b"orders.0", "orders.0")
        await until(lambda: b"orders.2" in notes.bodies)
    assert set(notes.bodies) - {b"orders.1"} == {b"orders.0", b"mail", b"orders.2"}


async def test_others_get_what_they_would_get(rig: AmqpRig, channel: aio_pika.abc.AbstractChannel) -> None:
    """A queue that is bound beside ours has each message, unread and unmarked."""
    theirs = await channel.declare_queue(exclusive=True)
    await theirs.bind(rig.exchange, "#")
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.heads))
        for number in range(20):
            await rig.publish(b"%d" % number)
        await until(lambda: len(notes.bodies) == 20)
    got = [await theirs.get(no_ack=True) for _ in range(20)]
    assert [message.body for message in got if message] == notes.bodies
    assert not any(message.redelivered for message in got if message)


async def test_celerys_exchange_is_made_where_it_is_missing(
    rabbitmq_url: str, channel: aio_pika.abc.AbstractChannel
) -> None:
    """It is declared as workers declare it (durable, topic), so that either may come first; others are waited for."""
    await channel.exchange_delete("celeryev.test")
    taps = (Tap(exchange="celeryev.test", role="events"), Tap(exchange="dlx.test", role="dead_letters"))
    notes = Notes()
    async with running(AmqpSource(AmqpOptions(name="c", address=amqp_address_of(rabbitmq_url), taps=taps)), notes):
        await until(lambda: bool(notes.heads))
        made = await channel.declare_exchange("celeryev.test", "topic", durable=True)
        assert notes.details[0] == ("reads exchange celeryev.test; waits for exchange dlx.test, which does not exist")
        dead = await channel.declare_exchange("dlx.test", "fanout", durable=True)
        await until(lambda: "dlx.test" in notes.heads)
        assert notes.details[-1] == "reads exchange celeryev.test; reads exchange dlx.test"
    await made.delete()
    await dead.delete()


async def test_a_missing_exchange_is_named(rabbitmq_url: str) -> None:
    """An exchange that was asked for and is not there is an error that says so."""
    options = AmqpOptions(name="a", address=amqp_address_of(rabbitmq_url), taps=(Tap(exchange="nowhere"),))
    error = await lost(AmqpSource(options), Notes())
    assert "there is no exchange `nowhere` in virtual host `/`" in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": Secret("wrong")}, "ACCESS_REFUSED"),
        ({"vhost": "nowhere"}, "there is no virtual host `nowhere`, or user `guest` may not use it"),
    ],
)
async def test_a_refusal_is_said_in_the_brokers_words(rabbitmq_url: str, change: dict[str, object], words: str) -> None:
    """A wrong password and a missing virtual host are said, without the password, and waiting does not help."""
    address = replace(amqp_address_of(rabbitmq_url), **change)
    error = await lost(AmqpSource(AmqpOptions(name="a", address=address)), Notes())
    assert words in str(error)
    assert "wrong" not in str(error)
    assert not error.retryable


async def test_nobody_listens(rabbitmq_url: str) -> None:
    """A port that nobody listens on is said as what it is."""
    address = AmqpAddress(host="127.0.0.1", port=1)
    error = await lost(AmqpSource(AmqpOptions(name="a", address=address)), Notes())
    assert str(error).startswith("127.0.0.1:1: connecting: ")
    assert error.retryable


async def test_our_queue_is_deleted(rig: AmqpRig) -> None:
    """Somebody who deletes our queue makes the source be built anew."""
    error = await lost(rig.source(), Notes(), lambda: control("delete_queue", ours()[0]))
    assert "NOT_FOUND - no queue 'tasktrail." in str(error)


async def test_their_exchange_is_deleted(
    rig: AmqpRig, channel: aio_pika.abc.AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange that is deleted tells nobody: binding again finds out, and the source is built anew."""
    monkeypatch.setattr("collector.sources.amqp._BIND", 0.0)
    error = await lost(rig.source(), Notes(), lambda: channel.exchange_delete(rig.exchange))
    assert f"NOT_FOUND - no exchange '{rig.exchange}'" in str(error)


async def test_an_exchange_made_anew_is_bound_again(
    rig: AmqpRig, channel: aio_pika.abc.AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was deleted and made again between two looks is read on."""
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.heads))
        await channel.exchange_delete(rig.exchange)
        await channel.declare_exchange(rig.exchange, "topic", durable=True)
        await rig.publish(b"after")
        await until(lambda: notes.bodies == [b"after"])


async def test_the_connection_is_closed_by_the_broker(rig: AmqpRig) -> None:
    """Reading goes on with a new connection, and the time between is a gap."""
    notes = Notes()
    error = await lost(rig.source(), notes, close_ours)
    assert "CONNECTION_FORCED - for a test" in str(error)
    before = float(notes.positions[rig.exchange])
    again = Notes(notes.positions)
    async with running(rig.source(), again):
        await until(lambda: bool(again.heads))
    (gap,) = again.gaps
    assert (gap.place, gap.estimate, gap.reason) == (rig.exchange, None, "not connected")
    assert gap.start == pytest.approx(before, abs=0.001)
    assert gap.start < gap.end <= time.time()


async def test_the_broker_restarts(rabbitmq_url: str) -> None:
    """The source is lost while the broker is down, and reads on behind it, with a gap."""
    async with await aio_pika.connect(rabbitmq_url) as connection:
        await (await connection.channel()).declare_exchange("restarted", "topic", durable=True)
    rig = AmqpRig(rabbitmq_url)
    rig.exchange = "restarted"
    rig.options = replace(rig.options, taps=(Tap(exchange="restarted"),))
    notes = Notes()
    await lost(rig.source(), notes, lambda: control("stop_app"))
    await lost(rig.source(), Notes())
    control("start_app")
    again = Notes(notes.positions)
    async with await aio_pika.connect(rabbitmq_url) as connection, running(rig.source(), again):
        ready = await connection.channel(on_return_raises=True)
        rig.publisher = await ready.get_exchange("restarted")
        await rig.publish(b"after")
        await until(lambda: again.bodies == [b"after"])
        await ready.exchange_delete("restarted")
    assert [gap.reason for gap in again.gaps] == ["not connected"]


async def test_a_deaf_broker_is_noticed(rig: AmqpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that keeps the connection and answers nothing is lost after the time for an answer, and let go."""
    monkeypatch.setattr(amqp_wire, "ANSWER_SECONDS", 1.0)
    notes = Notes()
    resume = None
    try:

        def pause() -> None:
            nonlocal resume
            resume = brokers.pause_rabbitmq()

        error = await lost(rig.source(), notes, pause)
    finally:
        if resume is not None:
            resume()
    assert "no answer to queue tasktrail." in str(error)


class Held(Notes):
    """An intake that takes nothing while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def take(self, batch):
        """Waits first."""
        if batch.bodies:
            await self.go.wait()
        return await super().take(batch)


@pytest.mark.case("K23.1")
async def test_what_our_queue_cannot_hold_is_a_gap(rig: AmqpRig) -> None:
    """While we are slow the broker keeps so many messages for us, drops the oldest of more, and we say so."""
    rig.options = replace(rig.options, limits=Limits(messages=50, prefetch=10))
    notes = Held()
    async with running(rig.source(), notes):
        for number in range(200):
            await rig.publish(b"%d" % number)
        await asyncio.sleep(1.1)  # a look at the queue is due
        notes.go.set()
        await until(lambda: b"199" in notes.bodies and rig.exchange in notes.heads)
    assert len(notes.bodies) < 200
    assert {gap.reason for gap in notes.gaps} == {"dropped by the length limit of our queue"}


async def test_what_waited_too_long_is_a_gap(rig: AmqpRig) -> None:
    """While we are slow the broker keeps messages for so long and no longer, and we say so."""
    rig.options = replace(rig.options, limits=Limits(seconds=0.5, prefetch=10), chunk=10)
    notes = Held()
    async with running(rig.source(), notes):
        for number in range(40):
            await rig.publish(b"%d" % number)
        notes.go.set()
        await until(lambda: len(notes.bodies) == 40)
        notes.go.clear()
        for number in range(30):
            await rig.publish(b"%d" % number)
        await asyncio.sleep(1.1)
        notes.go.set()
        await until(lambda: rig.exchange in notes.heads and len(notes.bodies) >= 50)
    assert len(notes.bodies) < 70
    assert _TOO_LONG in {gap.reason for gap in notes.gaps}


@pytest.mark.case("K23.1")
async def test_nothing_of_ours_stays_after_a_kill(rig: AmqpRig, tmp_path: Path) -> None:
    """A daemon that is killed leaves no queue and no binding on the broker."""
    host, port = rig.options.address.host, rig.options.address.port
    daemon = Daemon(tmp_path, "--source", f"amqp://{host}:{port}/exchange/{rig.exchange}").wait_ready()
    try:
        await rig.publish(b'{"kind":"sent","task_id":"1","task":"mail.send"}')
        counted = lambda: daemon.metrics().get("task_sent_total", [({}, 0.0)])[0][1] == 1  # noqa: E731
        daemon.wait(counted, 20, "it was not counted")
        assert len(ours()) == 1
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        assert wait_until(lambda: not ours(), 10)
        assert "tasktrail." not in control("list_bindings", "destination_name")
    finally:
        daemon.end()


async def test_a_queues_length_is_said(rabbitmq_url: str, channel: aio_pika.abc.AbstractChannel) -> None:
    """Of a queue only the length is asked; what lies in it stays, and one that is missing is named."""
    queue = await channel.declare_queue("length.test", exclusive=True)
    await queue.delete()
    queue = await channel.declare_queue("length.test", auto_delete=True)
    for _ in range(3):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "length.test")
    options = AmqpOptions(name="q", address=amqp_address_of(rabbitmq_url), queue="length.test")
    notes = Notes()
    async with running(AmqpSource(options), notes):
        await until(lambda: "queue/length.test" in notes.heads)
    assert notes.details == ["queue length.test: 3 waiting, 0 consumers"]
    got = await queue.get(no_ack=True)
    assert got is not None
    assert not got.redelivered
    await queue.delete(if_empty=False)
    error = await lost(AmqpSource(options), Notes())
    assert "NOT_FOUND - no queue 'length.test'" in str(error)


async def test_a_peek_takes_nothing_away(
    rabbitmq_url: str, channel: aio_pika.abc.AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in a queue is told once as `amqp-get`, is still there, and a missing queue is waited for."""
    monkeypatch.setattr(amqp_ask, "_PEEK", 0.0)
    options = AmqpOptions(name="q", address=amqp_address_of(rabbitmq_url), peeks=("peek.test",))
    notes = Notes()
    async with running(AmqpSource(options), notes):
        await until(lambda: "waits for queue peek.test, which does not exist" in notes.details)
        queue = await channel.declare_queue("peek.test", exclusive=False, auto_delete=False)
        for number in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number, headers={"n": number}), "peek.test")
        await until(lambda: b"2" in notes.bodies)
        told = [(batch.tap, one) for batch in notes.batches for one in batch.about or ()]
        await asyncio.sleep(2.2)  # two more looks: nothing has changed, so nothing is touched
    assert list(dict.fromkeys(notes.bodies)) == [b"0", b"1", b"2"]
    tap, last = told[-1]
    assert (tap, last["queue"], last["routing_key"], last["headers"]) == (
        "amqp-get",
        "peek.test",
        "peek.test",
        {"n": 2},
    )
    assert (await channel.declare_queue("peek.test", passive=True)).declaration_result.message_count == 3
    await queue.delete(if_empty=False)


async def test_dead_letter_exchanges_are_found_and_bound(
    rabbitmq_url: str, channel: aio_pika.abc.AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the management API names is read, by each key under which dead letters come, also one named later."""
    monkeypatch.setattr(amqp_ask, "_POLL", 0.0)
    dead = await channel.declare_exchange("found.dlx", "direct", durable=False, auto_delete=False)
    arguments = {"x-dead-letter-exchange": "found.dlx", "x-dead-letter-routing-key": "orders.dead"}
    rows = [{"name": "orders", "arguments": arguments}]

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(rows)

    app = web.Application()
    app.router.add_get("/api/queues/{vhost}", answer)
    notes = Notes()
    bodies = lambda: [body for batch in notes.batches if batch.tap == "amqp" for body in batch.bodies]  # noqa: E731
    async with TestServer(app) as server:
        options = AmqpOptions(
            name="c",
            address=amqp_address_of(rabbitmq_url),
            management=str(server.make_url("/")),
            find_dead_letters=True,
        )
        async with running(AmqpSource(options), notes):
            await until(lambda: "found.dlx" in notes.heads)
            await dead.publish(aio_pika.Message(b"first"), "orders.dead")
            await until(lambda: bodies() == [b"first"])
            rows.append({"name": "mail", "arguments": {"x-dead-letter-exchange": "found.dlx"}})
            for number in range(100):
                await dead.publish(aio_pika.Message(b"%d" % number), "mail", mandatory=False)
                if len(bodies()) > 1:
                    break
                await asyncio.sleep(0.1)
            await until(lambda: len(bodies()) > 1)
    polled = [
        json.loads(body) for batch in notes.batches if batch.tap == "rabbitmq-management" for body in batch.bodies
    ]
    assert [[row["name"] for row in found] for found in polled] == [["orders"], ["orders", "mail"]]
    await dead.delete()
