"""What kept trails cost: how fast 100,000 are written, and how long each question takes.

Of the file first; then over HTTP of a whole daemon that has them, with 50,000 open trails and 50,000 that have just
failed in memory, and how long a question holds its loop. For people, nothing asserts.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import msgspec

from collector.config.settings import Settings
from collector.keeping.archive import row_of
from collector.model.clock import SystemClock
from collector.state import kept
from collector.state.kept import Asked, KeptRow, Shelf
from collector.state.store import FILE, open_store
from collector.trail.listing import Listed
from collector.trail.remains import Remains
from collector.trail.sieve import RANKS, Worth
from collector.trail.timeline import Moment, Timeline
from tests.unit.parts import event, running

COUNT, IN_MEMORY = 100_000, 50_000
BATCH = 500
T0 = time.time() - 3600.0
STATES = ("failed", "lost", "succeeded", "dead_lettered")
REASONS = tuple(RANKS)


def row(number: int) -> KeptRow:
    """One of 50 tasks, in a trace of two, 6 ms after the last; one in a thousand has expired."""
    at = T0 + number * 0.006
    names = {
        "task_id": f"task-{number:08d}-0123456789",
        "task": f"pay.{number % 50}",
        "queue": f"q{number % 5}",
        "state": STATES[number % 4] if number % 1000 else "expired",
        "error": "TimeoutError" if number % 3 else "ValueError",
        "trace_id": f"{number // 2:032x}",
        "caller": "",
    }
    line = Listed(**names, attempts=1, worker="w1", first_at=at, last_at=at + 1, findings=[])
    told = {"attempt": 1, "worker": "w1", "queue": names["queue"], "error": ""}
    moments = [Moment(kind=kind, time=at, at=at, **told) for kind in ("sent", "received", "started", "failed")]
    timeline = Timeline(**names, attempts=[], events=moments, parent_id="", children=[])
    return row_of(Worth("s", line.trace_id, REASONS[number % len(REASONS)], Remains(line, timeline)))


async def write(folder: Path) -> None:
    """Put all of them into a state."""
    store = open_store(folder, "x")
    began = time.perf_counter()
    for start in range(0, COUNT, BATCH):
        number = store.put_all([kept.put(row(one), T0) for one in range(start, start + BATCH)])
        assert await store.durable(60, number)
    took = time.perf_counter() - began
    print(f"{COUNT:,} written in {took:.1f} s, {(folder / FILE).stat().st_size / 1e6:.0f} MB")
    store.close()


async def timed(shelf: Shelf, name: str, question: Callable[[], object]) -> None:
    """Print the best of three."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        await shelf.ask(question, None)
        took.append(time.perf_counter() - began)
    print(f"{name:<40}{1e3 * min(took):8.1f} ms")


async def ask_file(path: Path) -> None:
    """The questions as the file answers them."""
    shelf = Shelf(path)
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


def load() -> Iterator[bytes]:
    """Pushes: tasks that never end, beside as many that have failed."""
    for start in range(0, IN_MEMORY, BATCH):
        now, names = time.time(), {"queue": "q1", "worker": "w1", "attempt": 1}
        lines = []
        for number in range(start, start + BATCH):
            task = f"pay.{number % 50}"
            lines.append(event("sent", f"open-{number:08d}", now, task=task, queue="q1", trace_id=f"{number:032x}"))
            lines.append(event("started", f"failed-{number:08d}", now, task=task, **names))
            lines.append(event("failed", f"failed-{number:08d}", now, task=task, error="E", **names))
        yield b"\n".join(lines)


QUESTIONS = (
    ("", {}),
    ("", {"state": "failed"}),
    ("", {"state": "lost"}),
    ("", {"state": "expired"}),
    ("", {"state": "revoked"}),
    ("", {"since": "30s"}),
    ("", {"since": str(time.time() + 3600)}),
    ("", {"since": "2h", "state": "dead_lettered"}),
    ("", {"after": f"{T0 + 3}:s:"}),
    ("", {"task": "pay.7"}),
    ("", {"task": "mail*"}),
    ("", {"error": "Value"}),
    (f"/{row(COUNT // 2).id}", {}),
    ("/open-00000007", {}),
    (f"/../traces/{row(COUNT // 3).trace}", {}),
    (f"/../traces/{1:032x}", {}),
)


async def beat(gaps: list[float]) -> None:
    """Note for how much CPU time the loop was held."""
    while True:
        began = time.thread_time()
        await asyncio.sleep(0)
        gaps.append(time.thread_time() - began)


async def ask(http: aiohttp.ClientSession, url: str, asked: dict[str, str]) -> dict:
    """The answer to a question."""
    async with http.get(url, params=asked) as answer:
        return msgspec.json.decode(await answer.read())


async def ask_daemon(folder: Path) -> None:
    """The questions as a daemon answers them: the first of five times, the best, CPU time, and the longest step."""
    settings = Settings(state=str(folder), rules=())
    async with running(settings, clock=SystemClock()) as run, aiohttp.ClientSession() as http:
        for body in load():
            async with http.post(f"{run.url}/v1/events", data=body) as answer:
                assert answer.status == 200
        homes = run.daemon.pipeline.stitcher.parts.keep.homes
        for _ in range(120):  # what has failed is kept at hand for a minute
            if sum(len(home.open) for home in homes) <= IN_MEMORY and not len(run.daemon.pipeline.stitcher.sieve):
                break
            await asyncio.sleep(1)
        print(f"{sum(len(home.open) for home in homes):,} open, {sum(len(home.finished) for home in homes):,} finished")
        print("   first      best       CPU   longest step")
        for path, asked in QUESTIONS:
            found, took, spent = None, [], []
            for _ in range(5):
                began, busy = time.perf_counter(), time.process_time()
                found = await ask(http, f"{run.url}/api/tasks{path}", asked)
                took.append(time.perf_counter() - began)
                spent.append(time.process_time() - busy)
            gaps: list[float] = []
            beating = asyncio.create_task(beat(gaps))
            await ask(http, f"{run.url}/api/tasks{path}", asked)
            beating.cancel()
            times = "".join(f"{1e3 * one:10.1f}" for one in (took[0], min(took), min(spent), max(gaps)))
            size = len(found["tasks"]) if "tasks" in found else len(found["events"])
            print(f"{times} ms  {path} {asked or ''}: {size}{' and more' if found.get('next') else ''}")


async def main() -> None:
    """Write, then ask."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "state"
        folder.mkdir(mode=0o700)
        await write(folder)
        await ask_file(folder / FILE)
        await ask_daemon(folder)


asyncio.run(main())
