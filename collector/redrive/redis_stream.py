"""Redrive on Redis Streams: an entry goes back to its stream in one script with the note that it was sent.

Two processes at once, or one after a crash, cannot send it twice: the note is looked at and written in the same step.
The fields are those that lie there, and one field more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from collector.model.errors import SourceError
from collector.model.redrive import HEADER
from collector.redrive.message import KEPT_SECONDS, MARKERS, Message, Place

_SEND = (
    b"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return false end "
    b"local entry = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3)) "
    b"redis.call('HSET', KEYS[1], ARGV[1], entry) redis.call('EXPIRE', KEYS[1], ARGV[2]) return entry"
)
_AT_ONCE = 100
_HEADER = HEADER.encode()


class Connection(Protocol):
    """A connection to a server. Raises SourceError."""

    async def ask(self, *words: str | bytes, seconds: float = 5.0) -> Any:
        """The reply to one command."""
        ...

    async def ask_many(self, commands: Sequence[Sequence[str | bytes]], seconds: float = 5.0) -> list[Any]:
        """The replies to several; an error reply stands in its place."""
        ...

    def close(self) -> None:
        """At once."""
        ...


class RedisStreamRedrive:
    """One server; fits `collector.redrive.message.Broker`."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        """How it is connected to."""
        self._connect = connect
        self._connection: Connection | None = None

    async def open(self, *, writes: bool) -> None:  # noqa: ARG002  the note shuts others out, entry by entry
        """Connect."""
        self._connection = await self._connect()

    async def sent(self) -> set[str]:
        """All that is noted."""
        return {name.decode("utf-8", "replace") for name in await self._asked.ask("HKEYS", MARKERS)}

    async def read(self, places: Sequence[Place]) -> dict[str, Message]:
        """Entry by entry, many in one go."""
        found: dict[str, Message] = {}
        for start in range(0, len(places), _AT_ONCE):
            part = places[start : start + _AT_ONCE]
            replies = await self._asked.ask_many([("XRANGE", one.place, one.receipt, one.receipt) for one in part])
            for one, reply in zip(part, replies, strict=True):
                if not isinstance(reply, list):
                    raise SourceError(f"Redis: stream {one.place}: {reply}")
                for _, flat in reply:
                    fields = list(zip(flat[::2], flat[1::2], strict=True))
                    marks = [value for name, value in fields if name == _HEADER]
                    marked = marks[-1].decode("utf-8", "replace") if marks else ""
                    found[one.id] = Message(at=one, marked=marked, content=fields)
        return found

    async def send(self, messages: Iterable[tuple[Message, str]]) -> None:
        """Each by itself: with its note, or not at all."""
        commands = []
        for message, mark in messages:
            kept = [part for name, value in message.content if name != _HEADER for part in (name, value)]
            head = ("EVAL", _SEND, "2", MARKERS, message.at.target, message.at.id, str(KEPT_SECONDS))
            commands.append((*head, *kept, _HEADER, mark.encode()))
        for reply in await self._asked.ask_many(commands, seconds=30.0):
            if isinstance(reply, Exception):
                raise SourceError(f"Redis: {reply}")

    async def close(self) -> None:
        """The connection."""
        if self._connection is not None:
            self._connection.close()

    @property
    def _asked(self) -> Connection:
        assert self._connection is not None  # noqa: S101  opened
        return self._connection
