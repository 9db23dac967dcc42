"""What the process asks of the C library's allocator, so that its memory stays what it holds.

Of glibc; other libraries keep less for themselves and know no such wishes: there nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes

_MIB = 1024 * 1024
_WISHES = (
    (-3, _MIB),  # M_MMAP_THRESHOLD: from this size on a block is a mapping of its own, gone when it is freed
    (-1, 4 * _MIB),  # M_TRIM_THRESHOLD: as much may lie free at the end of the heap
    (-8, 2),  # M_ARENA_MAX: heaps besides, of which each thread would otherwise get one
)
"""Parameters of mallopt (malloc.h) and their values."""
TEND_SECONDS = 60.0
WORTH_WHILE = 8 * _MIB
"""Bytes that have become free between what is held, since they were last given back."""


class _Info(ctypes.Structure):
    """glibc's `struct mallinfo2`, of its main heap."""

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


async def tend() -> None:
    """For ever: after a burst, give back the pages of the heap that it has left free. Beside the loop."""
    library = ctypes.CDLL(None)
    info, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if info is None or trim is None:
        return
    info.restype = _Info
    free = info().fordblks
    while True:
        await asyncio.sleep(TEND_SECONDS)
        is_worth_while = info().fordblks > free + WORTH_WHILE
        if is_worth_while:
            await asyncio.to_thread(trim, _MIB)
        now = info().fordblks
        free = now if is_worth_while else min(free, now)
