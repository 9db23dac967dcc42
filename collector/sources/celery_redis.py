"""Celery on Redis: worker events and stored results by subscription, waiting and unacknowledged messages by looking.

Takes one database of one server, gives the records that a capture holds (`redis-pubsub`, `redis-key`). Nothing is
kept by the server for a listener that is away: a reconnect is a hole, on record with what the workers' counts say of
its size, after which the state that can still be read is read again. Only commands that read are sent, but for the
broadcast that switches events on, which is published only where the configuration asks for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.record import Batch, Gap, Intake
from collector.sources.celery_look import PLACE, Look
from collector.sources.celery_workers import Kinds, Worker, Workers, missed, switch_on
from collector.sources.redis_pubsub import HELD, Messages, Subscription, subscribe
from collector.sources.redis_wire import RedisAddress, RedisConnection, connect

_TELL = 1.0  # seconds between looks at what there is to say
_CHANNELS = 2000
"""Channels whose description is kept; those of results are one per task and never are."""
_RESULT = b"celery-task-meta-"
_LATE = 6.0
"""Seconds after a reconnect by which every worker that is still there has sent its heartbeat."""


class CeleryRedisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One broker database, and the names that the application gave."""

    name: str
    address: RedisAddress
    database: str = "0"
    """Whose channels are read: a number, or `*` for those of all."""
    prefix: str | None = None
    """`global_keyprefix`; None: whatever it is."""
    fanout_prefix: str = "/{db}."
    """What stands before the exchange in a channel's name; "" where it is switched off."""
    exchange: str = "celeryev"
    """`event_exchange`."""
    results: bool = True
    enable_events: bool = False
    """Whether to ask the workers to send task events."""
    queues: tuple[str, ...] = ()
    """Queues to look into besides those that are found."""
    look_seconds: float = 5.0
    held: int = HELD

    @property
    def patterns(self) -> tuple[str, ...]:
        """What to listen to."""
        prefix = "*" if self.prefix is None else _literally(self.prefix)
        fanout = _literally(self.fanout_prefix).replace("{db}", self.database)
        found = [f"{prefix}{fanout}{_literally(self.exchange)}*"]
        if self.results:
            found.append(f"{prefix}celery-task-meta-*")
        return tuple(found)

    @property
    def control(self) -> str:
        """The channel that workers take commands from."""
        number = str(self.address.database) if self.database == "*" else self.database
        return f"{self.prefix or ''}{self.fanout_prefix.replace('{db}', number)}celery.pidbox"


def _literally(text: str) -> str:
    """Text as a pattern that matches nothing else."""
    return "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in text)


class Past(msgspec.Struct):
    """What has to outlive a connection: when the last one was heard, and how far the workers were."""

    heard_at: float | None = None
    workers: dict[str, Worker] = {}
    """By name, as they were."""
    kinds: Kinds = msgspec.field(default_factory=Kinds)


class CeleryRedisSource:
    """Listens until it is cancelled. Raises SourceError when the server refuses, falls silent or cuts it off."""

    def __init__(self, options: CeleryRedisOptions, past: Past | None = None, clock: Clock | None = None) -> None:
        self._options = options
        self._past = past if past is not None else Past()
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Read for ever. A new call makes new connections; `past` tells it what hole lies before them.

        What a former process heard last is the position of the place.
        """
        options = self._options
        subscription = await subscribe(options.address, options.patterns, self._clock, options.held)
        try:
            connection = await connect(options.address)
            try:
                listener = _Listener(options, self._past, self._clock, intake, connection)
                await listener.follow(subscription)
            finally:
                connection.close()
        finally:
            subscription.close()


class _Places:
    """Messages' places, as a capture has them, by channel; those of single tasks are not kept."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, Any]] = {}

    def of(self, messages: Messages, channels: Iterable[bytes]) -> list[Mapping[str, Any]]:
        """The place of each message; `channels`: the distinct ones of all."""
        known = self._known
        if new := [channel for channel in channels if channel not in known]:
            patterns = dict(zip(messages.channels, messages.patterns, strict=True))
            made = {channel: _described(channel, patterns[channel]) for channel in new if channel in patterns}
            known = known | made
            if len(known) <= _CHANNELS:
                self._known |= {channel: place for channel, place in made.items() if _RESULT not in channel}
        return list(map(known.__getitem__, messages.channels))


def _described(channel: bytes, pattern: bytes) -> Mapping[str, Any]:
    return {"channel": channel.decode("utf-8", "replace"), "pattern": pattern.decode("utf-8", "replace")}


