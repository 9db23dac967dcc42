"""Redrive on real brokers: each message once, byte for byte, however often the command is killed on its way.

TASKTRAIL_REDRIVEN, TASKTRAIL_KILLS: how many messages, and how many kills on Kafka; 300 and 2 unless told otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from collector.model.redrive import HEADER, mark_of
from tests.contract_suites.rigs import create_topic
from tests.integration.live import Daemon
from tests.integration.redrive_rig import Redrive

COUNT = int(os.environ.get("TASKTRAIL_REDRIVEN", "300"))
KILLS = int(os.environ.get("TASKTRAIL_KILLS", "2"))


def body(number: int) -> bytes:
    """A message; what is no text must come through, too."""
    return json.dumps({"type": "order", "id": f"o{number}", "pad": "ü" * (number % 7)}).encode()


def headers(topic: str, number: int) -> list[tuple[str, bytes]]:
    """What a recoverer left on it, and the application's own."""
    return [
        ("app", bytes([number % 256, 255, 0])),
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", (1).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", number.to_bytes(8, "big")),
        ("kafka_dlt-exception-cause-fqcn", b"java.sql.SQLException"),
    ]


async def bury(bootstrap: str, topic: str) -> None:
    """Write dead messages."""
    await create_topic(bootstrap, topic, 2)
    await create_topic(bootstrap, f"{topic}-dlt", 1)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        pending = [
            await producer.send(f"{topic}-dlt", body(n), key=b"k%d" % n, partition=0, headers=headers(topic, n))
            for n in range(COUNT)
        ]
        await asyncio.gather(*pending)


async def committed(bootstrap: str, topic: str) -> list[Any]:
    """Everything in a topic for a reader of committed records, partition and record."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False,
        auto_offset_reset="earliest",
    )  # fmt: skip
    found = []
    async with consumer:
        places = [TopicPartition(topic, number) for number in (0, 1)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += records
    return found


async def has_topic(bootstrap: str, topic: str) -> bool:
    """Whether a topic is there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return topic in await admin.list_topics()
    finally:
        await admin.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_sees_each_once_though_the_command_is_killed(
    apache: str, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """Same key, body and headers, in the partition it came from, and one header more; the ledger is complete."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    asyncio.run(bury(apache, topic))
    daemon = run("--source", f"kafka://{apache}/{topic},{topic}-dlt?dead_letter=*-dlt&format=messages")
    made = Redrive(daemon, f"kafka://{apache}/{topic}", tmp_path)
    daemon.wait(lambda: made.counts()[0] == COUNT, 60, "not all are on record")
    there = asyncio.run(has_topic(apache, "tasktrail.redrive"))
    assert made.run("--state", "unresolved", "--dry-run")["sent"] == COUNT
    assert asyncio.run(has_topic(apache, "tasktrail.redrive")) == there
    assert asyncio.run(committed(apache, topic)) == []
    for _ in range(KILLS):
        made.killed("--state", "unresolved", "--canary", "0s")
    last = made.run("--state", "unresolved", "--canary", "0s")
    assert last["refused"] == {}
    found = asyncio.run(committed(apache, topic))
    assert Counter(record.value for record in found) == Counter(body(n) for n in range(COUNT))
    for record in found:
        number = int(record.key[1:])
        assert (record.value, record.partition) == (body(number), 1)
        assert list(record.headers[:-1]) == headers(topic, number)
        name, mark = record.headers[-1]
        assert (name, mark_of(mark.decode()).number, mark_of(mark.decode()).task_id) == (HEADER, 1, f"o{number}")
    assert made.counts() == (COUNT, 0)


class Consumer(threading.Thread):
    """A group that does what it is given, or puts it to the dead again."""

    def __init__(self, client: Any, stream: str) -> None:
        super().__init__(daemon=True)
        self.client, self.stream = client, stream
        self.is_broken = True
        self.done: list[str] = []
        self.most = 0
        """So many waited or were in its hands at once, since it was repaired."""
        self.over = threading.Event()

    def run(self) -> None:
        """Take entries until the end."""
        while not self.over.is_set():
            got = self.client.xreadgroup("billing", "c1", {self.stream: ">"}, count=10, block=100)
            for entry_id, fields in got[0][1] if got else ():
                if self.is_broken:
                    more = {"original_id": entry_id, "original_stream": self.stream, "error": "KeyError: x"}
                    self.client.xadd(f"{self.stream}:dead", {**fields, **more})
                else:
                    (group,) = self.client.xinfo_groups(self.stream)
                    self.most = max(self.most, group["pending"] + group["lag"])
                    self.done.append(fields["id"])
                self.client.xack(self.stream, "billing", entry_id)


def outcomes(daemon: Daemon) -> Counter[str]:
    """How many records have an entry with this reason in their history."""
    records = map(json.loads, daemon.ask("/api/dead-letters/export")[1].splitlines())
    return Counter(reason for one in records for reason in {entry["reason"] for entry in one["history"]})


@pytest.mark.redis
def test_a_stream_gets_its_entries_back_after_a_canary(
    redis_url: str, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """One that dies again stops the rest, what keeps coming back is left; once repaired all are done, few at a time."""
    stream, count = f"orders-{uuid.uuid4().hex[:8]}", 40
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.xgroup_create(stream, "billing", id="0", mkstream=True)
    url = f"{redis_url.replace('redis://', 'redis-stream://')}/{stream}"
    daemon = run("--source", f"{url},{stream}:dead?format=messages")
    made, consumer = Redrive(daemon, url, tmp_path), Consumer(client, stream)
    consumer.start()
    try:
        for number in range(count):
            client.xadd(stream, {"type": "order", "id": f"{stream}-{number}"})
        unresolved = lambda: len(daemon.json("/api/dead-letters?state=unresolved&limit=1000")["dead_letters"])  # noqa: E731
        daemon.wait(lambda: unresolved() == count, 60, "not all have died")
        first = made.run("--task", "order", "--canary", "60s", code=1)
        assert first["sent"] == 1
        assert "failed again" in first["stopped"]
        daemon.wait(lambda: unresolved() == count, 60, "the canary is not back")
        canary = daemon.json(f"/api/dead-letters/{first['canary']}")
        again = [one["id"] for one in daemon.dead_letters() if one["task_id"] == canary["task_id"]]
        assert len(again) == 2
        assert made.run(again[0], "--limit", "1", "--canary", "0s", code=1)["sent"] == 0
        consumer.is_broken = False
        made.killed("--task", "order", "--canary", "60s")
        consumer.most = 0
        made.run("--task", "order", "--canary", "60s", "--concurrency", "15")
        daemon.wait(lambda: len(consumer.done) >= count, 60, "not all are done")
        daemon.wait(lambda: unresolved() == 0, 60, "the ledger does not know")
        done = {"its task succeeded later": count, "its task died once more": 1}
        daemon.wait(
            lambda: {name: outcomes(daemon)[name] for name in done} == done, 60, "what became of them is not told"
        )
    finally:
        consumer.over.set()
        consumer.join()
    assert Counter(consumer.done) == Counter(f"{stream}-{number}" for number in range(count))
    assert 0 < consumer.most <= 15
    assert 0 < client.ttl("tasktrail.redrive") <= 7 * 86_400
