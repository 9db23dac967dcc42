"""CPU microseconds per record of reading alone: `python -m tests.bench.sources [kafka|redis|file] [--records N]`.

Kafka: aiokafka's getmany and a pass over the records, our two readers, and the whole source with an intake that
counts. The variants take turns, five rounds; the median is printed. Brokers are those of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from collector.model.record import Batch, Gap, Outcome, Receipt, Source
from collector.sources import kafka_client, kafka_records
from collector.sources.file import FileOptions, FileSource
from collector.sources.kafka import KafkaOptions, KafkaSource
from collector.sources.redis_stream import RedisStreamSource
from tests import brokers
from tests.contract_suites.rigs import RedisRig, kafka_topic

BODY = (
    b'{"kind":"started","task_id":"0123456789abcdef0123456789abcdef","time":1795979713.248,"task":"shop.orders.charge",'
    b'"queue":"payments","worker":"worker-7@host-12","trace_id":"0af7651916cd43dd8448eb211c80319c","attempt":1}'
)
ROUNDS = 5


class Counter:
    """An intake that counts bodies and says when there were enough."""

    def __init__(self, enough: int) -> None:
        self.left = enough
        self.done = asyncio.Event()

    def position(self, place: str) -> Receipt | None:
        """Always from the start."""

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        """Of no interest here."""

    def gap(self, gap: Gap) -> None:
        """Of no interest here."""

    def filled(self, part: float) -> None:
        """Of no interest here."""

    def mute(self) -> list[str]:
        """Of no interest here."""
        return []

    async def take(self, batch: Batch) -> Outcome:
        """Count."""
        self.left -= len(batch.bodies)
        if self.left <= 0:
            self.done.set()
        return Outcome(read=len(batch.bodies))


async def whole(source: Source, records: int) -> float:
    """CPU seconds of a source until it has handed over so many records."""
    counter = Counter(records)
    before = time.process_time()
    task = asyncio.ensure_future(source.run(counter))
    await counter.done.wait()
    spent = time.process_time() - before
    task.cancel()
    await asyncio.wait([task])
    return spent


async def by_reader(
    options: KafkaOptions, records: int, make: Callable[[AIOKafkaConsumer], kafka_records.Reader]
) -> float:
    """CPU seconds of a reader alone, its records turned into the lists of a batch."""
    consumer = kafka_client.build(options)
    await consumer.start()
    places = [TopicPartition(options.topics[0], number) for number in range(4)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    reader, left, before = make(consumer, 500), records, time.process_time()
    while left > 0:
        await reader.wait(0.5)
        for _, chunk, _ in reader.chunks():
            lists = [[record.value for record in chunk], [record.offset for record in chunk]]
            lists += [record.timestamp / 1000 for record in chunk], [record.headers for record in chunk]
            left -= len(lists[0])
            await asyncio.sleep(0)
    spent = time.process_time() - before
    await kafka_client.close(consumer)
    return spent


async def getmany(options: KafkaOptions, records: int) -> float:
    """CPU seconds of the ceiling's reading: getmany and one look at every value."""
    consumer = kafka_client.build(options)
    await consumer.start()
    places = [TopicPartition(options.topics[0], number) for number in range(4)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    left, before = records, time.process_time()
    while left > 0:
        for chunk in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
            for record in chunk:
                left -= record.value is not None
    spent = time.process_time() - before
    await kafka_client.close(consumer)
    return spent


async def compare(variants: dict[str, Callable[[], Awaitable[float]]], records: int) -> None:
    """Let the variants take turns and print their medians."""
    spent: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, run in variants.items():
            spent[name].append(await run())
    for name, seconds in spent.items():
        micros = [second / records * 1e6 for second in seconds]
        print(f"{name:32} {statistics.median(micros):6.3f} us/record  ({min(micros):.3f} to {max(micros):.3f})")


async def kafka(records: int) -> None:
    """Four partitions, filled by one producer with 20 ms of linger."""
    async with kafka_topic(brokers.start_kafka(), partitions=4) as rig:
        producer = AIOKafkaProducer(bootstrap_servers=rig.bootstrap, linger_ms=20, max_batch_size=65536)
        async with producer:
            for number in range(records):
                await producer.send(rig.topic, BODY, partition=number % 4)
        options = KafkaOptions(name="k", servers=(rig.bootstrap,), topics=(rig.topic,))
        variants: dict[str, Callable[[], Awaitable[float]]] = {
            "getmany(5000), values": lambda: getmany(options, records),
            "plain reader, lists": lambda: by_reader(options, records, kafka_records.PlainReader),
            "raw reader, lists": lambda: by_reader(options, records, kafka_records.RawReader),
            "KafkaSource.run": lambda: whole(KafkaSource(options), records),
        }
        await compare(variants, records)


async def redis(records: int) -> None:
    """Two streams with one field an entry."""
    rig = RedisRig(brokers.start_redis())
    for start in range(0, records, 5000):
        await rig.write([BODY] * min(5000, records - start), lane=start // 5000 % 2)
    await compare({"RedisStreamSource.run": lambda: whole(RedisStreamSource(rig.options), records)}, records)
    await rig.client.aclose()


async def file(records: int) -> None:
    """A plain NDJSON file."""
    with tempfile.NamedTemporaryFile() as written:
        Path(written.name).write_bytes((BODY + b"\n") * records)  # noqa: ASYNC240
        options = FileOptions(name="f", path=written.name)
        await compare({"FileSource.run": lambda: whole(FileSource(options), records)}, records)


KINDS = {"kafka": kafka, "redis": redis, "file": file}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="all if none is named")
    parser.add_argument("--records", type=int, default=100_000)
    arguments = parser.parse_args()
    for kind in arguments.kinds or KINDS:
        asyncio.run(KINDS[kind](arguments.records))
