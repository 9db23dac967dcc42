"""Tasks for real taskiq workers, and who sends them. Runs in taskiq's environment."""

import asyncio
import os

from journal import log
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

URL = os.environ.get("JOBS_URL", "redis://127.0.0.1:1")
broker = (
    RedisStreamBroker(
        URL, queue_name=os.environ.get("JOBS_QUEUE", "taskiq"), idle_timeout=3000, xread_block=300,
        unacknowledged_lock_timeout=2,
    )
    .with_result_backend(RedisAsyncResultBackend(URL, prefix_str=os.environ.get("JOBS_PREFIX") or None))
    .with_middlewares(SimpleRetryMiddleware(default_retry_count=3))
)  # fmt: skip

CONTEXT = TaskiqDepends()


def began(context):
    """Log a start; id, name and which try it is."""
    message = context.message
    log("started", message.task_id, message.task_name)
    return message.task_id, message.task_name, int(message.labels.get("_retries", 0))


@broker.task(task_name="ok")
async def ok(context: Context = CONTEXT):
    """Succeeds."""
    log("succeeded", *began(context)[:2])


@broker.task(task_name="flaky", retry_on_error=True, max_retries=3)
async def flaky(fails: int, context: Context = CONTEXT):
    """Raises so many times, then succeeds."""
    task_id, name, tries = began(context)
    if tries < fails:
        log("retried" if tries + 1 < 3 else "failed", task_id, name)
        raise ConnectionError('peer "db-1" went away\nsecond line')
    log("succeeded", task_id, name)


@broker.task(task_name="explode")
async def explode(context: Context = CONTEXT):
    """Fails."""
    log("failed", *began(context)[:2])
    return {}["missing"]


@broker.task(task_name="hang")
async def hang(context: Context = CONTEXT):
    """Is killed with its worker, and succeeds when it runs again."""
    task_id, name, _ = began(context)
    await asyncio.sleep(60 if os.environ["WORKER"] == "w1" else 3)
    log("succeeded", task_id, name)


def produce(_url, _queue_name, part):
    """Send one part of the scenario."""
    asyncio.run(_produce(part))


async def _produce(part):
    await broker.startup()

    async def put(task, *arguments):
        sent = await task.kicker().with_labels(traceparent=f"00-{os.urandom(16).hex()}-{'1' * 16}-01").kiq(*arguments)
        log("sent", sent.task_id, task.task_name)

    if part == "mix":
        for _ in range(30):
            await put(ok)
        await put(flaky, 1)
        await put(flaky, 9)
        await put(explode)
    elif part == "dead":
        for _ in range(int(os.environ["DEAD"])):
            await put(explode)
            await put(flaky, 9)
    elif part == "hang":
        await put(hang)
    else:
        await put(ok)
    await broker.shutdown()
