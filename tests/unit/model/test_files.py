"""Files by name: read whole, or an error at once, whatever lies there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.model.errors import Problem
from collector.model.files import is_regular, read_bytes, read_text, regular, unread, why


def test_a_file_is_read_as_text(tmp_path: Path) -> None:
    """Its lines end as Python's do, whoever wrote them."""
    (tmp_path / "a").write_bytes("ä\r\nb\n".encode())
    assert read_text(tmp_path / "a") == "ä\nb\n"
    with regular(tmp_path / "a") as file:
        assert file.read() == read_bytes(str(tmp_path / "a"))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "nobody writes"),
        (Path.mkdir, "directory"),
        (lambda path: path.symlink_to("/dev/zero"), "larger than"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
    ],
    ids=["pipe", "folder", "endless-device", "nothing"],
)
def test_what_is_no_file_is_an_error_at_once(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    """It does not hang, and says what is there."""
    make(tmp_path / "a")
    with pytest.raises(OSError, match=why):
        read_bytes(tmp_path / "a", 1000)
    with pytest.raises(OSError, match=r"regular|directory|No such"):
        regular(tmp_path / "a").close()


@pytest.mark.parametrize(
    ("content", "line", "column", "byte"),
    [(b"\xff\xfe", 1, 1, "0xff"), ("a: 1\nbä: ".encode() + b"\xea\n", 2, 5, "0xea")],
)
def test_what_is_no_text_is_said_at_its_place(
    tmp_path: Path, content: bytes, line: int, column: int, byte: str
) -> None:
    """The first byte that is none is named with its line and column, in characters."""
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UnicodeDecodeError) as caught:
        read_text(tmp_path / "a")
    message = f"this is no text, the byte {byte} is not UTF-8: name a text file, or save it as UTF-8"
    assert unread("a", caught.value) == Problem("a", line, column, message)


def test_what_the_system_says_of_a_file_is_advice(tmp_path: Path) -> None:
    """Neither its numbers nor the file's name again, and what to do where that is known."""
    with pytest.raises(FileNotFoundError) as missing:
        read_text(tmp_path / "a")
    assert str(unread("a", missing.value)) == "a:1:1: cannot be read: No such file or directory: check the path"
    with pytest.raises(FileExistsError) as there:
        tmp_path.mkdir()
    assert why(there.value) == "File exists: remove it, or name another"
    assert why(OSError("broken")) == "broken"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """What a shell's `<(...)` hands over counts; where its writer falls silent it is an error."""
    reading, writing = os.pipe()
    os.write(writing, b"a: 1\n")
    with pytest.raises(TimeoutError, match="nobody writes"):
        read_text(f"/dev/fd/{reading}")
    os.write(writing, b"b: 2\n")
    os.close(writing)
    assert read_text(f"/dev/fd/{reading}") == "b: 2\n"
    os.close(reading)
    os.mkfifo(tmp_path / "p")
    assert not is_regular(tmp_path / "p")
    assert is_regular(tmp_path / "not there")
