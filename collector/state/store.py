"""The state file: SQLite in WAL mode, written by one thread, so that a slow disk stalls nobody.

Statements are queued in order and written in groups, each group one transaction that is on the disk when it is done.
Where the disk is full, broken or locked, what is queued stays in memory, within a bound, and is tried again every
second; `durable` says so instead of pretending. A file that is no database, or is damaged, is set aside with all that
can be read of it taken over.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from collector.model.errors import TasktrailError
from collector.model.files import identity, is_regular
from collector.state.checkpoint import PREFIX
from collector.state.schema import STEPS

FILE = "state.db"
RETRY_SECONDS = 1.0
OUR_FAULT = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    ValueError,
    OverflowError,
)
"""What a statement raises that no disk will ever take: it is given up, so that it does not hold up the others."""
MOST_REMEMBERED = 1_000
"""Ranges of numbers that were given up; an outage is one."""
MOST_WAITING = 64 * 1024 * 1024
"""Bytes of statements that wait for a disk that does not take them; beyond, the oldest that were not promised go."""


class Health(msgspec.Struct, frozen=True):
    """How the writing goes."""

    is_durable: bool
    """Whether the disk took the last group."""
    waiting: int
    """Statements that are not on the disk yet."""
    lost: int
    """Statements that were given up for want of room."""
    error: str
    oldest: int
    """The number of the first statement that is not on the disk yet: where it stays the same, the disk hangs."""
    set_aside: str
    """The name of a damaged file that was set aside at the start; "" for none."""
    taken_over: Mapping[str, int]
    """Rows that could be read of it, by table; only of those with any."""


class _Queued(msgspec.Struct, frozen=True):
    """A statement on its way to the disk."""

    number: int
    last: int
    """The number of the last of those that belong together."""
    sql: str
    values: Sequence[Any]
    size: int


class _Waiter(msgspec.Struct, frozen=True):
    """Somebody who wants to know when everything up to a number is on the disk."""

    number: int
    is_all: bool
    """Whether about everything up to it, and not only about what belongs together with it."""
    wake: Callable[[bool], None]


class Store:
    """One state file. `open_store` makes it; reading is from the caller's thread, writing from its own."""

    def __init__(self, path: Path, set_aside: str, taken_over: Mapping[str, int]) -> None:
        self._path, self._identity = path, identity(path)
        self._set_aside, self._taken_over = set_aside, taken_over
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._under_way: list[_Queued] = []
        self._bytes = 0
        self._number = self._lost = 0
        self._given_up: deque[tuple[int, int]] = deque(maxlen=MOST_REMEMBERED)  # the first and the last number of each
        self._error = ""
        self._is_closing = False
        self._waiters: list[_Waiter] = []
        self._reader = connected(path)
        self._reader.execute("PRAGMA query_only = 1")
        self._thread = threading.Thread(target=self._write, name="state", daemon=True)
        self._thread.start()

    def put(self, sql: str, *values: Any) -> None:
        """Queue a statement. It is on the disk once `durable` has said so."""
        self.put_all([(sql, *values)])

    def put_all(self, statements: Iterable[tuple[Any, ...]]) -> int:
        """Queue statements, each SQL and its values; gives the last one's number.

        The disk takes all or none, but for those that no disk ever takes. Where there is no room, whole calls go.
        """
        listed = list(statements)
        with self._changed:
            last = self._number + len(listed)
            for sql, *values in listed:
                self._number += 1
                one = _Queued(self._number, last, sql, values, _size(values))
                self._queue.append(one)
                self._bytes += one.size
            while self._bytes > MOST_WAITING and self._queue and (oldest := self._queue[0].last) != last:
                while self._queue[0].last == oldest:
                    self._give_up(self._queue.popleft())
            self._changed.notify()
            return self._number

    async def durable(self, seconds: float = 5.0, number: int | None = None) -> bool:
        """Whether all that was ever queued is on the disk, or what `put_all` gave a number, after at most so long."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        with self._changed:
            is_all = number is None
            number = self._number if number is None else number
            if self._first_waiting() > number:
                return self._is_kept(number, is_all=is_all)

            def wake(is_kept: bool) -> None:  # noqa: FBT001 it is a call-back
                loop.call_soon_threadsafe(_finish, done, is_kept)

            self._waiters.append(_Waiter(number, is_all, wake))
        await asyncio.wait([done], timeout=seconds)
        return done.done() and done.result()

    def is_done(self, number: int) -> bool:
        """Whether what `put_all` gave a number is on the disk by now."""
        with self._changed:
            return self._first_waiting() > number and self._is_kept(number, is_all=False)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds in what is on the disk. Raises sqlite3.Error."""
        return self._reader.execute(sql, values).fetchall()

    @property
    def is_alive(self) -> bool:
        """Whether the writer is there: it ends with the store, or by a bug."""
        return self._thread.is_alive()

    @property
    def health(self) -> Health:
        """How the writing goes."""
        with self._changed:
            waiting = len(self._queue) + len(self._under_way)
            first, aside, rows = self._first_waiting(), self._set_aside, self._taken_over
            return Health(not self._error, waiting, self._lost, self._error, first, aside, rows)

    def close(self, seconds: float = 5.0) -> bool:
        """Write what is queued, for so long at most; whether all of it was written."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(seconds)
        self._reader.close()
        return self.health.waiting == 0

    def _first_waiting(self) -> int:
        if self._under_way:
            return self._under_way[0].number
        return self._queue[0].number if self._queue else self._number + 1

    def _give_up(self, one: _Queued) -> None:
        """It is lost, and what belongs together with it is not all there. The caller has the lock."""
        self._bytes -= one.size
        self._lost += 1
        first = one.number
        if self._given_up and self._given_up[-1][0] <= first <= self._given_up[-1][1] + 1:
            first, _ = self._given_up.pop()
        self._given_up.append((first, one.last))

    def _is_kept(self, number: int, *, is_all: bool) -> bool:
        """Whether what no longer waits was written, and not given up. The caller has the lock."""
        return not self._lost if is_all else not any(first <= number <= last for first, last in self._given_up)

    def _write(self) -> None:
        connection = connected(self._path)
        try:
            while self._take():
                if not self._took(connection) and self._should_give_up():
                    return
        finally:
            connection.close()

    def _take(self) -> bool:
        """Wait for statements, and take all that are queued; False at the end."""
        with self._changed:
            while not self._queue and not self._under_way and not self._is_closing:
                self._changed.wait()
            self._under_way += self._queue
            self._queue.clear()
            return bool(self._under_way)

    def _took(self, connection: sqlite3.Connection) -> bool:
        """Write what is under way as one transaction. Whether the disk took it; if not, it is tried again."""
        try:
            if self._identity != identity(self._path):  # what is written to it now, nobody finds again
                raise sqlite3.OperationalError(f"{self._path} was removed or replaced; start the daemon again")
            while (culprit := self._executed(connection)) is not None:
                with self._changed:
                    self._under_way.remove(culprit)
                    self._give_up(culprit)
        except sqlite3.Error as error:
            with self._changed:
                self._error = str(error)
            return False
        with self._changed:
            self._bytes -= sum(one.size for one in self._under_way)
            self._under_way = []
            self._error = ""
            first = self._first_waiting()
            reached = [
                (waiter, self._is_kept(waiter.number, is_all=waiter.is_all))
                for waiter in self._waiters
                if waiter.number < first
            ]
            self._waiters = [waiter for waiter in self._waiters if waiter.number >= first]
        for waiter, is_kept in reached:
            waiter.wake(is_kept)
        return True

    def _executed(self, connection: sqlite3.Connection) -> _Queued | None:
        """Execute what is under way as one transaction; gives the statement that is our fault. Raises sqlite3.Error."""
        one = None
        try:
            with connection:
                for one in self._under_way:
                    connection.execute(one.sql, one.values)
        except OUR_FAULT:
            return one
        return None

    def _should_give_up(self) -> bool:
        """Wait until it is time to try again; at the end there is no other time."""
        with self._changed:
            if not self._is_closing:
                self._changed.wait(RETRY_SECONDS)
            return self._is_closing


def _finish(done: asyncio.Future[bool], is_kept: bool) -> None:  # noqa: FBT001 it is a call-back
    if not done.done():
        done.set_result(is_kept)


def _size(values: Iterable[Any]) -> int:
    return 64 + sum(len(value) for value in values if isinstance(value, str | bytes))


def _text(raw: bytes) -> str:
    """A bit that flipped within a text is no damage that SQLite would see."""
    return raw.decode("utf-8", "replace")


def connected(path: Path) -> sqlite3.Connection:
    """A connection that waits for others and survives the loss of power. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=2.0, check_same_thread=False)
    connection.text_factory = _text
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 2000;")
    return connection


