"""The watcher of a framework that keeps its tasks in Redis: hands over keys, messages and entries as a capture does.

Takes a row of `redis_watches.py`; gives batches of taps `redis-key`, `redis-pubsub` and `redis-stream`. What is read
again by whom is in `redis_reader.py`, what comes unasked in `redis_ears.py`. Nothing is written, claimed or blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.record import Batch, Gap, Intake
from collector.sources.redis_ears import KEYSPACE, Entry, Heard, Inbox, Message, listen, subscribe, tail
from collector.sources.redis_reader import POLLED, SCAN_COUNT, Reader, Record, entry
from collector.sources.redis_values import shown
from collector.sources.redis_watch import Plan, RedisWatchOptions, plan
from collector.sources.redis_wire import RedisConnection, connect

KEYS, MESSAGES = "keys", "messages"
"""Places; a tailed stream is a place by its own name."""
CHUNK = 1000
"""Records per batch, at most."""
FASTEST_POLL = 0.05
"""Seconds between polls, at least."""
SWEEP_SECONDS = 10.0
"""Between two sweeps of SCAN over the database, at most: small ones are looked over more often."""
STEP_SECONDS = 0.5
"""For each step of a sweep so much of a pause until the next."""
MARGIN_SECONDS = 60.0
"""How far the clocks of workers may be behind ours: after a stop so much is read twice, which the trails know."""
FIRST_STEPS = 200
"""Steps of the first sweep that are taken at once."""


class RedisWatchSource:
    """Watches until it is cancelled. Raises SourceError when the server refuses, or falls silent."""

    def __init__(self, options: RedisWatchOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Watch for ever. A new call makes new connections and reads all state again."""
        options = self._options
        planned = plan(options)
        inbox = Inbox()
        connections = [await connect(options.address)]
        helpers: list[asyncio.Task[None]] = []
        try:
            patterns = [pattern for pattern, _ in planned.channels]
            watcher = _Watcher(options, planned, self._clock, connections[0], inbox, intake)
            if patterns:
                connections.append(await subscribe(options.address, patterns, inbox, watcher.refused))
                helpers.append(asyncio.ensure_future(listen(connections[-1], inbox)))
            await watcher.begin()
            helpers.append(asyncio.ensure_future(tail(options.address, watcher.positions, inbox)))
            await watcher.follow()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            for connection in connections:
                connection.close()


