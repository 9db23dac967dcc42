"""What stitching one event costs: prints ns per event, and bytes per open trail. For people, nothing asserts on it."""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc

import msgspec

from collector.model.event import Event
from collector.trail.keep import Bounds
from collector.trail.rows import Errors, Rows
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import Transitions

T0 = 1_790_000_000.0
BATCH = 500
ENCODE = msgspec.json.Encoder().encode
DECODE = msgspec.json.Decoder(Event).decode


def chain(index: int, at: float, retries: int) -> list[dict]:
    """The events of one task: `retries` failed tries, then a success."""
    names = {
        "task_id": f"{index:08x}-1d0c-4a52-9d7e-0123456789ab",
        "task": f"shop.task{index % 40}",
        "queue": f"q{index % 3}",
    }
    facts = [{"kind": "sent", "time": at, "caller": "web", **names}]
    for attempt in range(1, retries + 2):
        worker = {"worker": f"w{(index + attempt) % 8}", "attempt": attempt}
        facts.append({"kind": "received", "time": at + 0.1, **worker, **names})
        facts.append({"kind": "started", "time": at + 0.2, **worker, **names})
        if attempt <= retries:
            facts.append({"kind": "retried", "time": at + 0.5, "error": "TimeoutError", **worker, **names})
        else:
            facts.append({"kind": "succeeded", "time": at + 0.6, "run_seconds": 0.4, **worker, **names})
        at += 2.0
    return facts


def interleave(tasks: int, width: int, retried_share: float) -> list[bytes]:
    """Events of `tasks` tasks, `width` of them under way at a time, as they come off the wire."""
    rng = random.Random(7)
    running: list[list[dict]] = []
    events: list[bytes] = []
    made = 0
    while running or made < tasks:
        while len(running) < width and made < tasks:
            running.append(chain(made, T0 + made * 0.0005, 2 if rng.random() < retried_share else 0)[::-1])
            made += 1
        index = rng.randrange(len(running))
        events.append(ENCODE(running[index].pop()))
        if not running[index]:
            running[index] = running[-1]
            running.pop()
    return events


def ns_per_event(events: list[bytes], open_before: int = 0) -> float:
    """CPU time of stitching these events in batches, with that many other trails open."""
    stitcher = Stitcher(Rows(), Errors(), Bounds(open_trails=5_000_000))
    out = Transitions()
    others = [
        DECODE(ENCODE({"kind": "sent", "time": T0, "task_id": f"other-{n}", "task": "t", "queue": "q"}))
        for n in range(open_before)
    ]
    for start in range(0, open_before, BATCH):
        part = others[start : start + BATCH]
        stitcher.stitch("kafka", "", part, [T0] * len(part), out)
        out.clear()
    gc.collect()
    gc.freeze()
    spent = 0.0
    for start in range(0, len(events), BATCH):
        part = [DECODE(body) for body in events[start : start + BATCH]]
        ats = [event.time for event in part]
        began = time.process_time()
        stitcher.stitch("kafka", "", part, ats, out)
        spent += time.process_time() - began
        out.clear()
    gc.unfreeze()
    return spent / len(events) * 1e9


def bytes_per_trail(count: int) -> float:
    """Traced memory of one open trail with sent, received and started, beyond its id."""
    stitcher = Stitcher(Rows(), Errors(), Bounds())
    out = Transitions()
    ids = [f"{n:08x}-1d0c-4a52-9d7e-0123456789ab" for n in range(count)]
    tracemalloc.start()
    for kind in ("sent", "received", "started"):
        for start in range(0, count, BATCH):
            part = []
            for n, task_id in enumerate(ids[start : start + BATCH]):
                names = {"task": "shop.pay", "queue": "q", "worker": f"w{n % 8}", "time": T0 + n / 7}
                event = DECODE(ENCODE({"kind": kind, "task_id": task_id, "attempt": 1, **names}))
                event.task_id = task_id
                part.append(event)
            stitcher.stitch("kafka", "", part, [event.time + 0.25 for event in part], out)
            out.clear()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / count


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50_000)
    tasks = parser.parse_args().tasks
    regular = interleave(tasks, 20_000, 0.0)
    for label, events, others in (
        ("regular, 20k open", regular, 0),
        ("regular, 220k open", regular, 200_000),
        ("8% retried twice", interleave(tasks, 20_000, 0.08), 0),
        ("all retried twice", interleave(tasks // 4, 5_000, 1.0), 0),
    ):
        print(f"{label:22s} {min(ns_per_event(events, others) for _ in range(3)):8.0f} ns/event over {len(events)}")
    shuffled = interleave(tasks // 4, 5_000, 0.08)
    rng = random.Random(3)
    late = sorted(shuffled, key=lambda e: DECODE(e).time + rng.random() * 4 * (rng.random() < 0.05))
    again = [copy for event in late for copy in ((event, event) if rng.random() < 0.05 else (event,))]
    print(f"{'5% late, 5% repeated':22s} {min(ns_per_event(again) for _ in range(3)):8.0f} ns/event over {len(again)}")
    print(f"{'memory':22s} {bytes_per_trail(100_000):8.0f} bytes per open trail beyond its id")


if __name__ == "__main__":
    main()
