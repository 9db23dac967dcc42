"""Far more tasks than may be kept, each with a long traceback: what stays in memory, and whether the counts are exact.

`python -m tests.bench.bounds [TASKS]`: the whole daemon in this process, the load from another one over a unix socket.
Half of the tasks never end, so that open trails have to be evicted; the other half fails for good. Exit code 1 where
memory is above the cap by a fifth, a count is wrong, or something left without being counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from collector import app
from collector.config.settings import Bounds, Settings
from collector.config.source_urls import parse_source
from collector.daemon import Daemon
from collector.model.secret import Secret
from collector.shell import heap

ROOT = Path(__file__).resolve().parents[2]
TASKS = 2_000_000
NAMES = 20
CAP, TRAILS = 256_000_000, 50_000
TRACEBACK = 20_000
"""Characters of each."""
NO_PROGRESS = 60.0
"""Seconds after which the load is said to be stuck."""


def load(path: str, count: int) -> None:
    """Write so many tasks to the socket, as fast as they are taken."""
    frames = "".join(f'  File "/srv/app/module_{number}.py", line {number}, in call\n' for number in range(400))
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(path)
        for number in range(count):
            base = {
                "task_id": f"{number:032x}",
                "task": f"bounds.{number % NAMES}",
                "queue": "q",
                "worker": "w@h",
                "time": time.time(),
                "attempt": 1,
            }
            message = f"Traceback {number}\n{frames}"[:TRACEBACK]
            end = "failed" if number // NAMES % 2 else "retried"
            told = [
                {**base, "kind": "started"},
                {**base, "kind": end, "error": f"Error{number % 7}", "error_message": message},
            ]
            connection.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in told))


def counted(daemon: Daemon, name: str) -> dict[str, float]:
    """A counter by task name, over all errors."""
    found: dict[str, float] = {}
    for family in daemon.metrics(with_created=False):
        if family.name == name:
            for sample in family.samples:
                if sample.name == f"{name}_total":
                    found[sample.labels["task"]] = found.get(sample.labels["task"], 0.0) + sample.value
    return found


async def bounded(count: int, folder: Path) -> bool:
    """Run it and print what was found; whether all of it is as it should be."""
    path = folder / "events.sock"
    settings = Settings(
        sources=(parse_source(f"unix://{path}", {}, Secret),),
        state=str(folder / "state"),
        listen="127.0.0.1:0",
        notify=(Secret("webhook+http://127.0.0.1:9/"),),
        bounds=Bounds(open_trails=TRAILS, finished_ids=TRAILS, trail_bytes=CAP),
    )
    stop, begun = asyncio.Event(), asyncio.Event()
    daemons: list[Daemon] = []
    parts = app.Parts(started=lambda daemon, _port: (daemons.append(daemon), begun.set()))  # type: ignore[func-returns-value]
    running = asyncio.ensure_future(app.run(settings, stop, parts=parts))
    await asyncio.wait([running, asyncio.ensure_future(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
    (daemon,) = daemons
    while not path.exists():  # noqa: ASYNC110 - the source makes it when it is up
        await asyncio.sleep(0.05)
    gc.collect()
    before = highest = heap.resident()
    began = told = moved = time.monotonic()
    call = [sys.executable, "-m", "tests.bench.bounds", "--load", str(path), str(count)]
    loading = subprocess.Popen(call, cwd=ROOT)  # noqa: ASYNC220 - it runs beside us
    seen = 0
    try:
        while seen < 2 * count:
            await asyncio.sleep(0.2)
            read = sum(axis.totals.read for axis in daemon.axes)
            highest, now = max(highest, heap.resident()), time.monotonic()
            seen, moved = read, now if read > seen else moved
            assert now - moved < NO_PROGRESS, f"stuck at {seen}"
            if now - told > 10:
                told = now
                print(f"{now - began:6.0f} s {seen:9} events {highest / 1e6:7.1f} MB at most", flush=True)
        return judged(daemon, count, before, highest)
    finally:
        loading.kill()
        loading.wait()
        stop.set()
        await running


def judged(daemon: Daemon, count: int, before: int, highest: int) -> bool:
    """Print and judge."""
    evictions = {
        reason: number
        for (reason,), number in daemon.pipeline.telemetry._values["tasktrail_evictions"].items()
        if number
    }
    open_early = sum(evictions.get(f"open_{why}", 0) for why in ("count", "bytes"))
    started, ended = counted(daemon, "task_started"), {}
    for name in ("task_failed", "task_retried"):
        for task, value in counted(daemon, name).items():
            ended[task] = ended.get(task, 0.0) + value
    share = {f"bounds.{number}": len(range(number, count, NAMES)) for number in range(NAMES)}
    findings = {
        f"memory grew by {(highest - before) / 1e6:.0f} MB, the cap is {CAP / 1e6:.0f}": highest - before < 1.2 * CAP,
        f"started {sum(started.values()):.0f}, ended {sum(ended.values()):.0f} of {count}": started == ended == share,
        f"left early: {evictions}": open_early >= max(0, count / 2 - TRAILS),
    }
    print(f"{before / 1e6:.0f} MB before, {highest / 1e6:.0f} MB at most")
    for what, is_right in findings.items():
        print("ok   " if is_right else "WRONG", what)
    return all(findings.values())


def main() -> None:
    """Run it; exit code 1 where something is wrong."""
    if sys.argv[1:2] == ["--load"]:
        load(sys.argv[2], int(sys.argv[3]))
        return
    heap.wish()
    with tempfile.TemporaryDirectory() as folder:
        is_right = asyncio.run(bounded(int(sys.argv[1]) if sys.argv[1:] else TASKS, Path(folder)))
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
