"""A look at what lies between a committed offset and the end of a partition: its records, and the time of the first.

A look is remembered as long as a group stands there, so that a group that does not move costs nothing, and goes on
where it ended as the log grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

MOST_PLACES = 200
"""Places that are looked at in one go; the others with the next."""
MOST_RECORDS = 500
"""Records of one place that are counted one by one."""
SECONDS = 5.0
"""All of one look."""
KEEPS = 300.0
"""Seconds after which a place is looked at anew: compaction takes records that were there."""
_WAIT_MS = 300


class Peek(msgspec.Struct):
    """What lies behind an offset, as far as it was looked at."""

    until: int
    """The offset up to which it was."""
    since: float
    """When it was first looked at, Unix seconds."""
    records: int = 0
    first_at: float | None = None
    """The time of the first record, Unix seconds."""


class Peeker:
    """What was looked at. By partition and offset."""

    def __init__(self) -> None:
        self.seen: dict[tuple[TopicPartition, int], Peek] = {}

    def forget(self) -> None:
        """Nothing was looked at."""
        self.seen.clear()

    async def look(
        self,
        consumer: AIOKafkaConsumer,
        places: Sequence[tuple[TopicPartition, int]],
        ends: Mapping[TopicPartition, int],
        now: float,
    ) -> None:
        """Look at places that are new, or whose log has grown. Raises KafkaError."""
        self.seen = {place: peek for place in places if (peek := self.seen.get(place)) and now - peek.since < KEEPS}
        due = [place for place in places if self._is_due(place, ends)][:MOST_PLACES]
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while due:
                    turn = dict(due)  # of each partition one place at a time
                    due = [place for place in due if turn[place[0]] != place[1]]
                    await self._read(consumer, turn, ends, now)

    def _is_due(self, place: tuple[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        peek = self.seen.get(place)
        return peek is None or (peek.until < ends[place[0]] and peek.records < MOST_RECORDS)

    async def _read(
        self,
        consumer: AIOKafkaConsumer,
        turn: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        now: float,
    ) -> None:
        consumer.assign(list(turn))
        left: dict[TopicPartition, Peek] = {}
        for at, offset in turn.items():
            left[at] = peek = self.seen.setdefault((at, offset), Peek(offset, now))
            consumer.seek(at, peek.until)
        try:
            while left:
                fetched = await consumer.getmany(*left, timeout_ms=_WAIT_MS, max_records=MOST_RECORDS)
                for at, peek in list(left.items()):
                    records = [record for record in fetched.get(at, ()) if record.offset < ends[at]]
                    if records and peek.first_at is None and records[0].timestamp > 0:
                        peek.first_at = records[0].timestamp / 1000
                    position = await consumer.position(at)
                    peek.records += len(records)
                    peek.until = min(ends[at], position)
                    if peek.until >= ends[at] or peek.records >= MOST_RECORDS:
                        del left[at]
        except OffsetOutOfRangeError as error:  # what lay there was deleted meanwhile: the next look begins further on
            for at in error.args[0]:
                self.seen.pop((at, turn[at]), None)
        finally:
            consumer.unsubscribe()
