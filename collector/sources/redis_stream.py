"""Redis Streams: plain XREAD from positions of our own; no group, nothing acknowledged, nothing written.

Takes stream names, gives batches of one stream each with entry ids as receipts. A position is `ID` or `ID/INDEX`,
where INDEX counts the entries ever added up to ID (Redis 7 and later say it): with it the number of entries that were
trimmed or deleted before they were read is exact, also over a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.event import EARLIEST
from collector.model.record import BODY_FIELDS, Batch, Gap, Intake, Receipt
from collector.sources import redis_groups
from collector.sources.redis_wire import RedisAddress, RedisConnection, connect

_BLOCK_MS = 1000
_MARGIN = 5.0  # seconds that an answer may take beyond the blocking
_LOOK = 5.0  # seconds between looks at a stream's state; 1 s while it is read behind its end
_GROUPS = 1.0  # seconds between questions about consumer groups
_START = (0, 0)
_WRONG = "WRONGTYPE"
"""How the server says that a key is none of a stream."""
_BODY_NAMES = frozenset(name.encode() for name in BODY_FIELDS)
_OPENINGS = frozenset(b'{["') | frozenset(range(0x80, 0xA0)) | frozenset({0xDC, 0xDD, 0xDE, 0xDF})
"""First bytes of JSON objects, lists and strings, and of msgpack maps and arrays."""

EntryId = tuple[int, int]


class RedisStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One database and the streams to read in it."""

    name: str
    address: RedisAddress
    streams: tuple[str, ...]
    groups: bool = False
    """Whether to look every second at what the consumer groups of the streams are doing."""
    needs_all: bool = True
    """Whether a key of another type in a stream's place is an error; else that stream is set aside and named."""
    start_max_age: float | None = 3600.0
    """How far back reading starts where there is no position, seconds; None: from the oldest entry."""
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
        """Read for ever. A new call makes a new connection, and goes on at the intake's positions."""
        connection = await connect(self._options.address)
        try:
            tail = Tail(self._options, self._clock, connection, intake)
            await tail.begin()
            while True:
                await tail.go_on()
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


class _State(msgspec.Struct, frozen=True):
    """What XINFO STREAM says."""

    length: int
    last: EntryId
    first: EntryId | None
    added: int | None
    """Entries ever added; None before Redis 7."""


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
        for stream in self._readable():
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
            entry_id = _entry_id(position.encode())
            return Stream(name, entry_id, int(index) if index else None, is_read=entry_id != _START)
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

    async def _state(self, stream: Stream) -> _State | None:
        try:
            flat = await self._connection.ask("XINFO", "STREAM", stream.key)
            stream.is_other = False
        except SourceError as error:
            stream.is_other = _WRONG in str(error) and not self._options.needs_all
            if "no such key" in str(error) or (stream.is_other and self._readable()):
                return None
            raise
        said = dict(zip(flat[::2], flat[1::2], strict=False))
        first = said[b"first-entry"]
        return _State(
            length=said[b"length"],
            last=_entry_id(said[b"last-generated-id"]),
            first=_entry_id(first[0]) if first else None,
            added=said.get(b"entries-added"),
        )

    def _gone(self, stream: Stream) -> None:
        """There is no such stream (any more): whatever comes next is a new one, to be read from its beginning."""
        if stream.is_read and not stream.is_head:
            self._miss(stream, self._clock.now(), None, "deleted")
        stream.exists = stream.is_read = False
        stream.position, stream.index = _START, 0

    def _compare(self, stream: Stream, state: _State) -> None:
        """Settle what happened behind our back, and learn how many entries lie before the position."""
        now = self._clock.now()
        if stream.is_read and state.last < stream.position:
            # A stream that was only emptied keeps its last id, so this is another one, made since.
            self._miss(stream, now, None, "recreated")
            stream.position, stream.index, stream.is_read = _START, 0, False
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
        first = state.first[0] / 1000 if state.first and state.first > stream.position else now
        missed = None
        if stream.index is not None and state.added is not None:
            missed = state.added - stream.index - unread
        if missed is not None and missed > 0:
            self._miss(stream, min(first, now), missed, "trimmed")
        elif missed is None and unread and stream.is_read and not stream.is_head:
            self._miss(stream, min(first, now), None, "trimmed")  # the position's own entry is gone, at least
        if state.added is not None:
            stream.index = state.added - unread

    def _miss(self, stream: Stream, end: float, estimate: int | None, reason: str) -> None:
        start = stream.position[0] / 1000
        self._intake.gap(
            Gap(
                source=self._options.name,
                place=stream.name,
                start=min(start, end) if start >= EARLIEST else end,
                end=end,
                estimate=estimate,
                reason=reason,
            )
        )

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
        streams = self._readable()
        try:
            reply = await self._connection.ask(
                *("XREAD", "COUNT", str(self._options.count), "BLOCK", str(_BLOCK_MS), "STREAMS"),
                *(stream.key for stream in streams),
                *(_text(stream.position) for stream in streams),
                seconds=_BLOCK_MS / 1000 + _MARGIN,
            )
        except SourceError as error:
            if _WRONG not in str(error) or self._options.needs_all:
                raise
            await self._look(streams)  # which of them it is
            if self._readable() == streams:
                raise
            return {}
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
                        receipts=[_text(stream.position)],
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
                body, others = _body(flat)
                bodies.append(body)
                fields.append(others)
        if entries:
            stream.position = _entry_id(entries[-1][0])
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


def times_of(ids: Sequence[bytes], now: float) -> list[float]:
    """The times in entry ids; arrival for ids that somebody made up; never ahead of now."""
    times = [int(entry_id.partition(b"-")[0]) / 1000 for entry_id in ids]
    if times and (times[0] < EARLIEST or times[-1] > now):
        times = [now if at < EARLIEST else min(at, now) for at in times]
    return times


def _body(flat: Sequence[bytes]) -> tuple[bytes, dict[str, str] | None]:
    """An entry of several fields: the one that holds an event, with the others beside it; else all as fields."""
    names = flat[::2]
    for name, value in zip(names, flat[1::2], strict=False):
        if name in _BODY_NAMES and value and value[0] in _OPENINGS:
            return value, _decoded(pair for pair in zip(names, flat[1::2], strict=False) if pair[0] != name)
    return b"", _decoded(zip(names, flat[1::2], strict=False))


def _decoded(pairs: Any) -> dict[str, str]:
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs}


def _entry_id(text: bytes) -> EntryId:
    millis, _, number = text.partition(b"-")
    return int(millis), int(number or 0)


def _text(entry_id: EntryId) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def _position(stream: Stream) -> str:
    entry_id = _text(stream.position)
    return entry_id if stream.index is None else f"{entry_id}/{stream.index}"
