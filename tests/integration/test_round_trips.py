"""Many queues cost few round trips, counted on a link that is late: what is asked together arrives together."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aio_pika
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest

from collector.probes.reading import LAG, LENGTH, Probe, Reading
from tests.contract_suites.rigs import create_topic
from tests.integration.test_probes import probe, until
from tests.proxy import Link, proxied

LATE = 0.05
"""Seconds, each way."""


@asynccontextmanager
async def late(host: str, port: int) -> AsyncIterator[Link]:
    """A way to a broker on which whatever is asked at once is asked before anything is answered."""
    async with proxied(host, port) as link:
        link.delay = LATE
        yield link


async def settled(asked: Probe, link: Link, metric: str, count: int) -> int:
    """Round trips of a look that tells of so many queues, after the first one."""

    def is_whole(reading: Reading) -> bool:
        return sum(name == metric for name, _ in reading.samples) == count

    await until(lambda: asked.look((), time.time()), is_whole)
    link.turns = 0
    assert is_whole(await asked.look((), time.time()))
    return link.turns


async def commit(bootstrap: str, topic: str, groups: list[str]) -> None:
    """All groups have read the first of two records."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        nodes = {}
        while not nodes:  # the first question makes the topic in which commits are kept
            try:
                nodes = {group: await admin.find_coordinator(group) for group in groups}
            except KafkaError:
                await asyncio.sleep(0.2)
        for group in groups:
            request = OffsetCommitRequest(group, -1, "", -1, [(topic, [(0, 1, "")])])
            await admin._send_request(request, nodes[group])
    finally:
        await admin.close()


@pytest.mark.kafka
async def test_the_lag_of_many_groups_is_told_in_a_few_round_trips(apache):
    """Each group is a question of its own to Kafka, and none of them waits for the answer to another."""
    mark, count = uuid.uuid4().hex[:8], 150
    groups = [f"g{number:03}-{mark}" for number in range(count)]
    await create_topic(apache, f"many-{mark}", 1)
    async with AIOKafkaProducer(bootstrap_servers=apache) as producer:
        for _ in range(2):
            await producer.send_and_wait(f"many-{mark}", b"x")
    await commit(apache, f"many-{mark}", groups)
    host, _, port = apache.partition(":")
    async with late(host, int(port)) as link:
        asked = probe(f"kafka://127.0.0.1:{link.port}/many-{mark}?groups={','.join(groups)}")
        try:
            assert await settled(asked, link, LAG, count) <= 12  # one by one it would be hundreds
        finally:
            await asked.close()


@pytest.mark.rabbitmq
async def test_many_queues_of_rabbitmq_are_told_in_a_few_round_trips(rabbitmq_url):
    """By passive declares, of which each takes a channel; many that are not there cost nobody the connection."""
    mark, count = uuid.uuid4().hex[:8], 200
    queues = [f"q{number:03}-{mark}" for number in range(count)]
    connection = await aio_pika.connect(rabbitmq_url)
    channels = [await connection.channel() for _ in range(10)]
    for start in range(0, count, len(channels)):
        part = queues[start : start + len(channels)]
        made = (
            one.declare_queue(name, durable=False, auto_delete=False, arguments={"x-expires": 300_000})
            for one, name in zip(channels, part, strict=True)
        )
        await asyncio.gather(*made)
    parts = urlsplit(rabbitmq_url)
    async with late(parts.hostname, parts.port) as link:
        named = ",".join([*queues, *(f"gone{number}-{mark}" for number in range(100))])
        asked = probe(f"celery+amqp://guest:guest@127.0.0.1:{link.port}/?queues={named}")
        try:
            assert await settled(asked, link, LENGTH, count) <= 12  # one by one it would be hundreds
        finally:
            await asked.close()
            await connection.close()
