"""Large blocks that are freed are given back, whatever small ones were made in between."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

BLOCKS = """
import sys
from collector.bench.memory import resident
from collector.cli import memory
if sys.argv[1] == "with":
    memory.give_back()
bytearray(16_000_000)  # by which glibc learns that large blocks are worth keeping
before, small = resident(), []
for _ in range(4):
    large = []
    for _ in range(10):
        large.append(bytearray(b"x" * 4_000_000))
        small.append(bytes(1000))
    del large
print(resident() - before)
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
