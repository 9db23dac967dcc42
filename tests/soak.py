"""A soak: the whole daemon under a steady load of ever new names, with targets that are dead; what grows is printed.

`python -m tests.soak SECONDS [RATE]` (`make soak` runs 120 s, the tests a few). The daemon is in this process, so that
its objects can be counted; the load comes from another one, over a unix socket. All bounds are small, so that each of
them is reached in the first half, or in ten minutes: from then on nothing may grow any more.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from collector import app
from collector.config.settings import Bounds, Settings
from collector.config.source_urls import parse_source
from collector.daemon import Daemon
from collector.model.secret import Secret
from collector.shell import heap
from tests.brokers.process import free_port

ROOT = Path(__file__).resolve().parents[1]
RATE = 2000
"""Events a second."""
TICK = 0.05
RULES = """
groups:
- name: soak
  interval: 1s
  rules:
  - alert: Failing
    expr: sum by (task) (task_failed_total) > 0
  - record: task:failed:rate
    expr: sum by (task) (rate(task_failed_total[30s]))
"""
BOUNDS = Bounds(open_trails=500, finished_ids=500, series=200)
ROWS = 100
"""Names of tasks and queues, and of error classes: no settings, but bounds like the others."""
DEAD_LETTERS = 100
"""Records of dead letters, the same."""
START = 600.0
"""Seconds of a long run in which everything is filled."""
HORIZON = 1.0
"""Seconds for which a finished trail is at hand."""


class Sample(msgspec.Struct, frozen=True):
    """What there was at one moment."""

    at: float
    """Seconds since the load began."""
    rss: int
    """Bytes."""
    descriptors: int
    tasks: int
    objects: int
    events: int


class Soaked(msgspec.Struct, frozen=True):
    """One run."""

    samples: list[Sample]
    stall: float
    """Seconds of the longest uninterrupted step of evaluation."""
    evictions: dict[str, float]
    firing: int
    """Alerts at the end."""

    def parts(self) -> tuple[list[Sample], list[Sample]]:
        """The samples of the start, which is the first half of what was read or ten minutes, and those behind it."""
        whole = self.samples[-1]
        start = whole.events * min(0.5, START / whole.at)
        return [one for one in self.samples if one.events < start], [one for one in self.samples if one.events >= start]

    def grown(self, of: Callable[[Sample], float]) -> float:
        """By how much the last quarter of what came behind the start is above its first one, each at its median."""
        _, rest = self.parts()
        quarter = max(1, len(rest) // 4)
        return statistics.median(map(of, rest[-quarter:])) - statistics.median(map(of, rest[:quarter]))


def events(number: int, at: float) -> list[dict[str, object]]:
    """One task's life: its name, worker, trace, queue and error are new ones time and again."""
    base = {
        "task_id": f"{number:x}-{'i' * 20}",
        "task": f"churn.{number // 40}",
        "queue": f"q{number // 4000}",
        "time": at,
    }
    worker, error = f"w{number // 30}@host", f"Error{number // 300}"
    told: list[dict[str, object]] = [
        {**base, "kind": "sent", "trace_id": f"{number + 1:032x}"},
        {**base, "kind": "started", "worker": worker, "attempt": 1},
    ]
    if number % 50 == 0:  # never ends
        return told
    if number % 10 == 0:
        told.append({**base, "kind": "failed", "error": error, "error_message": "x" * 500, "worker": worker})
        return [*told, {**base, "kind": "dead_lettered", "error": error}] if number % 20 == 0 else told
    return [*told, {**base, "kind": "succeeded", "worker": worker, "run_seconds": 0.1}]


def load(path: str, rate: float) -> None:
    """Write events to the socket for ever, at a rate; ends with whoever reads them."""
    began, number, written = time.monotonic(), 0, 0
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(path)
        while True:
            while written < (time.monotonic() - began) * rate:
                told = events(number, time.time())
                connection.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in told))
                number, written = number + 1, written + len(told)
            time.sleep(TICK)


