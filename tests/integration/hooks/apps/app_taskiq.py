"""taskiq on a Redis stream, two processes."""

import asyncio

import tasktrail_taskiq
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends
from taskiq_redis import RedisStreamBroker
from truth import REDIS, act, note, plan, watch

broker = RedisStreamBroker(REDIS, queue_name="hooks").with_middlewares(SimpleRetryMiddleware(default_retry_count=3))
tasktrail_taskiq.install(broker)
watch(tasktrail_taskiq.SENDER)
WORKERS = [["taskiq", "worker", "app_taskiq:broker", "--workers", "2", "--log-level", "ERROR"]]


def register(name):
    """A task of the plan."""

    @broker.task(task_name=f"app.{name}", retry_on_error=name != "explode", max_retries=3)
    async def task(context: Context = TaskiqDepends()):
        act(name, context.message.task_id, int(context.message.labels.get("_retries", 0)) + 1, 3)

    return task


TASKS = {name: register(name) for name in ("fine", "flaky", "doomed", "explode")}


async def publish():
    """Publish the plan."""
    await broker.startup()
    for name in plan():
        sent = await TASKS[name].kiq()
        note("published", sent.task_id, name)
    await broker.shutdown()


def produce():
    """The same, from outside a loop."""
    asyncio.run(publish())
