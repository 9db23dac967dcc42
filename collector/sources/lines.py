"""Splits a byte stream into lines, whatever the chunks it comes in. A line over the limit becomes a marker.

The marker is the line's first bytes and a note that no JSON decoder accepts, so the record is counted as malformed
and the next line is good again; the rest of such a line is never kept in memory.
"""

from __future__ import annotations

LINE_LIMIT = 16 * 1024 * 1024
_KEPT = 1024
_NOTE = b"\x00 truncated: the line is longer than the limit"


class LineSplitter:
    """Feed it chunks, take whole lines without their line ends. Empty lines are lines too."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk completes."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [self.rest()]
        self._keep(others.pop())
        lines += [line if len(line) <= self._limit else line[:_KEPT] + _NOTE for line in others]
        if b"\r" in chunk or lines[0].endswith(b"\r"):
            lines = [line.removesuffix(b"\r") for line in lines]
        return lines

    def rest(self) -> bytes:
        """What came after the last line end, and forget it."""
        line = b"".join(self._parts)
        if self._size > self._limit:
            line = line[:_KEPT] + _NOTE
        self._parts, self._size = [], 0
        return line

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
        elif len(self._parts) != 1 or len(self._parts[0]) > _KEPT:
            self._parts = [b"".join([*self._parts, part])[:_KEPT]]
