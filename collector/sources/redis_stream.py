"""Redis Streams: plain XREAD from positions of our own; no group, nothing acknowledged, nothing written.

Takes stream names, gives batches of one stream each with entry ids as receipts. A position is `ID` or `ID/INDEX`,
where INDEX counts the entries ever added up to ID (Redis 7 and later say it): with it the number of entries that were
trimmed or deleted before they were read is exact, also over a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.event import EARLIEST
from collector.model.record import Batch, Gap, Intake, Receipt
from collector.sources import redis_groups
from collector.sources.redis_entries import (
    EntryId,
    StreamState,
    body_of,
    entry_id,
    is_older,
    state_of,
    text_of,
    times_of,
)
from collector.sources.redis_wire import RedisAddress, RedisConnection, connect

_BLOCK_MS = 1000
_MARGIN = 5.0  # seconds that an answer may take beyond the blocking
_LOOK = 5.0  # seconds between looks at a stream's state; 1 s while it is read behind its end
_FEWER = 8  # times fewer entries are asked for where an answer was too much
_GROUPS = 1.0  # seconds between questions about consumer groups
_START = (0, 0)
_WRONG = "WRONGTYPE"
"""How the server says that a key is none of a stream."""


class RedisStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One database and the streams to read in it."""

    name: str
    address: RedisAddress
    streams: tuple[str, ...]
    groups: bool = False
    """Whether to look every second at what the consumer groups of the streams are doing."""
    start_max_age: float | None = 3600.0
    """How far back reading starts where there is no position, seconds; None: from the oldest entry."""
    out_of_range: Literal["oldest", "newest", "stop"] = "oldest"
    """Where reading goes on, if at all, where entries were lost before they were read."""
    count: int = 1000
    """Entries per stream and question, at most."""
    chunk: int = 1000
    """Records per batch, at most."""


