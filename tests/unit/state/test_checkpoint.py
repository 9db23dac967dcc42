"""Checkpoints on the disk: what is sealed comes back, and nothing that is not sound does."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.state import checkpoint
from collector.state.checkpoint import Commit, Log, found


def commit(at: float, *, is_whole: bool = True, is_last: bool = False) -> Commit:
    """The end of a group."""
    return Commit(at, is_whole, is_last)


def written(folder: Path, *groups: tuple[str, bool]) -> Log:
    """A generation with a group of one part each: its content, and whether it is whole then."""
    log = Log(folder, found(folder))
    log.begin()
    for number, (content, is_whole) in enumerate(groups):
        log.write([("a.b", content.encode())], commit(float(number), is_whole=is_whole))
    return log


def contents(folder: Path, index: int = 0) -> list[str]:
    """What the newest sound state holds (or an older one)."""
    return [content.decode() for _, content in found(folder).saved[index].parts()]


def files(folder: Path) -> list[Path]:
    """The generations, oldest first."""
    return sorted(folder.glob(f"{checkpoint.PREFIX}*"))


def test_what_was_sealed_comes_back(tmp_path: Path) -> None:
    """All parts of all groups, in their order, with the last group's time."""
    written(tmp_path, ("one", False), ("two", True), ("three", True)).close()
    assert contents(tmp_path) == ["one", "two", "three"]
    assert found(tmp_path).saved[0].commit == commit(2.0)
    assert found(tmp_path).problems == ()


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    """No file is no state and no problem."""
    assert found(tmp_path) == checkpoint.Found((), (), (), 0)


def test_a_state_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    """Without a commit that says all, and nothing before it, there is no state."""
    written(tmp_path, ("one", False)).close()
    assert found(tmp_path).saved == ()


def test_a_generation_goes_on_from_the_one_before_until_it_is_whole(tmp_path: Path) -> None:
    """A new file needs the older one at first, and stands alone later; the older is kept, those before are removed."""
    log = written(tmp_path, ("one", True))
    log.begin()
    log.write([("a.b", b"two")], commit(1.0, is_whole=False))
    assert contents(tmp_path) == ["one", "two"]
    log.write([("a.b", b"three")], commit(2.0))
    assert contents(tmp_path) == ["two", "three"]
    assert len(files(tmp_path)) == 2
    log.begin()
    log.write([("a.b", b"four")], commit(3.0))
    assert contents(tmp_path) == ["four"]
    assert contents(tmp_path, 1) == ["two", "three"]
    assert len(files(tmp_path)) == 2
    log.close()


def test_restarts_go_on_from_one_another(tmp_path: Path) -> None:
    """Each process begins a file of its own, which goes on from where the one before was sealed."""
    for content in ("one", "two", "three"):
        written(tmp_path, (content, content == "one")).close()
    assert contents(tmp_path) == ["one", "two", "three"]
    assert len(files(tmp_path)) == 3


@pytest.mark.parametrize("cut", [1, 5, 9, 20])
def test_a_write_that_was_cut_off_does_not_count(tmp_path: Path, cut: int) -> None:
    """After a crash in the middle of a group the one before it is the state, and the next process goes on from it."""
    written(tmp_path, ("one", True), ("two", True)).close()
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    assert contents(tmp_path) == ["one"]
    assert "middle of a record" in found(tmp_path).problems[0]
    written(tmp_path, ("three", False)).close()
    assert contents(tmp_path) == ["one", "three"]


def test_a_damaged_generation_leads_back_to_the_older_one(tmp_path: Path) -> None:
    """Where the newest file is damaged before it says all, what was sealed before it is the state."""
    log = written(tmp_path, ("one", True))
    log.begin()
    log.write([("a.b", b"two")], commit(1.0))
    log.close()
    newest = files(tmp_path)[-1]
    data = bytearray(newest.read_bytes())
    data[data.index(b"two")] ^= 1
    newest.write_bytes(data)
    assert contents(tmp_path) == ["one"]
    assert "checksum" in found(tmp_path).problems[0]


def test_a_file_of_another_version_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of another version is said to be there, and is not used."""
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    written(tmp_path, ("one", True)).close()
    monkeypatch.undo()
    assert found(tmp_path).saved == ()
    assert "version 2" in found(tmp_path).problems[0]


def test_a_disk_that_is_full_loses_nothing_that_was_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that could not be written leaves the file as it was, and can be written again."""
    log = written(tmp_path, ("one", True))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, "fdatasync", fails)
        with pytest.raises(OSError, match="No space"):
            log.write([("a.b", b"two")], commit(1.0))
    assert contents(tmp_path) == ["one"]
    log.write([("a.b", b"two")], commit(1.0))
    assert contents(tmp_path) == ["one", "two"]
    log.close()


