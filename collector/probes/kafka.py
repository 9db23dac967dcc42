"""How far consumer groups are behind in Kafka's topics: in records, and in seconds of the first record that waits.

Only what a group has really committed counts; where it has not, nothing is said. Offsets that hold no record for it
(marks of transactions, what compaction took) are taken out as far as the log was looked at: from the committed offset
on, until its end or some hundred records. We join no group and commit nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from collector.model.errors import SourceError
from collector.probes.kafka_peek import Peek, Peeker
from collector.probes.lag import VERDICTS, Place, seen, verdict, waiting
from collector.probes.reading import LAG, LAG_SECONDS, Reading
from collector.probes.reading import VERDICTS as COUNTS

T = TypeVar("T")

MOST_GROUPS = 200
"""Groups that are asked about, where the configuration names none."""
AT_ONCE = 100
"""Questions that are under way together: groups are asked one by one, and none waits for the answer to another."""
ANSWER_SECONDS = 20.0
CLOSE_SECONDS = 2.0

Offsets = dict[TopicPartition, int]


class KafkaClients(msgspec.Struct, frozen=True):
    """How the cluster is reached: clients that are not started, and how a consumer is thrown away."""

    admin: Callable[[], AIOKafkaAdminClient]
    consumer: Callable[[], AIOKafkaConsumer]
    close: Callable[[AIOKafkaConsumer], Awaitable[None]]


class LagProbe:
    """`Probe`. `topics` or `pattern`: whose lag; `groups`: of whom, else of all that have committed there."""

    def __init__(
        self,
        clients: KafkaClients,
        topics: Collection[str] = (),
        pattern: str | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._pattern = None if pattern is None else re.compile(pattern)
        self._groups = groups
        self._admin: AIOKafkaAdminClient | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._coordinators: dict[str, int] = {}
        self._places: dict[tuple[str, TopicPartition], Place] = {}
        self._peeker = Peeker()

    async def look(self, known: Collection[str], now: float) -> Reading:  # noqa: ARG002 groups tell their topics
        """Commits, ends, and what lies between."""
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                admin, consumer = await self._started()
                reading = Reading()
                groups = await self._found(admin, reading)
                await self._coordinate(admin, groups)
                there = set(await admin.list_topics())
                commits = await self._commits(admin, groups, there)
                wanted = {place for offsets in commits.values() for place in offsets}
                ends: Offsets = await consumer.end_offsets(list(wanted)) if wanted else {}
                begins: Offsets = await consumer.beginning_offsets(list(wanted)) if wanted else {}
                await self._peeker.look(consumer, _behind(commits, begins, ends), ends, now)
                waits = [group for group, offsets in commits.items() if any(offsets[at] < ends[at] for at in offsets)]
                members = await self._members(admin, waits)
        except (GroupAuthorizationFailedError, TopicAuthorizationFailedError) as error:
            raise SourceError(f"consumer groups: {type(error).__name__}", retryable=False) from error
        except (KafkaError, OSError) as error:
            raise SourceError(f"consumer groups: {str(error) or type(error).__name__}") from error
        self._say(reading, commits, begins, ends, members, now)
        return reading

    async def _started(self) -> tuple[AIOKafkaAdminClient, AIOKafkaConsumer]:
        if self._admin is None or self._consumer is None:
            self._admin, self._consumer = self._clients.admin(), self._clients.consumer()
            await self._admin.start()
            await self._consumer.start()
        return self._admin, self._consumer

    async def _found(self, admin: AIOKafkaAdminClient, reading: Reading) -> list[str]:
        if self._groups:
            return list(self._groups)
        listed = await admin.list_consumer_groups()
        groups = sorted(name for name, kind, *_ in listed if kind in {"consumer", ""})
        if len(groups) > MOST_GROUPS:
            reading.says = f"asks about the lag of {MOST_GROUPS} of {len(groups)} groups: name groups=GROUP[,GROUP...]"
        return groups[:MOST_GROUPS]

    async def _coordinate(self, admin: AIOKafkaAdminClient, groups: Sequence[str]) -> None:
        """Find out whom to ask about each group."""
        fresh = [group for group in groups if group not in self._coordinators]
        found = await _together([admin.find_coordinator(group) for group in fresh])
        self._coordinators |= dict(zip(fresh, found, strict=True))

    async def _members(self, admin: AIOKafkaAdminClient, groups: Sequence[str]) -> dict[str, bool]:
        """Which groups have members; those that cannot be told of are left out.

        Each is asked for by itself: the client cannot read an answer about several.
        """
        replies = await _together(
            [admin.describe_consumer_groups([group], self._coordinators[group]) for group in groups]
        )
        rows = [row for reply in replies for response in reply for row in response.groups]
        return {row[1]: bool(row[5]) for row in rows if row[0] == 0}

    async def _commits(
        self, admin: AIOKafkaAdminClient, groups: Sequence[str], there: Collection[str]
    ) -> dict[str, Offsets]:
        """What each group has committed of what is wanted. Those that have committed nothing are left out."""
        found = await _together(
            [admin.list_consumer_group_offsets(group, self._coordinators[group]) for group in groups]
        )
        commits = {
            group: {
                place: one.offset
                for place, one in offsets.items()
                if one.offset >= 0 and place.topic in there and self._is_wanted(place.topic)
            }
            for group, offsets in zip(groups, found, strict=True)
        }
        return {group: offsets for group, offsets in commits.items() if offsets}

    def _is_wanted(self, topic: str) -> bool:
        return topic in self._topics if self._pattern is None else bool(self._pattern.fullmatch(topic))

    def _say(  # noqa: PLR0913, PLR0917 all that was told
        self,
        reading: Reading,
        commits: Mapping[str, Offsets],
        begins: Offsets,
        ends: Offsets,
        members: Mapping[str, bool],
        now: float,
    ) -> None:
        places: dict[tuple[str, TopicPartition], Place] = {}
        for group, offsets in commits.items():
            counts: dict[tuple[str, str], int] = {}
            for at, committed in offsets.items():
                former = self._places.get((group, at))
                place = seen(former, committed, ends[at], now)
                peek = self._peeker.seen.get((at, max(committed, begins[at])))
                lag = None if place.is_void else _lag(max(committed, begins[at]), ends[at], peek)
                places[group, at] = place = waiting(place, lag, now)
                labels = {"group": group, "topic": at.topic, "queue": at.topic}
                self._say_partition(reading, {**labels, "partition": str(at.partition)}, lag, peek, now)
                said = verdict(former, place, now, has_members=members.get(group))
                for word in VERDICTS:
                    counts[at.topic, word] = counts.get((at.topic, word), 0) + (word == said)
            for (topic, kind), count in counts.items():
                reading.put(COUNTS, count, group=group, topic=topic, queue=topic, verdict=kind)
        self._places = places

    def _say_partition(
        self, reading: Reading, labels: Mapping[str, str], lag: int | None, peek: Peek | None, now: float
    ) -> None:
        if lag is None:
            reading.unknown.add(labels["queue"])
            return
        reading.put(LAG, lag, **labels)
        if lag == 0:
            reading.put(LAG_SECONDS, 0.0, **labels)
        elif peek is not None and peek.first_at is not None:
            reading.put(LAG_SECONDS, max(0.0, now - peek.first_at), **labels)

    async def close(self) -> None:
        """End both clients, whatever they hang on."""
        admin, consumer, self._admin, self._consumer = self._admin, self._consumer, None, None
        self._peeker.forget()
        self._coordinators.clear()
        closing = [self._clients.close(consumer)] if consumer is not None else []
        closing += [admin.close()] if admin is not None else []
        if closing:
            await asyncio.wait([asyncio.ensure_future(one) for one in closing], timeout=CLOSE_SECONDS)


def _behind(commits: Mapping[str, Offsets], begins: Offsets, ends: Offsets) -> list[tuple[TopicPartition, int]]:
    """Where groups go on that are not at the end, each place once."""
    places = [
        (at, max(committed, begins[at]))
        for offsets in commits.values()
        for at, committed in offsets.items()
        if committed < ends[at]
    ]
    return list(dict.fromkeys(places))


def _lag(start: int, end: int, peek: Peek | None) -> int:
    """Records from an offset to the end, without what is known to be none."""
    return max(0, end - start) if peek is None else max(0, end - peek.until) + peek.records


async def _together(questions: Sequence[Awaitable[T]]) -> list[T]:
    """The answers to all, some at a time."""
    answers: list[Any] = []
    for begin in range(0, len(questions), AT_ONCE):
        answers += await asyncio.gather(*questions[begin : begin + AT_ONCE])
    return answers
