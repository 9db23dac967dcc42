"""Checkpoints on the disk: a log of parts, each group of them sealed by a commit, in generations.

A generation is one file, `checkpoint-NUMBER`. Its first frame names the version of the form, and which commit of which
file it goes on from; from its first *whole* commit on it says all by itself, and files older than the one before it are
removed. Every frame has a checksum. What follows the last sound commit does not count: so a crash in the middle of a
write, and a damaged place, lead back to the newest state that is known in full.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, ClassVar

import msgspec

from collector.model.files import identity, regular
from collector.model.part import Part

VERSION = 1
"""Of the form of the parts. A file of another one is not read."""
PREFIX = "checkpoint-"
_FRAME = struct.Struct("<IIH")
"""Checksum of what follows it, length of the content, length of the name."""
_BEGIN, _COMMIT = "begin", "commit"
_LARGEST = 1 << 30
_NOT_A_FILE = frozenset({errno.EINVAL, errno.ENXIO, errno.EISDIR})
BEGUN = ".begun"
"""How the name of a file ends until its first frame is on the disk."""
DAMAGED = "damaged-"
"""How the name of a file begins that was set aside."""
MOST_DAMAGED = 2
"""Files that are kept aside for people; the oldest go."""


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """The end of a group of parts."""

    at: float
    """Unix seconds."""
    is_whole: bool
    """Whether the parts of this file up to here say all."""
    is_last: bool
    """Whether the process ended in order after it."""


class Begin(msgspec.Struct, frozen=True, array_like=True):
    """What a file goes on from."""

    version: int
    after: int
    """The number of the file; 0: from nothing."""
    end: int
    """Where the commit ends in it."""


class _File(msgspec.Struct):
    """A file as it was found."""

    path: Path
    number: int
    begin: Begin | None
    commits: dict[int, Commit]
    """By where they end."""
    problem: str
    """What ended the reading; "" at the end of the file."""
    is_torn: bool = False
    """Whether that is the end of the file, in the middle of a record."""


class Saved(msgspec.Struct, frozen=True):
    """A state that is known in full."""

    chain: tuple[tuple[Path, int], ...]
    """Files in their order, and up to where each counts."""
    commit: Commit
    number: int
    """Of the newest file."""

    def parts(self) -> Iterator[Part]:
        """All parts, oldest first. Raises OSError."""
        for path, end in self.chain:
            for name, content, place in _frames(path):
                if name not in {_BEGIN, _COMMIT}:
                    yield name, content
                if place >= end:
                    break


class Found(msgspec.Struct, frozen=True):
    """What a directory holds."""

    saved: tuple[Saved, ...]
    """Newest first."""
    problems: tuple[str, ...]
    """What is damaged or of another version, for people."""
    damaged: tuple[Path, ...]
    """Files that do not hold what was written to them, newest first."""
    newest: int
    """The highest number in use; 0: none."""
    torn: Path | None = None
    """The newest of all files, where it only ends too early: so does one whose process was killed while it wrote."""


class RemovedError(OSError):
    """The file that was written is not in its folder any more: what was sealed in it is gone."""


class _DamagedError(ValueError):
    """A frame that is not what was written."""


class _TornError(_DamagedError):
    """A frame that the file ends in."""


def found(directory: Path) -> Found:
    """Look through the checkpoints of a directory. Raises OSError where it cannot be read."""
    files = {}
    for path in directory.glob(f"{PREFIX}*"):
        with suppress(ValueError):  # what is set aside, or was being begun, has another end
            number = int(path.name.removeprefix(PREFIX))
            files[number] = _scanned(path, number)
    order = sorted(files.values(), key=lambda file: file.number, reverse=True)
    saved = [one for file in order if (one := _saved(file, files)) is not None]
    problems = [f"{file.path.name}: {file.problem}" for file in order if file.problem]
    went_on = {(file.begin.after, file.begin.end) for file in order if file.begin is not None}
    damaged = [
        file.path for file in order if file.problem and not any((file.number, end) in went_on for end in file.commits)
    ]
    torn = next((file.path for file in order[:1] if file.is_torn), None)
    return Found(tuple(saved), tuple(problems), tuple(damaged), max(files, default=0), torn)


def set_aside(found: Found) -> list[str]:
    """Keep damaged files under another name, where nothing removes them but `MOST_DAMAGED`; the names that worked.

    One whose beginning is used keeps its own name too. The newest file is left alone where its beginning is used.
    """
    names = []
    used = {path for one in found.saved for path, _ in one.chain}
    aside = [path for path in found.damaged if path not in used or path.name != _name(found.newest)]
    for path in aside:
        kept = path.with_name(DAMAGED + path.name)
        with suppress(OSError):
            if path not in used:
                path.rename(kept)
            else:
                kept.unlink(missing_ok=True)
                kept.hardlink_to(path)
            names.append(kept.name)
    for path in aside[:1]:
        for old in sorted(path.parent.glob(f"{DAMAGED}{PREFIX}*"))[:-MOST_DAMAGED]:
            with suppress(OSError):
                old.unlink()
    return names


def _scanned(path: Path, number: int) -> _File:
    file = _File(path, number, None, {}, "")
    try:
        for name, content, end in _frames(path):
            if name == _BEGIN:
                file.begin = msgspec.msgpack.decode(content, type=Begin)
                if file.begin.version != VERSION:
                    file.problem = f"it is of version {file.begin.version}, and this is version {VERSION}"
                    break
            elif name == _COMMIT:
                file.commits[end] = msgspec.msgpack.decode(content, type=Commit)
    except (_DamagedError, msgspec.MsgspecError) as error:
        file.problem, file.is_torn = str(error), isinstance(error, _TornError)
    if file.begin is None and not file.problem:  # a file has its name from when it has its first frame
        file.problem = "it is empty"
    return file


def _saved(file: _File, files: dict[int, _File]) -> Saved | None:
    """The newest state of a file, with the files before it as far as they are needed; None where one is not sound."""
    if not file.commits:
        return None
    end = newest = max(file.commits)
    chain = [(file.path, end)]
    at: _File | None = file
    while at is not None and not any(commit.is_whole for place, commit in at.commits.items() if place <= end):
        begin = at.begin
        if begin is None or begin.after >= at.number:
            return None
        at, end = files.get(begin.after), begin.end
        if at is None or end not in at.commits:
            return None
        chain.append((at.path, end))
    return Saved(tuple(reversed(chain)), file.commits[newest], file.number)


def _frames(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and end of each frame. Raises OSError, and _DamagedError where one is not sound."""
    try:
        opened = regular(path)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise _DamagedError("it is no regular file") from error
        raise
    with opened as file:
        end = 0
        while head := file.read(_FRAME.size):
            if len(head) < _FRAME.size:
                raise _TornError(f"byte {end}: it ends in the middle of a record")
            checksum, length, of_name = _FRAME.unpack(head)
            if length > _LARGEST:
                raise _DamagedError(f"byte {end}: this is no record")
            body = file.read(of_name + length)
            if len(body) < of_name + length:
                raise _TornError(f"byte {end}: it ends in the middle of a record")
            if zlib.crc32(body, zlib.crc32(head[4:])) != checksum:
                raise _DamagedError(f"byte {end}: the checksum does not fit")
            end += _FRAME.size + len(body)
            yield body[:of_name].decode("utf-8", "replace"), body[of_name:], end


