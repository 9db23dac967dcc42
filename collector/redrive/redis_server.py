"""Redrive on one Redis: what is dead is read and goes back many at a time, each in one script with its note.

How a stream or a framework keeps it is a `Way`: commands out, replies in. Two processes at once, or one after a crash,
cannot send anything twice: the note is looked at and written in the same step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.redrive.message import MARKERS, Message, Place

_AT_ONCE = 100
Command = tuple[str | bytes, ...]


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


class Way(msgspec.Struct, frozen=True):
    """How what is dead is kept: in a stream, or by one framework."""

    asks: Callable[[Place], list[Command]]
    reads: Callable[[Place, list[Any]], Message | None]
    """From the replies; None where it is gone."""
    sends: Callable[[Message, str, float], Command]
    """The message, its mark, and now in Unix seconds."""
    kind: str = ""
    """What a place is, as an error says it before its name."""


class RedisRedrive:
    """One server; fits `collector.redrive.message.Broker`."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], way: Way, clock: Clock) -> None:
        """How it is connected to, and how it keeps what is dead."""
        self._connect = connect
        self._way = way
        self._clock = clock
        self._connection: Connection | None = None

    async def open(self, *, writes: bool) -> None:  # noqa: ARG002  the note shuts others out, one by one
        """Connect."""
        self._connection = await self._connect()

    async def sent(self) -> set[str]:
        """All that is noted."""
        return {name.decode("utf-8", "replace") for name in await self._asked.ask("HKEYS", MARKERS)}

    async def read(self, places: Sequence[Place]) -> dict[str, Message]:
        """One by one, many in one go."""
        found: dict[str, Message] = {}
        for start in range(0, len(places), _AT_ONCE):
            part = places[start : start + _AT_ONCE]
            asked = [self._way.asks(one) for one in part]
            replies = iter(await self._asked.ask_many([command for each in asked for command in each]))
            for one, commands in zip(part, asked, strict=True):
                said = [next(replies) for _ in commands]
                for reply in said:
                    if isinstance(reply, Exception):
                        raise SourceError(f"Redis: {self._way.kind}{one.place}: {reply}")
                message = self._way.reads(one, said)
                if message is not None:
                    found[one.id] = message
        return found

    async def send(self, messages: Iterable[tuple[Message, str]]) -> None:
        """Each by itself: moved with its note, or not at all."""
        now = self._clock.now()
        commands = [self._way.sends(message, mark, now) for message, mark in messages]
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
