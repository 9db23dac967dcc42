"""What the series cost: prints CPU times and bytes. Run it from the repository's root; nothing is asserted.

usage: python tests/bench/series.py
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from collector.model.labels import Matcher
from collector.series.observe import METRICS, observe
from collector.series.store import Store
from collector.trail.rows import Errors, Rows
from collector.trail.transitions import FACT_CODE, STRIDE, Transitions

T0 = 1_790_000_000.0
FACTS = [FACT_CODE[fact] for fact in ("sent", "received", "started", "succeeded", "flight_up", "flight_down")]


class FromLists(Store):
    """A store that takes lists: what is measured here is not the making of arrays."""

    def count(self, codes, ats, errors=()):
        """See Store."""
        super().count(np.asarray(codes, np.int64), np.asarray(ats, np.float64), errors)

    def measure(self, codes, seconds, ats):
        """See Store."""
        super().measure(np.asarray(codes, np.int64), np.asarray(seconds, np.float64), np.asarray(ats, np.float64))


def best(work, repeat=7):
    """CPU seconds of the fastest of some runs."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def say(what, value, unit):
    """One line."""
    print(f"{what:<64} {value:>10.3f} {unit}", flush=True)


def store_of(series=0):
    """A store with so many counter series, all born."""
    rows = Rows(cap=10**6)
    store = FromLists(METRICS, rows, Errors(), cap=10**6)
    if series:
        codes = [rows.row(f"task{n}", f"q{n % 10}", "s") * STRIDE + FACT_CODE["sent"] for n in range(series)]
        store.count(codes, [T0] * series)
    store.advance(T0 + 0.5)
    return store, rows


