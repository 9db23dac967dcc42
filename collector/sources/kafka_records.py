"""Everything that is used of aiokafka and that it does not promise: raw records, and metadata that creates no topics.

aiokafka makes a ConsumerRecord of each record and hands it through a generator; that costs more than all the rest of
reading. `RawReader` takes the C records a whole record batch at a time instead. `raw_is_sound` compares the two over
made-up batches once per process; where they disagree, or a name is gone, `PlainReader` reads the public way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Protocol, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.conn import create_conn
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

Chunk: TypeAlias = tuple[TopicPartition, Sequence[Any], int]
"""Partition; records with `offset timestamp timestamp_type value headers`; the offset where reading goes on."""

_READ_COMMITTED = 1
_NAMES = frozenset({"_records", "_notify", "_wait_consume_future", "_create_fetch_waiter", "_fetch_task"})


class Reader(Protocol):
    """What was fetched, in chunks of one partition. A chunk may be empty: only the position has moved."""

    async def wait(self, seconds: float) -> None:
        """Until something was fetched, or the time is over."""
        ...

    def chunks(self) -> Iterator[Chunk]:
        """What is there now. Raises the KafkaError that a partition met."""
        ...


def reader_of(consumer: AIOKafkaConsumer, size: int) -> Reader:
    """The fast reader where it is sound here, else the public one; `size`: records per chunk, at most."""
    return RawReader(consumer, size) if raw_is_sound() else PlainReader(consumer, size)


class PlainReader:
    """Reads by `getmany` alone."""

    def __init__(self, consumer: AIOKafkaConsumer, size: int) -> None:
        self._consumer = consumer
        self._size = size
        self._chunks: list[Chunk] = []
        self._error: KafkaError | None = None

    async def wait(self, seconds: float) -> None:
        """See Reader."""
        try:
            fetched = await self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=self._size)
        except KafkaError as error:
            self._error = error
            return
        for place in self._consumer.assignment():  # positions also move over what is not handed out
            self._chunks.append((place, fetched.get(place, ()), await self._consumer.position(place)))

    def chunks(self) -> Iterator[Chunk]:
        """See Reader."""
        chunks, self._chunks = self._chunks, []
        error, self._error = self._error, None
        yield from chunks
        if error is not None:
            raise error


class RawReader:
    """Reads what the fetcher has buffered, past the making of ConsumerRecords."""

    def __init__(self, consumer: AIOKafkaConsumer, size: int) -> None:
        self._fetcher = consumer._fetcher
        self._size = size

    async def wait(self, seconds: float) -> None:
        """See Reader."""
        inside = self._fetcher
        if inside._fetch_task.done():
            raise KafkaError("the client's fetcher has ended")
        if inside._records:
            await asyncio.sleep(0)
            return
        waiter = inside._create_fetch_waiter()
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            waiter.cancel()

    def chunks(self) -> Iterator[Chunk]:
        """See Reader."""
        inside = self._fetcher
        for place, result in list(inside._records.items()):
            if type(result) is not fetcher.FetchResult:
                self._forget(place)
                result.check_raise()
            elif result.check_assignment(place) and result.has_more():
                for records, position in unpack(result._partition_records, self._size):
                    yield place, records, position
                result._update_position()
                self._forget(place)
            else:
                self._forget(place)

    def _forget(self, place: TopicPartition) -> None:
        """The fetcher asks for more of a partition once nothing of it is buffered."""
        inside = self._fetcher
        inside._records.pop(place, None)
        inside._notify(inside._wait_consume_future)


def unpack(fetched: Any, size: int) -> Iterator[tuple[list[Any], int]]:
    """The records of one fetched partition (a PartitionRecords), as its own `_unpack_records` gives them.

    Without aborted and control batches; `fetched.next_fetch_offset` moves along. Raises CorruptRecordException.
    """
    pending: list[Any] = []
    batches = fetched._records
    position = fetched.next_fetch_offset
    while batches.has_next():
        batch = batches.next_batch()
        if fetched._check_crcs and not batch.validate_crc():
            yield pending, position
            raise CorruptRecordException(f"the record batch at offset {position} is damaged")
        if not _is_skipped(fetched, batch):
            records = list(batch)
            if records and records[0].offset < position:
                records = [record for record in records if record.offset >= position]
            if pending and records and records[0].timestamp_type != pending[-1].timestamp_type:
                yield pending, position
                pending = []
            pending += records
            while len(pending) > size:
                chunk, pending = pending[:size], pending[size:]
                yield chunk, pending[0].offset
        fetched.next_fetch_offset = position = batch.next_offset
    yield pending, position


def _is_skipped(fetched: Any, batch: Any) -> bool:
    """Whether a batch holds a transaction's marker, or records of an aborted transaction."""
    if fetched._isolation_level == _READ_COMMITTED and batch.producer_id is not None:
        fetched._consume_aborted_up_to(batch.base_offset)
        aborted = fetched._aborted_producers
        if batch.is_control_batch and fetched._contains_abort_marker(batch):
            aborted.discard(batch.producer_id)
        if batch.is_transactional and batch.producer_id in aborted:
            return True
    return bool(batch.is_control_batch)


