"""What an open trail costs: resident memory before and after many of them, ids taken off, and the time of an event.

`python -m collector.bench.memory 1000000` is a process of its own, so that nothing else is in the memory.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence

from collector.bench.load import QUEUES, TASKS
from collector.model.event import Event, Kind
from collector.shell.heap import resident
from collector.trail.keep import Bounds
from collector.trail.rows import Errors, Rows
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import Transitions

BATCH = 500
LIFE: tuple[tuple[Kind, str | None], ...] = (("sent", None), ("received", "worker-1"), ("started", "worker-1"))


def costs(count: int) -> tuple[float, float, float]:
    """Bytes of one open trail beyond its task and trace id; CPU seconds of an event when a tenth is open, and all."""
    stitcher = Stitcher(Rows(), Errors(), Bounds(open_trails=2 * count))
    ids = [f"{number:032x}" for number in range(count)]
    traces = [f"{number + count:032x}" for number in range(count)]
    gc.collect()
    before = resident()
    spent = [_open(stitcher, ids[start : start + BATCH], traces, start) for start in range(0, count, BATCH)]
    gc.collect()
    share = max(1, len(spent) // 20)
    events = share * BATCH * len(LIFE)
    return (resident() - before) / count, sum(spent[share : 2 * share]) / events, sum(spent[-share:]) / events


def _open(stitcher: Stitcher, ids: Sequence[str], traces: Sequence[str], first: int) -> float:
    """Open these trails; gives the CPU seconds of stitching alone."""
    out = Transitions()
    spent = 0.0
    for kind, worker in LIFE:
        events = [
            Event(
                kind=kind,
                task_id=task_id,
                trace_id=traces[number],
                time=1.79e9 + number / 1000,
                task=TASKS[number % len(TASKS)],
                queue=QUEUES[number % len(QUEUES)],
                worker=worker,
            )
            for number, task_id in enumerate(ids, first)
        ]
        ats = [1.79e9 + first / 1000] * len(events)
        began = time.process_time()
        stitcher.stitch("bench", "", events, ats, out)
        spent += time.process_time() - began
        out.clear()
    return spent


def main() -> None:
    """Print the three figures."""
    gc.set_threshold(50_000, 20, 100)  # as the daemon does
    count = int(sys.argv[1])
    memory, tenth, whole = costs(count)
    print(
        f"memory per open trail, {count:,} open: {memory:.0f} B beyond its ids; "
        f"an event: {whole * 1e9:.0f} ns, {whole / tenth:.2f} times what it is with a tenth of them"
    )


if __name__ == "__main__":
    main()