class _Watcher:
    """One connection's life."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that it touches is given to it
        self,
        options: RedisWatchOptions,
        planned: Plan,
        clock: Clock,
        connection: RedisConnection,
        inbox: Inbox,
        intake: Intake,
    ) -> None:
        self._options = options
        self._plan = planned
        self._clock = clock
        self._connection = connection
        self._inbox = inbox
        self._intake = intake
        self._reader: Reader
        self._number = 0
        self._cursor = b"0"
        self._next_sweep = -1e9
        self._steps = 0
        self._told_at = -1e9
        self._notifications = ""
        self._detail = ""
        self._is_first = True
        self._since: float | None = None
        """What is older was there before, and is no news."""
        self._complete_at: float | None = None
        """When the newest poll began after which nothing was left to read."""
        self.refused: list[str] = []
        """Patterns that we may not hear."""
        self.positions: dict[str, str] = {}
        """Tailed streams, and where reading them goes on."""

    async def begin(self) -> None:
        """Say what was missed while nobody listened, and find where to start."""
        now = self._clock.now()
        if self._plan.channels and (last := self._intake.position(MESSAGES)) is not None:
            name = self._options.name
            self._intake.gap(
                Gap(source=name, place=MESSAGES, start=float(last), end=now, estimate=None, reason="not_subscribed")
            )
        age, stored = self._options.start_max_age, self._intake.position(KEYS)
        self._since = None if age is None else now - age
        if stored is not None:
            self._since = max(self._since or 0.0, float(stored) - MARGIN_SECONDS)
        self._reader = Reader(self._plan, self._options.address.database, await self._oldest(now))
        for stream in self._plan.tails:
            self._tail(stream)
        if any(pattern.startswith(KEYSPACE) for pattern, _ in self._plan.channels):
            self._notifications = await self._asked_notifications()

    async def follow(self) -> None:
        """Poll, listen and read what either names."""
        poll = max(FASTEST_POLL, self._options.poll or self._options.watch.poll)
        due = self._clock.monotonic()
        began = self._clock.now()
        while True:
            is_busy = self._is_first or self._reader.has_pending
            wait = 0.0 if is_busy else min(1.0, due - self._clock.monotonic())
            await self._hear(await self._inbox.take(CHUNK, wait))
            if self._clock.monotonic() >= due:
                due, began = self._clock.monotonic() + poll, self._clock.now()
                await self._scan()
                await self._hand(await self._reader.poll(self._connection))
            if self._reader.has_pending:
                await self._hand(await self._reader.read_pending(self._connection))
            else:
                self._is_first, self._complete_at = False, began
            await self._tell()

    async def _scan(self) -> None:
        """A step of a sweep; the first sweep as one, as far as it goes."""
        if not self._plan.scan or (self._cursor == b"0" and self._clock.monotonic() < self._next_sweep):
            return
        for _ in range(FIRST_STEPS if self._is_first else 1):
            cursor, found = await self._connection.ask(
                "SCAN", self._cursor, "MATCH", self._plan.scan, "COUNT", str(SCAN_COUNT)
            )
            self._cursor = cursor
            self._steps += 1
            self._reader.found(found)
            if cursor == b"0":
                self._next_sweep = self._clock.monotonic() + min(SWEEP_SECONDS, max(1.0, self._steps * STEP_SECONDS))
                self._steps = 0
                break
        for stream in self._reader.tails:
            self._tail(stream)
        self._reader.tails.clear()

    def _tail(self, stream: str) -> None:
        if stream not in self.positions:
            stored = self._intake.position(stream)
            self.positions[stream] = self._reader.oldest if stored is None else str(stored)

    async def _oldest(self, now: float) -> str:
        """The entry id from which on something is news."""
        if self._since is None:
            return "0-0"
        seconds, _ = await self._connection.ask("TIME")  # ids follow the server's clock
        return f"{max(0, int((int(seconds) - (now - self._since)) * 1000))}-0"

    async def _asked_notifications(self) -> str:
        if self.refused:
            return f"keyspace notifications: this user may not hear them (ACL: &{self.refused[0]})"
        try:
            said = await self._connection.ask("CONFIG", "GET", "notify-keyspace-events")
        except SourceError:
            return "keyspace notifications: the server does not say whether they are on"
        flags = said[1].decode() if len(said) > 1 else ""
        if "K" in flags and ("A" in flags or {"g", "h"} <= set(flags)):
            return "keyspace notifications are on"
        return "keyspace notifications are off (CONFIG SET notify-keyspace-events Kgh adds attempts between two polls)"

    # Handing over

    async def _hear(self, heard: Sequence[Heard]) -> None:
        """Hand over what came unasked, run by run; let the reader know what it names."""
        messages = [one for one in heard if isinstance(one, Message)]
        await self._take("redis-pubsub", MESSAGES, [self._message(one) for one in messages])
        by_stream: dict[str, list[Record]] = {}
        for one in heard:
            if isinstance(one, Entry):
                by_stream.setdefault(one.stream, []).append(self._entry(one))
        for stream, records in by_stream.items():
            await self._take("redis-stream", stream, records)

    def _entry(self, one: Entry) -> Record:
        record = Record(*entry(one.stream, one.entry_id, one.flat))
        for name, value in record.about["fields"].items() if self._plan.entries else ():
            self._reader.follow(f"{one.stream} {name} {value}", self._plan.entries)
        return record

    def _message(self, message: Message) -> Record:
        channel = message.channel.decode("utf-8", "surrogateescape")
        for pattern, follow in self._plan.channels:
            if pattern.encode() == message.pattern:
                self._reader.follow(channel, follow)
        return Record({"channel": _text(message.channel), "pattern": _text(message.pattern)}, message.body)

    async def _hand(self, records: Sequence[Record]) -> None:
        """Hand over what was read: keys first, they hold the names."""
        if self._is_first and self._since is not None:
            records = [one for one in records if one.time is None or one.time >= self._since]
        keys = [one for one in records if "key" in one.about]
        if self._is_first:
            keys = [Record({**one.about, "before": True}, one.body) if one.is_undated else one for one in keys]
        await self._take("redis-key", KEYS, keys)
        await self._take("redis-stream", KEYS, [one for one in records if "stream" in one.about])

    async def _take(self, tap: str, place: str, records: Sequence[Record]) -> None:
        for start in range(0, len(records), CHUNK):
            await self._intake.take(self._batch(tap, place, records[start : start + CHUNK]))
            await asyncio.sleep(0)

    def _batch(self, tap: str, place: str, records: Sequence[Record], *, is_head: bool = False) -> Batch:
        now = self._clock.now()
        is_entry = tap == "redis-stream"
        receipts: list[Any] = [f"{one.about['stream']}/{one.about['id']}" for one in records] if is_entry else []
        if not is_entry:
            receipts = list(range(self._number, self._number + len(records)))
            self._number += len(records)
        return Batch(
            source=self._options.name,
            place=place,
            bodies=[one.body for one in records],
            receipts=receipts,
            received_at=now,
            times=_times(records, now) if is_entry or (tap == "redis-key" and self._is_first) else None,
            tap=tap,
            about=[one.about for one in records],
            is_head=is_head,
            position=self._position(place, records, now),
        )

    def _position(self, place: str, records: Sequence[Record], now: float) -> str | None:
        if place == MESSAGES:
            return str(now)
        if place == KEYS:  # state is read again, but only what is newer is news
            return None if self._complete_at is None else str(self._complete_at)
        return str(records[-1].about["id"]) if records else None

    async def _tell(self) -> None:
        """Once a second: what is watched, and that there is nothing more."""
        tick = self._clock.monotonic()
        if self._is_first or tick - self._told_at < 1.0:
            return
        self._told_at = tick
        if self._reader.dropped:
            now, name = self._clock.now(), self._options.name
            missed = self._reader.dropped
            self._intake.gap(Gap(source=name, place=KEYS, start=now, end=now, estimate=missed, reason="too_many_keys"))
            self._reader.dropped = 0
        if (detail := "; ".join(self._said())) != self._detail:
            self._detail = detail
            self._intake.connected(detail)
        for place in (KEYS, *([MESSAGES] if self._plan.channels else []), *self.positions):
            await self._intake.take(self._batch("redis-key", place, (), is_head=True))

    def _said(self) -> Iterable[str]:
        yield f"watches database {self._options.address.database}"
        if heard := [pattern for pattern, _ in self._plan.channels if not pattern.startswith(KEYSPACE)]:
            yield f"hears {', '.join(heard)}"
        if self.positions:
            yield f"tails {', '.join(sorted(self.positions))}"
        if self._notifications:
            yield self._notifications
        if self._reader.is_full:
            yield f"more than {POLLED} keys would have to be polled, the others are not: name the queues in `queues`"
        yield self._options.watch.sees


def _times(records: Sequence[Record], now: float) -> list[float]:
    return [now if one.time is None else min(one.time, now) for one in records]


def _text(raw: bytes) -> str:
    told = shown(raw)
    return told if isinstance(told, str) else raw.decode("utf-8", "replace")
