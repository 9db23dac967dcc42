"""A TCP proxy whose link can be bad in every way: slow, late, frozen, deaf, cut, refused. For tests, on their loop.

    async with proxied("127.0.0.1", 6379) as link:
        ... link.port ...
        link.freeze()

A broker that names its own address in its answers (Kafka does) gets that of the proxy written in its place.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PIECE = 1 << 16
_EVEN = 0.05  # seconds: a throttled link gives its bytes in so many pieces a second


class Link:
    """One proxied address, and what its link is like now. What changes holds for open connections, too."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.delay = 0.0
        """Seconds that every piece takes, each way."""
        self.rate: float | None = None
        """Bytes a second that come from the server."""
        self.is_deaf = False
        """Whether connections are taken and what comes over them goes nowhere."""
        self.is_refusing = False
        """Whether connections are closed as soon as they are made."""
        self.made = 0
        """Connections so far."""
        self.turns = 0
        """How often a client spoke after it had heard something, or for the first time: round trips."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._to = host, port
        self._open: set[asyncio.Task[None]] = set()

    def freeze(self) -> None:
        """Nothing moves any more, and nobody is told: new connections are taken, and hear nothing."""
        self._flows.clear()

    def thaw(self) -> None:
        """What was held comes at last."""
        self._flows.set()

    def lead(self, host: str, port: int) -> None:
        """New connections go to another server, as behind a name that moves in a failover."""
        self._to = host, port

    def cut(self) -> None:
        """Close all that is open, at once."""
        for task in self._open:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.made += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if not self.is_refusing:
                await self._join(reader, writer)
        except asyncio.CancelledError:  # it was cut; whoever made this task wants to hear of nothing
            pass
        finally:
            writer.transport.abort()
            self._open.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions, until either ends."""
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._to)
        except OSError:
            return
        heard = asyncio.Event()
        heard.set()
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, far_writer, heard, None))
                pumps.create_task(self._pump(far_reader, writer, heard, self._renaming()))
        except* OSError:
            pass
        finally:
            far_writer.transport.abort()

    async def close(self) -> None:
        """End all connections."""
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _renaming(self) -> tuple[bytes, bytes]:
        """The server's own address as Kafka writes it, and ours."""
        host = self._to[0].encode()
        return host + struct.pack(">i", self._to[1]), host + struct.pack(">i", self.port)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: asyncio.Event,
        names: tuple[bytes, bytes] | None,
    ) -> None:
        while True:
            piece = await reader.read(_PIECE)
            if not piece:
                raise ConnectionResetError
            if names is None and heard.is_set():
                self.turns += 1
                heard.clear()
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._flows.wait()
            if self.is_deaf:
                continue
            if names is not None:
                piece = piece.replace(*names)
                await self._trickle(piece, writer)
                heard.set()
            else:
                writer.write(piece)
                await writer.drain()

    async def _trickle(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        """The piece, at the link's rate."""
        while piece:
            size = len(piece) if self.rate is None else max(1, int(self.rate * _EVEN))
            writer.write(piece[:size])
            await writer.drain()
            piece = piece[size:]
            if self.rate is not None:
                await asyncio.sleep(_EVEN)


@asynccontextmanager
async def proxied(host: str, port: int) -> AsyncIterator[Link]:
    """A link to an address, on a free port of this machine."""
    link = Link(host, port)
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        await link.close()
