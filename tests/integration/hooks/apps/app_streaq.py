"""streaQ, one worker."""

import asyncio

import tasktrail_streaq
from streaq import StreaqRetry, Worker
from truth import REDIS, act, note, plan, watch

worker = Worker(redis_url=REDIS, queue_name="hooks", concurrency=20)
tasktrail_streaq.install(worker)
watch(tasktrail_streaq.SENDER)
WORKERS = [["streaq", "run", "app_streaq:worker"]]


def register(name):
    """A task of the plan."""

    @worker.task(name=f"app.{name}", max_tries=3, silent=True)
    async def task() -> None:
        context = task.context
        act(name, context.task_id, context.tries, 3, error=lambda: StreaqRetry("again", delay=0))

    return task


TASKS = {name: register(name) for name in ("fine", "flaky", "doomed", "explode")}


async def publish():
    """Publish the plan."""
    async with worker:
        for name in plan():
            sent = await TASKS[name].enqueue()
            note("published", sent.id, name)


def produce():
    """The same, from outside a loop."""
    asyncio.run(publish())
