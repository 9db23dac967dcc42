"""Asking a Redis: what a framework's keys hold, in few round trips.

A kind of queue is a generator: it gives commands and is given their replies, so that it neither waits nor knows the
wire. Whoever builds the probe says how the server is reached. Only commands that read are ever sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from collector.model.errors import SourceError
from collector.probes.reading import Reading

PER_TRIP = 2_500
"""Commands that are sent in one go."""
ANSWER_SECONDS = 10.0
SCAN_COUNT = 1_000
SWEEP_SECONDS = 60.0
"""Between the ends of two sweeps over the names of keys."""
FIRST_SCANS, LATER_SCANS = 20, 5
"""SCANs of one look: of the first, so that small servers are known at once, and of each one after it."""
MOST_QUEUES = 10_000
"""Queues of one source that are asked for."""

_ODD = ("WRONGTYPE", "ERR no such key", "NOGROUP")
"""How errors begin that say something of a key, and nothing of the server."""

T = TypeVar("T")

Command: TypeAlias = Sequence[str | bytes]
Steps: TypeAlias = Generator[Sequence[Command], list[Any], Reading]
Asked: TypeAlias = Generator[Sequence[Command], list[Any], None]
Rows: TypeAlias = Generator[Sequence[Command], list[Any], list[Sequence[Any]]]
PAUSE: Sequence[Command] = ()
"""Nothing to ask: others have a turn."""
PER_PAUSE = 250
"""Queues that are gone through without a pause."""


class Connection(Protocol):
    """A connection to the server, as the sources have it."""

    async def ask_many(self, commands: Sequence[Command], seconds: float = 5.0) -> list[Any]:
        """Replies in order; an error reply stands in its place. Raises SourceError."""
        ...

    def close(self) -> None:
        """At once."""
        ...


class Kind(Protocol):
    """One framework's queues."""

    def look(self, known: Collection[str], now: float) -> Steps:
        """Ask in steps, each of which needs what the one before it was told."""
        ...


class RedisProbe:
    """`Probe` of a kind of queue on a Redis."""

    def __init__(self, kind: Kind, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._kind = kind
        self._connect = connect
        self._connection: Connection | None = None
        self.trips = 0
        """Round trips so far."""

    async def look(self, known: Collection[str], now: float) -> Reading:
        """All there is to say now."""
        steps = self._kind.look(known, now)
        try:
            commands = next(steps)
            while True:
                commands = steps.send(await self._ask(commands))
        except StopIteration as end:
            reading: Reading = end.value
            return reading
        except BaseException:
            await self.close()
            raise

    async def _ask(self, commands: Sequence[Command]) -> list[Any]:
        if not commands:
            await asyncio.sleep(0)
            return []
        if self._connection is None:
            self._connection = await self._connect()
        replies: list[Any] = []
        for begin in range(0, len(commands), PER_TRIP):
            self.trips += 1
            replies += await self._connection.ask_many(commands[begin : begin + PER_TRIP], ANSWER_SECONDS)
            await asyncio.sleep(0)
        refused = [
            text for reply in replies if isinstance(reply, Exception) and not (text := str(reply)).startswith(_ODD)
        ]
        if replies and len(refused) == len(replies):
            raise SourceError(f"{commands[0][0]!s}: {refused[0]}", retryable=not refused[0].startswith("NOPERM"))
        return replies

    async def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Finder:
    """Finds keys by a pattern, some SCANs per look, over and over."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._cursor: bytes = b"0"
        self._ended_at: float | None = None
        self._is_first = True
        self.found: dict[bytes, None] = {}
        """What is there, as far as is known."""
        self._sweep: dict[bytes, None] = {}

    def go_on(self, now: float) -> Asked:
        """Some more of the keyspace; what a whole sweep did not find is no longer there."""
        if self._cursor == b"0" and self._ended_at is not None and 0 <= now - self._ended_at < SWEEP_SECONDS:
            return
        scans, self._is_first = (FIRST_SCANS if self._is_first else LATER_SCANS), False
        for _ in range(scans):
            (reply,) = yield [("SCAN", self._cursor, "MATCH", self._pattern, "COUNT", str(SCAN_COUNT))]
            self._cursor, keys = reply
            for key in keys:
                if len(self._sweep) < MOST_QUEUES:
                    self._sweep[key] = self.found[key] = None
            if self._cursor == b"0":
                self.found, self._sweep, self._ended_at = self._sweep, {}, now
                return


def ask_each(names: Sequence[Any], questions: Callable[[Any], Sequence[Command]]) -> Rows:
    """Ask the same of each queue, as many as go in one trip at a time. Gives a row of replies for each."""
    if not names:
        return []
    rows: list[Sequence[Any]] = []
    width = len(questions(names[0]))
    per_trip = max(1, PER_TRIP // width)
    for begin in range(0, len(names), per_trip):
        replies = yield [command for name in names[begin : begin + per_trip] for command in questions(name)]
        rows += (replies[at : at + width] for at in range(0, len(replies), width))
    return rows


def decoded(decoder: msgspec.json.Decoder[T], value: Any) -> T | None:
    """A value that holds JSON; None where it is not there, or is something else."""
    try:
        return decoder.decode(value) if isinstance(value, bytes) else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def number(reply: Any) -> int | None:
    """A length that was told; None for an error in its place."""
    return reply if isinstance(reply, int) else None


def texts(reply: Any) -> list[str]:
    """The texts of a list or set; none where there is an error in its place."""
    return [one.decode("utf-8", "replace") for one in reply if one is not None] if isinstance(reply, list) else []


def total(lengths: Sequence[Any]) -> int | None:
    """The sum of lengths, if all of them were told."""
    numbers = [number(one) for one in lengths]
    return None if None in numbers else sum(one for one in numbers if one is not None)


def chosen(named: Collection[str], found: Collection[str], known: Collection[str]) -> list[str]:
    """The queues to ask for: those that are configured, else all that were found or are known."""
    return list(dict.fromkeys([*named] if named else [*found, *known]))[:MOST_QUEUES]
