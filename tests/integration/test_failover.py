"""Another server takes over, or the same one comes back: what was seen is not counted again, and nothing ends early."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest
import redis.asyncio

from collector.config.settings import Settings
from collector.model.clock import SystemClock
from collector.model.record import Source
from collector.shell.axis import Axis
from collector.sources.amqp import AmqpOptions, AmqpSource, Tap
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_wire import RedisAddress
from collector.wiring.plugs import Feed
from tests import brokers
from tests.brokers.process import Broker
from tests.contract_suites.rigs import amqp_address_of, until
from tests.integration.live import died, ndjson
from tests.proxy import proxied
from tests.unit import parts

pytestmark = pytest.mark.skipif(
    not os.environ.get("TASKTRAIL_FAILOVER"), reason="brokers are taken down: by make soak (TASKTRAIL_FAILOVER)"
)
PATIENCE = 90.0
RULES = """
groups:
- name: g
  interval: 1s
  rules:
  - alert: Failing
    expr: sum by (source) (increase(task_failed_total[2s])) > 0
  - alert: SourceBlind
    expr: tasktrail_source_up == 0
"""


def firing(run: parts.Running) -> set[str]:
    """Names of the firing alerts."""
    return {dict(one.labels)["alertname"] for one in run.daemon.alerts() if one.state == "firing"}


def ended(told: parts.Kept) -> set[str]:
    """Names of the alerts that were told to have ended."""
    alerts = [alert for message in told.sent for alert in message.alerts if message.status == "resolved"]
    return {dict(one.labels)["alertname"] for one in alerts}


@asynccontextmanager
async def watching(folder: Path, build: Callable[[], Source]) -> AsyncIterator[tuple[parts.Running, Axis, parts.Kept]]:
    """A daemon with one source, which is up."""
    (folder / "rules.yaml").write_text(RULES)
    settings = Settings(rules=(str(folder / "rules.yaml"),))
    feed = Feed(name="tailed", is_tailed=True, build=build)
    told = parts.Kept()
    async with parts.running(settings, clock=SystemClock(), feeds=(feed,), channels=(told,)) as run:
        axis = next(axis for axis in run.daemon.pipeline.axes if axis.name == "tailed")
        await until(lambda: axis.is_at_head and "SourceBlind" not in firing(run), PATIENCE)
        yield run, axis, told


@pytest.fixture
def pair() -> Iterator[tuple[Broker, Broker]]:
    """Two servers."""
    servers: list[Broker] = []
    try:
        servers += [brokers.launch("redis"), brokers.launch("redis")]
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    else:
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.stop()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is lost is tried again each second at least."""
    monkeypatch.setattr("collector.shell.intake.LONGEST_WAIT", 1.0)


@pytest.mark.redis
async def test_a_replica_that_was_behind_takes_over(pair: tuple[Broker, Broker], tmp_path: Path) -> None:
    """What the old primary alone had is not missed, what both have is counted once, and reading goes on."""
    first, second = pair
    stream = f"s{uuid.uuid4().hex[:12]}"
    async with (
        redis.asyncio.Redis.from_url(first.address) as old,
        redis.asyncio.Redis.from_url(second.address) as new,
        proxied(*first.host_port) as link,
    ):

        async def write(to: redis.asyncio.Redis, task_id: str) -> None:
            for event in died(task_id):
                await to.xadd(stream, {"data": ndjson([event])})

        address = RedisAddress(host="127.0.0.1", port=link.port)
        options = RedisStreamOptions(name="tailed", address=address, streams=(stream,))
        await new.replicaof(*first.host_port)
        for number in range(20):
            await write(old, f"both{number}")
        assert await old.execute_command("WAIT", 1, 60_000) == 1
        async with watching(tmp_path, lambda: RedisStreamSource(options)) as (run, axis, told):
            await until(lambda: axis.totals.accepted == 60, PATIENCE)
            await new.replicaof("NO", "ONE")
            await write(old, "lost")
            await until(lambda: axis.totals.accepted == 63 and "Failing" in firing(run), PATIENCE)

            link.is_refusing = True
            link.cut()
            await until(lambda: "SourceBlind" in firing(run), PATIENCE)
            await asyncio.sleep(3)  # the window of the rule goes by
            assert "Failing" in firing(run), "it ended while nobody could see"
            assert "Failing" not in ended(told)
            await old.replicaof(*second.host_port)
            link.lead(*second.host_port)
            link.is_refusing = False
            await until(lambda: axis.is_up and bool(axis.gaps), PATIENCE)
            await write(new, "after")
            await until(lambda: axis.totals.read >= 66, PATIENCE)
            await until(lambda: not firing(run), PATIENCE)
            assert (axis.totals.read, axis.totals.accepted) == (66, 66)
            assert [(gap.estimate, gap.reason) for gap in axis.gaps] == [(None, "rolled back")]


@pytest.fixture
async def exchange(rabbitmq_url: str) -> AsyncIterator[str]:
    """A durable exchange; it is gone at the end."""
    name = f"x{uuid.uuid4().hex[:12]}"
    async with await aio_pika.connect(rabbitmq_url) as connection:
        await (await connection.channel()).declare_exchange(name, "topic", durable=True)
    yield name
    async with await aio_pika.connect(rabbitmq_url) as connection:
        await (await connection.channel()).exchange_delete(name)


@pytest.mark.rabbitmq
async def test_rabbitmq_takes_all_away(rabbitmq_url: str, exchange: str, tmp_path: Path) -> None:
    """Our queue, our connection, the whole broker: each time reading goes on, with a gap, and nothing ends unseen."""

    async def control(*words: str) -> str:
        try:
            return await asyncio.to_thread(brokers.control_rabbitmq, *words)
        except brokers.Unavailable as why:
            pytest.skip(str(why))

    async def queue_deleted() -> None:
        names = (await control("list_queues", "name")).split()
        await control("delete_queue", next(name for name in names if name.startswith("tasktrail.")))

    async def connections_closed() -> None:
        await control("close_all_connections", "for a test")

    async def restarted() -> None:
        await control("stop_app")
        await until(lambda: "SourceBlind" in firing(run), PATIENCE)
        await asyncio.sleep(3)  # the window of the rule goes by
        assert "Failing" in firing(run), "it ended while nobody could see"
        await control("start_app")

    async def publish(task_id: str) -> None:
        """Wait until somebody takes it."""
        async with await aio_pika.connect(rabbitmq_url) as connection:
            channel = await connection.channel(on_return_raises=True)
            to = await channel.get_exchange(exchange)
            for event in died(task_id):
                await to.publish(aio_pika.Message(ndjson([event])), "a", mandatory=True)

    options = AmqpOptions(name="tailed", address=amqp_address_of(rabbitmq_url), taps=(Tap(exchange=exchange),))
    async with watching(tmp_path, lambda: AmqpSource(options)) as (run, axis, _told):
        for number, take_away in enumerate((queue_deleted, connections_closed, restarted), 1):
            await publish(f"before{number}")
            await until(lambda: axis.totals.accepted == 6 * number - 3 and "Failing" in firing(run), PATIENCE)  # noqa: B023
            await take_away()
            await until(lambda: axis.is_up and axis.is_at_head and len(axis.gaps) == number, PATIENCE)  # noqa: B023
            await publish(f"after{number}")
            await until(lambda: axis.totals.accepted == 6 * number, PATIENCE)  # noqa: B023
        assert axis.totals.read == 18
        assert {(gap.estimate, gap.reason) for gap in axis.gaps} == {(None, "not connected")}
        await until(lambda: not firing(run), PATIENCE)
