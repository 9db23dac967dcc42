"""Tasks for real streaq workers, and who enqueues them. Runs in streaq's environment."""

import asyncio
import os

from journal import log
from streaq import StreaqRetry, Worker

worker = Worker(
    redis_url=os.environ.get("JOBS_URL", "redis://127.0.0.1:1"),
    queue_name=os.environ.get("JOBS_QUEUE", "default"),
    idle_timeout=3,
    id=os.environ.get("WORKER"),
)


def began(context):
    """Log a start."""
    log("started", context.task_id, context.fn_name)
    return context


@worker.task(name="ok")
async def ok() -> None:
    """Succeeds."""
    log("succeeded", began(ok.context).task_id, "ok")


@worker.task(name="flaky", max_tries=3)
async def flaky(fails: int) -> None:
    """Asks to be tried again so many times, then succeeds."""
    context = began(flaky.context)
    if context.tries <= fails:
        log("retried" if context.tries < 3 else "failed", context.task_id, "flaky")
        raise StreaqRetry("peer went away", delay=1)
    log("succeeded", context.task_id, "flaky")


@worker.task(name="explode")
async def explode() -> None:
    """Fails."""
    log("failed", began(explode.context).task_id, "explode")
    {}["missing"]


@worker.task(name="hang", max_tries=3)
async def hang() -> None:
    """Is killed with its worker, and succeeds when it runs again."""
    context = began(hang.context)
    await asyncio.sleep(60 if os.environ["WORKER"] == "w1" else 3)
    log("succeeded", context.task_id, "hang")


def produce(_url, _queue_name, part):
    """Enqueue one part of the scenario."""
    asyncio.run(_produce(part))


async def _produce(part):
    async with worker:

        async def put(task, name):
            log("sent", (await task).id, name)

        if part == "mix":
            for _ in range(30):
                await put(ok.enqueue(), "ok")
            await put(flaky.enqueue(1), "flaky")
            await put(flaky.enqueue(9), "flaky")
            await put(explode.enqueue(), "explode")
            await put(ok.enqueue().start(delay=1), "ok")
        elif part == "dead":
            for _ in range(int(os.environ["DEAD"])):
                await put(explode.enqueue(), "explode")
                await put(flaky.enqueue(9), "flaky")
        else:
            await put(hang.enqueue(), "hang")
