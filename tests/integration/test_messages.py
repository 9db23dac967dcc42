"""Hand-written consumers on real brokers: what the running daemon counts is what they did."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.contract_suites.rigs import create_topic

PATIENCE = 60.0
"""Seconds: far more than anything here takes, so that a loaded machine is no failure."""


def totals(run, task: str) -> dict[str, float]:
    """The counters of one task that are not 0."""
    found = {}
    for kind in ("sent", "started", "succeeded", "retried", "dead_lettered", "redelivered"):
        rows = run.json(f"/api/v1/query?query=sum(task_{kind}_total{{task=%22{task}%22}})")["data"]["result"]
        if rows and float(rows[0]["value"][1]):
            found[kind] = float(rows[0]["value"][1])
    return found


@pytest.mark.redis
def test_a_redis_group_is_followed_without_being_in_it(redis_url, run):
    """Sent, started, retried, done and dead-lettered entries of a group are counted; the group is left as it was."""
    stream = f"orders-{uuid.uuid4().hex[:8]}"
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.xgroup_create(stream, "billing", id="0", mkstream=True)
    daemon = run(
        "--source", f"{redis_url.replace('redis://', 'redis-stream://')}/{stream},{stream}.dead?format=messages"
    )
    ids = [client.xadd(stream, {"type": "bill", "n": str(number)}) for number in range(5)]
    daemon.wait(lambda: totals(daemon, "bill").get("sent") == 5, PATIENCE, "not all are sent")
    client.xreadgroup("billing", "c1", {stream: ">"}, count=5)
    daemon.wait(lambda: totals(daemon, "bill").get("started") == 5, PATIENCE, "not all are started")
    client.xack(stream, "billing", *ids[:4])
    client.xclaim(stream, "billing", "c1", min_idle_time=0, message_ids=[ids[4]])
    daemon.wait(lambda: totals(daemon, "bill").get("retried") == 1, PATIENCE, "the second try is not seen")
    client.xadd(
        f"{stream}.dead",
        {"type": "bill", "original_id": ids[4], "original_stream": stream, "error": "KeyError: x", "deliveries": "2"},
    )
    daemon.wait(lambda: totals(daemon, "bill").get("dead_lettered") == 1, PATIENCE, "the dead letter is not seen")
    client.xack(stream, "billing", ids[4])
    expected = {"sent": 5.0, "started": 6.0, "retried": 1.0, "succeeded": 4.0, "dead_lettered": 1.0}
    daemon.wait(lambda: totals(daemon, "bill") == expected, PATIENCE, "the counts differ")
    daemon.end()
    assert [group["name"] for group in client.xinfo_groups(stream)] == ["billing"]
    assert not list(client.scan_iter("*tasktrail*"))


@pytest.mark.kafka
async def test_kafka_topics_with_roles_tell_where_each_message_stands(apache, run):
    """Main, retry and dead-letter topics with Spring's binary headers, and the offsets that a group commits."""
    main = f"orders-{uuid.uuid4().hex[:8]}"
    topics = [main, f"{main}-retry-0", f"{main}-dlt"]
    for topic in topics:
        await create_topic(apache, topic, 1)
    group = f"billing-{main}"
    url = f"kafka://{apache}/{','.join(topics)}?retry=*-retry-*&dead_letter=*-dlt&groups={group}"
    daemon = await asyncio.to_thread(run, "--source", url)
    body = json.dumps({"type": "order"}).encode()

    async def told(kind: str, count: int) -> None:
        """Topics are read beside one another: what comes next must not overtake this."""
        has_come = lambda: totals(daemon, "order").get(kind) == count  # noqa: E731
        await asyncio.to_thread(daemon.wait, has_come, PATIENCE, f"not {count} are {kind}")

    def original(topic: str, offset: int, prefix: str) -> list[tuple[str, bytes]]:
        return [
            (f"{prefix}original-topic", topic.encode()),
            (f"{prefix}original-partition", (0).to_bytes(4, "big")),
            (f"{prefix}original-offset", offset.to_bytes(8, "big")),
            (f"{prefix}exception-cause-fqcn", b"java.sql.SQLException"),
        ]

    producer = AIOKafkaProducer(bootstrap_servers=apache)
    await producer.start()
    try:
        for _ in range(4):
            await producer.send_and_wait(main, body, partition=0)
        await told("sent", 4)
        await producer.send_and_wait(topics[1], body, partition=0, headers=original(main, 3, "kafka_"))
        await told("retried", 1)
        await producer.send_and_wait(topics[2], body, partition=0, headers=original(topics[1], 0, "kafka_dlt-"))
        await told("dead_lettered", 1)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=apache, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0) for topic in topics[:2]])
        await consumer.commit({TopicPartition(main, 0): 4, TopicPartition(topics[1], 0): 1})
    finally:
        await consumer.stop()
    expected = {"sent": 4.0, "retried": 1.0, "dead_lettered": 1.0, "succeeded": 3.0}
    seen = lambda: totals(daemon, "order") == expected  # noqa: E731
    await asyncio.to_thread(daemon.wait, seen, PATIENCE, "the counts differ")
    assert (await asyncio.to_thread(daemon.json, f"/api/tasks/{main}-0-3"))["state"] == "dead_lettered"
