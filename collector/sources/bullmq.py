"""BullMQ: the events stream of each queue, and before its entries the hashes of the jobs that they are about.

Takes queue names, or finds queues by their `meta` keys. Only commands that read: XREAD without a group, HMGET, SCAN.
Streams are tailed as any Redis stream is (redis_stream.py); hashes are asked for in one go per batch of entries, and
handed over as a batch of `redis-key` records, whose `about` says after which entry they were read. A job's arguments
and result are never asked for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.record import Batch, Intake
from collector.sources.redis_entries import times_of
from collector.sources.redis_stream import RedisStreamOptions, Stream, Tail
from collector.sources.redis_wire import RedisAddress, RedisConnection, connect

PREFIX = "bull"
_EVENTS = ":events"
_META = ":meta"
_KEPT = "opts.maxLenEvents"
"""The field of a `meta` hash that only BullMQ has: how many entries the events stream keeps."""
_LOOK = 5.0  # seconds between looks for configured queues, and for new ones
_SCANNED = 1000  # keys per SCAN
_STEPS = 20  # SCANs between two reads: a large database is gone through in turns
_ASK = 10.0  # seconds that the hashes of a batch may take
_NAMED = 20  # queues that are named for people

_FIELDS = (
    b"name", b"opts", b"timestamp", b"delay", b"priority", b"processedOn", b"finishedOn", b"atm", b"ats", b"stc", b"pb",
    b"tm", b"defa", b"parent", b"parentKey",
)  # fmt: skip
_FAILURE = (*_FIELDS, b"failedReason", b"stacktrace")
# What of a job's hash is asked for when an entry says so: stack traces only where a try failed, or may have.
_MOMENTS: dict[bytes, tuple[bytes, ...]] = {
    b"added": _FIELDS,
    b"active": _FIELDS,
    b"completed": _FIELDS,
    b"failed": _FAILURE,
    b"delayed": _FAILURE,
    b"waiting": _FAILURE,
}
_GLOB = re.compile(r"([*?\[\]\\])")


class BullmqOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One database and the queues to read in it."""

    name: str
    address: RedisAddress
    queues: tuple[str, ...] = ()
    """None: all that are found."""
    prefix: str = ""
    """"": `bull` for queues that are named, any for those that are found."""
    start_max_age: float | None = 3600.0
    count: int = 500
    """Entries per queue and question, at most; with a hash for each they take twice their time."""


