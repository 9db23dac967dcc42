"""RabbitMQ: our own queues beside others' exchanges; what passes there is copied to us, nothing is taken from anyone.

Takes which exchanges to bind to, gives batches of one exchange each, in the words of a capture (`amqp`). Reading begins
now, always: a queue of ours ends with its connection, so nothing stays behind. What passed while there was no
connection, and what the broker dropped because we were slow, is a gap. Depth of a queue, the management API, and a peek
at queues that cannot be bound beside are asked for where the options name them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.event import EARLIEST
from collector.model.record import Batch, Gap, Intake, Receipt
from collector.sources.amqp_ask import Depth, Management, Peek
from collector.sources.amqp_signs import Signs
from collector.sources.amqp_wire import (
    AmqpAddress,
    Limits,
    OwnQueue,
    about,
    close,
    connect,
    exists,
    own_queue,
    spoken,
)
from collector.sources.amqp_wire import channel as open_channel

_TICK = 1.0  # seconds between looks at our queues: their length, and whether they are still there
_BIND = 5.0  # seconds after which each binding is made again: an exchange that was made anew has lost it

_TOO_LONG = "waited too long in our queue"

Role = Literal["exchange", "events", "dead_letters", "firehose"]


class Tap(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange to be bound to."""

    exchange: str
    keys: tuple[str, ...] = ("#",)
    role: Role = "exchange"
    """`events`: made (a durable topic exchange) where it is missing. `dead_letters`: waited for where it is missing."""


class AmqpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One virtual host and what to read there."""

    name: str
    address: AmqpAddress
    taps: tuple[Tap, ...] = ()
    queue: str = ""
    """A queue of which only the length is read."""
    peeks: tuple[str, ...] = ()
    """Queues to be peeked at: their messages are taken and put back, which marks them as redelivered."""
    management: str = ""
    """The management API's address, http(s)://host:port; the user is the address'."""
    find_dead_letters: bool = False
    """Whether dead-letter exchanges are looked up there, and bound to."""
    hint: str = ""
    """What else there is to say to people, of what is not read."""
    limits: Limits = Limits()
    chunk: int = 500
    """Records per batch, at most."""


class AmqpSource:
    """Reads until it is cancelled. Raises SourceError: broker or exchange lost, refused, or no answer."""

    def __init__(self, options: AmqpOptions, clock: Clock | None = None, signs: Signs | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._signs = signs or Signs()

    async def run(self, intake: Intake) -> None:
        """Read for ever. A new call makes a new connection and new queues; the time without them is a gap."""
        connection = await connect(self._options.address)
        try:
            await _Life(self._options, self._clock, self._signs, connection, intake).live()
        finally:
            await close(connection)


class _Reader:
    """One exchange as it is read."""

    __slots__ = ("bound_at", "last_at", "probe", "queue", "taken", "tap")

    def __init__(self, tap: Tap, queue: OwnQueue, now: float, tick: float) -> None:
        self.tap = tap
        self.queue = queue
        self.bound_at = tick
        self.last_at = now
        """When it was last known that nothing is missing; Unix seconds."""
        self.taken = 0
        self.probe: tuple[float, int] | None = None
        """Of the messages that once waited at the broker: since when, and how many will have been taken with them."""


class _Life:
    """One connection's life."""

    def __init__(self, options: AmqpOptions, clock: Clock, signs: Signs, connection: Any, intake: Intake) -> None:
        self._options = options
        self._clock = clock
        self._connection = connection
        self._intake = intake
        self._woken = asyncio.Event()
        self._readers: dict[str, _Reader] = {}
        self._missing: dict[str, Tap] = {tap.exchange: tap for tap in options.taps}
        self._asked_at = -1e9
        self._detail = ""
        self._signs = signs
        self._management = Management(options.management, options.address, clock) if options.management else None
        self._depth = Depth(options.queue, connection, options.address) if options.queue else None
        self._peeks = [Peek(name, connection, options.address, clock) for name in options.peeks]

    async def live(self) -> None:
        try:
            while True:
                began = self._clock.monotonic()
                await self._look()
                self._tell()
                while (left := began + _TICK - self._clock.monotonic()) > 0:
                    self._woken.clear()
                    if not any(reader.queue.waiting for reader in self._readers.values()):
                        with suppress(TimeoutError):
                            async with asyncio.timeout(left):
                                await self._woken.wait()
                    for reader in self._readers.values():
                        await self._take(reader)
        finally:
            if self._management is not None:
                await self._management.close()

    # Once a second

    async def _look(self) -> None:
        tick = self._clock.monotonic()
        if self._missing and tick - self._asked_at >= _BIND:
            self._asked_at = tick
            for tap in list(self._missing.values()):
                await self._open(tap)
        for reader in self._readers.values():
            if tick - reader.bound_at >= _BIND:
                reader.bound_at = tick
                await reader.queue.bind(reader.tap.exchange, reader.tap.keys)
            await self._judge(reader, await reader.queue.ready())
        if not self._readers:
            await self._ask_alone()
        if self._management is not None and (found := self._management.look()) is not None:
            await self._hand_over("management", "rabbitmq-management", [found])
            if self._options.find_dead_letters:
                self._find(self._management.dead_letters)
        for peek in self._peeks:
            if peeked := await peek.look():
                await self._hand_over(peek.queue, "amqp-get", peeked)

    async def _ask_alone(self) -> None:
        """Where nothing is delivered: ask for something, because only an answer shows that the broker is there."""
        if self._depth is not None:
            await self._depth.look()
            await self._head(f"queue/{self._options.queue}")
        else:
            await exists(self._connection, self._options.address, "amq.topic")
            await self._head("/")

    def _find(self, found: Mapping[str, Iterable[str]]) -> None:
        """Dead-letter exchanges that the broker's queues name: bind to those that are not bound yet."""
        for exchange, keys in found.items():
            known = self._readers.get(exchange)
            old = known.tap.keys if known is not None else ()
            if known is None or not set(keys) <= set(old):
                tap = Tap(exchange=exchange, keys=tuple(sorted({*old, *keys})), role="dead_letters")
                if known is None:
                    self._missing[exchange] = tap
                else:
                    known.tap, known.bound_at = tap, -1e9
                self._asked_at = -1e9

    async def _open(self, tap: Tap) -> None:
        """Bind a queue of our own to an exchange that is there; leave it in `_missing` else."""
        options = self._options
        if not await exists(self._connection, options.address, tap.exchange):
            if tap.role == "exchange":
                vhost = options.address.vhost
                raise SourceError(f"{options.address}: there is no exchange `{tap.exchange}` in virtual host `{vhost}`")
            if tap.role != "events":
                return
            used = await open_channel(self._connection, options.address)
            with spoken(options.address, f"declaring exchange {tap.exchange}"):
                await used.exchange_declare(tap.exchange, exchange_type="topic", durable=True, timeout=10.0)
                await used.close()
        queue = await own_queue(self._connection, options.address, tap.role, options.limits, self._woken)
        await queue.bind(tap.exchange, tap.keys)
        del self._missing[tap.exchange]
        now = self._clock.now()
        reader = self._readers[tap.exchange] = _Reader(tap, queue, now, self._clock.monotonic())
        since = self._intake.position(tap.exchange)
        if since is not None and float(since) < now:
            reader.last_at = float(since)
            self._miss(reader, None, "not connected")
            reader.last_at = now

    async def _judge(self, reader: _Reader, ready: int) -> None:
        """Say that the place is read to its end, or what the broker dropped because we were slow."""
        limits, tick = self._options.limits, self._clock.monotonic()
        if not ready:
            reader.probe = None
            if not reader.queue.waiting:
                reader.last_at = self._clock.now()
                await self._head(reader.tap.exchange, f"{reader.last_at:.3f}")
            return
        due = reader.taken + ready
        if ready >= limits.messages - limits.prefetch:  # what was acknowledged just now has made room
            self._miss(reader, None, "dropped by the length limit of our queue")
            reader.probe = None
        elif reader.probe is None or reader.taken >= reader.probe[1]:
            reader.probe = (tick, due)
        elif tick - reader.probe[0] > limits.seconds + _TICK:
            self._miss(reader, reader.probe[1] - reader.taken, _TOO_LONG)
            reader.probe = (tick, due)

    def _miss(self, reader: _Reader, estimate: int | None, reason: str) -> None:
        now = self._clock.now()
        self._intake.gap(
            Gap(
                source=self._options.name,
                place=reader.tap.exchange,
                start=max(EARLIEST, min(reader.last_at, now)),
                end=now,
                estimate=estimate,
                is_rough=True,
                reason=reason,
            )
        )
        reader.last_at = now

    # What came

    async def _take(self, reader: _Reader) -> None:
        """Hand over what was delivered, at most one batch, and let the broker send more."""
        waiting = reader.queue.waiting
        if not waiting:
            return
        messages = [waiting.popleft() for _ in range(min(len(waiting), self._options.chunk))]
        exchange = reader.tap.exchange
        is_head = not waiting and len(messages) < self._options.limits.prefetch
        if is_head:
            reader.last_at = self._clock.now()
        told = [about(message, exchange) for message in messages]
        tick = self._clock.monotonic()
        if reader.tap.role == "events":
            self._signs.note(told, tick)
        await self._intake.take(
            self._batch(
                place=exchange,
                tap="amqp",
                bodies=[message.body for message in messages],
                about=told,
                receipts=[message.delivery.delivery_tag for message in messages],
                is_head=is_head,
                position=f"{reader.last_at:.3f}",
            )
        )
        held = len(messages) + len(waiting)
        if self._clock.monotonic() - tick > self._options.limits.seconds and held >= self._options.limits.prefetch:
            self._miss(reader, None, _TOO_LONG)  # more than was handed over may have waited meanwhile
        reader.taken += len(messages)
        await reader.queue.counted(messages[-1].delivery.delivery_tag)

    async def _head(self, place: str, position: str | None = None) -> None:
        """Say that a place is read to its end."""
        await self._intake.take(
            self._batch(place=place, tap="amqp", bodies=[], about=[], receipts=[], is_head=True, position=position)
        )

    async def _hand_over(self, place: str, tap: str, found: list[tuple[dict[str, Any], bytes]]) -> None:
        await self._intake.take(
            self._batch(
                place=place,
                tap=tap,
                bodies=[body for _, body in found],
                about=[told for told, _ in found],
                receipts=range(len(found)),
                is_head=True,
            )
        )

    def _batch(self, *, position: Receipt | None = None, **parts: Any) -> Batch:
        return Batch(source=self._options.name, received_at=self._clock.now(), position=position, **parts)

    # What to say

    def _tell(self) -> None:
        said = [f"reads exchange {name}" for name in self._readers]
        said += [f"waits for exchange {name}, which does not exist" for name in self._missing]
        said += [self._depth.says] if self._depth is not None else []
        said += [peek.says for peek in self._peeks]
        said += [self._management.says] if self._management is not None else []
        said += [self._options.hint] if self._options.hint else []
        if any(reader.tap.role == "events" for reader in self._readers.values()):
            said += self._signs.missing(self._clock.monotonic(), self._intake.mute())
        if (detail := "; ".join(part for part in said if part)) != self._detail:
            self._detail = detail
            self._intake.connected(detail)
