"""The state of watched keys as it changes: which to poll, which to read now, what of it is new.

Takes keys to read, asks about all of them in one round trip per stage, gives the records that a capture would hold.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from collector.sources.redis_values import Value, commands, more_commands, raw_name, shown, text_name, value
from collector.sources.redis_watch import FollowPlan, Keys, Plan, filled
from collector.sources.redis_wire import Command, RedisConnection, refusal

POLLED = 2000
"""Keys that are polled."""
PENDING = 20_000
"""Keys and streams that wait to be read."""
AWAITED = 5000
"""Keys that will be written once and are awaited; the oldest leave."""
AT_ONCE = 500
"""Of those, how many are looked at in one poll."""
STAGE = 500
"""Keys that are asked about in one round trip."""
DIGESTS = 100_000
"""Keys whose last content is remembered, to hand over what changed only. One that left is handed over again."""
POSITIONS = 50_000
"""Streams of one task each whose last entry is remembered. One that left is handed over again."""
ENTRIES = 100
"""Entries that are read from such a stream at once."""
SCAN_COUNT = 500
_ANSWER_SECONDS = 15.0


class Record(msgspec.Struct, frozen=True):
    """One record, of tap `redis-key` or `redis-stream`."""

    about: Mapping[str, Any]
    body: bytes
    time: float | None = None
    is_undated: bool = False


class _Polled:
    """One polled key."""

    __slots__ = ("follow", "members", "named", "row")

    def __init__(self, row: Keys, follow: tuple[FollowPlan, ...], named: str) -> None:
        self.row = row
        self.follow = follow
        self.named = named
        """The polled key one of whose members named this one; "": it stays."""
        self.members: frozenset[tuple[str, float]] = frozenset()


class Reader:
    """What is known of one database's keys, as long as one connection lives."""

    def __init__(self, plan: Plan, database: int, oldest: str) -> None:
        self._plan = plan
        self._database = database
        self.oldest = oldest
        """Entry id from which on streams are read that were not read before."""
        self.polled: dict[str, _Polled] = {}
        self._awaited: dict[str, Keys] = {}
        self._pending: dict[str, None] = {}
        self._streams: dict[str, None] = {}
        self._digests: OrderedDict[str, int] = OrderedDict()
        self._positions: OrderedDict[str, str] = OrderedDict()
        self.tails: list[str] = []
        """Streams that were found and are to be tailed."""
        self.dropped = 0
        """Keys that were named and not read, because too many waited."""
        self.is_full = False
        """Whether there are more keys to poll than may be."""
        for key in plan.roots:
            self._poll(key, "")

    # What to read

    def follow(self, name: str, rows: Iterable[FollowPlan], *, named: str = "") -> None:
        """Take note of what a name says of other keys."""
        for expression, row in rows:
            if match := expression.fullmatch(name):
                words = {**(self._plan.words_of(named) if named else self._plan.words), **match.groupdict("")}
                for key in row.until:
                    self._await(filled(key, words))
                for key in row.read:
                    self._wait(self._pending, filled(key, words))
                for key in row.entries:
                    self._wait(self._streams, filled(key, words))
                for key in row.poll:
                    self._poll(filled(key, words), named)

    def found(self, keys: Iterable[bytes]) -> None:
        """Take note of keys that SCAN found."""
        for key in map(text_name, keys):
            planned = self._plan.row(key)
            if planned is None:
                continue
            if planned[0].is_tailed:
                self.tails.append(key)
            elif planned[0].is_polled:
                self._poll(key, "")
            elif key not in self._digests:
                self._wait(self._pending, key)

    @property
    def has_pending(self) -> bool:
        """Whether something waits to be read."""
        return bool(self._pending or self._streams)

    def _wait(self, waiting: dict[str, None], key: str) -> None:
        if len(waiting) < PENDING:
            waiting[key] = None
        elif key not in waiting:
            self.dropped += 1

    def _await(self, key: str) -> None:
        if (planned := self._plan.row(key)) is not None:
            self._awaited[key] = planned[0]
            if len(self._awaited) > AWAITED:
                del self._awaited[next(iter(self._awaited))]

    def _poll(self, key: str, named: str) -> None:
        if key in self.polled or (planned := self._plan.row(key)) is None:
            return
        if len(self.polled) >= POLLED:
            self.is_full = True
            return
        self.polled[key] = _Polled(*planned, named)
        self._wait(self._pending, key)

    # Reading

    async def poll(self, connection: RedisConnection) -> list[Record]:
        """Read every polled key once: those that changed."""
        keys = {key: polled.row for key, polled in self.polled.items()}
        for key in list(islice(self._awaited, AT_ONCE)):  # the others come first next time
            keys[key] = self._awaited[key] = self._awaited.pop(key)
        records: list[Record] = []
        for part in _parts(list(keys.items()), STAGE):
            records += await self._read(connection, dict(part), ())
        return records

    async def read_pending(self, connection: RedisConnection) -> list[Record]:
        """Read some of what waits."""
        keys: dict[str, Keys] = {}
        for key in _first(self._pending, STAGE):
            if (planned := self._plan.row(key)) is not None:
                keys[key] = planned[0]
        return await self._read(connection, keys, _first(self._streams, STAGE))

    async def _read(
        self, connection: RedisConnection, keys: Mapping[str, Keys], streams: Sequence[str]
    ) -> list[Record]:
        asked = {key: commands(key, row) for key, row in keys.items()}
        ranges: list[Command] = [
            ("XRANGE", raw_name(name), self._positions.get(name, self.oldest), "+", "COUNT", str(ENTRIES))
            for name in streams
        ]
        replies = iter(await _ask(connection, [*(words for each in asked.values() for words in each), *ranges]))
        told = {key: [next(replies) for _ in each] for key, each in asked.items()}
        entries = [next(replies) for _ in ranges]
        more = {key: words for key, row in keys.items() if (words := more_commands(key, row, told[key]))}
        rest = iter(await _ask(connection, [words for each in more.values() for words in each]))
        beyond = {key: [next(rest) for _ in each] for key, each in more.items()}
        records: list[Record] = []
        for key, row in keys.items():
            try:
                records += self._seen(key, row, value(row, told[key][:-1], beyond.get(key, ())), told[key][-1])
            except ValueError:
                continue  # of another kind than it should be: not a key of this framework
        for name, rows in zip(streams, entries, strict=True):
            records += self._entries(name, rows)
        return records

    def _seen(self, key: str, row: Keys, now: Value, pttl: int) -> list[Record]:
        """What a key's content says that it did not say before."""
        polled = self.polled.get(key)
        if polled is not None:
            self._members(key, polled, now)
        digest = hash(now.still)
        if self._digests.get(key, hash(b"null")) == digest:
            return []
        _remember(self._digests, key, digest, DIGESTS)
        if now.is_gone:
            self._digests.pop(key)
        self._awaited.pop(key, None)
        about: dict[str, Any] = {"db": self._database, "key": _told(key), "type": "none" if now.is_gone else row.kind}
        about["pttl"] = -2 if now.is_gone else pttl
        if now.is_cut:
            about["cut"] = True
        return [Record(about, now.body, now.time, row.is_undated)]

    def _members(self, key: str, polled: _Polled, now: Value) -> None:
        """Follow members that came, left, or have another score."""
        before, polled.members = polled.members, now.members
        if before == now.members or not polled.follow:
            return
        for name in {name for name, _ in before ^ now.members}:
            self.follow(name, polled.follow, named=key)
        there = {name for name, _ in now.members}
        left = {name for name, _ in before if name not in there}
        for name in left:
            self._unpoll(name, key, polled.follow)

    def _unpoll(self, name: str, named: str, rows: Iterable[FollowPlan]) -> None:
        for expression, row in rows:
            if row.poll and (match := expression.fullmatch(name)):
                words = {**self._plan.words_of(named), **match.groupdict("")}
                for key in (filled(text, words) for text in row.poll):
                    if key in self.polled and self.polled[key].named == named:
                        del self.polled[key]
                        self._wait(self._pending, key)  # a last look: that it is gone is worth a record

    def _entries(self, name: str, rows: Any) -> list[Record]:
        if not isinstance(rows, list) or not rows:
            return []
        millis, _, number = rows[-1][0].decode().partition("-")
        _remember(self._positions, name, f"{millis}-{int(number) + 1}", POSITIONS)
        if len(rows) == ENTRIES:
            self._wait(self._streams, name)
        return [Record(*entry(name, entry_id, flat)) for entry_id, flat in rows]


