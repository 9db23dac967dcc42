"""How pushed bodies are split, and how the unix socket treats its file and its connections."""
# ruff: noqa: ASYNC240 - files of tests are small

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import msgspec
import pytest

from collector.model.clock import ManualClock
from collector.model.errors import SourceError, TooManyError
from collector.sources import push
from collector.sources.push import MOST_COMMAS, MOST_EVENTS, UnixOptions, UnixSource, batches, split
from tests.contract_suites.rigs import Notes, UnixRig, running, until

PACK = msgspec.msgpack.encode


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', "application/x-ndjson", [b'{"a":1}', b'{"a":2}']),
        (b'{"a":1}\r\n\r\n  {"a":2}', "", [b'{"a":1}', b'{"a":2}']),
        (b'[{"a":1}, {"a" : 2}]', "application/json", [b'{"a":1}', b'{"a" : 2}']),
        (b" \n[1,\n2]", "", [b"1", b"2"]),
        (b"[]", "application/json; charset=utf-8", []),
        (b'{\n"a":\n1}', "application/json", [b'{\n"a":\n1}']),
        (b'{"a":1}\n{"a":2}', "application/json", [b'{"a":1}', b'{"a":2}']),
        (b"[1]\n[2]", "application/x-ndjson", [b"[1]", b"[2]"]),
        (b"", "", [b""]),
        (b" \n ", "", [b" \n "]),
        (b'[{"a":1}, {"a":', "application/json", [b'[{"a":1}, {"a":']),
        (b"\xff\xfe", "application/json", [b"\xff\xfe"]),
        (PACK([{"a": 1}, {"a": 2}]), "application/msgpack", [PACK({"a": 1}), PACK({"a": 2})]),
        (PACK({"a": 1}), "application/x-msgpack", [PACK({"a": 1})]),
        (PACK([{"a": 1}])[:-1], "application/msgpack", [PACK([{"a": 1}])[:-1]]),
        (b"[" * 100_000, "", [b"[" * 100_000]),
    ],
)
def test_a_body_is_split_into_events(body: bytes, content_type: str, expected: list[bytes]) -> None:
    """Every form gives one body per event; what cannot be split is handed on whole, to be counted as malformed."""
    assert split(body, content_type) == expected


def test_a_large_push_is_several_batches() -> None:
    """A push of 1200 events is three batches, numbered on, of which the last is the head."""
    made = list(batches([b"x"] * 1200, source="http", place="p", received_at=7.0, first=11))
    assert [len(batch.bodies) for batch in made] == [500, 500, 200]
    assert [batch.receipts[0] for batch in made] == [11, 511, 1011]
    assert [batch.is_head for batch in made] == [False, False, True]


async def test_the_socket_is_for_owner_and_group(tmp_path: Path) -> None:
    """The socket has mode 0660 and is gone when the source has stopped."""
    rig = UnixRig(tmp_path)
    notes = Notes()
    path = Path(rig.place())
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()


async def test_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    """A socket file that a dead process left does not keep the source from starting."""
    rig = UnixRig(tmp_path)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(rig.place())
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
        await rig.write([b"x"])
        await until(lambda: notes.bodies == [b"x"])


async def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    """Where another process listens the source refuses, and that process keeps its socket."""
    rig = UnixRig(tmp_path)
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
        with pytest.raises(SourceError, match="another process listens") as caught:
            await rig.source().run(Notes())
        assert not caught.value.retryable
        await rig.write([b"x"])
        await until(lambda: notes.bodies == [b"x"])