@cache
def raw_is_sound() -> bool:
    """Whether `unpack` gives what the installed aiokafka gives, and all the names that RawReader uses are there."""
    inside = {*fetcher.Fetcher.__init__.__code__.co_names, *dir(fetcher.Fetcher)}
    if not inside.issuperset(_NAMES):
        return False
    try:
        for data, aborted, start in _samples():
            fast, plain = (_partition_records(data, aborted, start) for _ in range(2))
            got = [record for chunk, _ in unpack(fast, 2) for record in chunk]
            if [_facts(record) for record in got] != [_facts(record) for record in plain]:
                return False
            if fast.next_fetch_offset != plain.next_fetch_offset:
                return False
    except (AttributeError, TypeError, ValueError, KafkaError):
        return False
    return True


def _facts(record: Any) -> tuple[Any, ...]:
    return (record.offset, record.timestamp, record.timestamp_type, record.value, tuple(record.headers))


def _partition_records(data: bytes, aborted: list[tuple[int, int]], start: int) -> Any:
    return fetcher.PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(data), aborted, start, None, None, True, _READ_COMMITTED
    )


def _samples() -> Iterator[tuple[bytes, list[tuple[int, int]], int]]:
    """Fetched bytes, aborted transactions and where reading starts: plain, gzip, in a batch's middle, aborted."""
    plain = _batch(0, 5) + _batch(5, 3, codec=1)
    yield plain, [], 0
    yield plain, [], 3
    yield plain + _batch(8, 2, producer=7) + _batch(10, 2), [(7, 8)], 0
    yield _batch(8, 1, producer=7) + _batch(9, 3, producer=8), [(8, 9)], 8


def _batch(base: int, count: int, *, codec: int = 0, producer: int = -1) -> bytes:
    """An encoded record batch; one with a producer is part of a transaction."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 16,
    )
    for number in range(count):
        headers = [("kind", b"started"), ("none", None)] if number == 1 else []
        builder.append(number, 1_700_000_000_000 + number, None, None if number == 2 else b"{}", headers)
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def keep_from_creating_topics(consumer: AIOKafkaConsumer) -> None:
    """Metadata requests of aiokafka let the broker create topics that are missing; those of this consumer do not."""
    consumer._client._metadata_update = partial(_metadata_update, consumer._client)


async def _metadata_update(client: Any, cluster: Any, topics: Sequence[str]) -> bool:
    """AIOKafkaClient's method of this name, but for the last argument of the request."""
    request = MetadataRequest(list(topics) if topics else None, allow_auto_topic_creation=False)
    nodes = [broker.nodeId for broker in cluster.brokers() or client.cluster.brokers()]
    for node in random.sample(nodes, len(nodes)):
        connection = await client._get_conn(node)
        if connection is None:
            continue
        try:
            metadata = await connection.send(request)
        except (KafkaError, TimeoutError):
            continue
        cluster.update_metadata(metadata)
        return bool(metadata.brokers)
    return False


def follow_topics(consumer: AIOKafkaConsumer, topics: Sequence[str]) -> asyncio.Future[bool]:
    """Ask for the metadata of these topics (of all if there are none) from now on, and once now."""
    consumer._client.set_topics(topics)
    update: asyncio.Future[bool] = consumer._client.force_metadata_update()
    return update


def leaders_of(consumer: AIOKafkaConsumer, is_wanted: Callable[[str], bool]) -> dict[TopicPartition, bool]:
    """Every partition of the wanted topics in the metadata, and whether it has a leader."""
    cluster = consumer._client.cluster
    return {
        place: cluster.leader_for_partition(place) not in {None, -1}
        for topic in cluster.topics()
        if is_wanted(topic)
        for place in (TopicPartition(topic, number) for number in cluster.partitions_for_topic(topic) or ())
    }


async def knock(consumer: AIOKafkaConsumer) -> Exception | None:
    """Connect to the bootstrap servers once more; gives the first server's error, or None where one answers now."""
    client = consumer._client
    errors: list[Exception] = []
    for host, port, _ in client.hosts:
        try:
            connection = await create_conn(
                host,
                port,
                request_timeout_ms=client._request_timeout_ms,
                ssl_context=client._ssl_context,
                security_protocol=client._security_protocol,
                sasl_mechanism=client._sasl_mechanism,
                sasl_plain_username=client._sasl_plain_username,
                sasl_plain_password=client._sasl_plain_password,
            )
        except (OSError, KafkaError, TimeoutError) as error:
            errors.append(error)
        else:
            connection.close()
            return None
    return errors[0] if errors else None


def abandon(consumer: AIOKafkaConsumer) -> None:
    """End the tasks and close the sockets of a consumer that did not stop by itself."""
    client = consumer._client
    for task in [*getattr(consumer._fetcher, "_pending_tasks", ()), client._sync_task]:
        if task is not None:
            task.cancel()
    for connection in list(client._conns.values()):
        connection.close()
