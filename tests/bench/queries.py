"""What queries over 10,000 series cost, asked over HTTP of a whole daemon, and how long they hold its loop.

Run it by hand: `PYTHONPATH=. python tests/bench/queries.py`. Prints, per request: milliseconds from asking to the last
byte, the longest step of the loop meanwhile, and the size of the answer. The client only reads bytes.
"""

from __future__ import annotations

import asyncio
import time

import aiohttp
import msgspec
import numpy as np

from collector.config.settings import Settings
from collector.model.clock import SystemClock
from collector.trail.transitions import FACTS, MEASURES, STRIDE
from tests.unit.parts import running

TASKS, QUEUES = 100, 100
FILLED_SECONDS = 330
EVENTS = 300_000
REQUESTS = (
    ("/metrics", {}),
    ("query", {"query": "task_started_total"}),
    ("query", {"query": "sum by (task) (rate(task_started_total[5m]))"}),
    ("query", {"query": "topk(10, increase(task_started_total[1m]))"}),
    ("query", {"query": "sum by (task) (irate(task_started_total[1m]))"}),
    ("query", {"query": "histogram_quantile(0.95, sum by (task, le) (rate(task_run_seconds_bucket[5m])))"}),
    ("query", {"query": "sum(rate(task_run_seconds_sum[5m])) / sum(rate(task_run_seconds_count[5m]))"}),
    ("query", {"query": "sum by (le) (irate(task_run_seconds_bucket{queue='queue_7'}[1m]))"}),
    ("query", {"query": "sum by (name) (increase(celery_task_started_total[5m]))"}),
    ("query_range", {"query": "sum by (task) (rate(task_started_total[1m]))", "step": "1"}),
    ("query_range", {"query": "rate(task_started_total{queue=~'queue_1.*'}[1m])", "step": "5"}),
    ("query_range", {"query": "rate(task_started_total[1m])", "step": "15"}),
    (
        "query_range",
        {"query": "histogram_quantile(0.95, sum by (task, le) (rate(task_run_seconds_bucket[1m])))", "step": "15"},
    ),
    ("query", {"query": "quantile by (task, queue, source) (0.5, task_started_total)"}),
    ("query", {"query": "stddev by (task) (increase(task_started_total[5m]))"}),
    ("query", {"query": "task_started_total / on (task, queue, source) task_run_seconds_count"}),
    ("series", {"match[]": "task_started_total"}),
    ("label/task/values", {}),
    ("labels", {}),
)


def fill(store, rows, now: float) -> None:
    """Starts and run times of 10,000 rows, spread over the last minutes."""
    rng = np.random.default_rng(7)
    own = np.array([rows.row(f"task_{t}", f"queue_{q}", "bench") for t in range(TASKS) for q in range(QUEUES)])
    picked = np.concatenate([own, rng.choice(own, EVENTS)])
    ats = np.sort(now - FILLED_SECONDS * rng.random(len(picked)))
    store.count(picked * STRIDE + FACTS.index("started"), ats)
    store.measure(picked * len(MEASURES) + MEASURES.index("run"), rng.exponential(2.0, len(picked)), ats)


async def beat(gaps: list[float]) -> None:
    """Note how long the loop was held."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(0)
        gaps.append(time.monotonic() - began)


async def ask(http: aiohttp.ClientSession, url: str, path: str, asked: dict[str, str]) -> None:
    """One request, twice; prints the second."""
    now = time.time()
    grid = {"start": f"{now - 300}", "end": f"{now}"} if path == "query_range" else {}
    for _ in range(2):
        gaps: list[float] = []
        beating = asyncio.create_task(beat(gaps))
        began = time.monotonic()
        async with http.get(url + (path if path[0] == "/" else f"/api/v1/{path}"), params={**asked, **grid}) as answer:
            size = len(await answer.read())
        took = time.monotonic() - began
        beating.cancel()
    shown = asked.get("query") or asked.get("match[]") or ""
    print(f"{took * 1e3:8.1f} ms {max(gaps) * 1e3:7.1f} ms {size / 1e3:9.1f} KB  {answer.status} {path} {shown}")


async def main() -> None:
    """Fill a daemon and ask it."""
    settings = msgspec.structs.replace(Settings(state="none"), rules=())
    async with running(settings, clock=SystemClock()) as run, aiohttp.ClientSession() as http:
        pipeline = run.daemon.pipeline
        fill(pipeline.store, pipeline.rows, time.time())
        await asyncio.sleep(1.5)
        print("   total    longest step   size")
        for path, asked in REQUESTS:
            await ask(http, run.url, path, asked)


asyncio.run(main())
