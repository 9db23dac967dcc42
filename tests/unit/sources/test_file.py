"""Files: damaged and truncated ones, pipes on which nothing comes, positions over forms."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from collector.model.errors import SourceError
from collector.sources.file import FileOptions, FileSource
from tests.contract_suites.rigs import SQUEEZED, Notes, running, until

LINES = [b'{"kind":"sent","task_id":"%032d"}' % (number * 7919) for number in range(20_000)]
PACKED: dict[str, Callable[[bytes], bytes]] = {form: squeeze for form, squeeze in SQUEEZED.items() if form != "file"}


async def read(path: Path, notes: Notes) -> None:
    """Read a file to its end."""
    async with asyncio.timeout(30):
        await FileSource(FileOptions(name="f", path=str(path))).run(notes)


@pytest.mark.parametrize("form", SQUEEZED)
async def test_a_position_is_a_line(tmp_path: Path, form: str) -> None:
    """Reading goes on behind the stored line, empty lines are no records, and the last line needs no end."""
    path = tmp_path / "x"
    path.write_bytes(SQUEEZED[form](b"a\n\nb\r\nc"))
    notes = Notes()
    await read(path, notes)
    assert notes.bodies == [b"a", b"b", b"c"]
    assert [receipt for batch in notes.batches for receipt in batch.receipts] == [1, 3, 4]
    assert notes.positions == {str(path): 4}
    for after, bodies in ((1, [b"b", b"c"]), (3, [b"c"]), (4, []), (9, [])):
        notes = Notes({str(path): after})
        await read(path, notes)
        assert notes.bodies == bodies
        assert notes.heads == {str(path)}


@pytest.mark.parametrize("form", PACKED)
async def test_what_stands_before_a_damaged_place_counts(tmp_path: Path, form: str) -> None:
    """Damaged data is a final error with its place; the whole lines before it are handed over."""
    path = tmp_path / "x"
    data = bytearray(PACKED[form](b"\n".join(LINES)))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    path.write_bytes(data)
    notes = Notes()
    with pytest.raises(SourceError, match=rf"{path}: byte \d+: damaged") as caught:
        await read(path, notes)
    assert not caught.value.retryable
    # A damaged bit may also change what is inflated before the damage is noticed, so only the beginning is certain.
    assert notes.bodies[:1000] == LINES[:1000]


@pytest.mark.parametrize("form", PACKED)
async def test_a_file_that_ends_too_early_is_damaged(tmp_path: Path, form: str) -> None:
    """A compressed file that was cut is an error, not an end; the whole lines in it are handed over."""
    path = tmp_path / "x"
    data = PACKED[form](b"\n".join(LINES))
    path.write_bytes(data[: len(data) // 2])
    notes = Notes()
    with pytest.raises(SourceError, match="ends too early"):
        await read(path, notes)
    assert notes.bodies == LINES[: len(notes.bodies)]


@pytest.mark.parametrize("form", SQUEEZED)
async def test_an_empty_file_is_read_to_its_end(tmp_path: Path, form: str) -> None:
    """Nothing in a file is no error, in every form."""
    path = tmp_path / "x"
    path.write_bytes(SQUEEZED[form](b""))
    notes = Notes()
    await read(path, notes)
    assert notes.bodies == []
    assert notes.heads == {str(path)}


@pytest.mark.parametrize("path", ["none", "."])
async def test_what_is_no_file_is_named(tmp_path: Path, path: str) -> None:
    """A missing file and a directory are final errors with their path."""
    with pytest.raises(SourceError, match=str(tmp_path)) as caught:
        await read(tmp_path / path, Notes())
    assert not caught.value.retryable


async def test_members_and_frames_are_read_on(tmp_path: Path) -> None:
    """Files that were compressed piece by piece are read over the pieces' ends, also within a line."""
    for number, squeeze in enumerate((gzip.compress, zstandard.ZstdCompressor().compress)):
        path = tmp_path / str(number)
        path.write_bytes(squeeze(b"a\nb") + squeeze(b"") + squeeze(b"c\n") + squeeze(b"d\n"))
        notes = Notes()
        await read(path, notes)
        assert notes.bodies == [b"a", b"bc", b"d"]


async def test_a_bomb_is_read_in_steps(tmp_path: Path) -> None:
    """A small file that inflates to one endless line comes as one marker, and the next line comes too."""
    path = tmp_path / "x"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"x" * 200_000_000 + b"\nlast\n"))
    notes = Notes()
    await read(path, notes)
    marker, last = notes.bodies
    assert b"truncated" in marker
    assert last == b"last"


async def test_a_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    """Lines of a named pipe come while its writer has it open, and its end is the end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    notes = Notes()
    task = asyncio.ensure_future(read(path, notes))
    await until(lambda: bool(notes.details))
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"a\nb")
    await until(lambda: notes.bodies == [b"a"])
    os.write(writer, b"c\n")
    await until(lambda: notes.bodies == [b"a", b"bc"])
    os.close(writer)
    await task
    assert notes.heads == {str(path)}


async def test_a_pipe_on_which_nothing_comes_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    """A source that waits at a pipe, with no writer or a silent one, stops when it is cancelled."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for has_writer in (False, True):
        notes = Notes()
        async with running(FileSource(FileOptions(name="f", path=str(path))), notes):
            await until(lambda: bool(notes.details))  # noqa: B023
            if has_writer:
                writer = os.open(path, os.O_RDWR)
                os.write(writer, b"a\n")
                await until(lambda: notes.bodies == [b"a"])  # noqa: B023
    os.close(writer)


async def test_standard_input_is_a_file(tmp_path: Path) -> None:
    """`stdin` reads descriptor 0 and leaves it open."""
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    saved = os.dup(0)
    opened = os.open(path, os.O_RDONLY)
    os.dup2(opened, 0)
    try:
        notes = Notes()
        await FileSource(FileOptions(name="f", path="stdin")).run(notes)
        assert os.fstat(0).st_size == path.stat().st_size
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(opened)
    assert notes.places == {"stdin": [b"a", b"b"]}