class RedisStreamSource:
    """Tails the streams until it is cancelled. Raises SourceError when the server refuses, or falls silent."""

    def __init__(self, options: RedisStreamOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Read for ever. A new call makes a new connection, and goes on at the intake's positions.

        Where the server or the link does not stand an answer as large as was asked for, a smaller one is asked for.
        """
        options = self._options
        while True:
            connection = await connect(options.address)
            tail = Tail(options, self._clock, connection, intake)
            try:
                await tail.begin()
                while True:
                    await tail.go_on()
            except SourceError:
                if not tail.is_too_much or options.count == 1:
                    raise
                options = msgspec.structs.replace(options, count=max(1, options.count // _FEWER))
            finally:
                connection.close()


class Stream:
    """One stream as it is read."""

    __slots__ = ("exists", "index", "is_head", "is_other", "is_read", "key", "looked_at", "name", "position", "told_at")

    def __init__(self, name: str, position: EntryId, index: int | None = None, *, is_read: bool = False) -> None:
        self.name = name
        self.key = name.encode()
        self.position = position
        self.index = index
        """Entries ever added up to the position, where that is known."""
        self.is_read = is_read
        """Whether the position is an entry that was read, rather than a moment to start from."""
        self.is_head = False
        self.exists = False
        self.is_other = False
        """Whether a key of another type has its name: it is not asked for, and looked at now and then."""
        self.looked_at = -1e9
        self.told_at = -1e9


Ahead: TypeAlias = Callable[[Stream, Sequence[Any]], Awaitable[None]]
"""Called with entries before they are handed over: what belongs to them can be read and handed over first."""
Describe: TypeAlias = Callable[[Sequence[str], Sequence[str]], str]
"""What to say for people, of the streams that are there and of those that are not."""


class Tail:
    """One connection's life: `begin`, then `go_on` for ever."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one connection
        self,
        options: RedisStreamOptions,
        clock: Clock,
        connection: RedisConnection,
        intake: Intake,
        ahead: Ahead | None = None,
        describe: Describe | None = None,
    ) -> None:
        self._ahead = ahead
        self._describe = describe or _described
        self._options = options
        self._clock = clock
        self._connection = connection
        self._intake = intake
        self._streams: dict[bytes, Stream] = {}
        self._detail = ""
        self._asked_at = -1e9
        self.is_too_much = False
        """Whether the connection was lost over an answer: the server hung up on it (its bound on what a client has not
        read yet), or it had begun and did not come to its end in time."""

    async def begin(self) -> None:
        """Find the places to read from."""
        for name in self._options.streams:
            self._streams[name.encode()] = await self._placed(name)
        await self._look(self._streams.values())

    async def add(self, names: Iterable[str]) -> None:
        """Read further streams: those without a position from their beginning."""
        new = []
        for name in names:
            known = self._intake.position(name) is not None
            new.append(await self._placed(name) if known else Stream(name, _START))
        self._streams.update((stream.key, stream) for stream in new)
        await self._look(new)

    async def go_on(self) -> None:
        """One question for entries, and all that follows from the answer. Without a stream a second's wait."""
        if not self._streams:
            self.tell()
            await asyncio.sleep(_BLOCK_MS / 1000)
            return
        entries = await self._read()
        behind = [key for key, found in entries.items() if len(found) == self._options.count]
        for stream in self._streams.values():  # a key of another type has nothing to read: it holds up nobody
            await self._take(stream, entries.get(stream.key, ()), is_head=stream.key not in behind)
        await self._look(
            stream
            for key, stream in self._streams.items()
            if self._clock.monotonic() - stream.looked_at >= (1.0 if key in behind else _LOOK)
        )
        if self._options.groups and self._clock.monotonic() - self._asked_at >= _GROUPS:
            await self._ask_groups()
        await asyncio.sleep(0)

    # Where to read

    async def _placed(self, name: str) -> Stream:
        stored = self._intake.position(name)
        if stored is not None:
            position, _, index = str(stored).partition("/")
            at = entry_id(position.encode())
            return Stream(name, at, int(index) if index else None, is_read=at != _START)
        if self._options.start_max_age is None:
            return Stream(name, _START)
        seconds, micros = await self._connection.ask("TIME")  # ids follow the server's clock
        since = int(seconds) * 1000 + int(micros) // 1000 - int(self._options.start_max_age * 1000)
        return Stream(name, (max(0, since - 1), 0))

    async def _look(self, streams: Iterable[Stream]) -> None:
        """Compare streams with their positions: what was trimmed, deleted or made anew before it was read."""
        for stream in streams:
            stream.looked_at = self._clock.monotonic()
            state = await self._state(stream)
            if state is None:
                self._gone(stream)
            else:
                stream.exists = True
                self._compare(stream, state)
        self.tell()

    async def _state(self, stream: Stream) -> StreamState | None:
        try:
            flat = await self._connection.ask("XINFO", "STREAM", stream.key)
            stream.is_other = False
        except SourceError as error:
            stream.is_other = _WRONG in str(error)
            if "no such key" in str(error) or (stream.is_other and self._readable()):
                return None
            if not stream.is_other:
                raise
            names = ", ".join(one.name for one in self._streams.values())
            raise SourceError(f"no stream: {names} ({error})", retryable=error.retryable) from error
        return state_of(flat)

    def _gone(self, stream: Stream) -> None:
        """There is no such stream (any more): whatever comes next is a new one, to be read from its beginning."""
        if stream.is_read and not stream.is_head:
            self._miss(stream, self._clock.now(), None, "deleted")
        stream.exists = stream.is_read = False
        stream.position, stream.index = _START, 0

    def _compare(self, stream: Stream, state: StreamState) -> None:
        """Settle what happened behind our back, and learn how many entries lie before the position."""
        if stream.is_read and state.last < stream.position:
            # A stream that was only emptied keeps its last id: this is an older state of it, or another one.
            is_rolled_back = is_older(state, stream.index)
            self._miss(stream, self._clock.now(), None, "rolled back" if is_rolled_back else "recreated")
            stream.position, stream.index, stream.is_read = _START, 0, False
            if is_rolled_back or self._options.out_of_range == "newest":
                stream.position, stream.index, stream.is_read = state.last, state.added, True
        if stream.index is not None and state.added is not None and state.added < stream.index:
            stream.index = None  # made anew with later ids
        unread = None
        if state.last <= stream.position:
            stream.position = state.last  # a moment to start from becomes the entry it stands for
            unread = 0
        elif state.first is None or state.first > stream.position:
            unread = state.length
        if unread is None:
            return
        skipped = self._settle(stream, state, unread)
        if skipped:
            stream.position = state.last
        if state.added is not None:
            stream.index = state.added - unread + skipped

    def _settle(self, stream: Stream, state: StreamState, unread: int) -> int:
        """What is missing before the `unread` entries that are there; how many of those are left out as well."""
        now = self._clock.now()
        first = min(state.first[0] / 1000, now) if state.first and state.first > stream.position else now
        if stream.index is not None and state.added is not None:
            missed = state.added - stream.index - unread
            if missed > 0:
                return self._miss(stream, first, missed, "trimmed", unread)
            if missed < 0 and stream.is_read:  # fewer were ever added than would have been
                return self._miss(stream, first, None, "recreated", unread)
        elif unread and stream.is_read and not stream.is_head:
            return self._miss(stream, first, None, "trimmed", unread)  # the position's own entry is gone, at least
        return 0

    def _miss(self, stream: Stream, end: float, estimate: int | None, reason: str, unread: int = 0) -> int:
        """Say what is missing. Gives how many of those that are there are left out, too: what the options say.

        Raises SourceError where they say stop.
        """
        policy = self._options.out_of_range
        if policy == "stop":
            what = f"{stream.name}: entries behind {text_of(stream.position)} are gone ({reason})"
            raise SourceError(f"{what}; start is stop", retryable=False)
        skipped = unread if policy == "newest" else 0
        start = stream.position[0] / 1000
        self._intake.gap(
            Gap(
                source=self._options.name,
                place=stream.name,
                start=min(start, end) if start >= EARLIEST else end,
                end=end,
                estimate=None if estimate is None else estimate + skipped,
                reason=reason,
            )
        )
        return skipped

    def tell(self) -> None:
        """Say what is read, where that is news."""
        there = [stream.name for stream in self._streams.values() if stream.exists]
        missing = [stream.name for stream in self._readable() if not stream.exists]
        others = [f"{one.name} is not read: it is no stream" for one in self._streams.values() if one.is_other]
        if (detail := "; ".join(filter(None, [self._describe(there, missing), *others]))) != self._detail:
            self._detail = detail
            self._intake.connected(detail)

    # What came

    def _readable(self) -> list[Stream]:
        """Those whose key is a stream, or may become one."""
        return [stream for stream in self._streams.values() if not stream.is_other]

    async def _read(self) -> Mapping[bytes, Sequence[Any]]:
        streams, connection = self._readable(), self._connection
        try:
            reply = await connection.ask(
                *("XREAD", "COUNT", str(self._options.count), "BLOCK", str(_BLOCK_MS), "STREAMS"),
                *(stream.key for stream in streams),
                *(text_of(stream.position) for stream in streams),
                seconds=_BLOCK_MS / 1000 + _MARGIN,
            )
        except SourceError as error:
            if _WRONG in str(error):
                await self._look(streams)  # which of them it is
                if self._readable() != streams:
                    return {}
            else:
                self.is_too_much = connection.is_hung_up or connection.heard_bytes > 0
            raise
        return dict(reply or ())

    async def _ask_groups(self) -> None:
        """Hand over what the groups of each stream are doing; along a backlog it would be in the wrong place."""
        self._asked_at = self._clock.monotonic()
        for stream in self._readable():
            said = await redis_groups.groups(self._connection, stream.key) if stream.is_head else None
            if said is not None:
                about = {"db": self._options.address.database, "key": stream.name, "type": "stream"}
                await self._intake.take(
                    Batch(
                        source=self._options.name,
                        place=stream.name,
                        bodies=[msgspec.json.encode(said)],
                        receipts=[text_of(stream.position)],
                        received_at=self._clock.now(),
                        tap="redis-key",
                        about=[about],
                        is_head=True,
                    )
                )

    async def _take(self, stream: Stream, entries: Sequence[Any], *, is_head: bool) -> None:
        tick = self._clock.monotonic()
        stream.is_head = is_head
        if not entries and (not is_head or tick - stream.told_at < 1.0):
            return
        if is_head:
            stream.told_at = tick
        step = self._options.chunk
        for start in range(0, len(entries) or 1, step):
            part = entries[start : start + step]
            if self._ahead is not None and part:
                await self._ahead(stream, part)
            await self._intake.take(self._batch(stream, part, is_head=is_head and start + step >= len(entries)))
            await asyncio.sleep(0)

    def _batch(self, stream: Stream, entries: Sequence[Any], *, is_head: bool) -> Batch:
        """A batch of entries; moves the stream's position behind them."""
        now = self._clock.now()
        bodies: list[bytes] = []
        fields: list[Mapping[str, str] | None] = []
        for _, flat in entries:
            if len(flat) == 2:
                bodies.append(flat[1])
                fields.append(None)
            else:
                body, others = body_of(flat)
                bodies.append(body)
                fields.append(others)
        if entries:
            stream.position = entry_id(entries[-1][0])
            stream.index = None if stream.index is None else stream.index + len(entries)
            stream.is_read = True
        receipts: list[Receipt] = [entry[0].decode() for entry in entries]
        return Batch(
            source=self._options.name,
            place=stream.name,
            bodies=bodies,
            receipts=receipts,
            received_at=now,
            times=times_of([entry[0] for entry in entries], now),
            fields=fields if any(fields) else None,
            tap="redis-stream",
            is_head=is_head,
            position=_position(stream),
        )


def _described(there: Sequence[str], missing: Sequence[str]) -> str:
    said = [f"reads {', '.join(there)}"] if there else []
    return "; ".join(said + [f"waits for stream {name}, which does not exist" for name in missing])


def _position(stream: Stream) -> str:
    at = text_of(stream.position)
    return at if stream.index is None else f"{at}/{stream.index}"
