"""Large blocks that are freed are given back, whatever small ones were made in between."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

BLOCKS = """
import sys
from collector.shell import heap
if sys.argv[1] == "with":
    heap.wish()
bytearray(16_000_000)  # by which glibc learns that large blocks are worth keeping
before, small = heap.resident(), []
for _ in range(4):
    large = []
    for _ in range(10):
        large.append(bytearray(b"x" * 4_000_000))
        small.append(bytes(1000))
    del large
print(heap.resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
def test_large_blocks_are_given_back() -> None:
    """What is resident stays what is held; without the wish a heap with holes stays."""
    grown = {}
    for how in ("with", "without"):
        call = [sys.executable, "-c", BLOCKS, how]
        grown[how] = int(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    assert grown["with"] < 2_000_000, grown
    assert grown["without"] > 4_000_000, grown


HOLES = """
import asyncio
from collector.shell import heap
heap.wish()
heap.TEND_SECONDS = 0.05

async def main():
    tending = asyncio.ensure_future(heap.tend())
    await asyncio.sleep(0)
    blocks, held = [], []
    for _ in range(3000):
        blocks.append(bytearray(b"x" * 20_000))
        held.append(bytes(1000))
    del blocks
    before = heap.resident()
    async with asyncio.timeout(60):
        while heap.resident() > before - 20_000_000:
            await asyncio.sleep(0.05)
    tending.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="another C library than glibc")
def test_what_a_burst_leaves_free_is_given_back() -> None:
    """Also between small blocks that are still held."""
    subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