def sampled(began: float, daemon: Daemon) -> Sample:
    """What there is now."""
    gc.collect()
    return Sample(
        at=time.monotonic() - began,
        rss=heap.resident(),
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - it is asked for the number alone
        tasks=len(asyncio.all_tasks()),
        objects=len(gc.get_objects()),
        events=sum(axis.totals.read for axis in daemon.axes),
    )


async def soak(seconds: float, rate: float, folder: Path) -> Soaked:
    """Run the daemon until it has read what such a load gives in that time; on a slow machine that takes longer."""
    path = folder / "events.sock"
    (folder / "rules.yaml").write_text(RULES)
    dead = free_port()
    settings = Settings(
        sources=(parse_source(f"unix://{path}", {}, Secret),),
        rules=(str(folder / "rules.yaml"), "shipped"),
        notify=(Secret(f"webhook+http://127.0.0.1:{dead}/"),),
        state=str(folder / "state"),
        listen="127.0.0.1:0",
        bounds=BOUNDS,
    )
    stop, begun = asyncio.Event(), asyncio.Event()
    parts = app.Parts(started=lambda daemon, _port: (daemons.append(daemon), begun.set()))
    daemons: list[Daemon] = []
    limits = app.limits(settings)
    small = replace(limits.bounds, horizon_seconds=HORIZON, dead_letters=200, keys=200)
    with patch.object(app, "limits", lambda _: replace(limits, rows=ROWS, bounds=small)):
        running = asyncio.ensure_future(app.run(settings, stop, parts=parts))
        await asyncio.wait([running, asyncio.ensure_future(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
    (daemon,) = daemons
    daemon.ledger.bounds = replace(daemon.ledger.bounds, records=DEAD_LETTERS)
    while not path.exists():  # noqa: ASYNC110 - the source makes it when it is up
        await asyncio.sleep(0.05)
    call = [sys.executable, "-m", "tests.soak", "--load", str(path), str(rate)]
    loading = subprocess.Popen(call, cwd=ROOT)  # noqa: ASYNC220 - it runs beside us
    samples, began = [], time.monotonic()
    try:
        while not samples or samples[-1].events < seconds * rate:
            await asyncio.sleep(max(0.2, seconds / 60))
            samples.append(sampled(began, daemon))
            assert samples[-1].at < 60 + 5 * seconds, samples[-1]
        telemetry = daemon.pipeline.telemetry
        evictions = {reason: count for (reason,), count in telemetry._values["tasktrail_evictions"].items() if count}
        stall = telemetry.get("tasktrail_loop_stall_seconds")
        return Soaked(samples, stall, evictions, len(daemon.alerts()))
    finally:
        loading.kill()
        loading.wait()
        stop.set()
        await running


def soaked(seconds: float, rate: float) -> Soaked:
    """The same in a process of its own, whose memory holds nothing else."""
    call = [sys.executable, "-m", "tests.soak", "--alone", str(seconds), str(rate)]
    told = subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(told.stdout, type=Soaked)


def main() -> None:
    """Run it, and print what a person wants to see (`--alone`: JSON); exit code 1 where something grew."""
    if sys.argv[1] == "--load":
        load(sys.argv[2], float(sys.argv[3]))
        return
    is_alone = sys.argv[1] == "--alone"
    words = sys.argv[2:] if is_alone else sys.argv[1:]
    seconds, rate = float(words[0]), float(words[1]) if len(words) > 1 else RATE
    heap.wish()
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(soak(seconds, rate, Path(folder)))
    if is_alone:
        sys.stdout.buffer.write(msgspec.json.encode(done))
        return
    for one in done.samples[:: max(1, len(done.samples) // 20)]:
        print(
            f"{one.at:6.1f} s {one.events:9} events {one.rss / 1e6:7.1f} MB {one.objects:8} objects "
            f"{one.descriptors:4} descriptors {one.tasks:4} tasks"
        )
    print(f"longest step {done.stall * 1e3:.1f} ms, {done.firing} alerts, left early: {done.evictions}")
    grown = done.grown(lambda one: one.rss)
    print(f"behind the start: {grown / 1e6:+.1f} MB, {done.grown(lambda one: one.objects):+.0f} objects")
    sys.exit(grown > 5e6)


if __name__ == "__main__":
    main()
