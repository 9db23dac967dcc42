"""Kept trails in the state file: as rows that are found by id, trace, state and time, and leave by age and bytes.

`Shelf` reads, on a thread and a connection of its own; what writes are statements for the one store.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from collector.state.rows import Statement

ROW_BYTES = 600
"""About what a row takes beyond its value, indices and all."""
AT_ONCE = 2_000
"""Rows that leave in one step."""
_COLUMNS = "home, id, first_at, last_at, task, queue, state, error, trace, reason, rank, kept_at, size, value"
_PUT = (
    f"INSERT INTO kept ({_COLUMNS}) VALUES ({', '.join('?' * 14)}) "  # noqa: S608 names of our own
    "ON CONFLICT (id, home, first_at) DO UPDATE SET last_at = excluded.last_at, task = excluded.task, "
    "queue = excluded.queue, state = excluded.state, error = excluded.error, "
    "trace = CASE excluded.trace WHEN '' THEN trace ELSE excluded.trace END, "
    "reason = CASE WHEN excluded.rank >= rank THEN excluded.reason ELSE reason END, "
    "rank = max(rank, excluded.rank), kept_at = excluded.kept_at, size = excluded.size, value = excluded.value"
)
_GO = "DELETE FROM kept WHERE rank = ? AND (kept_at, number) <= (?, ?)"
_MOST_PARTS = 1_000
_PATIENCE = 5.0
"""Seconds that a question waits for the disk."""
T = TypeVar("T")


class KeptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a trail: what was remembered of it at one time. Times of facts are axis times."""

    home: str
    id: str
    first_at: float
    last_at: float
    task: str
    queue: str
    state: str
    error: str
    trace: str
    reason: str
    rank: int
    """What leaves first where there is no room: the lowest."""
    value: bytes


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows. Empty texts and tuples let everything through; globs as `fnmatch` has them."""

    states: Sequence[str] = ()
    task: str = ""
    queue: str = ""
    error: str = ""
    since: float = float("-inf")
    after: tuple[float, str, str] | None = None
    limit: int = 100


class Leaving(msgspec.Struct, frozen=True):
    """Rows of one rank that are to go: the oldest up to one of them."""

    rank: int
    kept_at: float
    number: int
    count: int


def put(row: KeptRow, now: float) -> Statement:
    """Keep a row; what was kept of the same part before is replaced."""
    values = (row.home, row.id, row.first_at, row.last_at, row.task, row.queue, row.state, row.error, row.trace)
    return _PUT, *values, row.reason, row.rank, now, len(row.value) + ROW_BYTES, row.value


def go(leaving: Leaving) -> Statement:
    """Rows go."""
    return _GO, leaving.rank, leaving.kept_at, leaving.number


def page_query(asked: Asked) -> tuple[str, list[Any]]:
    """The rows that are asked for, newest first: where each stands, and its value."""
    parts: list[str] = []
    values: list[Any] = []
    if asked.states:
        parts.append(f"state IN ({', '.join('?' * len(asked.states))})")
        values += asked.states
    for column, glob in (("task", asked.task), ("queue", asked.queue), ("error", asked.error)):
        if glob:
            parts.append(f"{column} GLOB ?")
            values.append(glob.replace("[!", "[^"))
    if asked.since > float("-inf"):
        parts.append("last_at >= ?")
        values.append(asked.since)
    if asked.after is not None:
        parts.append("(first_at, home, id) < (?, ?, ?)")
        values += asked.after
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    index = "kept_state" if len(asked.states) == 1 else "kept_time"
    sql = (
        f"SELECT number FROM kept INDEXED BY {index}{where} "  # noqa: S608 the values are bound
        "ORDER BY first_at DESC, home DESC, id DESC LIMIT ?"
    )
    return sql, [*values, asked.limit]


class Shelf:
    """Reads kept trails, each question on a thread of its own connection. The questions raise sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._questions: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection
        self._thread = threading.Thread(target=self._answer, name="kept", daemon=True)
        self._thread.start()

    async def ask(self, question: Callable[[], T], default: T) -> T:
        """What a question finds, off the loop; `default` where the disk does not answer."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def found(answer: T) -> None:
            if not done.done():
                done.set_result(answer)

        def work() -> None:
            try:
                answer = question()
            except sqlite3.Error:
                answer = default
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(found, answer)

        self._questions.put(work)
        await asyncio.wait([done], timeout=_PATIENCE)
        return done.result() if done.done() else default

    def close(self, seconds: float = 0.5) -> None:
        """Let the file go, when what was asked is answered."""
        self._questions.put(None)
        self._thread.join(seconds)

    def _answer(self) -> None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=2.0)) as self._connection:
            self._connection.execute("PRAGMA query_only = 1")
            while (work := self._questions.get()) is not None:
                work()

    # The questions

    def parts(self, task_id: str) -> list[bytes]:
        """The values of all parts of an id, oldest first."""
        sql = "SELECT value FROM kept WHERE id = ? ORDER BY first_at DESC LIMIT ?"
        return [value for (value,) in reversed(self._rows(sql, task_id, _MOST_PARTS))]

    def trace(self, trace: str) -> list[bytes]:
        """The values of what was kept of a trace, oldest first."""
        sql = "SELECT value FROM kept WHERE trace = ? AND trace != '' ORDER BY first_at LIMIT ?"
        return [value for (value,) in self._rows(sql, trace, _MOST_PARTS)]

    def page(self, asked: Asked) -> list[tuple[tuple[float, str, str], bytes]]:
        """Where each row stands that is asked for, and its value; newest first."""
        sql, values = page_query(asked)
        numbers = [number for (number,) in self._rows(sql, *values)]
        found = []
        for number in numbers:  # by number: a sort would carry every value along
            sql = "SELECT first_at, home, id, value FROM kept WHERE number = ?"
            found += [((row[0], row[1], row[2]), row[3]) for row in self._rows(sql, number)]
        return found

    def size(self) -> tuple[int, int]:
        """How many rows there are, and about how many bytes they take."""
        ((count, size),) = self._rows("SELECT count(*), coalesce(sum(size), 0) FROM kept INDEXED BY kept_rank")
        return int(count), int(size)

    def latest(self, since: float, most: int) -> list[tuple[str, str]]:
        """Id and trace of what was kept since, oldest first."""
        sql = "SELECT id, trace FROM kept WHERE kept_at >= ? ORDER BY number DESC LIMIT ?"
        return [(str(name), str(trace)) for name, trace in reversed(self._rows(sql, since, most))]

    def aged(self, before: float, ranks: Iterable[int]) -> list[Leaving]:
        """What was kept before an instant, some of each rank."""
        found = [(rank, self._of_rank(rank, before)) for rank in ranks]
        return [Leaving(rank, rows[-1][0], rows[-1][1], len(rows)) for rank, rows in found if rows]

    def surplus(self, size: int, ranks: Iterable[int]) -> list[Leaving]:
        """What must go so that so many bytes are free, or the first of it: the lowest rank first, the oldest first."""
        found: list[Leaving] = []
        for rank in ranks:
            rows = self._of_rank(rank, float("inf"))
            count = freed = 0
            for _, _, taken in rows:
                if freed >= size:
                    break
                freed += taken
                count += 1
            if count:
                found.append(Leaving(rank, rows[count - 1][0], rows[count - 1][1], count))
            size -= freed
            if size <= 0 or len(rows) == AT_ONCE:
                break
        return found

    def _of_rank(self, rank: int, before: float) -> list[tuple[Any, ...]]:
        sql = "SELECT kept_at, number, size FROM kept WHERE rank = ? AND kept_at < ? ORDER BY kept_at, number LIMIT ?"
        return self._rows(sql, rank, before, AT_ONCE)

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()
