"""What RabbitMQ tells when it is asked: a queue's length, the management API's list of queues, a peek at a queue.

Each asks at a pace of its own, keeps nothing but its last answer, and says for people what it is about. A peek is
the one thing here that touches what is others': it is made only where the configuration names the queue.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.model.shown import counted
from collector.sources.amqp_wire import ANSWER_SECONDS, AmqpAddress, about, channel, spoken

_POLL = 5.0  # seconds: as often as the management API itself counts
_PEEK = 10.0
_TOLD = 10.0  # seconds between two sayings of a length that changes
_MOST = 500  # messages per peek
_LARGEST = 16 * 1024 * 1024  # bytes of an answer of the management API

COLUMNS = (
    "name",
    "type",
    "state",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "consumers",
    "arguments",
    "message_stats",
)
"""What is asked for of each queue; what captures hold."""

Record = tuple[dict[str, Any], bytes]


def is_mine(queue: str) -> bool:
    """Whether a queue is of this monitor, or of a monitor or a worker's plumbing: no work waits there."""
    return queue.startswith(("tasktrail.", "celeryev.", "celery_delayed_", "amq.gen")) or queue.endswith(
        (".celery.pidbox", ".reply.celery.pidbox")
    )


class Depth:
    """The length of one queue."""

    def __init__(self, queue: str, connection: Any, address: AmqpAddress) -> None:
        self._queue = queue
        self._connection = connection
        self._address = address
        self._channel: Any = None
        self._looks = 0
        self.says = ""

    async def look(self) -> None:
        """Once a second. Raises SourceError where there is no such queue (any more)."""
        if self._channel is None:
            self._channel = await channel(self._connection, self._address)
        with spoken(self._address, f"queue {self._queue}"):
            said = await self._channel.queue_declare(self._queue, passive=True, timeout=ANSWER_SECONDS)
        if self._looks % int(_TOLD) == 0:
            waiting, consumers = int(said.message_count), int(said.consumer_count)
            self.says = f"queue {self._queue}: {waiting} waiting, {counted(consumers, 'consumer')}"
        self._looks += 1


class Peek:
    """A look at what lies in a queue: taken, and put back at once. Only when its length has changed."""

    def __init__(self, queue: str, connection: Any, address: AmqpAddress, clock: Clock) -> None:
        self.queue = queue
        self._connection = connection
        self._address = address
        self._clock = clock
        self._asked_at = -math.inf
        self._length = -1
        self.says = f"peeks at queue {queue}, which marks what lies there as redelivered"

    async def look(self) -> list[Record]:
        """What lies there, at most 500 messages; nothing where nothing changed. Raises SourceError."""
        if self._clock.monotonic() - self._asked_at < _PEEK:
            return []
        self._asked_at = self._clock.monotonic()
        used = await channel(self._connection, self._address)
        try:
            return await self._peek(used)
        except SourceError as error:
            if "NOT_FOUND" not in str(error):
                raise
            self.says = f"waits for queue {self.queue}, which does not exist"
            return []

    async def _peek(self, used: Any) -> list[Record]:
        found: list[Record] = []
        with spoken(self._address, f"queue {self.queue}"):
            said = await used.queue_declare(self.queue, passive=True, timeout=ANSWER_SECONDS)
            length, self._length = self._length, int(said.message_count)
            if length != self._length:
                tag = 0
                while len(found) < min(_MOST, self._length):
                    message = await used.basic_get(self.queue, timeout=ANSWER_SECONDS)
                    if message.delivery.name != "Basic.GetOk":
                        break
                    tag = message.delivery.delivery_tag
                    found.append(({"queue": self.queue, **about(message, message.delivery.exchange)}, message.body))
                if tag:
                    await used.basic_nack(tag, multiple=True, requeue=True)
            await used.close()  # also puts back whatever is still held
        self.says = f"peeks at queue {self.queue}, which marks what lies there as redelivered"
        return found


class Management:
    """The list of queues of our virtual host, and the dead-letter exchanges that it names."""

    def __init__(self, base: str, address: AmqpAddress, clock: Clock) -> None:
        password = "guest" if address.password is None else address.password.reveal()
        self._path = f"/api/queues/{quote(address.vhost, safe='')}"
        self._url = base.rstrip("/") + self._path
        login = base64.b64encode(f"{address.username or 'guest'}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}"}
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._asking: asyncio.Future[list[dict[str, Any]]] | None = None
        self._asked_at = -math.inf
        self._last = b""
        self.dead_letters: dict[str, set[str]] = {}
        """Exchange → the keys under which dead letters come there."""
        self._unbound: list[str] = []
        self._error = ""

    @property
    def says(self) -> str:
        """For people."""
        if self._error:
            return f"the management API is not read: {self._error}"
        if self._unbound:
            return (
                f"dead letters of {', '.join(self._unbound)} go over the default exchange, which nothing can be bound "
                "to: they are seen by number only, or by peek=QUEUE"
            )
        return ""

    def look(self) -> Record | None:
        """The list of queues where it changed. Never raises: an API that fails is said, and asked again.

        Asked beside everything else, because an API that hangs must not hold up what is delivered.
        """
        asking, self._asking = self._asking, None
        if asking is None:
            if self._clock.monotonic() - self._asked_at >= _POLL:
                self._asked_at = self._clock.monotonic()
                self._asking = asyncio.ensure_future(self._ask())
            return None
        if not asking.done():
            self._asking = asking
            return None
        try:
            rows = asking.result()
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, ValueError) as error:
            self._error = str(error) or type(error).__name__
            return None
        self._error = ""
        self._learn(rows)
        kept = [{name: row.get(name) for name in COLUMNS} for row in rows if not is_mine(str(row.get("name")))]
        body = msgspec.json.encode(kept)
        if body == self._last:
            return None
        self._last = body
        return {"path": self._path}, body

    async def _ask(self) -> list[dict[str, Any]]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        async with self._session.get(self._url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise ValueError(f"{self._path} answers {answer.status}")
            text = bytearray()
            async for part in answer.content.iter_chunked(1 << 16):
                text += part
                if len(text) > _LARGEST:
                    raise ValueError(f"{self._path} answers more than {_LARGEST} bytes")
        return msgspec.json.decode(text, type=list[dict[str, Any]])

    def _learn(self, rows: list[dict[str, Any]]) -> None:
        """Where each queue sends its dead letters; what a queue itself does not say, its policy may."""
        self.dead_letters.clear()
        self._unbound.clear()
        for row in rows:
            name = str(row.get("name"))
            policy = _table(row.get("effective_policy_definition"))
            given = {key.removeprefix("x-"): value for key, value in _table(row.get("arguments")).items()}
            exchange = given.get("dead-letter-exchange", policy.get("dead-letter-exchange"))
            if exchange is None or is_mine(name):
                continue
            key = given.get("dead-letter-routing-key", policy.get("dead-letter-routing-key", name))
            if exchange == "":
                self._unbound.append(name)
            else:
                self.dead_letters.setdefault(str(exchange), {"#"}).add(str(key))

    async def close(self) -> None:
        """End the connection to the API."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
