"""When Kafka deletes its dead letters: told, changed while running, never, and what is really gone."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.contract_suites.rigs import create_topic
from tests.integration.live import Daemon

PATIENCE = 60.0
HOUR = 3_600_000


async def bury(bootstrap: str, topic: str, written: float, **configs: str) -> None:
    """Three dead messages in a topic with these settings."""
    await create_topic(bootstrap, topic, 1, **configs)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(3):
            body = b'{"type": "order", "id": "%s-%d"}' % (topic.encode(), number)
            await producer.send_and_wait(topic, body, timestamp_ms=int(written * 1000))


async def changed(bootstrap: str, topic: str, **configs: str) -> None:
    """Other settings."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
    finally:
        await admin.close()


async def deleted(bootstrap: str, topic: str, before: int) -> None:
    """Its first records are gone, as if their time had come."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before)})
    finally:
        await admin.close()


@pytest.mark.kafka
def test_a_dead_letter_of_kafka_has_a_clock_that_follows_its_topic(apache: str, run: Callable[..., Daemon]) -> None:
    """The countdown that rules read, a change while it runs, a topic that keeps all; only what is gone is `expired`."""
    name, written = f"r{uuid.uuid4().hex[:8]}", float(int(time.time()) - 600)
    dying, eternal = f"{name}-dlt", f"{name}-eternal-dlt"
    asyncio.run(bury(apache, dying, written, retention_ms=str(HOUR)))
    asyncio.run(bury(apache, eternal, written, retention_ms="-1", retention_bytes="-1"))
    url = f"kafka://{apache}/{dying},{eternal}?dead_letter=*-dlt&format=messages&probe_every=500ms"
    daemon = run("--source", url)

    def clocks(topic: str) -> set[tuple[float | None, str]]:
        mine = [one for one in daemon.dead_letters() if one["place"] == f"{topic}/0"]
        return {(one["expires_at"], one["expires_by"]) for one in mine} if len(mine) == 3 else set()

    def lives(seconds: int) -> set[tuple[float | None, str]]:
        return {(written + seconds, f"Kafka, {dying}: retention.ms {seconds * 1000}")}

    daemon.wait(lambda: clocks(dying) == lives(3600), PATIENCE, "it is not known when they are deleted")
    assert clocks(eternal) == {(None, f"never: Kafka keeps all of {eternal}")}
    gauge = "dead_letter_expires_seconds"
    daemon.wait(lambda: gauge in daemon.metrics(), PATIENCE, "there is no countdown")
    ((labels, left),) = daemon.metrics()[gauge]
    assert labels["queue"] == name
    assert 0 <= left <= written + 3600 - time.time() + 60
    asyncio.run(changed(apache, dying, **{"retention.ms": str(48 * HOUR)}))
    daemon.wait(lambda: clocks(dying) == lives(48 * 3600), PATIENCE, "the change is not seen")
    asyncio.run(deleted(apache, dying, 2))
    states = lambda: sorted(one["state"] for one in daemon.dead_letters() if one["place"] == f"{dying}/0")  # noqa: E731
    daemon.wait(lambda: states() == ["expired", "expired", "open"], PATIENCE, "it is not known what is gone")
