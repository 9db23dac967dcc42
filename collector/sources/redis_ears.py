"""What comes unasked from Redis: pub/sub messages and the entries of tailed streams, each over a connection of its own.

Both put what they hear into one inbox, in its order. A full inbox makes them wait: then the server's own buffers fill,
and it cuts us off, which is a lost connection like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import hiredis
import msgspec

from collector.model.errors import SourceError
from collector.sources.redis_values import raw_name
from collector.sources.redis_wire import RedisAddress, RedisConnection, connect, refusal

ROOM = 20_000
"""Messages and entries that wait in the inbox."""
KEYSPACE = "__key"
"""How the channels of the server's own notifications begin."""
_PING_SECONDS = 10.0
_SILENCE_SECONDS = 25.0
_BLOCK_MS = 1000
_MARGIN = 5.0
_COUNT = 500
_IDLE = 0.2  # seconds between looks whether there is a stream to tail


class Message(msgspec.Struct, frozen=True):
    """One pub/sub message."""

    pattern: bytes
    channel: bytes
    body: bytes


class Entry(msgspec.Struct, frozen=True):
    """One entry of a tailed stream."""

    stream: str
    entry_id: bytes
    flat: list[bytes]


Heard: TypeAlias = Message | Entry


class Inbox:
    """What was heard and not yet handed over; also the error that ended the hearing."""

    def __init__(self) -> None:
        self._heard: list[Heard] = []
        self._error: SourceError | None = None
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, heard: Sequence[Heard]) -> None:
        """Add; waits while there is no room."""
        if not heard:
            return
        await self._room.wait()
        self._heard += heard
        self._came.set()
        if len(self._heard) >= ROOM:
            self._room.clear()

    def fail(self, error: SourceError) -> None:
        """What was listening is lost."""
        self._error = error
        self._came.set()

    async def take(self, most: int, seconds: float) -> list[Heard]:
        """The oldest that are there, after at most so many seconds of waiting. Raises the listeners' SourceError."""
        if not self._came.is_set() and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._came.wait()
            except TimeoutError:
                return []
        taken, self._heard = self._heard[:most], self._heard[most:]
        if self._error is not None and not taken:
            raise self._error
        if not self._heard and self._error is None:
            self._came.clear()
        if len(self._heard) < ROOM:
            self._room.set()
        return taken


async def subscribe(
    address: RedisAddress, patterns: Sequence[str], inbox: Inbox, refused: list[str]
) -> RedisConnection:
    """A connection that hears `patterns`: nothing published after this is missed, as long as one listens to it.

    Those of keyspace notifications that this user may not hear are added to `refused`; they only help.
    """
    connection = await connect(address)
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            refused += [pattern for pattern in patterns if not await _subscribed(connection, pattern, inbox)]
    except TimeoutError as error:
        connection.close()
        raise SourceError(f"{address}: no answer to PSUBSCRIBE") from error
    except BaseException:
        connection.close()
        raise
    return connection


async def _subscribed(connection: RedisConnection, pattern: str, inbox: Inbox) -> bool:
    """Whether the server lets us; what is heard meanwhile is kept."""
    connection.tell("PSUBSCRIBE", pattern)
    while True:
        said = await connection.heard()
        errors = [one for one in said if isinstance(one, hiredis.ReplyError)]
        if errors and not pattern.startswith(KEYSPACE):
            raise refusal(connection.address, f"PSUBSCRIBE {pattern}", errors[0])
        await inbox.put(_messages(said))
        if errors:
            return False
        if any(one[0] == b"psubscribe" for one in said):
            return True


def _messages(said: Sequence[Any]) -> list[Message]:
    return [Message(*one[1:4]) for one in said if isinstance(one, list) and one[0] == b"pmessage"]


async def listen(connection: RedisConnection, inbox: Inbox) -> None:
    """Hear messages until cancelled; a loss goes into the inbox. An answer to PING proves that the line is alive."""
    silent = 0.0
    waiting = asyncio.ensure_future(connection.heard())
    try:
        while silent < _SILENCE_SECONDS:
            done, _ = await asyncio.wait([waiting], timeout=_PING_SECONDS)
            if not done:
                silent += _PING_SECONDS
                connection.tell("PING")
                continue
            silent = 0.0
            await inbox.put(_messages(waiting.result()))
            waiting = asyncio.ensure_future(connection.heard())
        inbox.fail(SourceError(f"the subscription has been silent for {_SILENCE_SECONDS:.0f} s"))
    except SourceError as error:
        inbox.fail(error)
    finally:
        waiting.cancel()


async def tail(address: RedisAddress, positions: dict[str, str], inbox: Inbox) -> None:
    """Read streams from their positions on until cancelled; a loss goes into the inbox.

    `positions` may grow meanwhile; it moves on as entries are put into the inbox.
    """
    while not positions:  # noqa: ASYNC110 - they come seldom, and by another's hand
        await asyncio.sleep(_IDLE)
    try:
        connection = await connect(address)
        try:
            while True:
                names = list(positions)
                words: list[str | bytes] = ["XREAD", "COUNT", str(_COUNT), "BLOCK", str(_BLOCK_MS), "STREAMS"]
                words += [*map(raw_name, names), *(positions[name] for name in names)]
                reply: Any = await connection.ask(*words, seconds=_BLOCK_MS / 1000 + _MARGIN)
                for key, rows in reply or ():
                    name = key.decode("utf-8", "surrogateescape")
                    await inbox.put([Entry(name, entry_id, flat) for entry_id, flat in rows if flat is not None])
                    positions[name] = rows[-1][0].decode()
        finally:
            connection.close()
    except SourceError as error:
        inbox.fail(error)
