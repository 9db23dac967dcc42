"""Redrive on Kafka: a record goes back to its topic and partition in one transaction with the note that it was sent.

The transactional id is one and the same, so a process that was killed is rolled back and one that hangs is shut out
before anything is read; readers of `read_committed` see each record once. Key, body and headers are those that lie
there, and one header more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, TopicAlreadyExistsError

from collector.model.errors import SourceError
from collector.model.redrive import HEADER
from collector.redrive.message import KEPT_SECONDS, MARKERS, Message, Place

TRANSACTIONAL_ID = MARKERS
_LARGEST = 64 * 1024 * 1024
_SETTINGS = {"retention.ms": str(KEPT_SECONDS * 1000), "retention.bytes": str(_LARGEST), "cleanup.policy": "delete"}
_COPIES = 3
_FAR = 2_000
"""Offsets between two wanted records that are read over rather than jumped."""
_SILENCE = 20.0
_CLOSE = 10.0


class KafkaRedrive:
    """One cluster; fits `collector.redrive.message.Broker`."""

    def __init__(
        self,
        consumer: Callable[[], AIOKafkaConsumer],
        producer: Callable[[str], AIOKafkaProducer],
        admin: Callable[[], AIOKafkaAdminClient],
    ) -> None:
        """How its clients are built; of the producer with which transactional id."""
        self._build = consumer, producer, admin
        self._consumer: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._has_markers = False

    async def open(self, *, writes: bool) -> None:
        """Connect; with `writes` make the topic of what was sent, where it is missing, and shut others out."""
        consumer, producer, admin = self._build
        async with _told():
            if writes:
                await _made(admin())
                self._producer = producer(TRANSACTIONAL_ID)
                await self._producer.start()
            self._consumer = consumer()
            await self._consumer.start()
            self._has_markers = MARKERS in await self._consumer.topics()

    async def sent(self) -> set[str]:
        """Reads all that is noted."""
        found: set[str] = set()
        if self._has_markers:
            place = TopicPartition(MARKERS, 0)
            async with _told():
                first = (await self._client.beginning_offsets([place]))[place]
                end = (await self._client.end_offsets([place]))[place]
                async for record in self._from(place, first, end):
                    found.add((record.key or b"").decode("utf-8", "replace"))
        return found

    async def read(self, places: Sequence[Place]) -> dict[str, Message]:
        """Partition by partition, in the order of offsets."""
        found: dict[str, Message] = {}
        partitions: dict[TopicPartition, dict[int, Place]] = {}
        for one in places:
            topic, _, number = one.place.rpartition("/")
            partitions.setdefault(TopicPartition(topic, int(number)), {})[int(one.receipt)] = one
        async with _told():
            for partition, wanted in partitions.items():
                await self._read(partition, wanted, found)
        return found

    async def _read(self, partition: TopicPartition, wanted: dict[int, Place], found: dict[str, Message]) -> None:
        first = (await self._client.beginning_offsets([partition]))[partition]
        offsets = sorted(offset for offset in wanted if offset >= first)
        while offsets:
            start = offsets[0]
            near = next((n for n, offset in enumerate(offsets[1:], 1) if offset - offsets[n - 1] > _FAR), len(offsets))
            run, offsets = offsets[:near], offsets[near:]
            async for record in self._from(partition, start, run[-1] + 1):
                one = wanted.get(record.offset)
                if one is not None:
                    marks = [value for name, value in record.headers if name == HEADER]
                    marked = (marks[-1] or b"").decode("utf-8", "replace") if marks else ""
                    found[one.id] = Message(at=one, marked=marked, content=record)

    async def _from(self, place: TopicPartition, start: int, end: int) -> AsyncIterator[Any]:
        """The records from an offset on, up to before another."""
        client = self._client
        client.assign([place])
        client.seek(place, start)
        while (at := await client.position(place)) < end:
            try:
                async with asyncio.timeout(_SILENCE):
                    got = await client.getmany(place, timeout_ms=500)
            except OffsetOutOfRangeError:
                return
            for record in got.get(place, ()):
                if record.offset >= end:
                    return
                yield record
            if not got and await client.position(place) == at:
                end = min(end, (await client.end_offsets([place]))[place])
                if client.last_stable_offset(place) not in (None, -1):
                    end = min(end, client.last_stable_offset(place))

    async def send(self, messages: Iterable[tuple[Message, str]]) -> None:
        """One transaction."""
        producer = self._producer
        assert producer is not None  # noqa: S101  opened to write
        async with _told(), producer.transaction():
            waiting = []
            for message, mark in messages:
                record, at = message.content, message.at
                headers = [pair for pair in record.headers if pair[0] != HEADER]
                sent = await producer.send(
                    at.target,
                    record.value,
                    key=record.key,
                    partition=at.partition,
                    headers=[*headers, (HEADER, mark.encode())],
                )
                waiting += [sent, await producer.send(MARKERS, mark.encode(), key=at.id.encode(), partition=0)]
            await asyncio.gather(*waiting)

    async def close(self) -> None:
        """Both clients."""
        for client in (self._producer, self._consumer):
            if client is not None:
                with suppress(TimeoutError):  # of a broker that is lost there is nothing left to wait for
                    await asyncio.wait_for(client.stop(), _CLOSE)

    @property
    def _client(self) -> AIOKafkaConsumer:
        assert self._consumer is not None  # noqa: S101  opened
        return self._consumer


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """What the client raises, as ours."""
    try:
        yield
    except KafkaError as error:
        raise SourceError(f"Kafka: {error}") from error
    except TimeoutError as error:
        raise SourceError(f"Kafka: no answer for {_SILENCE:.0f} s") from error


async def _made(admin: AIOKafkaAdminClient) -> None:
    """The topic of what was sent: one partition, which empties itself after a week."""
    await admin.start()
    try:
        brokers = len((await admin.describe_cluster())["brokers"])
        copies = min(_COPIES, max(1, brokers))
        topic = NewTopic(MARKERS, num_partitions=1, replication_factor=copies, topic_configs=_SETTINGS)
        answer = await admin.create_topics([topic])
        for name, code, *_ in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise SourceError(f"Kafka: topic {name} cannot be made (error {code}): allow it, or make it")
    finally:
        await admin.close()
