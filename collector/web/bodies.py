"""The body of a request, piece by piece, as it was before it was encoded for the way.

Takes what comes over the wire; gives bytes, or says in one sentence why there are none.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator

from aiohttp import web

STEP = 256 * 1024
"""Bytes that are inflated in one uninterrupted step."""
_LONGEST_NAME = 40
"""Characters of an encoding's name, which is said again."""
_PLAIN = frozenset(("", "identity"))
_WINDOWS: dict[str, int] = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""Encodings that are taken besides, and what zlib calls them."""
_ZLIB = 8
"""The low half of a zlib stream's first byte. Some send `deflate` without that header."""


_ANSWERS: dict[str, type[web.HTTPClientError]] = {
    "unknown_encoding": web.HTTPUnsupportedMediaType,
    "bad_encoding": web.HTTPBadRequest,
    "cut_off": web.HTTPBadRequest,
}
"""Why a body cannot be read to its end, as it is counted; and what is answered, if anybody still listens."""


class BrokenError(Exception):
    """A body that cannot be read to its end, by a reason of `_ANSWERS`."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason

    def answer(self) -> web.HTTPClientError:
        """What the client is told, as the last thing on its connection."""
        told = _ANSWERS[self.reason](text=f"{self}\n")
        told.force_close()
        return told


async def pieces(request: web.Request) -> AsyncGenerator[bytes, None]:
    """The body, decoded, in steps between which others have a turn. Raises BrokenError."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()[:_LONGEST_NAME]
    if encoding not in _WINDOWS and encoding not in _PLAIN:
        why = f"Content-Encoding {encoding} is not understood: send {' or '.join(_WINDOWS)}, or the body as it is"
        raise BrokenError("unknown_encoding", why)
    inflating = Inflating(encoding) if encoding in _WINDOWS else None
    try:
        if request.transport is None:  # the client was gone before its turn came: aiohttp calls that a fault of ours
            raise ConnectionResetError
        async for piece in request.content.iter_any():
            if inflating is None:
                yield piece
                continue
            for part in inflating.feed(piece):
                yield part
                await asyncio.sleep(0)
    except ConnectionError as error:
        raise BrokenError("cut_off", "the client hung up before the end of the body") from error
    except (web.RequestPayloadError, zlib.error) as error:
        request.content.feed_eof()  # nothing more is read of it, or the same error would come again from there
        raise BrokenError("bad_encoding", f"the body is not encoded as its headers say: {error}") from error
    if inflating is not None and not inflating.is_whole:
        raise BrokenError("bad_encoding", f"the body ends before its {encoding} stream does")


class Inflating:
    """A stream that is being inflated; gzip may be several, one behind the other."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream = zlib.decompressobj()
        self.is_whole = True
        """Whether what came so far is whole."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What comes of it, in pieces of at most `STEP`. Raises zlib.error."""
        is_full = False
        while data or is_full:
            if self.is_whole:
                is_bare = self._encoding == "deflate" and data[0] & 0xF != _ZLIB
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _WINDOWS[self._encoding])
            piece = self._stream.decompress(data, STEP)
            self.is_whole = self._stream.eof
            data = self._stream.unused_data if self.is_whole else self._stream.unconsumed_tail
            is_full = len(piece) == STEP and not self.is_whole  # there may be more of it, though all was taken in
            yield piece
