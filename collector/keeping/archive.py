"""Kept trails: what the sieve finds worth it goes to the state file in batches, leaves it by age and bytes, is found.

Stands between the stitcher, which knows what is worth keeping, the one store, which writes, and whoever asks. Without a
state it keeps nothing. One batch is on its way at a time: a slow disk holds up nobody, and what cannot wait is counted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from collector.model.clock import Clock
from collector.shell.pipeline import Pipeline
from collector.state import kept
from collector.state.kept import Asked, KeptRow, Leaving, Shelf
from collector.state.store import FILE, Store
from collector.trail.listing import Listed, Mark, Page, Wanted
from collector.trail.remains import Remains, page_with, task_of, trace_of
from collector.trail.sieve import MARKED_SECONDS, RANKS, Worth
from collector.trail.timeline import Timeline
from collector.trail.trace import TraceView

BATCH = 500
"""Trails that are written at once."""
STEP = 10
"""Trails that are made ready in one step of the loop."""
PAUSE = 0.25
"""Seconds between two looks for something to write."""
LOOK_SECONDS = 10.0
"""How often it is looked for what is to go."""
REMEMBERED = 50_000
"""Kept trails whose later parts are kept too after a restart."""
LEFT: tuple[str, ...] = ("kept_age", "kept_bytes")
"""Why a kept trail goes: it is too old; all of them take too much room."""
AT_THE_END = 2_000
"""Trails that are written at the stop, at most."""
_RANKS = tuple(sorted(set(RANKS.values())))
_pack = msgspec.msgpack.Encoder().encode
_remains = msgspec.msgpack.Decoder(Remains).decode


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept."""

    seconds: float = 604_800.0
    bytes: int = 512 * 1024 * 1024