def entry(stream: str, entry_id: bytes, flat: Sequence[bytes]) -> tuple[dict[str, Any], bytes, float]:
    """A stream's entry as a record: `about`, body (there is none beside the fields), time."""
    names = (name.decode("utf-8", "replace") for name in flat[::2])
    fields = dict(zip(names, map(shown, flat[1::2]), strict=True))
    written = entry_id.decode()
    return {"stream": _told(stream), "id": written, "fields": fields}, b"", int(written.partition("-")[0]) / 1000


def _told(name: str) -> str:
    """A key as a capture writes it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "b64:" + base64.b64encode(raw_name(name)).decode()
    return name


async def _ask(connection: RedisConnection, words: list[Command]) -> list[Any]:
    """Answers, of which an error is one where it speaks of the key; any other error ends the source."""
    if not words:
        return []
    replies = await connection.ask_many(words, _ANSWER_SECONDS)
    for command, reply in zip(words, replies, strict=True):
        if isinstance(reply, Exception) and not str(reply).startswith(_OF_THE_KEY):
            raise refusal(connection.address, command[0], reply)
    return replies


_OF_THE_KEY = ("WRONGTYPE", "ERR no such key", "NOGROUP")


def _remember(kept: OrderedDict[str, Any], key: str, told: Any, most: int) -> None:
    kept[key] = told
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _first(waiting: dict[str, None], most: int) -> list[str]:
    """Take the first few out."""
    taken = [key for key, _ in zip(waiting, range(most), strict=False)]
    for key in taken:
        del waiting[key]
    return taken


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
