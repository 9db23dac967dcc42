"""Jobs for real arq workers, and who enqueues them. Runs in arq's environment."""

import asyncio
import os

from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import func
from journal import log


async def ok(ctx):
    """Succeeds."""
    log("started", ctx["job_id"], "ok")
    log("succeeded", ctx["job_id"], "ok")


async def flaky(ctx, fails, seconds=0.3):
    """Asks to be tried again so many times, then succeeds."""
    log("started", ctx["job_id"], "flaky")
    if ctx["job_try"] <= fails:
        log("retried" if ctx["job_try"] < 3 else "failed", ctx["job_id"], "flaky")
        raise Retry(defer=seconds)
    log("succeeded", ctx["job_id"], "flaky")


async def explode(ctx):
    """Fails."""
    log("started", ctx["job_id"], "explode")
    log("failed", ctx["job_id"], "explode")
    return {}["missing"]


async def hang(ctx):
    """Is killed with its worker, and succeeds when it runs again."""
    log("started", ctx["job_id"], "hang")
    await asyncio.sleep(60 if ctx["job_try"] == 1 else 1)
    log("succeeded", ctx["job_id"], "hang")


class WorkerSettings:
    """A worker with short waits."""

    functions = tuple(func(one, max_tries=3) for one in (ok, flaky, explode, hang))
    queue_name = os.environ.get("JOBS_QUEUE", "arq:queue")
    redis_settings = RedisSettings.from_dsn(os.environ["JOBS_URL"]) if "JOBS_URL" in os.environ else None
    job_timeout = 3
    poll_delay = 0.2


def produce(url, queue_name, part):
    """Enqueue one part of the scenario."""
    asyncio.run(_produce(url, queue_name, part))


async def _produce(url, queue_name, part):
    pool = await create_pool(RedisSettings.from_dsn(url), default_queue_name=queue_name)

    async def put(name, *arguments, **options):
        job = await pool.enqueue_job(name, *arguments, **options)
        log("sent", job.job_id, name)
        return job

    if part == "mix":
        for _ in range(30):
            await put("ok")
        await put("flaky", 1)
        await put("flaky", 9)
        await put("flaky", 2, 0)
        await put("explode")
        await put("ok", _defer_by=1.0)
        log("failed", (await put("unheard_of")).job_id, "unheard_of")
    elif part == "dead":
        for _ in range(int(os.environ["DEAD"])):
            await put("explode")
            await put("flaky", 9)
    else:
        await put("hang")
    await pool.aclose()
