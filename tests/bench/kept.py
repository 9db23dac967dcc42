"""What kept trails cost: how fast 100,000 are written, how long each question takes. For people, nothing asserts."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from collector.state import kept
from collector.state.kept import Asked, KeptRow, Shelf
from collector.state.store import FILE, open_store

COUNT = 100_000
BATCH = 500
T0 = 1_790_000_000.0
STATES = ("failed", "lost", "succeeded", "dead_lettered")


def row(number: int) -> KeptRow:
    """One of 50 tasks, in a trace of two, 6 ms after the last; one in a thousand has expired."""
    return KeptRow(
        home="s",
        id=f"task-{number:08d}-0123456789",
        first_at=T0 + number * 0.006,
        last_at=T0 + number * 0.006 + 1,
        task=f"pay.{number % 50}",
        queue=f"q{number % 5}",
        state=STATES[number % 4] if number % 1000 else "expired",
        error="TimeoutError" if number % 3 else "ValueError",
        trace=f"{number // 2:032x}",
        reason="outcome",
        rank=number % 3,
        value=b"x" * 1_200,
    )


async def timed(shelf: Shelf, name: str, question: Callable[[], object]) -> None:
    """Print the best of three."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        await shelf.ask(question, None)
        took.append(time.perf_counter() - began)
    print(f"{name:<40}{1e3 * min(took):8.1f} ms")


async def main() -> None:
    """Write, then ask."""
    with tempfile.TemporaryDirectory() as name:
        store = open_store(Path(name), "x")
        began = time.perf_counter()
        for start in range(0, COUNT, BATCH):
            number = store.put_all([kept.put(row(one), T0 + one) for one in range(start, start + BATCH)])
            assert await store.durable(60, number)
        took = time.perf_counter() - began
        print(f"{COUNT} written in {took:.1f} s, {(Path(name) / FILE).stat().st_size / 1e6:.0f} MB")
        shelf = Shelf(Path(name) / FILE)
        await timed(shelf, "by id", lambda: shelf.parts(row(COUNT // 2).id))
        await timed(shelf, "by trace", lambda: shelf.trace(row(COUNT // 3).trace))
        for title, asked in (
            ("the newest", Asked(limit=101)),
            ("by a seldom state", Asked(states=("expired",), limit=101)),
            ("by two states", Asked(states=("expired", "lost"), limit=101)),
            ("by time", Asked(since=T0 + COUNT * 0.006 - 60, limit=101)),
            ("by a time in which there is nothing", Asked(since=T0 + 1e6, limit=101)),
            ("a page far behind", Asked(after=(T0 + 3, "s", ""), limit=101)),
            ("by a task that there is not", Asked(task="mail*", limit=101)),
            ("by an error that there is not", Asked(task="pay*", error="*None*", limit=101)),
        ):
            await timed(shelf, title, lambda asked=asked: shelf.page(asked))
        await timed(shelf, "how many there are", shelf.size)
        shelf.close()
        store.close()


asyncio.run(main())
