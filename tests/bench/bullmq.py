"""Events per CPU second of BullMQ: `python -m tests.bench.bullmq [--jobs N]`.

Each job's four entries and its hash are in Redis, those of twenty jobs interleaved; measured is the whole way, from the
socket to the series: reading entries and hashes, decoding, stitching, counting. The tests' Redis, medians of rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

import redis

from collector.config.source_urls import parse_source
from collector.model.clock import SystemClock
from collector.model.record import Batch, Outcome
from collector.model.secret import Secret
from collector.shell.axis import Axis
from collector.shell.intake import Lane
from collector.wiring import plugs
from tests import brokers
from tests.unit.parts import pipeline

ROUNDS = 5
TOGETHER = 20
OPTS = json.dumps({"attempts": 3, "tm": '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'})


def fill(url: str, base: str, jobs: int) -> None:
    """Write a queue of jobs that succeeded."""
    client = redis.Redis.from_url(url)
    client.hset(f"{base}:meta", "opts.maxLenEvents", "10000")
    now = int(time.time() * 1000)
    for start in range(0, jobs, TOGETHER):
        pipe = client.pipeline(transaction=False)
        ids = range(start, start + TOGETHER)
        for word, more in (
            ("added", {"name": "send"}),
            ("waiting", {}),
            ("active", {"prev": "waiting"}),
            ("completed", {"returnvalue": '{"ok":1}', "prev": "active"}),
        ):
            for number in ids:
                pipe.xadd(f"{base}:events", {"event": word, "jobId": str(number), **more})
        for number in ids:
            fields = {"name": "send", "data": "{}", "opts": OPTS, "timestamp": now, "delay": 0, "priority": 0, "atm": 1}
            pipe.hset(
                f"{base}:{number}",
                mapping={**fields, "processedOn": now, "finishedOn": now + 5, "pb": "worker-7", "ats": 1},
            )
        pipe.execute()
    client.close()


async def run(url: str, entries: int) -> tuple[float, Outcome]:
    """CPU seconds of reading so many entries, and what became of them."""
    parsed = parse_source(url, {}, Secret)
    feed = plugs.feed(parsed)
    whole = pipeline()
    axis = Axis(name=feed.name, application="")
    left = entries
    over = asyncio.Event()
    lane = Lane(axis, feed.decode, whole.ingest, SystemClock(), whole.telemetry, lambda: None)
    take = lane.take

    async def counted(batch: Batch) -> Outcome:
        nonlocal left
        outcome = await take(batch)
        left -= len(batch.bodies) if batch.tap == "redis-stream" else 0
        if left <= 0:
            over.set()
        return outcome

    lane.take = counted  # type: ignore[method-assign]
    assert feed.build is not None
    before = time.process_time()
    task = asyncio.ensure_future(feed.build().run(lane))
    await over.wait()
    whole.ingest.observe()
    spent = time.process_time() - before
    task.cancel()
    await asyncio.wait([task])
    return spent, axis.totals


def main() -> None:
    """Fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs = parser.parse_args().jobs
    address = brokers.start_redis()
    fill(address, "bull:bench", jobs)
    url = f"bullmq+{address}/bench"
    rounds = [asyncio.run(run(url, 4 * jobs)) for _ in range(ROUNDS)]
    spent = statistics.median(seconds for seconds, _ in rounds)
    print(f"{rounds[0][1]}")
    print(f"{4 * jobs / spent:,.0f} entries or {3 * jobs / spent:,.0f} events per CPU second")


if __name__ == "__main__":
    main()
