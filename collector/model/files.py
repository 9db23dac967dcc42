"""Reading a file that somebody named, whatever lies under that name: never waits for long, never reads without end.

A pipe or a device is read as far as it gives anything at once (`-c <(...)` of a shell is a pipe); one into which nobody
writes is an error, and no reason to stand still at a start or a reload.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

from collector.model.errors import Problem

LARGEST = 64 * 1024 * 1024
"""Bytes that are read of one file; more is no file of ours."""
PATIENCE_MS = 1000
"""How long a pipe may keep us waiting for its next bytes."""
_PIECE = 1024 * 1024

# what the system says of a file → what to do about it
_ADVICE: dict[int | None, str] = {
    errno.ENOENT: ": check the path",
    errno.EACCES: ": give this user the right to it",
    errno.EISDIR: ": name a file in it",
    errno.EEXIST: ": remove it, or name another",
}


def read_text(path: str | Path, most: int = LARGEST) -> str:
    """The text of a file, its lines ended as Python's are. Raises OSError and UnicodeDecodeError."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path, most)), encoding="utf-8").read()


def unread(path: str | Path, error: OSError | UnicodeDecodeError) -> Problem:
    """That a file cannot be read; where it is no text, at the first byte that is none."""
    if isinstance(error, OSError):
        return Problem(str(path), 1, 1, f"cannot be read: {why(error)}")
    before = error.object[: error.start]
    line, column = before.count(b"\n") + 1, len(before[before.rfind(b"\n") + 1 :].decode()) + 1
    byte = f"the byte 0x{error.object[error.start]:02x}"
    return Problem(
        str(path), line, column, f"this is no text, {byte} is not UTF-8: name a text file, or save it as UTF-8"
    )


def why(error: OSError) -> str:
    """Why the system does not let us have a file, and what to do; without its name, which stands beside it."""
    return f"{error.strerror or error}{_ADVICE.get(error.errno, '')}"


def read_bytes(path: str | Path, most: int = LARGEST) -> bytes:
    """The content of a file. Raises OSError: also for more than `most` bytes, and for a pipe that gives nothing."""
    descriptor = _opened(path)
    try:
        read = bytearray()
        while piece := _piece(descriptor, path):
            read += piece
            if len(read) > most:
                raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
        if not read and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise _silent(path)
        return bytes(read)
    finally:
        os.close(descriptor)


def regular(path: str | Path) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError where it is none."""
    descriptor = _opened(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def is_regular(path: str | Path) -> bool:
    """Whether a regular file is there, or nothing at all."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except FileNotFoundError:
        return True


def _opened(path: str | Path) -> int:
    # Without O_NONBLOCK, opening a named pipe would wait for its writer.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def _piece(descriptor: int, path: str | Path) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(PATIENCE_MS):
            raise _silent(path) from None
        return os.read(descriptor, _PIECE)


def _silent(path: str | Path) -> OSError:
    return OSError(errno.ETIMEDOUT, "is a pipe into which nobody writes", str(path))


def identity(path: Path) -> tuple[int, int] | None:
    """Which file or folder has this name, for as long as it is there; None: there is none, or it cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