def bench_observe():
    """Facts and observations of 120 rows, live: each batch beyond the frontier, an advance each 100 ms of 20,000/s."""
    for size in (500, 5_000):
        store, rows = store_of()
        codes = [rows.row(f"task{n % 40}", f"q{n % 3}", "s") * STRIDE for n in range(120)]
        rng = random.Random(1)
        batches = []
        at = T0 + 1
        for _ in range(100_000 // size + 1):
            out = Transitions()
            for _ in range(size):
                at += 1 / 20_000
                row = rng.randrange(120)
                out.codes.append(codes[row] + rng.choice(FACTS))
                out.ats.append(at)
                if rng.random() < 0.4:
                    out.codes.append(codes[row] + rng.choice(FACTS))
                    out.ats.append(at)
                if rng.random() < 0.5:
                    out.measure(row, rng.randrange(3), rng.lognormvariate(0, 1), at, "")
            batches.append((out, at))
        observe_time = advance_time = 0.0
        advances = 0
        observe(batches[0][0], store)  # the births
        store.advance(batches[0][1])
        due = batches[0][1] + 0.1
        for out, at in batches[1:]:
            begin = time.process_time()
            observe(out, store)
            observe_time += time.process_time() - begin
            if at >= due:
                begin = time.process_time()
                store.advance(at)
                advance_time += time.process_time() - begin
                advances += 1
                due = at + 0.1
        say(
            f"observe, batches of {size} (1.4 facts, 0.5 observations an event)",
            observe_time * 1e9 / 100_000,
            "ns/event",
        )
        say(f"  and the advances ({advances})", advance_time * 1e9 / 100_000, "ns/event")


def bench_advance():
    """An advance of 1 s that folds 2,000 facts, and one that folds nothing."""
    for series in (100, 1_000, 10_000):
        store, _ = store_of(series)
        at = T0 + 1
        busy = []
        for _ in range(50):
            store.count([(n * 7 % series) * STRIDE for n in range(2_000)], [at + n / 2_000 for n in range(2_000)])
            at += 1
            begin = time.process_time()
            store.advance(at)
            busy.append(time.process_time() - begin)
        idle = []
        for _ in range(50):
            at += 1
            begin = time.process_time()
            store.advance(at)
            idle.append(time.process_time() - begin)
        say(f"advance by 1 s over {series} columns, 2,000 facts", sorted(busy)[25] * 1e6, "us")
        say("  and idle", sorted(idle)[25] * 1e6, "us")


def bench_reads():
    """What rules ask."""
    store, rows = store_of(10_000)
    at = T0 + 1
    for _ in range(320):
        store.count([n * STRIDE for n in range(0, 10_000, 50)], [at] * 200)
        at += 1
        store.advance(at)
    matcher = Matcher(name="queue", op="=", value="q3", test="q3".__eq__)
    begin = time.process_time()
    (series,) = store.select("task_sent_total", (matcher,))
    say("first select of 1,000 of 10,000", (time.process_time() - begin) * 1e6, "us")
    say("select again", best(lambda: [store.select("task_sent_total", (matcher,)) for _ in range(100)]) * 1e4, "us")
    say(
        "increase[5m] of 1,000 of 10,000",
        best(lambda: [store.increase(series, at - 300, at) for _ in range(100)]) * 1e4,
        "us",
    )
    say("value of 1,000", best(lambda: [store.value(series, at) for _ in range(100)]) * 1e4, "us")
    since = store.version - 1
    say("changed of 1,000", best(lambda: [store.changed(series, since) for _ in range(100)]) * 1e4, "us")
    begin = time.process_time()
    store.count([rows.row(f"late{n}", "q3", "s") * STRIDE for n in range(500)], [at + 0.5] * 500)
    say("birth of 500 series", (time.process_time() - begin) * 1e6, "us")
    begin = time.process_time()
    store.select("task_sent_total", (matcher,))
    say("select after 500 births", (time.process_time() - begin) * 1e6, "us")
    codes = [n * STRIDE for n in range(500)]
    store.advance(at + 1)
    lates = [at - 60 * random.random() for _ in range(500)]
    begin = time.process_time()
    store.count(codes, lates)
    store.increase(series, at - 300, at)
    say("500 facts up to a minute late, and the next read", (time.process_time() - begin) * 1e6, "us")


def bench_quantiles():
    """1,000 histograms with 20,000 observations a second for 5 minutes."""
    store, rows = store_of()
    rng = np.random.default_rng(1)
    codes = np.array([rows.row(f"task{n}", "q", "s") * 3 + 1 for n in range(1_000)])
    groups = np.arange(1_000)
    at = T0 + 1
    steps = []
    for second in range(330):
        store.measure(
            codes[rng.integers(0, 1_000, 20_000)].tolist(),
            rng.lognormal(0, 1, 20_000).tolist(),
            (at + np.sort(rng.random(20_000))).tolist(),
        )
        at += 1
        begin = time.process_time()
        store.advance(at)
        if second > 300:
            steps.append(time.process_time() - begin)
        (series,) = store.select("task_run_seconds_bucket", ())
        store.quantile(series, groups, 1_000, 0.95, at - 300, at)
    say("advance folding 20,000 observations", sorted(steps)[len(steps) // 2] * 1e6, "us")
    work = lambda: store.quantile(series, groups, 1_000, 0.95, at - 300, at)  # noqa: E731
    say("1,000 quantiles", best(work, 30) * 1e3, "ms")
    say(
        "one quantile over 1,000 series",
        best(lambda: store.quantile(series, groups * 0, 1, 0.95, at - 300, at), 30) * 1e3,
        "ms",
    )
    begin = time.process_time()
    store.measure(codes[:1].tolist(), [1.0], [at + 0.5])
    store.advance(at + 1)
    store.quantile(series, groups, 1_000, 0.95, at - 299, at + 1)
    say("the same after a second went by (20,000 observations leave)", (time.process_time() - begin) * 1e3, "ms")
    say(
        "an ad hoc window of 100 s (built anew)",
        best(lambda: store.quantile(series, groups, 1_000, 0.95, at - 99, at + 1), 3) * 1e3,
        "ms",
    )


def bench_memory(kind):
    """Bytes per series, allocated by the store: 10,000 counters, or 2,000 histograms with 1 observation a second."""
    name, window, reads = kind.split("-")
    number = 10_000 if name == "counter" else 2_000
    store, rows = store_of()
    store.keep(float(window), {"counts": "task_sent_total", "quantiles": "task_run_seconds_bucket", "all": None}[reads])
    ids = [rows.row(f"task{n}", f"q{n % 10}", "s") for n in range(number)]
    tracemalloc.start()
    grain = 1 if float(window) <= 600 else 60
    rng = random.Random(1)
    at = T0 + 1
    while at < T0 + float(window) + 10:
        if name == "counter":
            store.count([ids[n] * STRIDE for n in range(0, number, 10)], [at] * (number // 10))
            if at == T0 + 1:
                store.count([row * STRIDE for row in ids], [at] * number)
        else:
            store.measure([row * 3 + 1 for row in ids], [rng.lognormvariate(0, 1) for _ in ids], [at] * number)
        at += grain
        store.advance(at)
        if name != "counter":
            (series,) = store.select("task_run_seconds_bucket", ())
            store.quantile(series, np.arange(number), number, 0.95, at - float(window), at)
    say(
        f"bytes per {name} series, window {window} s, rules read {reads}",
        tracemalloc.get_traced_memory()[0] / number,
        "B",
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        bench_memory(sys.argv[1])
    else:
        bench_observe()
        bench_advance()
        bench_reads()
        bench_quantiles()
        for kind in ("counter-300-counts", "counter-86400-counts", "histogram-300-quantiles", "histogram-300-all"):
            subprocess.run([sys.executable, __file__, kind], check=True)