def open_store(directory: Path, stamp: str) -> Store:
    """The store of a directory, its file brought to this version. Raises TasktrailError where that cannot be.

    A damaged file is set aside as `state.db.damaged-STAMP`, and what can be read of it is taken over.
    One that was cut to nothing counts as damaged where checkpoints say that there was a state before.
    """
    path = directory / FILE
    try:
        damaged = _is_damaged(path)
        aside = _set_aside(path, stamp) if damaged else None
        path.touch(mode=0o600)
        with closing(connected(path)) as connection:
            _migrate(connection, path)
            taken_over = {} if aside is None else _taken_over(connection, aside)
        return Store(path, "" if aside is None else aside.name, taken_over)
    except (sqlite3.Error, OSError) as error:
        raise TasktrailError(f"{path}: {error}; name another --state, or none for memory only") from error


def _is_damaged(path: Path) -> bool:
    if not path.exists():
        return False
    if not is_regular(path):
        return True
    if path.stat().st_size == 0:  # SQLite would take it for a new one: so it is, where nothing else was kept here yet
        return any(path.parent.glob(f"{PREFIX}*"))
    try:
        with closing(connected(path)) as connection:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            return bool(said != "ok")
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
            raise  # locked, no permission, no room: nothing is wrong with the file
        return True


def _set_aside(path: Path, stamp: str) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(aside.with_name(aside.name + end))
    return aside


def _taken_over(connection: sqlite3.Connection, aside: Path) -> dict[str, int]:
    """How many rows of a damaged file could be read and were put into the new one, by table."""
    counts: Counter[str] = Counter()
    for table, row in _readable(aside):
        marks = ", ".join("?" * len(row))
        with suppress(sqlite3.Error):
            sql = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"  # noqa: S608 ours
            counts[table] += connection.execute(sql, row).rowcount
    connection.commit()
    return dict(+counts)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise TasktrailError(f"{path}: written by a newer version (step {version}); this one knows {len(STEPS)} steps")
    for number, step in enumerate(STEPS[version:], version + 1):
        connection.executescript(f"BEGIN; {step}; PRAGMA user_version = {number}; COMMIT;")


def _readable(path: Path) -> Iterator[tuple[str, Sequence[Any]]]:
    """Every row that can be read, from both ends of each table: what lies between is lost."""
    if not is_regular(path):
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as damaged:
        damaged.text_factory = _text
        names = [name for (name,) in damaged.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for order in ("", " ORDER BY 1 DESC"):
                with suppress(sqlite3.Error, OverflowError):
                    for row in damaged.execute(f"SELECT * FROM {name}{order}"):  # noqa: S608 names of a schema
                        yield name, row
