"""What was being read when the process died: a record that ends us three times is stepped over, kept and told of.

An exception over a record is met where it is counted. What is not an exception (a crash within a C library, the
kernel's verdict on our memory, a bug outside of that net) ends the process, which is started again, at the same
position. So the place and the records of each step are noted before it, in a mapped page that outlives the process. A
second death within the same records makes their place be read record by record; a third one names the record.

A kill from outside leaves a note as well: it accuses nobody as long as reading gets on between two of them.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from contextlib import suppress
from pathlib import Path

import msgspec

from collector.model.record import Batch, Receipt

NOTE, FILE = "reading", "suspects"
PAGE = 4096
CAREFUL_AFTER = 2
"""Deaths within the same records after which they are read one by one."""
GUILTY_AFTER = 3
MOST = 100
"""Places that are remembered; the oldest go."""
_LENGTH = struct.Struct("<I")
_NUMBERS = re.compile(r"\d+")


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Records of one place that were read in one step."""

    source: str
    place: str
    first: str
    last: str
    count: int


class Suspect(msgspec.Struct, array_like=True):
    """Where the process died, how often without getting on, and the record that is known to do it ("": not yet)."""

    span: Span
    deaths: int
    guilty: str = ""


_spans = msgspec.msgpack.Decoder(Span)
_suspects = msgspec.msgpack.Decoder(list[Suspect])


class Suspects:
    """The notes of one state directory."""

    def __init__(self, directory: Path) -> None:
        """Reads what the former process left, and counts its death. Raises OSError."""
        self._path = directory / FILE
        self._known = self._read()
        descriptor = os.open(directory / NOTE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            os.ftruncate(descriptor, PAGE)
            self._page = mmap.mmap(descriptor, PAGE)
        finally:
            os.close(descriptor)
        self._is_failed = False
        self.died_in = self._left()
        """What the former process was reading when it died; None: it did not, or not over a record."""
        if self.died_in is not None:
            self._count(self.died_in)
        self._clear()

    def wants_care(self, batch: Batch) -> bool:
        """Whether the batch is to be read record by record."""
        return any(
            suspect.deaths >= CAREFUL_AFTER and _overlap(suspect.span, _span(batch))
            for suspect in self._known
            if suspect.span.source == batch.source and suspect.span.place == batch.place
        )

    def is_guilty(self, batch: Batch, receipt: Receipt) -> bool:
        """Whether this record has ended the process time and again."""
        return any(
            suspect.guilty == str(receipt) and suspect.span.place == batch.place and suspect.span.source == batch.source
            for suspect in self._known
        )

    def begin(self, batch: Batch) -> None:
        """These records are read from now on."""
        note = msgspec.msgpack.encode(_span(batch))
        if self._is_failed or len(note) > PAGE - _LENGTH.size:
            return
        page = self._page
        _LENGTH.pack_into(page, 0, 0)  # what is half written is no note
        page[_LENGTH.size : _LENGTH.size + len(note)] = note
        _LENGTH.pack_into(page, 0, len(note))

    def end(self) -> None:
        """They were read."""
        if not self._is_failed:
            self._clear()

    def fail(self) -> None:
        """They are what ends the process: the note stays."""
        self._is_failed = True

    def _clear(self) -> None:
        _LENGTH.pack_into(self._page, 0, 0)

    def _left(self) -> Span | None:
        (length,) = _LENGTH.unpack_from(self._page, 0)
        if not 0 < length <= PAGE - _LENGTH.size:
            return None
        try:
            return _spans.decode(self._page[_LENGTH.size : _LENGTH.size + length])
        except msgspec.MsgspecError:
            return None

    def _count(self, span: Span) -> None:
        before = next((one for one in self._known if _overlap(one.span, span) and not one.guilty), None)
        deaths = 1 if before is None else before.deaths + 1
        if before is not None:
            self._known.remove(before)
        is_guilty = deaths >= GUILTY_AFTER and span.count == 1
        self._known.append(Suspect(span, deaths, span.first if is_guilty else ""))
        del self._known[:-MOST]
        self._write()

    def _read(self) -> list[Suspect]:
        try:
            return _suspects.decode(self._path.read_bytes()) if self._path.is_file() else []
        except (OSError, msgspec.MsgspecError):
            return []

    def _write(self) -> None:
        unnamed = self._path.with_name(f"{FILE}.new")
        with suppress(OSError):  # a disk that is full forgets whom we suspect, nothing else
            unnamed.write_bytes(msgspec.msgpack.encode(self._known))
            unnamed.rename(self._path)


def _span(batch: Batch) -> Span:
    receipts = batch.receipts
    return Span(batch.source, batch.place, str(receipts[0]), str(receipts[-1]), len(batch.bodies))


def _overlap(one: Span, other: Span) -> bool:
    """Whether two steps had records in common: offsets, line numbers and entry ids are all in order."""
    if (one.source, one.place) != (other.source, other.place):
        return False
    return _order(one.first) <= _order(other.last) and _order(other.first) <= _order(one.last)


def _order(receipt: str) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(receipt)]
