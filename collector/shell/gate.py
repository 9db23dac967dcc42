"""The gate between counting and saving: a checkpoint is taken while nobody is in the middle of a batch.

Whoever counts is inside for a batch; whoever saves closes the gate, waits until all are out, and then has the state to
itself over several short steps. One asyncio loop; no threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Gate:
    """Open for all that count, or closed by one that saves."""

    def __init__(self) -> None:
        self.is_closed = False
        self._inside = 0
        self._opened = asyncio.Event()
        self._left = asyncio.Event()

    async def passed(self) -> None:
        """Until the gate is open."""
        while self.is_closed:
            await self._opened.wait()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """For one batch, right after `passed`: nothing is saved until it is counted whole."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._left.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Keep everybody out. One at a time."""
        self.is_closed = True
        self._opened.clear()
        try:
            while self._inside:
                self._left.clear()
                await self._left.wait()
            yield
        finally:
            self.is_closed = False
            self._opened.set()
