"""What the suite over all sources needs of each kind: a way to write into it, and a source that reads it."""
# ruff: noqa: D102, ARG002 - the Protocol says what the methods do

from __future__ import annotations

import asyncio
import gzip
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import aio_pika
import redis.asyncio
import zstandard
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from collector.model.record import Batch, Gap, Outcome, Receipt, Source
from collector.sources.amqp import AmqpOptions, AmqpSource, Tap
from collector.sources.amqp_wire import AmqpAddress
from collector.sources.bullmq import BullmqOptions, BullmqSource
from collector.sources.celery_redis import CeleryRedisOptions, CeleryRedisSource
from collector.sources.file import FileOptions, FileSource
from collector.sources.kafka import KafkaOptions, KafkaSource
from collector.sources.push import UnixOptions, UnixSource
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_wire import RedisAddress


class Notes:
    """An intake that notes everything; `positions` outlive it like a checkpoint. `most`: stop after so many bodies."""

    def __init__(self, positions: dict[str, Receipt] | None = None, most: int | None = None) -> None:
        self.positions = {} if positions is None else positions
        self.most = most
        self.batches: list[Batch] = []
        self.gaps: list[Gap] = []
        self.parts: list[float] = []
        self.details: list[str] = []
        self.is_full = asyncio.Event()

    def position(self, place: str) -> Receipt | None:
        return self.positions.get(place)

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        self.details.append(detail)

    async def take(self, batch: Batch) -> Outcome:
        if self.is_full.is_set():
            await asyncio.Event().wait()  # what comes after the end was not counted: hold until cancelled
        self.batches.append(batch)
        if batch.position is not None:
            self.positions[batch.place] = batch.position
        if self.most is not None and len(self.bodies) >= self.most:
            self.is_full.set()
        return Outcome(read=len(batch.bodies))

    def gap(self, gap: Gap) -> None:
        self.gaps.append(gap)

    def filled(self, part: float) -> None:
        self.parts.append(part)

    def mute(self) -> list[str]:
        return []

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in self.batches for body in batch.bodies]

    @property
    def places(self) -> dict[str, list[bytes]]:
        bodies: dict[str, list[bytes]] = {}
        for batch in self.batches:
            bodies.setdefault(batch.place, []).extend(batch.bodies)
        return bodies

    @property
    def heads(self) -> set[str]:
        """Places whose last batch was at the head."""
        last = {batch.place: batch.is_head for batch in self.batches}
        return {place for place, is_head in last.items() if is_head}


@asynccontextmanager
async def running(source: Source, notes: Notes) -> AsyncIterator[asyncio.Task[None]]:
    """A source at work; cancelled at the end, and given two seconds to be gone."""
    task = asyncio.ensure_future(source.run(notes))
    try:
        yield task
    finally:
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2.0)
        assert done, "the source did not stop"
        if not task.cancelled() and (error := task.exception()):
            raise error


async def until(happened: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - asked from outside, there is no event
            await asyncio.sleep(0.01)


class Rig(Protocol):
    """One kind of source under test. `write` puts bodies into place number `lane`."""

    lanes: int
    is_live: bool
    """Nothing is kept for it: it can only be written to while it reads."""

    def source(self) -> Source: ...
    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None: ...
    def place(self, lane: int = 0) -> str: ...


class KafkaRig:
    """One topic of its own with two partitions."""

    lanes = 2
    is_live = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"t{uuid.uuid4().hex[:12]}"
        self.options = KafkaOptions(name="k", servers=(bootstrap,), topics=(self.topic,))
        self.producer: AIOKafkaProducer | None = None

    def source(self) -> KafkaSource:
        return KafkaSource(self.options)

    def place(self, lane: int = 0) -> str:
        return f"{self.topic}/{lane}"

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        assert self.producer is not None
        for body in bodies:
            await self.producer.send(self.topic, body, partition=lane)
        await self.producer.flush()


@asynccontextmanager
async def kafka_topic(bootstrap: str, partitions: int = 2, **configs: str) -> AsyncIterator[KafkaRig]:
    """A rig on a new topic; `configs` are the topic's, with `_` for `.`."""
    rig = KafkaRig(bootstrap)
    await create_topic(bootstrap, rig.topic, partitions, **configs)
    rig.producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=1 << 26, metadata_max_age_ms=500)
    await rig.producer.start()
    try:
        yield rig
    finally:
        await rig.producer.stop()