class _Listener:
    """One connection's life."""

    def __init__(
        self, options: CeleryRedisOptions, past: Past, clock: Clock, intake: Intake, connection: RedisConnection
    ) -> None:
        self._options = options
        self._past = past
        self._clock = clock
        self._intake = intake
        self._connection = connection
        self._workers = Workers(options.exchange, clock.now(), past.kinds)
        self._look = Look(
            options.name, options.address.database, options.prefix, options.queues, connection, self._hand_over, clock
        )
        self._turn = asyncio.Lock()
        self._places = _Places()
        self._read = 0
        self._detail = ""
        heard_at: float | None = past.heard_at
        if heard_at is None and (stored := intake.position(PLACE)) is not None:
            heard_at = float(stored)
        self._hole = heard_at
        """When the last connection was heard, while what was missed since is not on record."""
        self._is_reading_again = heard_at is not None and options.results
        self._began = clock.now()

    async def follow(self, subscription: Subscription) -> None:
        """Take what is published; look beside it, paced, in a task of its own."""
        self._note(subscription.heard_until)
        looking = asyncio.ensure_future(self._look_on(self._hole))
        told_at = -1e9
        try:
            while True:
                messages = await subscription.take(_TELL)
                if looking.done():
                    looking.result()
                heard_until = subscription.heard_until
                await self._take(messages, subscription)
                self._note(heard_until)
                if self._clock.monotonic() - told_at >= _TELL:
                    told_at = self._clock.monotonic()
                    await self._hand_over(self._batch([], [], self._clock.now(), is_head=subscription.is_empty))
                    await self._say()
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(looking, return_exceptions=True)

    @property
    def _is_whole(self) -> bool:
        """Whether no hole lies before what is heard now that is not on record, or not read again."""
        return self._hole is None and not self._is_reading_again

    def _note(self, heard_until: float) -> None:
        """What was heard. Not while a hole lies before it: the next connection has to know of that."""
        if self._is_whole:
            self._past.heard_at = heard_until

    async def _look_on(self, hole: float | None) -> None:
        if hole is not None and self._options.results:
            await self._look.results(hole, self._began)
            self._is_reading_again = False
        while True:
            await self._look.once()
            await asyncio.sleep(self._options.look_seconds)

    # What came

    async def _take(self, messages: Messages, subscription: Subscription) -> None:
        channels = Counter(messages.channels)
        ours = await self._of_our_database(messages, channels)
        about = self._places.of(ours, channels)
        self._workers.hear(ours, channels, self._clock.now())
        await self._hand_over(self._batch(ours.bodies, about, messages.came_at, is_head=subscription.is_empty))

    async def _of_our_database(self, part: Messages, channels: Iterable[bytes]) -> Messages:
        """Without results of other databases: their channels have no number, so their keys are looked for in ours."""
        if self._options.database == "*" or not any(_RESULT in channel for channel in channels):
            return part
        told = [index for index, channel in enumerate(part.channels) if _RESULT in channel]
        found = await self._connection.ask_many([("EXISTS", part.channels[index]) for index in told])
        others = {index for index, reply in zip(told, found, strict=True) if reply == 0}
        if not others:
            return part
        kept = [index for index in range(len(part.bodies)) if index not in others]
        return Messages(
            [part.patterns[index] for index in kept],
            [part.channels[index] for index in kept],
            [part.bodies[index] for index in kept],
            part.came_at,
        )

    async def _hand_over(self, batch: Batch) -> None:
        """One batch at a time, whoever has it."""
        async with self._turn:
            await self._intake.take(batch)

    def _batch(self, bodies: list[bytes], about: list[Mapping[str, Any]], at: float, *, is_head: bool) -> Batch:
        first = self._read
        self._read += len(bodies)
        return Batch(
            source=self._options.name,
            place=PLACE,
            bodies=bodies,
            receipts=range(first, self._read),
            received_at=at,
            tap="redis-pubsub",
            about=about,
            is_head=is_head,
            position=self._position(),
        )

    def _position(self) -> str | None:
        """Until when all was heard and handed over; none while that is known of an earlier connection only."""
        heard_at = self._past.heard_at if self._is_whole else None
        return None if heard_at is None else str(heard_at)

    # What there is to say

    async def _say(self) -> None:
        now = self._clock.now()
        self._tell_hole(now)
        if self._hole is None:
            self._past.workers = dict(self._workers.known)  # those that are gone must not pile up
        mute = self._intake.mute()
        detail = self._told(now, mute)
        if detail != self._detail:
            self._detail = detail
            self._intake.connected(detail, is_deaf=bool(mute) and not self._workers.is_asked)
        if self._options.enable_events and self._workers.take_wish(mute):
            await self._connection.ask("PUBLISH", self._options.control, switch_on(now))

    def _told(self, now: float, mute: Sequence[str]) -> str:
        said = [f"listens to {' and '.join(self._options.patterns)}", *self._workers.said(now, mute)]
        if self._look.queues:
            said.append(f"looks into {_some(self._look.queues)}")
        return "; ".join(said)

    def _tell_hole(self, now: float) -> None:
        """Put what was missed before this connection on record, once the workers have said how far they are."""
        if self._hole is None:
            return
        before, after = self._past.workers, self._workers.known
        if not before.keys() <= after.keys() and now - self._began < _LATE:
            return
        start = min(self._hole, self._began)
        self._intake.gap(
            Gap(
                source=self._options.name,
                place=PLACE,
                start=start,
                end=self._began,
                estimate=missed(before, after, self._began - start),
                is_rough=True,
                reason="reconnected",
            )
        )
        self._hole = None


def _some(names: list[str], most: int = 8) -> str:
    """The first of many names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
