"""What a hook costs: the time of its calls in the worker's thread, in real workers, while a daemon takes the events.

`python -m tests.bench.hooks [NAME...]`; TASKTRAIL_HOOK_TASKS says how many tasks (1000). A task has two calls in the
thread that runs it, its start and its end; the aim is 20 us a task at the median. RQ's `note` is of failures alone.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests import brokers
from tests.integration.hooks.rig import REQUIREMENTS, Site
from tests.integration.live import daemon

CALLS = {"put": 2, "tell": 2, "note": 0}
"""How often a hook's functions are called for a task that succeeds."""


def measure(name: str, tasks: int) -> dict[str, list[float]]:
    """Microseconds of each call of a hook by its name, over so many tasks."""
    with tempfile.TemporaryDirectory(prefix="tasktrail-bench-") as folder:
        redis = brokers.launch("redis")
        site: Site | None = None
        try:
            with daemon(Path(folder), "--source", f"unix://{folder}/events.sock"):
                site = Site(name, Path(folder), redis, f"unix://{folder}/events.sock")
                site.more["APP_TIMES"] = f"{folder}/times"
                site.start()
                site.more.clear()  # the publisher's calls are not the workers'
                site.publish(tasks)
                site.wait_finished(tasks, 60 + tasks / 10)
        finally:
            if site:
                site.stop()
            redis.stop()
        times: dict[str, list[float]] = {}
        for line in Path(folder, "times").read_text().splitlines():
            call, took = line.split()
            times.setdefault(call, []).append(float(took))
        return times


def main() -> None:
    """Print one line per framework."""
    tasks = int(os.environ.get("TASKTRAIL_HOOK_TASKS", "1000"))
    print(f"{'hook':<10} {'call':<5} {'calls':>7} {'median us':>10} {'p99 us':>8} {'us a task':>10}")
    for name in sys.argv[1:] or REQUIREMENTS:
        measured = measure(name, tasks)
        total = sum(CALLS[call] * statistics.median(times) for call, times in measured.items())
        for call, times in measured.items():
            median, high = statistics.median(times), statistics.quantiles(times, n=100)[98]
            print(f"{name:<10} {call:<5} {len(times):>7} {median:>10.1f} {high:>8.1f} {total:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
