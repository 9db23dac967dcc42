"""The state file: what was promised is on the disk, whatever happens to the process, the disk or the file."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.model.alert import Notification
from collector.model.errors import TasktrailError
from collector.model.saved import Unsent
from collector.state import rows
from collector.state import store as stores
from collector.state.directory import Lock, chosen
from collector.state.store import FILE, open_store

PUT = "INSERT OR REPLACE INTO acks VALUES (?, ?)"


def acks(directory: Path) -> dict[str, bytes]:
    """What is in the file."""
    connection = sqlite3.connect(directory / FILE)
    rows = dict(connection.execute("SELECT fingerprint, value FROM acks"))
    connection.close()
    return rows


async def test_what_is_durable_can_be_read_by_another(tmp_path):
    """Statements are written in order; `durable` returns when they are there for everyone."""
    store = open_store(tmp_path, "x")
    for number in range(500):
        store.put(PUT, f"{number % 100}", f"{number}".encode())
    assert await store.durable()
    assert acks(tmp_path) == {f"{number % 100}": f"{number}".encode() for number in range(400, 500)}
    assert store.rows("SELECT count(*) FROM acks") == [(100,)]
    assert store.close()


KILLED = """
import asyncio, sys
from pathlib import Path
from collector.state.store import open_store
async def main():
    store = open_store(Path(sys.argv[1]), "x")
    number = 0
    while True:
        store.put("INSERT OR REPLACE INTO acks VALUES (?, ?)", str(number), b"x" * 100)
        if number % 7 == 0 and await store.durable():
            print(number, flush=True)
        number += 1