async def create_topic(bootstrap: str, topic: str, partitions: int, copies: int = 1, **configs: str) -> None:
    """A topic that is ready: its partitions have leaders."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        await admin.create_topics([NewTopic(topic, partitions, copies, topic_configs=settings)])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            (described,) = await admin.describe_topics([topic])
            parts = described["partitions"]
            if len(parts) == partitions and all(part["leader"] >= 0 for part in parts):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{topic} has no leaders")
    finally:
        await admin.close()


def address_of(url: str) -> RedisAddress:
    """Where a Redis URL points."""
    parts = urlsplit(url)
    return RedisAddress(host=parts.hostname or "", port=parts.port or 6379, database=int(parts.path.strip("/") or 0))


class RedisRig:
    """Two streams of its own."""

    lanes = 2
    is_live = False

    def __init__(self, url: str) -> None:
        self.client = redis.asyncio.Redis.from_url(url)
        self.streams = tuple(f"s{uuid.uuid4().hex[:12]}" for _ in range(self.lanes))
        self.options = RedisStreamOptions(name="r", address=address_of(url), streams=self.streams)

    def source(self) -> RedisStreamSource:
        return RedisStreamSource(self.options)

    def place(self, lane: int = 0) -> str:
        return self.streams[lane]

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        pipe = self.client.pipeline(transaction=False)
        for body in bodies:
            pipe.xadd(self.streams[lane], {"data": body})
        await pipe.execute()


class AmqpRig:
    """One exchange of its own."""

    lanes = 1
    is_live = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.exchange = f"x{uuid.uuid4().hex[:12]}"
        self.options = AmqpOptions(name="a", address=amqp_address_of(url), taps=(Tap(exchange=self.exchange),))
        self.publisher: Any = None

    def source(self) -> AmqpSource:
        return AmqpSource(self.options)

    def place(self, lane: int = 0) -> str:
        return self.exchange

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        for body in bodies:
            await self.publish(body)

    async def publish(self, body: bytes, key: str = "a.b", **properties: Any) -> None:
        """One message; waits until somebody is bound to take it."""
        async with asyncio.timeout(20):
            while True:
                try:
                    await self.publisher.publish(aio_pika.Message(body, **properties), key, mandatory=True)
                except aio_pika.exceptions.PublishError:
                    await asyncio.sleep(0.02)
                else:
                    return


@asynccontextmanager
async def amqp_exchange(url: str, name: str = "") -> AsyncIterator[AmqpRig]:
    """A rig on a new topic exchange; it is gone at the end."""
    rig = AmqpRig(url)
    rig.exchange = name or rig.exchange
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(on_return_raises=True)
        rig.publisher = await channel.declare_exchange(rig.exchange, "topic", durable=True)
        yield rig
        await channel.exchange_delete(rig.exchange)


def amqp_address_of(url: str) -> AmqpAddress:
    """Where an AMQP URL points; user and password guest."""
    parts = urlsplit(url)
    return AmqpAddress(host=parts.hostname or "", port=parts.port or 5672)


class BullmqRig:
    """Two queues of its own, under a prefix of its own, which are found."""

    lanes = 2
    is_live = False

    def __init__(self, url: str) -> None:
        self.client = redis.asyncio.Redis.from_url(url)
        self.prefix = f"b{uuid.uuid4().hex[:12]}"
        self.queues = ("mail", "render:eu")
        self.options = BullmqOptions(name="b", address=address_of(url), prefix=self.prefix)

    async def open(self) -> None:
        """What BullMQ writes when a queue is first used."""
        for queue in self.queues:
            await self.client.hset(f"{self.prefix}:{queue}:meta", "opts.maxLenEvents", "10000")

    def source(self) -> BullmqSource:
        return BullmqSource(self.options)

    def place(self, lane: int = 0) -> str:
        return f"{self.prefix}:{self.queues[lane]}:events"

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        pipe = self.client.pipeline(transaction=False)
        for body in bodies:
            pipe.xadd(self.place(lane), {"data": body})
        await pipe.execute()


class CeleryRedisRig:
    """Worker events under a prefix of its own; nothing is kept for who is not there."""

    lanes = 1
    is_live = True

    def __init__(self, url: str) -> None:
        self.client = redis.asyncio.Redis.from_url(url)
        self.prefix = f"p{uuid.uuid4().hex[:12]}:"
        self.options = CeleryRedisOptions(name="c", address=address_of(url), prefix=self.prefix)

    def source(self) -> CeleryRedisSource:
        return CeleryRedisSource(self.options)

    def place(self, lane: int = 0) -> str:
        return "celery"

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        channel = f"{self.prefix}/0.celeryev/task.multi"
        for body in bodies:
            async with asyncio.timeout(20):
                while not await self.client.publish(channel, body):  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.01)


class UnixRig:
    """One socket; a lane is a connection, all share one place."""

    lanes = 1
    is_live = True

    def __init__(self, folder: Path) -> None:
        self.options = UnixOptions(name="u", path=str(folder / "e.sock"))

    def source(self) -> UnixSource:
        return UnixSource(self.options)

    def place(self, lane: int = 0) -> str:
        return self.options.path

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        await until(Path(self.options.path).exists)
        _, writer = await asyncio.open_unix_connection(self.options.path)
        for body in bodies:
            writer.write(body + b"\n")
            await writer.drain()
        writer.close()
        await writer.wait_closed()


class FileRig:
    """One file in one of the three forms; to be written before it is read."""

    lanes = 1
    is_live = False

    def __init__(self, folder: Path, squeeze: Callable[[bytes], bytes]) -> None:
        self.options = FileOptions(name="f", path=str(folder / "events"))
        self.squeeze = squeeze

    def source(self) -> FileSource:
        return FileSource(self.options)

    def place(self, lane: int = 0) -> str:
        return self.options.path

    async def write(self, bodies: Sequence[bytes], lane: int = 0) -> None:
        # Appending makes further gzip members and zstd frames, which readers have to follow.
        with Path(self.options.path).open("ab") as file:  # noqa: ASYNC230
            file.write(self.squeeze(b"".join(body + b"\n" for body in bodies)))


SQUEEZED: dict[str, Callable[[bytes], bytes]] = {
    "file": bytes,
    "file.gz": gzip.compress,
    "file.zst": zstandard.ZstdCompressor().compress,
}
