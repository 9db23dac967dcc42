"""arq, one worker."""

import asyncio

import tasktrail_arq
from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import func
from truth import REDIS, act, note, plan, watch

watch(tasktrail_arq.SENDER)
WORKERS = [["arq", "app_arq.WorkerSettings"]]


def register(name):
    """A task of the plan."""

    async def task(context):
        act(name, context["job_id"], context["job_try"], 3, error=lambda: Retry(defer=0.01))

    return func(task, name=f"app.{name}", max_tries=3)


@tasktrail_arq.install
class WorkerSettings:
    """What arq reads."""

    functions = [register(name) for name in ("fine", "flaky", "doomed", "explode")]  # noqa: RUF012 - arq's form
    queue_name = "hooks"
    redis_settings = RedisSettings.from_dsn(REDIS)
    poll_delay = 0.05
    max_jobs = 20
    keep_result = 5


async def publish():
    """Publish the plan."""
    pool = await create_pool(WorkerSettings.redis_settings, default_queue_name="hooks")
    for name in plan():
        job = await pool.enqueue_job(f"app.{name}")
        note("published", job.job_id, name)
    await pool.aclose()


def produce():
    """The same, from outside a loop."""
    asyncio.run(publish())