asyncio.run(main())
"""


@pytest.mark.case("K18.1")
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.4])
def test_nothing_that_was_promised_is_lost_by_a_kill(tmp_path, seconds):
    """Whatever was said to be durable before `kill -9` is there after it, and the file is whole."""
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        promised = [int(line) for line in (first + process.stdout.read()).splitlines()]
    store = open_store(tmp_path, "x")
    assert store.health.set_aside == ""
    found = {int(key) for (key,) in store.rows("SELECT fingerprint FROM acks")}
    assert found >= set(range(promised[-1] + 1))
    store.close()


@pytest.mark.case("K18.1")
async def test_a_disk_that_takes_nothing_is_said_and_made_good(tmp_path, monkeypatch):
    """While the file is locked for writing nothing is called durable; what waited is there once it can be written."""
    monkeypatch.setattr(stores, "RETRY_SECONDS", 0.05)
    store = open_store(tmp_path, "x")
    blocker = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    store.put(PUT, "1", b"a")
    assert not await store.durable(seconds=0.2)
    deadline = time.monotonic() + 20
    while store.health.is_durable and time.monotonic() < deadline:  # noqa: ASYNC110 no event tells of it
        await asyncio.sleep(0.05)
    assert not store.health.is_durable
    assert "locked" in store.health.error
    blocker.execute("ROLLBACK")
    blocker.close()
    assert await store.durable(seconds=20)
    assert (store.health.is_durable, store.health.waiting) == (True, 0)
    assert acks(tmp_path) == {"1": b"a"}
    store.close()


@pytest.fixture
async def stuck(tmp_path, monkeypatch):
    """A store with little room whose file is locked, with one statement under way; and what lets it go."""
    monkeypatch.setattr(stores, "MOST_WAITING", 2000)
    monkeypatch.setattr(stores, "RETRY_SECONDS", 0.05)
    store = open_store(tmp_path, "x")
    blocker = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    store.put(PUT, "first", b"")
    while not store._under_way:  # noqa: ASYNC110  no event tells of it
        await asyncio.sleep(0.01)
    yield store, blocker.close
    blocker.close()
    store.close()


async def test_what_waits_for_a_disk_is_bounded_and_its_loss_counted(stuck, tmp_path):
    """Beyond the bound the oldest go, each counted, and of each it is said whether it is there, early or late."""
    store, release = stuck
    numbers = {str(key): store.put_all([(PUT, str(key), b"x" * 100)]) for key in range(50)}
    assert store.health.lost > 30
    early = [asyncio.create_task(store.durable(20.0, number)) for number in numbers.values()]
    everything = asyncio.create_task(store.durable(20.0))
    await asyncio.sleep(0)
    release()
    said = dict(zip(numbers, await asyncio.gather(*early), strict=True))
    there = acks(tmp_path).keys()
    assert {"first", "49"} <= there
    assert len(there) == 51 - store.health.lost
    assert {key for key, is_kept in said.items() if is_kept} == there - {"first"}
    assert said == {key: await store.durable(20.0, number) for key, number in numbers.items()}
    assert not await everything
    later = store.put_all([(PUT, "later", b"")])
    assert await store.durable(20.0, later)


async def test_what_belongs_together_goes_together(stuck, tmp_path):
    """For want of room all statements of a call go or none, also where fewer would have made room."""
    store, release = stuck
    for call in range(10):
        store.put_all([(PUT, f"{call}-{part}", b"x" * 100) for part in range(5)])
    release()
    last = store.put_all([(PUT, "9-last", b"")])
    assert await store.durable(20.0, last)
    there = [key for key in acks(tmp_path) if not key.endswith(("first", "last"))]
    calls = [key.partition("-")[0] for key in there]
    assert calls
    assert {calls.count(call) for call in calls} == {5}


def test_a_damaged_file_is_set_aside_and_read_as_far_as_it_goes(tmp_path):
    """The daemon comes up with every row that could be read, and the damaged file is kept for people."""
    store = open_store(tmp_path, "x")
    for number in range(2000):
        store.put(PUT, f"{number:05}", b"v" * 200)
    store.close()
    path = tmp_path / FILE
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 5000] = os.urandom(5000)
    path.write_bytes(content)
    again = open_store(tmp_path, "20300101")
    assert again.health.set_aside == "state.db.damaged-20300101"
    ((count,),) = again.rows("SELECT count(*) FROM acks")
    assert count > 1000
    assert again.health.taken_over == {"acks": count}
    assert (tmp_path / "state.db.damaged-20300101").stat().st_size == len(content)
    again.close()


def test_what_is_no_database_is_set_aside(tmp_path):
    """A file of something else is not written over."""
    (tmp_path / FILE).write_bytes(b"not a database" * 100)
    store = open_store(tmp_path, "x")
    assert store.health.set_aside
    assert store.health.taken_over == {}
    assert store.rows("SELECT count(*) FROM acks") == [(0,)]
    store.close()


def test_the_file_is_for_its_owner(tmp_path):
    """What is made is made with mode 0600, and what SQLite puts beside it too; what was there keeps its own."""
    store = open_store(tmp_path, "x")
    store.put(PUT, "1", b"v")
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{FILE}*")} == dict.fromkeys(
        (FILE, f"{FILE}-wal", f"{FILE}-shm"), 0o600
    )
    store.close()
    (tmp_path / FILE).chmod(0o640)
    open_store(tmp_path, "x").close()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o640


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    """Rather than misread."""
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 9999")
    connection.close()
    with pytest.raises(TasktrailError, match="newer version"):
        open_store(tmp_path, "x")


def test_a_directory_belongs_to_one_daemon(tmp_path):
    """The second one is told who has it; after the first has ended it is free."""
    first = Lock(tmp_path)
    with pytest.raises(TasktrailError, match=f"pid {os.getpid()}"):
        Lock(tmp_path)
    first.close()
    Lock(tmp_path).close()


def test_the_directory_is_the_first_place_that_is_given(tmp_path):
    """Configured, then systemd's, then the user's own, which is made; `none` is none."""
    environ = {"STATE_DIRECTORY": f"{tmp_path}/s:{tmp_path}/t", "XDG_STATE_HOME": f"{tmp_path}/x"}
    assert chosen("none", environ) is None
    assert chosen(f"{tmp_path}/a/b", environ) == tmp_path / "a/b"
    assert chosen(None, environ) == tmp_path / "s"
    assert all((tmp_path / name).is_dir() for name in ("a/b", "s"))


def test_a_place_that_cannot_be_written_says_what_to_do(tmp_path):
    """And names the way without a directory."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TasktrailError, match="--state none"):
        chosen(str(tmp_path / "file" / "below"), {})