def _name(number: int) -> str:
    return f"{PREFIX}{number:012}"


def _frame(name: str, content: bytes) -> bytes:
    key = name.encode()
    lengths = struct.pack("<IH", len(content), len(key))
    body = key + content
    return struct.pack("<I", zlib.crc32(body, zlib.crc32(lengths))) + lengths + body


def _append(file: BinaryIO, data: bytes) -> None:
    """Write all of it, in as many steps as the disk takes. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


class Log:
    """Writes checkpoints. One writer to a directory."""

    KEPT: ClassVar[int] = 24 * 1024 * 1024
    """Bytes that a file may grow, beyond twice what the whole took, before a new one is due: a start reads up to two
    of them, and takes a second for 50 MB."""

    def __init__(self, directory: Path, before: Found) -> None:
        """Goes on from what was found; writes nothing yet."""
        self._directory, self._identity = directory, identity(directory)
        self._number = before.newest
        self._base = before.saved[0] if before.saved else None
        self._file: BinaryIO | None = None
        self._end = 0
        self._whole_end = 0
        self._previous = min((path for path, _ in self._base.chain), default=None) if self._base else None
        """The file that the older of the two generations begins with."""

    @property
    def is_due(self) -> bool:
        """Whether a new generation is due; its first commit must come with all small parts."""
        return self._file is None or (bool(self._whole_end) and self._end > 2 * self._whole_end + self.KEPT)

    def goes_on_from(self, saved: Saved | None) -> None:
        """The state that was in fact taken up, where it is not the newest."""
        self._base = saved
        self._previous = min(path for path, _ in saved.chain) if saved else None

    def begin(self, *, is_alone: bool = False) -> None:
        """Open the next generation; `is_alone`: it says all from its first commit on.

        Raises OSError; then the generation before is still the one that is written, and this can be tried again.
        """
        after, end = 0, 0
        if is_alone:
            pass
        elif self._file is not None:
            after, end = self._number, self._end
        elif self._base is not None:
            after, end = self._base.number, self._base.chain[-1][1]
        self._see_to_the_directory()
        path = self._path(self._number + 1)
        file, size = self._begun(path, Begin(VERSION, after, end))
        self.close()
        self._file, self._number = file, self._number + 1
        self._end, self._whole_end = size, 0

    def _begun(self, path: Path, begin: Begin) -> tuple[BinaryIO, int]:
        """A file that holds its first frame, its name on the disk too; and the size. Raises OSError."""
        frame = _frame(_BEGIN, msgspec.msgpack.encode(begin))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        unnamed = path.with_name(path.name + BEGUN)
        file = os.fdopen(os.open(unnamed, flags, 0o600), "wb", buffering=0)
        try:
            _append(file, frame)
            os.fdatasync(file.fileno())
            unnamed.rename(path)
            descriptor = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            file.close()
            for name in (unnamed, path):
                with suppress(OSError):
                    name.unlink(missing_ok=True)
            raise
        return file, len(frame)

    def write(self, parts: Sequence[Part], commit: Commit) -> int:
        """Append parts and seal them: on the disk when this returns. Gives the bytes. Raises OSError: none are then.

        RemovedError: nothing that was written before is there either, and `begin` is to come, alone.
        """
        assert self._file is not None  # noqa: S101  `begin` comes first
        self._see_to_the_directory()
        if identity(self._path(self._number)) is None:
            self.close()
            self._file = None
            raise RemovedError(errno.ENOENT, "it was removed", str(self._path(self._number)))
        data = b"".join([*(_frame(*part) for part in parts), _frame(_COMMIT, msgspec.msgpack.encode(commit))])
        before = self._end
        try:
            _append(self._file, data)
            self._end += len(data)
            os.fdatasync(self._file.fileno())
        except OSError:
            self._end = before
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), before)
                os.lseek(self._file.fileno(), before, os.SEEK_SET)
            raise
        if commit.is_whole and not self._whole_end:
            self._whole_end = self._end
            self._forget()
        return len(data)

    def _see_to_the_directory(self) -> None:
        """Raises OSError where the directory was removed, moved or replaced: the lock is with the one that was."""
        if self._identity != identity(self._directory):
            raise OSError(
                errno.ENOENT, "it was removed or replaced; end the daemon and start it again", str(self._directory)
            )

    def close(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            self._file.close()

    def _path(self, number: int) -> Path:
        return self._directory / _name(number)

    def _forget(self) -> None:
        """Remove what neither this generation nor the one before it needs."""
        own = self._path(self._number)
        oldest = self._previous or own
        for path in self._directory.glob(f"{PREFIX}*"):
            if path.name < oldest.name:
                path.unlink(missing_ok=True)
        self._previous = own
