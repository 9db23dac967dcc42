"""Looking into Celery's keys: messages that wait or are not acknowledged, and results stored while nobody listened.

Every question is a command that reads, small, and paced: a look costs a page of each queue, less where messages are
large. What was handed over and has not changed is not handed over again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from collector.model.clock import Clock
from collector.model.record import Batch
from collector.sources.redis_wire import RedisConnection

PLACE = "celery"
_QUEUES = 32
"""Queues that are looked into, at most."""
_PAGE = 20
"""Messages of a queue, from the end that is taken next."""
_HELD_PAGE = 100
_STEPS = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""What a priority adds to the name of a queue's list."""
_BUDGET = 1_000_000
"""Bytes of one look; what is over makes the next ones smaller."""
_SCANS = 5
"""Questions of one look for the names of queues, of a thousand keys each."""
_RESULT_SCANS = 200
_RESULTS = 20_000
"""Stored results that are read again after a hole, at most."""
_BINDING = "_kombu.binding."
_NOT_WORK = ("celeryev", "celery.pidbox", "reply.celery.pidbox", "celery_delayed_")
_DONE = re.compile(rb'"date_done": ?"([0-9T:.+-]+)')


class Look:
    """One connection's way of looking."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that it touches is given to it
        self,
        name: str,
        database: int,
        prefix: str | None,
        queues: Sequence[str],
        connection: RedisConnection,
        hand_over: Callable[[Batch], Awaitable[Any]],
        clock: Clock,
    ) -> None:
        self._name = name
        self._database = database
        self._pattern = "*" if prefix is None else prefix
        self._prefixes = [] if prefix is None else [prefix]
        self._connection = connection
        self._hand = hand_over
        self._clock = clock
        self._keys: dict[str, None] = {f"{prefix or ''}{queue}": None for queue in queues}
        self._cursor = b"0"
        self._seen: dict[str, int] = {}
        self._page = _PAGE
        self._read = 0

    @property
    def queues(self) -> list[str]:
        """The lists that are looked into."""
        return list(self._keys)

    async def once(self) -> None:
        """One look. Raises SourceError when the connection is lost."""
        await self._find()
        read = 0
        for key in list(self._keys):
            for step in _STEPS:
                read += await self._list(key + step)
        for prefix in self._prefixes or [""]:
            read += await self._hash(f"{prefix}unacked")
        self._page = max(1, self._page * _BUDGET // read) if read > _BUDGET else min(_PAGE, 2 * self._page)

    async def _find(self) -> None:
        """Go on looking for the queues that were declared: `_kombu.binding.EXCHANGE` sets name them."""
        for _ in range(_SCANS):
            self._cursor, found = await self._connection.ask(
                "SCAN", self._cursor, "MATCH", f"{self._pattern}{_BINDING}*", "COUNT", "1000"
            )
            for key in found:
                await self._bound(key)
            if self._cursor == b"0":
                return

    async def _bound(self, key: bytes) -> None:
        prefix, _, exchange = key.decode("utf-8", "replace").partition(_BINDING)
        if exchange.startswith(_NOT_WORK):
            return
        if prefix not in self._prefixes and len(self._prefixes) < _QUEUES:
            self._prefixes.append(prefix)
        for member in await self._connection.ask("SMEMBERS", key):
            queue = member.decode("utf-8", "replace").rpartition("\x06\x16")[2]
            if queue and len(self._keys) < _QUEUES:
                self._keys.setdefault(prefix + queue)

    async def _list(self, key: str) -> int:
        """Hand over the messages that are next in a list; gives the bytes that were read."""
        items = await self._reply("LRANGE", key, str(-self._page), "-1")
        if not items:
            self._seen.pop(key, None)
            return 0
        return await self._hand_over(key, "list", [_shown(item) for item in items])

    async def _hash(self, key: str) -> int:
        """Hand over a page of what workers hold."""
        reply = await self._reply("HSCAN", key, "0", "COUNT", str(_HELD_PAGE * self._page // _PAGE or 1))
        flat = reply[1] if reply else []
        if not flat:
            self._seen.pop(key, None)
            return 0
        pairs = zip(flat[::2], flat[1::2], strict=False)
        return await self._hand_over(key, "hash", {tag.decode("utf-8", "replace"): _shown(item) for tag, item in pairs})

    async def _reply(self, *words: str) -> Any:
        """A reply; None where the key is of another type than Celery's."""
        return await self._connection.ask(*words, tolerated="WRONGTYPE")

    async def _hand_over(self, key: str, kind: str, content: Any) -> int:
        body = msgspec.json.encode(content)
        if self._seen.get(key) != (known := hash(body)):
            if len(self._seen) > 4 * _QUEUES * len(_STEPS):
                self._seen.clear()
            self._seen[key] = known
            await self._give([(key, kind, body)])
        return len(body)

    async def _give(self, records: list[tuple[str, str, bytes]]) -> None:
        first = self._read
        self._read += len(records)
        await self._hand(
            Batch(
                source=self._name,
                place=PLACE,
                bodies=[body for _, _, body in records],
                receipts=range(first, self._read),
                received_at=self._clock.now(),
                tap="redis-key",
                about=[{"db": self._database, "key": key, "type": kind} for key, kind, _ in records],
                is_head=True,
            )
        )

    async def results(self, start: float, end: float) -> None:
        """Hand over the results that were stored in a hole, as far as a bounded search finds them."""
        cursor, found = b"0", 0
        since, until = _utc(start - 1.0), _utc(end + 1.0)
        for _ in range(_RESULT_SCANS):
            cursor, keys = await self._connection.ask(
                "SCAN", cursor, "MATCH", f"{self._pattern}celery-task-meta-*", "COUNT", "1000"
            )
            values = await self._connection.ask("MGET", *keys) if keys else []
            inside = [
                (key.decode("utf-8", "replace"), "string", msgspec.json.encode(value.decode("utf-8", "replace")))
                for key, value in zip(keys, values, strict=True)
                if value and (done := _DONE.search(value)) and since <= done[1][:19] <= until
            ]
            if inside:
                await self._give(inside)
            found += len(keys)
            if cursor == b"0" or found >= _RESULTS:
                return
            await asyncio.sleep(0)


def _shown(item: bytes) -> Any:
    """A value as a capture shows it."""
    try:
        return item.decode()
    except UnicodeDecodeError:
        return {"b64": item}


def _utc(at: float) -> bytes:
    """A moment as results begin with it, to the second: such text sorts by time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
