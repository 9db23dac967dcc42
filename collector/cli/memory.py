"""What the process asks of the C library's allocator, so that its memory stays what it holds."""

from __future__ import annotations

import ctypes

_MIB = 1024 * 1024
_WISHES = (
    (-3, _MIB),  # M_MMAP_THRESHOLD: from this size on a block is a mapping of its own, gone when it is freed
    (-1, 4 * _MIB),  # M_TRIM_THRESHOLD: as much may lie free at the end of the heap
    (-8, 2),  # M_ARENA_MAX: heaps besides, of which each thread would otherwise get one
)
"""Parameters of glibc's mallopt (malloc.h) and their values."""


def give_back() -> None:
    """Have large blocks given back to the system when they are freed.

    Left alone, glibc learns from the first large block to keep them, up to 32 MB each: the heap then grows for hours
    by the holes between what a checkpoint or a long answer needed for a moment. Other libraries have no such wishes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _WISHES:
            mallopt(parameter, value)
