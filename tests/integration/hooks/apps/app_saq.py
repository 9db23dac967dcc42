"""SAQ, one worker."""

import asyncio

import tasktrail_saq
from saq import Queue
from truth import REDIS, act, note, plan, watch

watch(tasktrail_saq.SENDER)
WORKERS = [["saq", "app_saq.settings"]]


def register(name):
    """A task of the plan."""

    async def task(context):
        job = context["job"]
        act(name, job.key, job.attempts, 3)

    return f"app.{name}", task


settings = tasktrail_saq.install(
    {
        "queue": Queue.from_url(REDIS, name="hooks"),
        "functions": [register(name) for name in ("fine", "flaky", "doomed", "explode")],
        "concurrency": 8,
    }
)


async def publish():
    """Publish the plan."""
    queue = settings["queue"]
    await queue.connect()
    # A worker's first sweep runs jobs again that are just being taken, under the same attempt: let it be over.
    while not await queue.redis.exists(queue._sweep):  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.05)
    for name in plan():
        job = await queue.enqueue(f"app.{name}", retries=1 if name == "explode" else 3)
        note("published", job.key, name)
    await queue.disconnect()


def produce():
    """The same, from outside a loop."""
    asyncio.run(publish())
