"""Kept trails in the state file: how they are found, replaced, and go."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from collector.state import kept
from collector.state.kept import Asked, KeptRow, Shelf, page_query
from collector.state.store import FILE, open_store

T0 = 1_750_000_000.0


def row(number: int, **fields: object) -> KeptRow:
    """A row: every tenth is lost, each in a trace of two, one a second."""
    values: dict[str, object] = {
        "home": "s",
        "id": f"n{number}",
        "first_at": T0 + number,
        "last_at": T0 + number + 1,
        "task": f"pay.{number % 7}",
        "queue": "q",
        "state": "lost" if number % 10 == 0 else "failed",
        "error": "TimeoutError" if number % 3 == 0 else "ValueError",
        "trace": f"t{number // 2}",
        "reason": "outcome",
        "rank": 2,
        "value": b"v%d" % number,
    }
    return KeptRow(**(values | fields))


class File:
    """A state file and what reads it."""

    def __init__(self, tmp_path) -> None:
        self.store = open_store(tmp_path, "x")
        self.shelf = Shelf(tmp_path / FILE)

    def put(self, *rows: KeptRow, now: float = T0) -> None:
        """Rows that are on the disk."""
        self.take([kept.put(one, now) for one in rows])

    def take(self, statements) -> None:
        """Statements that are executed."""
        with closing(sqlite3.connect(self.store._path, timeout=60)) as connection, connection:
            for sql, *values in statements:
                connection.execute(sql, values)

    async def page(self, **asked: object) -> list[str]:
        """The values of a page."""
        found = await self.shelf.ask(lambda: self.shelf.page(Asked(**asked)), None)
        return [value.decode() for _, value in found]


@pytest.fixture
def file(tmp_path):
    """One with nothing kept."""
    made = File(tmp_path)
    yield made
    made.shelf.close(60)
    assert made.store.close(60)


async def test_pages_are_what_the_filters_let_through(file) -> None:
    """Newest first, as globs and times have it, on from where the last one ended."""
    file.put(*(row(number) for number in range(40)))
    file.put(row(40, task="mail[1]", state="lost"))
    assert await file.page(limit=3) == ["v40", "v39", "v38"]
    assert await file.page(limit=3, after=(T0 + 38, "s", "n38")) == ["v37", "v36", "v35"]
    assert await file.page(states=("lost",), task="pay*", error="*Timeout*") == ["v30", "v0"]
    assert await file.page(states=("lost", "failed"), task="[!p]*") == ["v40"]
    assert await file.page(since=T0 + 39.5, queue="q") == ["v40", "v39"]
    assert await file.page(states=("gone",)) == []


async def test_a_part_is_replaced_and_another_is_added(file) -> None:
    """The same part is the same id, home and beginning; it does not lose its trace nor its rank."""
    ask, shelf = file.shelf.ask, file.shelf
    file.put(row(1), row(2))
    file.put(row(1, trace="", reason="trace", rank=1, value=b"again"), row(1, first_at=T0 + 900, value=b"later"))
    assert await ask(lambda: shelf.parts("n1"), None) == [b"again", b"later"]
    assert await ask(lambda: shelf.trace("t0"), None) == [b"again", b"later"]
    assert await ask(lambda: shelf.trace(""), None) == []
    assert await ask(shelf.size, None) == (3, 3 * kept.ROW_BYTES + 2 + 5 + 5)
    with closing(sqlite3.connect(file.store._path)) as connection:
        found = connection.execute("SELECT reason, rank FROM kept WHERE id = 'n1' ORDER BY first_at").fetchall()
    assert found == [("outcome", 2), ("outcome", 2)]


async def test_what_goes_is_the_oldest_of_the_lowest_rank(file) -> None:
    """By age of each rank, by bytes the ranks one after the other; what was kept again is not old."""
    ask, shelf = file.shelf.ask, file.shelf
    for number in range(6):
        file.put(row(number, rank=number % 3), now=T0 + number)
    aged = await ask(lambda: shelf.aged(T0 + 4, (0, 1, 2)), None)
    assert sum(one.count for one in aged) == 4
    file.take(map(kept.go, aged))
    assert await file.page() == ["v5", "v4"]
    surplus = await ask(lambda: shelf.surplus(kept.ROW_BYTES + 10, (0, 1, 2)), None)
    assert [(one.rank, one.count) for one in surplus] == [(1, 1), (2, 1)]
    file.put(row(4, rank=1), now=T0 + 9)
    file.take(map(kept.go, surplus))
    assert await file.page() == ["v4"]


@pytest.mark.parametrize(
    ("asked", "index", "by"),
    [
        (Asked(), "kept_time", ""),
        (Asked(after=(T0, "s", "n"), since=T0), "kept_time", "first_at"),
        (Asked(states=("lost",)), "kept_state", "state=?"),
        (Asked(states=("lost",), after=(T0, "s", "n"), task="pay*", error="*T*"), "kept_state", "first_at"),
        (Asked(states=("lost", "failed"), task="pay*"), "kept_time", ""),
    ],
)
def test_a_page_is_read_from_one_index_alone(file, asked, index, by) -> None:
    """In its order: nothing is sorted, and no value is read that is not shown, however many are kept."""
    (line,) = plan(file, *page_query(asked))
    assert f"USING COVERING INDEX {index}" in line
    assert by in line


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda shelf: shelf.parts("n"), "INDEX kept_id"),
        (lambda shelf: shelf.trace("t"), "INDEX kept_trace"),
        (lambda shelf: shelf.aged(T0, (0,)), "COVERING INDEX kept_rank"),
        (lambda shelf: shelf.surplus(1, (0,)), "COVERING INDEX kept_rank"),
        (lambda shelf: shelf.size(), "COVERING INDEX kept_rank"),
    ],
)
def test_all_else_is_looked_up_in_an_index(file, ask, index) -> None:
    """By id, by trace, by age."""
    asked: list[list[str]] = []

    class Explaining(Shelf):
        def __init__(self) -> None:
            """No thread."""

        def _rows(self, sql, *values):
            asked.append(plan(file, sql, values))
            return [(0, 0)] if "count" in sql else []

    ask(Explaining())
    assert any(index in line for lines in asked for line in lines), asked
    assert not any("SCAN kept" in line and "COVERING" not in line for lines in asked for line in lines)


def plan(file, sql, values) -> list[str]:
    """What SQLite would do."""
    with closing(sqlite3.connect(file.store._path)) as connection:
        return [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


async def test_a_disk_that_gives_nothing_gives_the_default(file) -> None:
    """And the next question is answered."""

    def failing() -> list[bytes]:
        raise sqlite3.OperationalError("disk I/O error")

    assert await file.shelf.ask(failing, [b"none"]) == [b"none"]
    assert await file.shelf.ask(lambda: file.shelf.parts("n"), [b"none"]) == []