class BullmqSource:
    """Tails the queues until it is cancelled. Raises SourceError when the server refuses, or falls silent."""

    def __init__(self, options: BullmqOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Read for ever. A new call makes a new connection, and goes on at the intake's positions."""
        connection = await connect(self._options.address)
        try:
            await _Reader(self._options, self._clock, connection, intake).follow()
        finally:
            connection.close()


class _Reader:
    """One connection's life."""

    def __init__(self, options: BullmqOptions, clock: Clock, connection: RedisConnection, intake: Intake) -> None:
        self._options = options
        self._clock = clock
        self._connection = connection
        self._intake = intake
        self._bases = [f"{options.prefix or PREFIX}:{queue}" for queue in options.queues]
        """Configured queues: what their keys begin with."""
        self._invisible: list[str] = []
        """Those of them that have no `meta` key."""
        self._found: set[bytes] = set()
        """The `meta` keys of queues that were found."""
        self._cursor = b"0"
        self._looked_at = -1e9

    async def follow(self) -> None:
        """Find the queues, then read them, and look for others now and then."""
        options = RedisStreamOptions(
            name=self._options.name,
            address=self._options.address,
            streams=tuple(base + _EVENTS for base in self._bases or await self._all()),
            start_max_age=self._options.start_max_age,
            count=self._options.count,
            chunk=self._options.count,
        )
        tail = Tail(options, self._clock, self._connection, self._intake, self._hashes, self._describe)
        if self._bases:
            await self._look()
        await tail.begin()
        while True:
            await tail.go_on()
            if self._cursor != b"0" or self._clock.monotonic() - self._looked_at >= _LOOK:
                if self._bases:
                    await self._look()
                elif new := await self._scan():
                    await tail.add(base + _EVENTS for base in new)
                tail.tell()

    # Which queues there are

    async def _look(self) -> None:
        """See which of the configured queues are there."""
        self._looked_at = self._clock.monotonic()
        replies = await self._connection.ask_many([("HEXISTS", base + _META, _KEPT) for base in self._bases])
        self._invisible = [base for base, reply in zip(self._bases, replies, strict=True) if reply != 1]

    async def _all(self) -> list[str]:
        """Every queue of the database."""
        found = await self._scan()
        while self._cursor != b"0":
            found += await self._scan()
            await asyncio.sleep(0)
        return found

    async def _scan(self) -> list[str]:
        """Some more of the database; the queues in it that are new."""
        found: list[str] = []
        prefix = _GLOB.sub(r"\\\1", self._options.prefix) or "*"
        for _ in range(_STEPS):
            pattern = f"{prefix}:*{_META}"
            self._cursor, keys = await self._connection.ask(
                "SCAN", self._cursor, "MATCH", pattern, "COUNT", str(_SCANNED)
            )
            new = [key for key in dict.fromkeys(keys) if key not in self._found]
            if new:
                replies = await self._connection.ask_many([("HEXISTS", key, _KEPT) for key in new])
                queues = [key for key, reply in zip(new, replies, strict=True) if reply == 1]  # else an error, or 0
                self._found.update(queues)
                found += [key.decode("utf-8", "replace").removesuffix(_META) for key in queues]
            if self._cursor == b"0":
                self._looked_at = self._clock.monotonic()
                break
        return found

    def _describe(self, there: Sequence[str], missing: Sequence[str]) -> str:
        """What is read, and what of it cannot be seen and why, for people."""
        said = []
        if there:
            said.append(f"reads BullMQ queues {_listed(name.removesuffix(_EVENTS) for name in there)}")
        quiet = [base for name in missing if (base := name.removesuffix(_EVENTS)) not in self._invisible]
        if quiet:
            said.append(f"waits for the first event of {_listed(quiet)}")
        said += [
            f"queue {base} is invisible: there is no key {base}{_META} in this database "
            "(another name, prefix or database, or its jobs are kept in PostgreSQL, which is not read)"
            for base in self._invisible
            if base + _EVENTS not in there  # made anew by who thinks that it is still there, it has no such key
        ]
        if not self._bases and not there and not missing:
            where = f"{self._options.prefix or '*'}:*{_META}"
            said.append(f"found no BullMQ queue yet: looks for keys {where}; queues kept in PostgreSQL are invisible")
        return "; ".join(said)

    # Jobs

    async def _hashes(self, stream: Stream, entries: Sequence[Any]) -> None:
        """Hand over the hashes of the jobs that entries are about, as they are after these entries."""
        asked = _asked(entries)
        if not asked:
            return
        base = stream.name.removesuffix(_EVENTS)
        keys = [base.encode() + b":" + job for job in asked]
        commands = [(b"HMGET", key, *fields) for key, fields in zip(keys, asked.values(), strict=True)]
        replies = await self._connection.ask_many(commands, _ASK)
        now = self._clock.now()
        after = entries[-1][0].decode()
        bodies: list[bytes] = []
        about: list[Mapping[str, Any]] = []
        for key, fields, values in zip(keys, asked.values(), replies, strict=True):
            if isinstance(values, list) and any(value is not None for value in values):
                bodies.append(_body(fields, values))
                about.append(
                    {
                        "db": self._options.address.database,
                        "key": key.decode("utf-8", "replace"),
                        "type": "hash",
                        "pttl": -1,
                        "after": after,
                    }
                )
        if bodies:
            batch = Batch(
                source=self._options.name,
                place=stream.name,
                bodies=bodies,
                receipts=[f"{after}/{number}" for number in range(len(bodies))],
                received_at=now,
                times=times_of([entries[0][0]], now) * len(bodies),  # the place is read up to there, not further
                tap="redis-key",
                about=about,
            )
            await self._intake.take(batch)


def _asked(entries: Sequence[Any]) -> dict[bytes, tuple[bytes, ...]]:
    """The jobs of entries, with the fields that are wanted of each."""
    asked: dict[bytes, tuple[bytes, ...]] = {}
    for _, flat in entries:
        if len(flat) < 4:
            continue
        if flat[0] == b"event" and flat[2] == b"jobId":  # as BullMQ writes it
            word, job = flat[1], flat[3]
        else:
            said = dict(zip(flat[::2], flat[1::2], strict=False))
            word, job = said.get(b"event"), said.get(b"jobId")
        wanted = _MOMENTS.get(word)
        if wanted is None or not job or (word == b"waiting" and b"active" not in flat):
            continue
        if wanted is _FAILURE or job not in asked:
            asked[job] = wanted
    return asked


def _body(fields: tuple[bytes, ...], values: Sequence[bytes | None]) -> bytes:
    """A hash as a capture holds it: a JSON object of text by field; what is no text stands in an object."""
    return msgspec.json.encode(
        {name.decode(): _text(value) for name, value in zip(fields, values, strict=True) if value is not None}
    )


def _text(value: bytes) -> str | dict[str, bytes]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": value}  # bytes are written so


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
