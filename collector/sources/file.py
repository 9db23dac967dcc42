"""Files and standard input: lines of NDJSON, plain, `.gz` or `.zst` (known by their first bytes), once to their end.

Reading and inflating happen in a thread, in steps of at most half a second, so that a pipe on which nothing comes
neither holds up the loop nor the stop. A position is the number of lines read, so it means the same in every form.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec
import zstandard

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.record import Batch, Intake
from collector.sources.lines import LINE_LIMIT, LineSplitter

STDIN = "stdin"
_PATIENCE = 0.5  # seconds that a thread waits for a pipe
_CHUNK = 256 * 1024
_PIECE = 1024  # inflated one after the other: 1 KB of zstd makes at most 32 MB


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or `stdin`."""

    name: str
    path: str
    chunk: int = 1000
    """Records per batch, at most."""
    line_limit: int = LINE_LIMIT
    """Bytes; a longer line is handed over as a marker that no decoder accepts."""


class _Inflater(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def _gzip() -> _Inflater:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Inflater:
    return zstandard.ZstdDecompressor().decompressobj()


_FORMS: dict[bytes, tuple[str, Callable[[], _Inflater]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}


class FileSource:
    """Reads one file to its end and returns. Raises SourceError where it cannot be opened, or is damaged."""

    def __init__(self, options: FileOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Hand over every line behind the stored position; what stands before a damaged place counts."""
        options = self._options
        splitter = LineSplitter(options.line_limit)
        # What comes over a pipe or as standard input has no name: it is never the same twice.
        is_named = options.path != STDIN and stat.S_ISREG(_mode(options.path))
        lines, skip = 0, int(intake.position(options.path) or 0) if is_named else 0
        with _opened(options.path) as reader:
            intake.connected(f"reads {options.path}")
            while (chunk := await _in_thread(reader.read)) is not None:
                lines = await self._take(intake, splitter.feed(chunk), lines, skip)
            if last := splitter.rest():
                lines = await self._take(intake, [last], lines, skip)
        await intake.take(self._batch([], lines, is_head=True))

    async def _take(self, intake: Intake, lines: list[bytes], before: int, skip: int) -> int:
        """Hand over lines (numbers `before + 1` on) but the first `skip` of the file; gives how many there were."""
        step = self._options.chunk
        for start in range(max(0, skip - before), len(lines), step):
            await intake.take(self._batch(lines[start : start + step], before + start, is_head=False))
            await asyncio.sleep(0)
        return before + len(lines)

    def _batch(self, lines: list[bytes], before: int, *, is_head: bool) -> Batch:
        after = before + len(lines)
        receipts = list(range(before + 1, after + 1))
        if b"" in lines:
            receipts = [receipt for receipt, line in zip(receipts, lines, strict=True) if line]
            lines = [line for line in lines if line]
        return Batch(
            source=self._options.name,
            place=self._options.path,
            bodies=lines,
            receipts=[*receipts],
            received_at=self._clock.now(),
            is_head=is_head,
            position=after,
        )


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - one question
    except OSError:
        return 0  # whoever opens it says why


async def _in_thread(read: Callable[[], bytes | None]) -> bytes | None:
    """Call it in a thread. A cancellation waits for the thread: it must not meet a closed descriptor."""
    step = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        await asyncio.wait([step])
        raise


class _Reader:
    """Chunks of a file descriptor, inflated. Runs in a thread; holds no more than one chunk."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._offset = 0
        self._form: tuple[str, Callable[[], _Inflater]] | None = None
        self._inflater: _Inflater | None = None
        self._started = False
        self._pieces: Iterator[bytes] = iter(())
        self._damage: SourceError | None = None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self) -> bytes | None:
        """Some bytes; b"" where none came in time; None at the end. Raises SourceError at a damaged place."""
        if self._inflater is not None and (inflated := self._inflate()):
            return inflated
        if self._damage is not None:
            raise self._damage
        if not self._poll.poll(_PATIENCE * 1000):
            return b""
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise SourceError(f"{self._path}: byte {self._offset}: {error.strerror}") from error
        if not data:
            self._check_end()
            return None
        if not self._started:
            self._recognise(data)
        if self._inflater is None:
            self._offset += len(data)
            return data
        self._pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        return self._inflate()

    def _recognise(self, data: bytes) -> None:
        self._started = True
        for magic, form in _FORMS.items():
            if data.startswith(magic):
                self._form, self._inflater = form, form[1]()

    def _inflate(self) -> bytes:
        """About a chunk of what the pieces at hand inflate to."""
        made: list[bytes] = []
        size = 0
        while size < _CHUNK and (piece := next(self._pieces, None)) is not None:
            try:
                made.append(self._inflate_piece(piece))
            except (zlib.error, zstandard.ZstdError) as error:
                self._damage = self._damaged(str(error))  # raised by the next read: what was inflated before counts
                self._pieces = iter(())
                break
            self._offset += len(piece)
            size += len(made[-1])
        return b"".join(made)

    def _inflate_piece(self, piece: bytes) -> bytes:
        """One piece, over the ends of the members or frames that it holds."""
        form = self._form
        inflater = self._inflater
        if form is None or inflater is None:
            return piece
        made = b""
        while piece:
            if inflater.eof:
                self._inflater = inflater = form[1]()
            made += inflater.decompress(piece)
            piece = inflater.unused_data if inflater.eof else b""
        return made

    def _check_end(self) -> None:
        if self._form and self._inflater and not self._inflater.eof:
            raise self._damaged("it ends too early")

    def _damaged(self, why: str) -> SourceError:
        form = self._form[0] if self._form else "plain"
        return SourceError(f"{self._path}: byte {self._offset}: damaged {form} data: {why}", retryable=False)


@contextmanager
def _opened(path: str) -> Iterator[_Reader]:
    """A reader; closed afterwards, but for standard input, which is not ours to close."""
    if path == STDIN:
        yield _Reader(path, 0)
        return
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer and could not be cancelled.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}", retryable=False) from error
    try:
        if os.path.isdir(path):  # noqa: PTH112 - one question, no path arithmetic
            raise SourceError(f"{path}: is a directory; name a file", retryable=False)
        yield _Reader(path, descriptor)
    finally:
        os.close(descriptor)
