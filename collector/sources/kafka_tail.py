"""One consumer's life: which partitions, from where, what came, and whether anything still comes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.model.record import Batch, Gap, Intake, Receipt
from collector.model.shown import counted
from collector.sources import kafka_records
from collector.sources.kafka_client import KafkaOptions, within

T = TypeVar("T")

_headers = attrgetter("headers")

_LOG_APPEND_TIME = 1
_OLD = 30.0  # seconds: a record that is older than this at the head got its time from somebody else
_HEAD = 5.0  # seconds since a partition was last seen at its end: what is appended within them arrives now
_DISCOVERY = 2.0  # seconds between looks at the metadata, which refreshes itself every 5 s


class _Place:
    """One partition as it is read."""

    __slots__ = (
        "end",
        "head_at",
        "heard_at",
        "moved_at",
        "name",
        "newest_ms",
        "polled_at",
        "position",
        "record_at",
        "told_at",
    )

    def __init__(self, name: str, position: int, end: int, now: float, newest_ms: int = 0) -> None:
        self.name = name
        self.position = position
        self.end = end
        """The end as the broker last said it."""
        self.head_at = -1e9
        """When the partition was last known to be read to its end, monotonic seconds."""
        self.told_at = -1e9
        """When the intake was last told so."""
        self.heard_at = now
        """When the broker last answered about this partition."""
        self.moved_at = now
        """When the position last moved, or stood at the end."""
        self.newest_ms = newest_ms
        """The newest time of a record that was read, as the broker has it; 0: none. What is older than all of a log's
        records was no part of it."""
        self.polled_at: int | None = None
        self.record_at = 0.0
        """Time of the last record, Unix seconds."""


class Tail:
    """Reads one started consumer until it is cancelled, or until the cluster refuses or falls silent."""

    def __init__(self, options: KafkaOptions, clock: Clock, consumer: AIOKafkaConsumer, intake: Intake) -> None:
        self._options = options
        self._clock = clock
        self._consumer = consumer
        self._intake = intake
        self._pattern = re.compile(options.pattern) if options.pattern is not None else None
        self._reader = kafka_records.reader_of(consumer, options.chunk)
        self._places: dict[TopicPartition, _Place] = {}
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._detail = ""
        self._discovered_at = -1e9
        self._answered_at = clock.monotonic()
        self._probe: asyncio.Task[Mapping[TopicPartition, int]] | None = None
        self._probed_at = self._answered_at

    async def follow(self) -> None:
        """Read for ever. Raises SourceError and KafkaError."""
        await self._ask(kafka_records.follow_topics(self._consumer, self._options.topics))
        try:
            while True:
                await self._discover()
                await self._read()
                await self._watch()
                await self._reader.wait(0.5)
        finally:
            if self._probe is not None:
                self._probe.cancel()

    async def _ask(self, question: Awaitable[T]) -> T:
        servers = ", ".join(self._options.servers)
        return await within(self._options.deadline / 2, question, f"{servers}: no answer")

    # Which partitions

    async def _discover(self) -> None:
        """Assign what is there now; metadata refreshes itself in the background."""
        now = self._clock.monotonic()
        if now - self._discovered_at < _DISCOVERY:
            return
        self._discovered_at = now
        leaders = kafka_records.leaders_of(self._consumer, self._is_wanted)
        fresh = [place for place, leads in leaders.items() if leads and place not in self._places]
        if fresh:
            await self._start(fresh)
        led = frozenset(place for place, leads in leaders.items() if leads and place in self._places)
        if back := led - self._assigned - set(fresh):
            await self._return(back)
        there = frozenset(place for place in leaders if place in self._assigned or place in led)
        if there != self._assigned:
            self._assign(there)
        self._tell(there)

    def _is_wanted(self, topic: str) -> bool:
        return topic in self._options.topics if self._pattern is None else bool(self._pattern.fullmatch(topic))

    def _assign(self, places: frozenset[TopicPartition]) -> None:
        """An assignment replaces the former one and forgets its positions, so all are set again."""
        self._consumer.assign(list(places))
        kafka_records.follow_topics(self._consumer, self._options.topics)
        now = self._clock.monotonic()
        for place in places:
            self._consumer.seek(place, self._places[place].position)
            self._places[place].heard_at = self._places[place].moved_at = now
        self._assigned = places

    def _tell(self, places: Collection[TopicPartition]) -> None:
        topics = sorted({place.topic for place in places})
        missing = sorted(set(self._options.topics).difference(topics))
        said = [f"reads {counted(len(places), 'partition')} of {', '.join(topics)}"] if topics else []
        said += [f"waits for topic {topic}, which does not exist" for topic in missing]
        if self._pattern is not None and not topics:
            said.append(f"waits for a topic that matches {self._options.pattern}")
        if (detail := "; ".join(said)) != self._detail:
            self._detail = detail
            self._intake.connected(detail)

    # Where to read

    async def _start(self, places: Sequence[TopicPartition]) -> None:
        """Place each partition: at its stored position, else at most `start_max_age` back."""
        # The ends come first: what is appended in the meantime lies behind them, and is read.
        ends = await self._ask(self._consumer.end_offsets(places))
        begins = await self._ask(self._consumer.beginning_offsets(places))
        aged = await self._aged([place for place in places if self._stored(place) is None], begins, ends)
        now = self._clock.monotonic()
        for place in places:
            stored = self._stored(place)
            position, newest_ms = (aged[place], 0) if stored is None else stored
            self._places[place] = _Place(_name(place), position, ends[place], now, newest_ms)
            if position == ends[place]:
                self._places[place].head_at = now
        await self._check(places, begins, ends)
        for place in places:
            # Before anything is read the intake knows all places: an unread one holds back what rests on all of them.
            await self._intake.take(self._batch(self._places[place], (), [], self._clock.now()))

    async def _return(self, places: Collection[TopicPartition]) -> None:
        """Partitions that were not there for a while: other ones, perhaps, under the same name."""
        ends = await self._ask(self._consumer.end_offsets(places))
        await self._check(places, await self._ask(self._consumer.beginning_offsets(places)), ends)

    async def _check(
        self,
        places: Collection[TopicPartition],
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Whether the broker still has the positions, and whether they are positions in the log that is there now.

        A log that has all its records, and whose oldest is younger than what we have read, was made since.
        """
        asked = [place for place in places if begins[place] == 0 < self._places[place].position <= ends[place]]
        asked = [place for place in asked if self._places[place].newest_ms]
        oldest = await self._ask(self._consumer.offsets_for_times(dict.fromkeys(asked, 0))) if asked else {}
        for place in places:
            state, first = self._places[place], oldest.get(place)
            is_another = first is not None and first.timestamp > state.newest_ms
            if is_another or not begins[place] <= state.position <= ends[place]:
                await self._miss(place, begins[place], ends[place], is_another=is_another)

    def _stored(self, place: TopicPartition) -> tuple[int, int] | None:
        """Offset, and the newest time that was read."""
        position = self._intake.position(_name(place))
        if position is None:
            return None
        offset, _, newest_ms = str(position).partition("/")
        return int(offset), int(newest_ms or 0)

    async def _aged(
        self,
        places: Sequence[TopicPartition],
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        if self._options.start_max_age is None or not places:
            return {place: begins[place] for place in places}
        since = int((self._clock.now() - self._options.start_max_age) * 1000)
        found = await self._ask(self._consumer.offsets_for_times(dict.fromkeys(places, since)))
        return {place: found[place].offset if found.get(place) else ends[place] for place in places}

    async def _miss(self, place: TopicPartition, begin: int, end: int, *, is_another: bool = False) -> None:
        """The broker does not have the position: say what is missing, and go on where the options say."""
        state, policy = self._places[place], self._options.out_of_range
        ahead = is_another or state.position > end
        what = f"{state.name}: position {state.position} is not in {begin} to {end}"
        if policy == "stop":
            raise SourceError(f"{what}; out_of_range is stop", retryable=False)
        target = begin if policy == "oldest" else end
        if ahead and policy == "oldest" and state.newest_ms:
            target = await self._unseen(place, end)
        is_cut = ahead and policy == "oldest" and target > begin
        until = self._clock.now()
        oldest = (await self._ask(self._consumer.offsets_for_times({place: 0}))).get(place)
        if oldest and policy == "oldest" and oldest.timestamp > 0 and not is_cut:
            until = min(until, oldest.timestamp / 1000)
        self._intake.gap(
            Gap(
                source=self._options.name,
                place=state.name,
                start=state.record_at or until,
                end=until,
                estimate=None if ahead else target - state.position,
                reason="truncated" if is_cut else "recreated" if ahead else "retention",
            )
        )
        state.position, state.newest_ms = target, state.newest_ms if is_cut else 0

    async def _unseen(self, place: TopicPartition, end: int) -> int:
        """The first record that is younger than all that was read.

        Of a log that was made since it is the first one; in a log that lost its end, as by an election of a leader that
        was behind, what was read stands before it.
        """
        younger = {place: self._places[place].newest_ms + 1}
        found = (await self._ask(self._consumer.offsets_for_times(younger))).get(place)
        return end if found is None else int(found.offset)

    async def _replace(self, error: OffsetOutOfRangeError) -> None:
        """The log moved on while we read."""
        places = [place for place in error.args[0] if place in self._assigned]
        ends = await self._ask(self._consumer.end_offsets(places))
        begins = await self._ask(self._consumer.beginning_offsets(places))
        for place in places:
            await self._miss(place, begins[place], ends[place])
            self._consumer.seek(place, self._places[place].position)

    # What came

    async def _read(self) -> None:
        before = self._clock.monotonic()
        try:
            for place, records, position in self._reader.chunks():
                await self._take(place, records, position)
        except OffsetOutOfRangeError as error:
            await self._replace(error)
        busy = self._clock.monotonic() - before
        if busy > 1.0:  # while the intake was at work nobody listened, so that time says nothing about the broker
            self._answered_at += busy
            for place in self._assigned:
                self._places[place].heard_at += busy
                self._places[place].moved_at += busy

    async def _take(self, place: TopicPartition, records: Sequence[Any], position: int) -> None:
        state, clock = self._places[place], self._clock
        if position == state.position and not records:
            return
        now, tick = clock.now(), clock.monotonic()
        end = self._end(place)
        state.end = max(position, state.end if end is None else end)
        state.position, state.heard_at, state.moved_at = position, tick, tick
        times = _times(records, now, is_fresh=tick - state.head_at < _HEAD) if records else []
        if position >= state.end:
            state.head_at = state.told_at = tick
        if times:
            state.record_at = times[-1]
            state.newest_ms = max(state.newest_ms, records[0].timestamp or 0, records[-1].timestamp or 0)
        await self._intake.take(self._batch(state, records, times, now))
        await asyncio.sleep(0)  # buffered records come without waiting; others on the loop must have their turn

    def _batch(self, state: _Place, records: Sequence[Any], times: list[float], now: float) -> Batch:
        first, last = (records[0].offset, records[-1].offset) if records else (0, -1)
        # A topic without gaps (no compaction, no transactions) is the rule, and a range costs nothing a record.
        receipts: Sequence[Receipt] = range(first, last + 1)
        if len(receipts) != len(records):
            receipts = [record.offset for record in records]
        return Batch(
            source=self._options.name,
            place=state.name,
            bodies=[record.value or b"" for record in records],
            receipts=receipts,
            received_at=now,
            times=times,
            fields=[_fields(record.headers) if record.headers else None for record in records]
            if any(map(_headers, records))
            else None,
            tap="kafka",
            is_head=state.position >= state.end,
            position=f"{state.position}/{state.newest_ms}" if state.newest_ms else state.position,
        )

    def _end(self, place: TopicPartition) -> int | None:
        """Where a reader of committed records reaches the end, by the last fetch."""
        stable: int | None = self._consumer.last_stable_offset(place)
        if stable is not None and stable >= 0:
            return stable
        highwater: int | None = self._consumer.highwater(place)
        return highwater

    # Whether anything still comes

    async def _watch(self) -> None:
        """Tell heads, once a second each; give up where the broker is silent or a partition stands still."""
        now = self._clock.monotonic()
        for place in self._assigned:
            state = self._places[place]
            polled = self._consumer.last_poll_timestamp(place)
            if polled != state.polled_at:
                state.polled_at, state.heard_at, self._answered_at = polled, now, now
                state.end = max(state.position, self._end(place) or 0)
                if state.position == state.end:
                    state.head_at = now
            if state.position >= state.end:
                state.moved_at = now
                if now - state.told_at >= 1.0 and state.head_at > state.told_at:  # the broker has said so since
                    state.told_at = now
                    await self._intake.take(self._batch(state, (), [], self._clock.now()))
        self._ask_for_ends(now)
        self._judge(now)

    def _ask_for_ends(self, now: float) -> None:
        """A question of our own, beside the fetching: fetches that come back empty prove nothing."""
        if self._probe is None:
            if now - self._probed_at >= self._options.deadline / 4:
                places = list(self._assigned)
                ask = self._consumer.end_offsets(places) if places else self._everything()
                self._probe, self._probed_at = asyncio.ensure_future(ask), now
        elif self._probe.done():
            probe, self._probe = self._probe, None
            if not probe.cancelled() and probe.exception() is None:
                self._answered_at = now
                for place, end in probe.result().items():
                    state = self._places[place]
                    state.end = max(state.end, end)

    async def _everything(self) -> Mapping[TopicPartition, int]:
        await self._consumer.topics()
        return {}

    def _judge(self, now: float) -> None:
        limit, servers = self._options.deadline, ", ".join(self._options.servers)
        if now - self._answered_at > limit:
            raise SourceError(f"{servers}: no answer for {limit:.0f} s")
        for place in self._assigned:
            state = self._places[place]
            if now - state.heard_at > limit:
                raise SourceError(f"{servers}: no answer about {state.name} for {limit:.0f} s")
            if now - state.moved_at > limit:
                behind = state.end - state.position
                raise SourceError(f"{servers}: {behind} records of {state.name} do not come, for {limit:.0f} s")


def _times(records: Sequence[Any], now: float, *, is_fresh: bool) -> list[float]:
    """Axis times by the topic's timestamp type; arrival where the record has no time; never ahead of now."""
    kind = records[0].timestamp_type
    if kind is None or records[0].timestamp is None:
        return [now] * len(records)
    times = [record.timestamp / 1000 for record in records]
    lowest = min(times)
    if lowest < 0:
        times = [now if at < 0 else at for at in times]
    if kind != _LOG_APPEND_TIME and is_fresh and lowest < now - _OLD:
        times = [now if at < now - _OLD else at for at in times]
    if max(times) > now:
        times = [min(at, now) for at in times]
    return times


def _fields(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name: value.decode("utf-8", "surrogateescape") for name, value in headers if value is not None}


def _name(place: TopicPartition) -> str:
    return f"{place.topic}/{place.partition}"
