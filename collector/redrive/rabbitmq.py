"""Redrive on RabbitMQ: a message is published to the queue in which it died, and only then taken from where it lies.

Each is confirmed by the broker, then noted as sent in a queue of our own, then acknowledged: at least once, under the
same id. Killed between the first two steps it is sent again by the next call; between the last two its copy stays
where it lies, and is not sent again. Body, headers and properties are those that it has, and one header more; but the
client adds a `message_id` where there is none, and `user_id` is left out, of which the broker takes only the sender's.

A queue cannot be read without taking: what lies before the wanted ones is held and given back at the end, which marks
it as redelivered, and which a quorum queue counts. So a call goes through the queue once, only as far as it must, and
refuses where messages were given back so often that a delivery limit may be near.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from collector.model.errors import SourceError
from collector.model.redrive import HEADER
from collector.redrive.message import KEPT_SECONDS, MARKERS, Message, Place

LOCK = f"{MARKERS}.lock"
_TRIES, _BETWEEN = 30, 0.5
"""How often, and after how many seconds, it is asked whether the broker has noticed that a killed process is gone."""
_ANSWER = 10.0
_WAITS, _WAIT = 4, 0.5
"""How often, and for how long (seconds), what a killed process held may still come back to the queue."""
MOST_HELD = 20_000
LARGEST_HELD = 256 * 1024 * 1024
"""Messages and bytes that are held because they lie before those that are wanted."""
MOST_RETURNS = 10
"""The limit of a quorum queue is 20 where nobody has said otherwise."""
_SETTINGS = {"x-message-ttl": KEPT_SECONDS * 1000, "x-max-length-bytes": 64 * 1024 * 1024}
_IDS = ("id", "task_id", "message_id")
_object = msgspec.json.Decoder(dict[str, Any]).decode


class Wire(Protocol):
    """A client of one broker."""

    async def connect(self) -> Any:
        """A connection. Raises SourceError."""
        ...

    async def channel(self, connection: Any) -> Any:
        """A channel whose publishing is confirmed. Raises SourceError."""
        ...

    def spoken(self, doing: str, used: Any = None) -> AbstractContextManager[None]:
        """What the client raises, as SourceError."""
        ...

    async def close(self, connection: Any) -> None:
        """End a connection."""
        ...


class RabbitRedrive:
    """One virtual host; fits `collector.redrive.message.Broker`."""

    def __init__(self, wire: Wire) -> None:
        """How it is connected to."""
        self._wire = wire
        self._connection: Any = None
        self._channel: Any = None
        self._queues: dict[str, _Queue] = {}

    async def open(self, *, writes: bool) -> None:
        """Connect; with `writes` shut others out, and make the queue of what was sent, where it is missing."""
        self._connection = await self._wire.connect()
        self._channel = await self._wire.channel(self._connection)
        if writes:
            await self._lock()
            with self._wire.spoken(f"queue {MARKERS}", self._channel):
                await self._channel.queue_declare(MARKERS, durable=True, arguments=_SETTINGS, timeout=_ANSWER)

    async def _lock(self) -> None:
        """A queue that only one connection can have; it goes with the connection."""
        for left in range(_TRIES, -1, -1):
            used = await self._wire.channel(self._connection)
            try:
                with self._wire.spoken(f"queue {LOCK}", used):
                    await used.queue_declare(LOCK, exclusive=True, auto_delete=True, timeout=_ANSWER)
            except SourceError as error:
                if "RESOURCE_LOCKED" not in str(error) or not left:
                    raise
                await asyncio.sleep(_BETWEEN)
            else:
                return

    async def sent(self) -> set[str]:
        """Reads all that is noted, and gives the notes back."""
        found: set[str] = set()
        used = await self._wire.channel(self._connection)
        try:
            with self._wire.spoken(f"queue {MARKERS}", used):
                said = await used.queue_declare(MARKERS, passive=True, timeout=_ANSWER)
                for _ in range(int(said.message_count)):
                    message = await used.basic_get(MARKERS, timeout=_ANSWER)
                    if message.delivery.name != "Basic.GetOk":
                        break
                    found.update(message.body.decode("utf-8", "replace").split())
                await used.close()  # gives them back
        except SourceError as error:
            if "NOT_FOUND" not in str(error):
                raise
        return found

    async def read(self, places: Sequence[Place]) -> dict[str, Message]:
        """Takes messages until all that are wanted are found, or no more lie there."""
        found: dict[str, Message] = {}
        for queue in dict.fromkeys(one.place for one in places):
            wanted = [one for one in places if one.place == queue]
            if queue not in self._queues:
                self._queues[queue] = _Queue(queue)
            held = self._queues[queue]
            with self._wire.spoken(f"queue {queue}", self._channel):
                await held.take(self._channel, wanted)
            for one in wanted:
                message = held.of(one)
                if message is not None:
                    mark = (message.header.properties.headers or {}).get(HEADER, "")
                    found[one.id] = Message(at=one, marked=_text(mark), content=message)
        return found

    async def send(self, messages: Iterable[tuple[Message, str]]) -> None:
        """All are confirmed, then noted, then acknowledged."""
        listed = list(messages)
        for message, mark in listed:
            taken = message.content
            properties = taken.header.properties
            properties.headers = {**(properties.headers or {}), HEADER: mark}
            properties.user_id = None
            await self._publish(message.at.target, taken.body, properties)
        properties = type(listed[0][0].content.header.properties)(delivery_mode=2)
        await self._publish(MARKERS, "\n".join(message.at.id for message, _ in listed).encode(), properties)
        with self._wire.spoken("acknowledging", self._channel):
            for message, _ in listed:
                await self._channel.basic_ack(message.content.delivery.delivery_tag)
                self._queues[message.at.place].drop(message.content)
            # What the broker answers here it answers after it has taken down what came before on this channel.
            await self._channel.queue_declare(MARKERS, passive=True, timeout=_ANSWER)

    async def _publish(self, queue: str, body: bytes, properties: Any) -> None:
        """To one queue, and nobody else who listens on the exchange it once came over. Returned: an error."""
        with self._wire.spoken(f"publishing to queue {queue}", self._channel):
            await self._channel.basic_publish(
                body, exchange="", routing_key=queue, properties=properties, mandatory=True, timeout=_ANSWER
            )

    async def close(self) -> None:
        """What is held is given back by that, in its order."""
        if self._connection is not None:
            await self._wire.close(self._connection)


class _Queue:
    """What is held of one dead-letter queue."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._by_id: dict[str, list[Any]] = {}
        self._size = 0
        self._tags: set[int] = set()
        self._is_read = False
        self._waits = _WAITS

    async def take(self, channel: Any, wanted: Sequence[Place]) -> None:
        """Hold messages until all wanted ones are among them, or there are no more."""
        missing = [one for one in wanted if self.of(one) is None]
        while missing and not self._is_read:
            message = await channel.basic_get(self._name, timeout=_ANSWER)
            if message.delivery.name != "Basic.GetOk":
                self._waits -= 1
                self._is_read = self._waits < 0
                await asyncio.sleep(0.0 if self._is_read else _WAIT)
                continue
            self._hold(message)
            missing = [one for one in missing if self.of(one) is None] if _is_any(missing, message) else missing

    def _hold(self, message: Any) -> None:
        returns = (message.header.properties.headers or {}).get("x-delivery-count", 0)
        if isinstance(returns, int) and returns > MOST_RETURNS:
            raise SourceError(
                f"queue {self._name}: its messages were given back {returns} times, which it counts: a delivery limit "
                "would delete them; move them with a shovel"
            )
        self._tags.add(message.delivery.delivery_tag)
        self._size += len(message.body)
        if len(self._tags) > MOST_HELD or self._size > LARGEST_HELD:
            raise SourceError(
                f"queue {self._name}: more than {MOST_HELD} messages, or {LARGEST_HELD >> 20} MiB, lie before those "
                "that are wanted: redrive or discard these first"
            )
        for name in _names(message):
            self._by_id.setdefault(name, []).append(message)

    def of(self, one: Place) -> Any:
        """The oldest message of a task that is held; None: none."""
        for name in (one.task_id, one.receipt):
            for message in self._by_id.get(name, ()) if name else ():
                if message.delivery.delivery_tag in self._tags:
                    return message
        return None

    def drop(self, message: Any) -> None:
        """It was acknowledged."""
        self._tags.discard(message.delivery.delivery_tag)
        self._size -= len(message.body)
        for name in _names(message):
            self._by_id[name].remove(message)
            if not self._by_id[name]:
                del self._by_id[name]


def _is_any(wanted: Sequence[Place], message: Any) -> bool:
    names = set(_names(message))
    return any(one.task_id in names or one.receipt in names for one in wanted)


def _names(message: Any) -> Iterator[str]:
    """The ids that a message has, each once: its own, the one its framework gave it, and what its body names."""
    properties = message.header.properties
    headers = properties.headers or {}
    content: Mapping[str, Any] = {}
    if message.body[:1] == b"{":
        try:
            content = _object(message.body)
        except (ValueError, RecursionError):
            content = {}
    given = [properties.message_id, properties.correlation_id, *(headers.get(name) for name in _IDS)]
    given += [content.get(name) for name in _IDS]
    yield from dict.fromkeys(str(value) for value in given if isinstance(value, str | int) and value != "")


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)
