"""The whole pipeline on Kafka, against the least that any reader of the same topic must do.

The ceiling is aiokafka's `getmany(max_records=5000)` and msgspec's decoding into the event, and nothing else. Both run
in this process, on the same topic, with the same gc settings, in turn.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Sequence
from zlib import crc32

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from collector.config import rulefiles
from collector.daemon import Daemon
from collector.formats import native
from collector.model.clock import SystemClock
from collector.model.event import Event
from collector.shell.axis import Axis
from collector.shell.delivery import Delivery
from collector.shell.intake import Lane
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.sources.kafka import KafkaOptions, KafkaSource

PARTITIONS = 4
_TASK_ID = re.compile(rb'"task_id":"[0-9a-f]+"')


async def fill(servers: str, topic: str, messages: Sequence[bytes]) -> None:
    """Write the messages, spread over the partitions of a topic that exists."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=20, max_batch_size=1 << 18, acks=1)
    await producer.start()
    try:
        futures = [
            # as producers do that send with a key: all events of one task in one partition
            await producer.send(topic, body, partition=crc32(_TASK_ID.search(body)[0]) % PARTITIONS)  # type: ignore[index]
            for body in messages
        ]
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


async def ceiling(servers: str, topic: str, count: int) -> float:
    """CPU seconds to read and decode `count` messages, and no more."""
    decode = msgspec.json.Decoder(Event).decode
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        began, read = time.process_time(), 0
        while read < count:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=5000)).values():
                for record in records:
                    decode(record.value)
                read += len(records)
        return time.process_time() - began
    finally:
        await consumer.stop()


async def pipeline(servers: str, topic: str, count: int) -> tuple[float, float]:
    """CPU seconds for the same messages through everything that `run` does; and the longest step of the loop."""
    clock, telemetry = SystemClock(), Telemetry()
    whole = Pipeline(Limits(), rulefiles.load(["shipped"]), telemetry=telemetry, cpu=clock.cpu)
    delivery = Delivery({}, whole.grouping, telemetry, clock=clock)
    daemon = Daemon(whole, delivery, clock, {}, list)
    axis = Axis(name="bench", application="")
    whole.axes.append(axis)
    lane = Lane(axis, native.decode, whole.ingest, clock, telemetry, daemon.woken)
    source = KafkaSource(KafkaOptions(name="bench", servers=(servers,), topics=(topic,)))
    gc.collect()
    gc.freeze()
    began = time.process_time()
    tasks = [asyncio.ensure_future(daemon.tick()), asyncio.ensure_future(lane.supervise(lambda: source))]
    while axis.totals.read < count:  # noqa: ASYNC110 the measured code is not made to say more than it does elsewhere
        await asyncio.sleep(0.005)
    await daemon.turn()
    spent = time.process_time() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    gc.unfreeze()
    return spent, telemetry.get("tasktrail_loop_stall_seconds")
