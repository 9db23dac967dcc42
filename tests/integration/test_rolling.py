"""Three nodes of Kafka are restarted one after the other under traffic: nothing is missed, and no task is blamed."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from collector.config.settings import Settings
from collector.config.source_urls import parse_source
from collector.model.clock import SystemClock
from collector.model.secret import Secret
from collector.shell.axis import Axis
from tests import brokers
from tests.brokers import kafka
from tests.brokers.process import Broker
from tests.contract_suites.rigs import create_topic, until
from tests.integration.live import command_of, revive
from tests.unit import parts

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        not os.environ.get("TASKTRAIL_FAILOVER"), reason="three nodes are restarted: by make soak (TASKTRAIL_FAILOVER)"
    ),
]
PATIENCE = 120.0
GOES_ON = 30.0
"""Seconds within which reading goes on."""
PARTITIONS = 6


@pytest.fixture
def nodes() -> Iterator[list[Broker]]:
    """A cluster of one's own."""
    try:
        started = kafka.cluster(3)
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield started
    for node in started:
        node.stop()


class Traffic:
    """Whole lives of tasks over all partitions, each event acknowledged by two nodes and written once."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.written = 0
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", metadata_max_age_ms=1000, linger_ms=5
        )

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Meanwhile about 300 events a second are written; at the end all are acknowledged."""
        async with self._producer:
            enough = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(enough))
                yield
                enough.set()

    async def _write(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            sent = []
            for partition in range(PARTITIONS):
                name, now = uuid.uuid4().hex, time.time()
                for kind in ("sent", "started", "succeeded"):
                    body = parts.event(kind, name, now)
                    sent.append(await self._producer.send(self.topic, body, partition=partition))
            await asyncio.gather(*sent)
            self.written += len(sent)
            await asyncio.sleep(0.05)


async def longest_pause(axis: Axis) -> AsyncIterator[float]:
    """The longest time so far without an event, looked at each time it is asked for."""
    read, at, longest = axis.totals.read, time.monotonic(), 0.0
    while True:
        if axis.totals.read > read:
            read, at = axis.totals.read, time.monotonic()
        longest = max(longest, time.monotonic() - at)
        yield longest


async def all_in_sync(admin: AIOKafkaAdminClient, topic: str) -> bool:
    """Whether every node has a copy of everything."""
    (described,) = await admin.describe_topics([topic])
    return all(len(part["isr"]) == len(part["replicas"]) for part in described["partitions"])


@pytest.mark.case("K01.2")
async def test_a_rolling_restart_of_three_nodes(nodes: list[Broker]) -> None:
    """Each partition changes its leader at least once: no event is missed or counted twice, and there is no gap."""
    bootstrap = ",".join(node.address for node in nodes)
    topic = f"t{uuid.uuid4().hex[:12]}"
    await create_topic(bootstrap, topic, PARTITIONS, copies=3)
    source = parse_source(f"kafka://{bootstrap}/{topic}", {}, Secret)
    told = parts.Kept()
    traffic = Traffic(bootstrap, topic)
    async with parts.running(
        Settings(sources=(source,), rules=("shipped",)), clock=SystemClock(), channels=(told,)
    ) as run:
        (axis,) = [axis for axis in run.daemon.pipeline.axes if axis.name == source.name]
        await until(lambda: axis.is_at_head, PATIENCE)
        longest, pauses = 0.0, longest_pause(axis)
        async with traffic.flowing():
            for node in nodes:
                command = command_of(node)
                going = asyncio.ensure_future(asyncio.to_thread(restart, node, command))
                while not going.done():
                    longest = await anext(pauses)
                    await asyncio.sleep(0.05)
                going.result()
                admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
                await admin.start()
                try:
                    async with asyncio.timeout(PATIENCE):
                        while not await all_in_sync(admin, topic):
                            longest = await anext(pauses)
                            await asyncio.sleep(0.2)
                finally:
                    await admin.close()
        await until(lambda: axis.totals.read == traffic.written, PATIENCE)
        print(f"{traffic.written} events; the longest pause was {longest:.1f} s")
        assert (axis.totals.accepted, axis.totals.duplicate, axis.gaps) == (traffic.written, 0, [])
        assert longest < GOES_ON
        called = {dict(alert.labels)["alertname"] for message in told.sent for alert in message.alerts}
        assert not called - {"SourceBlind"}, "it was called for what is no fault of a task"


def restart(node: Broker, command: list[str]) -> None:
    """As a roll-out does it: asked to end, it hands its partitions over; then it starts again."""
    node.end(60.0)
    revive(node, command, lambda: kafka.answers(*node.host_port), 90.0)
