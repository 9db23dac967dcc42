"""Jobs for real SAQ workers, and who enqueues them. Runs in SAQ's environment."""

import asyncio
import os
import time

from journal import log
from saq import Queue


async def ok(ctx):
    """Succeeds."""
    log("started", ctx["job"].key, "ok")
    log("succeeded", ctx["job"].key, "ok")


async def flaky(ctx, *, fails):
    """Raises so many times, then succeeds."""
    job = ctx["job"]
    log("started", job.key, "flaky")
    if job.attempts <= fails:
        log("retried" if job.attempts < job.retries else "failed", job.key, "flaky")
        raise ConnectionError('peer "db-1" went away\nsecond line')
    log("succeeded", job.key, "flaky")


async def explode(ctx):
    """Fails."""
    log("started", ctx["job"].key, "explode")
    log("failed", ctx["job"].key, "explode")
    return {}["missing"]


async def hang(ctx):
    """Runs for ever at the first time."""
    log("started", ctx["job"].key, "hang")
    if ctx["job"].attempts == 1:
        await asyncio.sleep(60)
    log("succeeded", ctx["job"].key, "hang")


async def put_all(url, queue_name, part):
    """Enqueue one part of the scenario."""
    queue = Queue.from_url(url, name=queue_name)
    await queue.connect()

    async def put(function, **more):
        job = await queue.enqueue(function, **more)
        log("sent", job.key, job.function)

    if part == "mix":
        for _ in range(30):
            await put("ok")
        await put("flaky", fails=1, retries=3)
        await put("flaky", fails=2, retries=4, retry_delay=0.5)
        await put("flaky", fails=9, retries=3)
        await put("explode")
        await put("ok", scheduled=time.time() + 1)
    elif part == "dead":
        for _ in range(int(os.environ["DEAD"])):
            await put("explode")
            await put("flaky", fails=9, retries=3)
    else:
        await put("hang", timeout=2, retries=2)
    await queue.disconnect()


def produce(url, queue_name, part):
    """Enqueue one part of the scenario."""
    asyncio.run(put_all(url, queue_name, part))


if "SAQ_URL" in os.environ:
    settings = {
        "queue": Queue.from_url(os.environ["SAQ_URL"], name=os.environ["SAQ_QUEUE"]),
        "functions": [ok, flaky, explode, hang],
        "concurrency": 4,
        "timers": {"schedule": 1, "stats": 2, "sweep": 4, "abort": 1},
    }
