"""What an open trail costs: resident memory before and after many of them, ids taken off."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from collector.bench.load import QUEUES, TASKS
from collector.model.event import Event
from collector.trail.keep import Bounds
from collector.trail.rows import Errors, Rows
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import Transitions


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def per_trail(count: int) -> float:
    """Bytes of one open trail (sent, received and started), beyond its task id and trace id."""
    stitcher = Stitcher(Rows(), Errors(), Bounds(open_trails=2 * count))
    out = Transitions()
    ids = [f"{number:032x}" for number in range(count)]
    traces = [f"{number + count:032x}" for number in range(count)]
    gc.collect()
    before = resident()
    for start in range(0, count, 500):
        for kind, worker in (("sent", None), ("received", "worker-1"), ("started", "worker-1")):
            events = [
                Event(
                    kind=kind,  # type: ignore[arg-type]
                    task_id=ids[number],
                    trace_id=traces[number],
                    time=1.79e9 + number / 1000,
                    task=TASKS[number % len(TASKS)],
                    queue=QUEUES[number % len(QUEUES)],
                    worker=worker,
                )
                for number in range(start, start + 500)
            ]
            stitcher.stitch("bench", "", events, [1.79e9 + start / 1000] * 500, out)
            out.clear()
    gc.collect()
    return (resident() - before) / count


def main() -> None:
    """Print the figure alone: run in a process of its own, so that nothing else is in it."""
    print(f"{per_trail(int(sys.argv[1])):.0f}")


if __name__ == "__main__":
    main()
