"""A group whose members come and go, and a topic that gets partitions, while both are watched under traffic."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import KafkaError

from collector.config.settings import Settings
from collector.config.source_urls import parse_source
from collector.daemon import Daemon
from collector.model.clock import SystemClock
from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.probes.reading import LAG, VERDICTS, Probe
from collector.wiring import probe_urls
from tests.contract_suites.rigs import kafka_topic, until
from tests.unit import parts

REBALANCES = int(os.environ.get("TASKTRAIL_REBALANCES", "3"))
"""So many members join and leave; `make soak` says 20."""
BEFORE, AFTER = 2, 4
"""Partitions."""
FALSE = {"ConsumerStopped", "ConsumerStalled", "ConsumerRewound"}
"""What nobody is to be called for."""
PATIENCE = 90.0

Member: TypeAlias = Callable[[], AIOKafkaConsumer]


class Traffic:
    """Whole lives of tasks, without a pause, over all partitions that there are."""

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.written = 0
        self.stop, self.over = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Until it is told to stop."""
        while not self.stop.is_set():
            partitions = sorted(await self.producer.partitions_for(self.topic))
            for partition in partitions:
                for _ in range(10):
                    name, now = uuid.uuid4().hex, time.time()
                    for kind in ("sent", "started", "succeeded"):
                        await self.producer.send(self.topic, parts.event(kind, name, now), partition=partition)
                        self.written += 1
            await self.producer.flush()
            await asyncio.sleep(0.01)
        self.over.set()


async def working(member: AIOKafkaConsumer) -> None:
    """What a consumer does: read, and commit what was read. What a rebalance overtook is refused, and done again."""
    while True:
        with suppress(KafkaError):
            await member.getmany(timeout_ms=50)
            await member.commit()


class Watched:
    """What the probe says of the group and what the daemon would call for, look after look."""

    def __init__(self) -> None:
        self.verdicts: list[object] = []
        self.called: set[str] = set()
        self.least = 0.0
        self.lags: dict[object, float] = {}
        self.looks = 0

    async def run(self, probe: Probe, daemon: Daemon) -> None:
        """For ever."""
        while True:
            try:
                samples = (await probe.look((), time.time())).samples
            except SourceError:  # the group's coordinator is busy: as in the daemon, it is asked again
                await asyncio.sleep(0.5)
                continue
            self.looks += 1
            self.verdicts += [labels for (name, labels), value in samples.items() if name == VERDICTS and value]
            self.lags = {labels: value for (name, labels), value in samples.items() if name == LAG}
            self.least = min(self.least, *self.lags.values(), 0.0)
            firing = {dict(one.labels)["alertname"] for one in daemon.alerts() if one.state == "firing"}
            self.called |= firing & FALSE
            await asyncio.sleep(0.1)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work that goes on meanwhile; where it fails, that is the failure."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


async def come_and_go(
    admin: AIOKafkaAdminClient, topic: str, first: AIOKafkaConsumer, member: Member, watched: Watched
) -> None:
    """Members join a first one, work and leave; half-way through the topic gets partitions. Ends with one member."""
    for number in range(REBALANCES):
        async with member() as second, beside(working(second)):
            await until(lambda: second.assignment() and first.assignment(), PATIENCE)
            enough = watched.looks + 2
            await until(lambda: watched.looks >= enough, PATIENCE)  # noqa: B023
        if number == REBALANCES // 2:
            await admin.create_partitions({topic: NewPartitions(AFTER)})
        await until(lambda: len(first.assignment()) >= BEFORE, PATIENCE)
    await until(lambda: len(first.assignment()) == len(watched.lags) == AFTER, PATIENCE)


@pytest.mark.case("K01.2")
@pytest.mark.kafka
@pytest.mark.slow
async def test_rebalances_under_traffic(apache: str) -> None:
    """However often members join and leave, nobody is called for it; partitions are added, and all counts once."""
    async with kafka_topic(apache) as rig, AsyncExitStack() as stack:
        source = parse_source(f"kafka://{apache}/{rig.topic}", {}, Secret)
        probe = probe_urls.probe(source)
        assert probe is not None
        stack.push_async_callback(probe.close)
        producer = AIOKafkaProducer(bootstrap_servers=apache, metadata_max_age_ms=500, linger_ms=5)
        traffic = Traffic(await stack.enter_async_context(producer), rig.topic)
        admin = AIOKafkaAdminClient(bootstrap_servers=apache)
        await admin.start()
        stack.push_async_callback(admin.close)
        settings = Settings(sources=(source,), rules=("shipped",))
        run = await stack.enter_async_context(parts.running(settings, clock=SystemClock()))
        (axis,) = [axis for axis in run.daemon.pipeline.axes if axis.name == source.name]
        await until(lambda: axis.is_at_head, PATIENCE)
        watched = Watched()
        member = partial(
            AIOKafkaConsumer, rig.topic, bootstrap_servers=apache, group_id=f"g-{rig.topic}", enable_auto_commit=False,
            auto_offset_reset="earliest", heartbeat_interval_ms=100, metadata_max_age_ms=500,
        )  # fmt: skip
        async with member() as first, beside(working(first)), beside(watched.run(probe, run.daemon)):
            async with beside(traffic.run()):
                await come_and_go(admin, rig.topic, first, member, watched)
                traffic.stop.set()
                await traffic.over.wait()
            await until(lambda: axis.totals.read == traffic.written, PATIENCE)
            await until(lambda: set(watched.lags.values()) == {0.0}, PATIENCE)
        print(f"{REBALANCES} rebalances, {traffic.written} events, {watched.looks} looks")
        assert (axis.totals.accepted, axis.totals.duplicate, axis.gaps) == (traffic.written, 0, [])
        assert (watched.verdicts, watched.least, watched.called) == ([], 0.0, set())