class Archive:
    """The kept trails of one process."""

    def __init__(
        self,
        pipeline: Pipeline,
        clock: Clock,
        store: Store | None = None,
        directory: Path | None = None,
        bounds: Kept | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._sieve = pipeline.stitcher.sieve
        self._clock = clock
        self._store = store
        self._bounds = bounds or Kept()
        self._left: dict[str, int] = dict.fromkeys(LEFT, 0)
        self._number = 0
        """Of the store's last statement of ours."""
        self._looked_at = -math.inf
        self._shelf: Shelf | None = None
        if store is not None and directory is not None:
            self._shelf = Shelf(directory / FILE)
            self._sieve.is_disk_well = lambda: store.health.is_durable
            self._sieve.begin()

    @property
    def evictions(self) -> dict[str, int]:
        """How many left, or were not kept, by reason."""
        return {**self._sieve.shed, **self._left}

    # Writing

    async def run(self) -> None:
        """Keep what is worth it, for ever."""
        if self._shelf is None:
            return
        shelf, now = self._shelf, self._clock.now()
        known: list[tuple[str, str]] = await shelf.ask(lambda: shelf.latest(now - MARKED_SECONDS, REMEMBERED), [])
        for start in range(0, len(known), BATCH):
            self._sieve.remember(known[start : start + BATCH], now)
            await asyncio.sleep(0)
        while True:
            more = await self.write()
            if self._clock.monotonic() - self._looked_at >= LOOK_SECONDS:
                more = await self.retain(shelf) or more
            await asyncio.sleep(PAUSE / 10 if more else PAUSE)

    async def write(self) -> bool:
        """Hand over a batch, unless the last one is not on the disk yet; whether there is more."""
        for _ in range(BATCH // STEP):  # also while nothing can be written: memory forgets
            if not self._sieve.explore(STEP):
                break
            await asyncio.sleep(0)
        if self._is_writing or not len(self._sieve):
            return False
        rows: list[KeptRow] = []
        try:
            for worth in self._sieve.take(BATCH):
                rows.append(row_of(worth))
                if len(rows) % STEP == 0:
                    await asyncio.sleep(0)
        finally:
            self._put(rows)
        return len(self._sieve) > 0

    @property
    def _is_writing(self) -> bool:
        return self._store is not None and self._store.health.oldest <= self._number

    def _put(self, rows: Iterable[KeptRow]) -> None:
        now = self._clock.now()
        statements = [kept.put(row, now) for row in rows]
        if statements and self._store is not None:
            self._number = self._store.put_all(statements)

    async def retain(self, shelf: Shelf) -> bool:
        """Let go what is too old or too much, or the first of it; whether there is more."""
        if self._is_writing or self._store is None:
            return False
        self._looked_at = self._clock.monotonic()
        self._sieve.forget(self._pipeline.store.frontier)
        bounds, before = self._bounds, self._clock.now() - self._bounds.seconds
        count, size = await shelf.ask(shelf.size, (0, 0))
        self._pipeline.telemetry.kept(count, size)
        aged: list[Leaving] = await shelf.ask(lambda: shelf.aged(before, _RANKS), [])
        over = size - bounds.bytes
        surplus: list[Leaving] = []
        if not aged and over > 0:
            surplus = await shelf.ask(lambda: shelf.surplus(over, _RANKS), [])
        for reason, leaving in (("kept_age", aged), ("kept_bytes", surplus)):
            self._left[reason] += sum(one.count for one in leaving)
        if aged or surplus:
            self._number = self._store.put_all([kept.go(one) for one in (*aged, *surplus)])
            self._looked_at -= LOOK_SECONDS  # it is looked again when these are gone
        return bool(aged or surplus)

    def close(self) -> None:
        """Hand over what waits, so much of it at most, and let the file go."""
        if self._shelf is not None:
            self._sieve.explore(AT_THE_END)
            self._put([row_of(worth) for worth in self._sieve.take(AT_THE_END)])
            self._shelf.close()

    # Finding

    async def task(self, task_id: str) -> Timeline | None:
        """One task, from memory and from what was kept."""
        parts: list[bytes] = []
        if (shelf := self._shelf) is not None:
            parts = await shelf.ask(lambda: shelf.parts(task_id), [])
        return task_of(self._pipeline.stitcher.reader.find(task_id), _read(parts))

    async def trace(self, trace_id: str) -> TraceView | None:
        """One trace, from memory and from what was kept."""
        parts: list[bytes] = []
        if (shelf := self._shelf) is not None:
            parts = await shelf.ask(lambda: shelf.trace(trace_id), [])
        held = TraceView(trace_id=trace_id, tasks=[])
        for step in self._pipeline.stitcher.reader.tracing(trace_id):
            held = step or held
            await asyncio.sleep(0)
        return trace_of(held, _read(parts))

    async def page(self, wanted: Wanted, held: Page) -> Page:
        """The page that memory gives, with what was kept."""
        if (shelf := self._shelf) is None:
            return held
        error = wanted.error
        asked = Asked(
            states=sorted(wanted.states),
            task=wanted.task,
            queue=wanted.queue,
            error=error if not error or set(error) & set("*?[") else f"*{error}*",
            since=wanted.since,
            after=wanted.after,
            limit=wanted.limit + 1,
        )
        rows: list[tuple[Mark, Listed | None]] = await shelf.ask(
            lambda: [(mark, _line(value)) for mark, value in shelf.page(asked)], []
        )
        known_to = rows[-1][0] if len(rows) == asked.limit else None
        holds = self._pipeline.stitcher.listing.holds
        # What memory holds stands in its page, if it is what is wanted; what was kept of it may be older.
        known = [(mark, line) for mark, line in rows if line is not None and not holds(mark)]
        return page_with(held, known, wanted, known_to)


def row_of(worth: Worth) -> KeptRow:
    """As it stands in the state file."""
    line = worth.remains.listed
    return KeptRow(
        home=worth.home,
        id=line.task_id,
        first_at=line.first_at,
        last_at=line.last_at,
        task=line.task,
        queue=line.queue,
        state=line.state,
        error=line.error,
        trace=worth.trace,
        reason=worth.reason,
        rank=RANKS[worth.reason],
        value=_pack(worth.remains),
    )


def _read(values: Iterable[Any]) -> Iterator[Remains]:
    """What can be read of it: of a damaged file the others hold."""
    for value in values:
        try:
            yield _remains(value)
        except (msgspec.MsgspecError, TypeError):
            continue


def _line(value: Any) -> Listed | None:
    return next((one.listed for one in _read([value])), None)