def fails(*_: object) -> None:
    """A full disk."""
    raise OSError(28, "No space left on device")


class Full(FileIO):
    """A file on a full disk."""

    write = fails


@pytest.mark.parametrize(
    ("name", "stand_in"),
    [("open", fails), ("fdopen", lambda descriptor, *_, **__: Full(descriptor, "wb")), ("fsync", fails)],
)
def test_a_generation_that_could_not_begin_breaks_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, stand_in: Callable[..., object]
) -> None:
    """The file before goes on being written, and the next generation goes on from its last commit."""
    log = written(tmp_path, ("one", True))
    for content in ("two", "three"):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.os, name, stand_in)
            with pytest.raises(OSError, match="No space"):
                log.begin()
        assert len(files(tmp_path)) == 1
        log.write([("a.b", content.encode())], commit(1.0))
    log.begin()
    log.write([("a.b", b"four")], commit(2.0, is_whole=False))
    log.write([("a.b", b"five")], commit(3.0, is_whole=False))
    assert contents(tmp_path) == ["one", "two", "three", "four", "five"]
    assert found(tmp_path).problems == ()
    log.close()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_flipped_byte_is_noticed(tmp_path_factory: pytest.TempPathFactory, place: int, flip: int) -> None:
    """Whatever byte is changed, what comes back is a state that was sealed, or none."""
    folder = tmp_path_factory.mktemp("flipped")
    written(folder, ("one", True), ("two", True), ("three", True)).close()
    (path,) = files(folder)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= flip
    path.write_bytes(data)
    whole = ["one", "two", "three"]
    got = contents(folder) if found(folder).saved else []
    assert got in [whole[:count] for count in range(3)]


@pytest.mark.parametrize("harm", ["empty", "pipe"])
def test_a_file_that_holds_nothing_is_said_and_set_aside(tmp_path: Path, harm: str) -> None:
    """A generation that was cut to nothing, or is no file at all, hides no sound one, and keeps its name for people."""
    written(tmp_path, ("one", True)).close()
    written(tmp_path, ("two", True)).close()
    newest = files(tmp_path)[-1]
    newest.unlink()
    newest.touch() if harm == "empty" else os.mkfifo(newest)
    seen = found(tmp_path)
    assert contents(tmp_path) == ["one"]
    assert [newest.name in problem for problem in seen.problems] == [True]
    assert checkpoint.set_aside(seen) == [f"damaged-{newest.name}"]
    assert newest not in files(tmp_path)
    for number in range(5):
        (tmp_path / f"{checkpoint.PREFIX}9{number}").touch()
        checkpoint.set_aside(found(tmp_path))
    assert len(list(tmp_path.glob("damaged-*"))) == checkpoint.MOST_DAMAGED


def test_a_file_that_goes_on_is_set_aside_too_where_it_is_damaged(tmp_path: Path) -> None:
    """What a newer file went on from and is gone is damage, though what is left is used; a torn end is none."""
    written(tmp_path, ("one", True), ("two", True)).close()
    older = files(tmp_path)[0]
    with older.open("ab") as file:
        file.write(b"torn")
    assert [checkpoint.set_aside(found(tmp_path)), found(tmp_path).damaged] == [[], (older,)]
    written(tmp_path, ("three", False)).close()
    assert found(tmp_path).damaged == ()
    os.truncate(older, older.stat().st_size - 8)
    seen = found(tmp_path)
    assert contents(tmp_path) == ["one"]
    assert seen.damaged == (older,)
    for _ in range(2):
        assert checkpoint.set_aside(seen) == [f"damaged-{older.name}"]
    assert older in files(tmp_path)


def test_a_file_has_its_name_when_it_has_its_first_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it begins a generation leaves nothing that looks damaged."""
    append, seen = checkpoint._append, []

    def looks(file: FileIO, data: bytes) -> None:
        seen.append(found(tmp_path))
        append(file, data)

    monkeypatch.setattr(checkpoint, "_append", looks)
    written(tmp_path).close()
    assert seen == [checkpoint.Found((), (), (), 0)]
    assert (found(tmp_path).newest, found(tmp_path).problems) == (1, ())


def test_a_directory_that_was_replaced_is_not_written_to(tmp_path: Path) -> None:
    """It may be another daemon's by now; back in its place it is."""
    place, aside = tmp_path / "state", tmp_path / "aside"
    place.mkdir()
    log = written(place, ("one", True))
    place.rename(aside)
    for _ in range(2):
        for deed in (log.begin, lambda: log.write([("a.b", b"two")], commit(1.0))):
            with pytest.raises(OSError, match="removed or replaced"):
                deed()
        place.mkdir(exist_ok=True)
    assert list(place.iterdir()) == []
    place.rmdir()
    aside.rename(place)
    log.write([("a.b", b"two")], commit(1.0))
    log.close()
    assert contents(place) == ["one", "two"]
