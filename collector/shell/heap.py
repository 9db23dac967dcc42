"""What the process asks of the C library's allocator, so that its memory stays what it holds.

Of glibc; other libraries keep less for themselves and know no such wishes: there nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

_MIB = 1024 * 1024
_WISHES = (
    (-3, _MIB),  # M_MMAP_THRESHOLD: from this size on a block is a mapping of its own, gone when it is freed
    (-1, 4 * _MIB),  # M_TRIM_THRESHOLD: as much may lie free at the end of the heap
    (-8, 2),  # M_ARENA_MAX: heaps besides, of which each thread would otherwise get one
)
"""Parameters of mallopt (malloc.h) and their values."""
TEND_SECONDS = 60.0
WORTH_WHILE = 8 * _MIB
"""Bytes that have come into memory since the last time, and that lie free between what is held."""


class _Info(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def wish() -> None:
    """Have large blocks given back to the system when they are freed. To be called before threads begin.

    Left alone, glibc learns from the first large block to keep them, up to 32 MB each: the heap then grows for hours
    by the holes between what a checkpoint or a long answer needed for a moment.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _WISHES:
            mallopt(parameter, value)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def tend() -> None:
    """For ever: after a burst, give back the pages of the heap that it has left free.

    In a thread, but who wants memory meanwhile waits: some milliseconds, of a heap with hundreds of megabytes free some
    tens; so not before it is worth while.
    """
    library = ctypes.CDLL(None)
    info, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if info is None or trim is None:
        return
    info.restype = _Info
    before = resident()
    while True:
        await asyncio.sleep(TEND_SECONDS)
        before = min(before, resident())
        if resident() > before + WORTH_WHILE and info().fordblks > WORTH_WHILE:
            await asyncio.to_thread(trim, _MIB)
            before = resident()