async def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """A path that holds something else than a socket is refused."""
    rig = UnixRig(tmp_path)
    Path(rig.place()).write_text("precious")
    with pytest.raises(SourceError, match="no socket"):
        await rig.source().run(Notes())
    assert Path(rig.place()).read_text() == "precious"


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A path that cannot be bound is an error with the path and the reason."""
    source = UnixSource(UnixOptions(name="u", path=str(tmp_path / "none" / "e.sock")))
    with pytest.raises(SourceError, match="is not there: make it"):
        await source.run(Notes())


async def test_connections_are_independent(tmp_path: Path) -> None:
    """Half a line of one connection, and one that breaks off, do not touch what another sends; all receipts differ."""
    rig = UnixRig(tmp_path)
    notes = Notes()
    async with running(rig.source(), notes):
        await until(Path(rig.place()).exists)
        _, slow = await asyncio.open_unix_connection(rig.place())
        slow.write(b"hal")
        await slow.drain()
        await rig.write([b"a", b"b"])
        await until(lambda: len(notes.bodies) == 2)
        slow.write(b"f\n")
        slow.close()
        await slow.wait_closed()
        await until(lambda: len(notes.bodies) == 3)
    assert notes.bodies == [b"a", b"b", b"half"]
    assert [receipt for batch in notes.batches for receipt in batch.receipts] == [1, 2, 3]


async def test_too_many_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections over the bound are closed, what they send is one gap, and those within it go on."""
    monkeypatch.setattr(push, "_REFUSED_TOGETHER", 0.1)
    rig = UnixRig(tmp_path)
    rig.options = msgspec.structs.replace(rig.options, most_connections=1)
    notes = Notes()
    async with running(rig.source(), notes):
        await until(Path(rig.place()).exists)
        _, first = await asyncio.open_unix_connection(rig.place())
        first.write(b"a\n")
        await until(lambda: notes.bodies == [b"a"])
        assert notes.parts == [1.0]
        reader, second = await asyncio.open_unix_connection(rig.place())
        assert await reader.read() == b""
        await until(lambda: bool(notes.gaps))
        assert [(gap.place, gap.reason) for gap in notes.gaps] == [(rig.place(), "too_many_connections")]
        first.write(b"b\n")
        await until(lambda: notes.bodies == [b"a", b"b"])
        for writer in (first, second):
            writer.close()
            await writer.wait_closed()


async def test_an_overload_that_goes_on_is_one_gap_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where connections are refused again soon after the last gap, the next begins where it ended; later, anew."""
    monkeypatch.setattr(push, "_REFUSED_TOGETHER", 0.1)
    clock, notes = ManualClock(1000.0), Notes()
    path = str(tmp_path / "e.sock")
    async with running(UnixSource(UnixOptions(name="u", path=path, most_connections=0), clock), notes):
        await until(Path(path).exists)
        for number, later in enumerate((0.0, 0.05, 100.0), 1):
            clock.at += later
            reader, writer = await asyncio.open_unix_connection(path)
            assert await reader.read() == b""
            await until(lambda: len(notes.gaps) == number)  # noqa: B023
            writer.close()
            await writer.wait_closed()
    assert [(gap.start, gap.end) for gap in notes.gaps] == [(1000, 1000), (1000, 1000.05), (1100.05, 1100.05)]


async def test_a_socket_made_by_someone_else_stays(tmp_path: Path) -> None:
    """At the stop only our own socket file is removed, not one that has taken its place."""
    rig = UnixRig(tmp_path)
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
        Path(rig.place()).rename(tmp_path / "moved")
        Path(rig.place()).write_text("new")
    assert Path(rig.place()).read_text() == "new"


def test_a_line_of_a_socket_is_one_event():
    """Every connection may hold the beginning of a line: together they must not hold gigabytes."""
    options = UnixOptions(name="u", path="/u")
    assert options.line_limit * options.most_connections <= 256 * 1024 * 1024


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{}\n" * (MOST_EVENTS + 2), ""),
        (b"{}\n" * (MOST_EVENTS + 2), "application/json"),
        (b"[" + b"{}," * MOST_EVENTS + b"{}]", ""),
        (b"[" + b"," * (MOST_COMMAS + 1), "application/json"),
        (PACK([{}] * (MOST_EVENTS + 1)), "application/msgpack"),
    ],
)
def test_more_events_than_anybody_pushes_are_refused(body: bytes, content_type: str) -> None:
    """A push has a bound on its events, in every form, and millions of them are refused before they are split."""
    with pytest.raises(TooManyError, match="send fewer"):
        split(body, content_type)