async def test_a_statement_that_no_disk_takes_holds_up_nobody(tmp_path):
    """What the file cannot hold, by its rules or for its characters, is given up and counted; the others are kept."""
    store = open_store(tmp_path, "x")
    calls = [("1", b"a"), ("\ud800", b"b"), ("2", None), ("3", b"c")]
    numbers = [store.put_all([(PUT, *values)]) for values in calls]
    assert [await store.durable(number=number) for number in numbers] == [True, False, False, True]
    assert not await store.durable()
    assert acks(tmp_path) == {"1": b"a", "3": b"c"}
    assert (store.health.lost, store.health.waiting, store.is_alive) == (2, 0, True)
    assert store.close()
    assert not store.is_alive


async def test_statements_that_belong_together_are_there_together_and_have_a_number(tmp_path):
    """`durable` up to a number does not wait for what was queued later."""
    store = open_store(tmp_path, "x")
    number = store.put_all([(PUT, "1", b"a"), (PUT, "2", b"b")])
    assert await store.durable(number=number)
    blocker = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    later = store.put_all([(PUT, "3", b"c")])
    assert await store.durable(0.0, number)
    assert not await store.durable(0.1, later)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert await store.durable(20.0, later)
    assert acks(tmp_path).keys() == {"1", "2", "3"}
    store.close()


@pytest.mark.parametrize("harm", ["empty", "pipe"])
def test_a_file_that_is_gone_to_nothing_is_set_aside(tmp_path, harm):
    """Where checkpoints say that there was a state, an empty file, or what is no file, is damage and no first start."""
    path = tmp_path / FILE
    path.touch()
    store = open_store(tmp_path, "first")
    assert store.health.set_aside == ""
    assert store.close()
    (tmp_path / "checkpoint-1").touch()
    path.unlink()
    path.touch() if harm == "empty" else os.mkfifo(path)
    store = open_store(tmp_path, "x")
    assert store.health.set_aside == f"{FILE}.damaged-x"
    store.put(PUT, "a", b"1")
    assert store.close()
    assert acks(tmp_path) == {"a": b"1"}


def test_a_lock_that_is_no_file_is_said(tmp_path):
    """A named pipe in its place neither hangs the start nor ends it with a traceback."""
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(TasktrailError, match="no regular file"):
        Lock(tmp_path)


def test_values_of_another_kind_are_left_out_and_counted(tmp_path):
    """Numbers that are none, in the table of numbers or beside a notification, do not end a start."""
    store = open_store(tmp_path, "x")
    store.put(*rows.meta("alive", 1.5))
    for wrong in ("soon", b"\x00", float("inf")):
        store.put("INSERT INTO meta VALUES (?, ?)", f"broken {wrong!r}", wrong)
    said = Notification(
        key="k",
        at=1.0,
        receiver="r",
        status="firing",
        group_labels=(),
        common_labels=(),
        common_annotations=(),
        alerts=(),
        title="",
        text="",
    )
    for row, tries in enumerate((1, "many")):
        store.put_all([rows.unsent(Unsent(row=row, notification=said, tries=1, not_before=0.0, rests_until=0.0))])
        store.put("UPDATE outbox SET tries = ? WHERE id = ?", tries, row)
    assert store.close()
    store = open_store(tmp_path, "x")
    found = rows.found(store)
    assert (found.numbers, [one.row for one in found.unsent], found.unread) == ({"alive": 1.5}, [0], 4)
    assert store.close()


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_what_goes_to_a_file_that_is_gone_is_not_durable(tmp_path, monkeypatch, is_replaced):
    """Nobody finds it again; back in its place it takes what waited."""
    monkeypatch.setattr(stores, "RETRY_SECONDS", 0.05)
    place, aside = tmp_path / "state", tmp_path / "aside"
    place.mkdir()
    store = open_store(place, "x")
    store.put(PUT, "1", b"a")
    assert await store.durable(seconds=20)
    place.rename(aside)
    if is_replaced:
        place.mkdir()
        (place / FILE).touch()
    store.put(PUT, "2", b"b")
    assert not await store.durable(seconds=0.2)
    assert "removed or replaced" in store.health.error
    if is_replaced:
        assert (place / FILE).stat().st_size == 0
        shutil.rmtree(place)
    aside.rename(place)
    assert await store.durable(seconds=20)
    assert acks(place) == {"1": b"a", "2": b"b"}
    store.close()
