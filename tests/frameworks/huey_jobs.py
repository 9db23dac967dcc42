"""Tasks for a real Huey consumer, and who enqueues them. Runs in Huey's environment."""

import os
import time

from huey import RedisHuey
from journal import log

huey = RedisHuey(os.environ.get("JOBS_QUEUE", "huey"), url=os.environ.get("JOBS_URL", "redis://127.0.0.1:1"))


def began(task):
    """Log a start."""
    log("started", task.id, task.name)
    return task.id, task.name


@huey.task(context=True)
def ok(task=None):
    """Succeeds with a value, which is stored."""
    log("succeeded", *began(task))
    return "fine"


@huey.task(context=True, retries=2, retry_delay=1)
def flaky(fails, task=None):
    """Raises so many times, then succeeds with a value."""
    told = began(task)
    if 2 - task.retries < fails:
        log("retried" if task.retries else "failed", *told)
        raise ConnectionError('peer "db-1" went away\nsecond line')
    log("succeeded", *told)
    return "at last"


@huey.task(context=True)
def explode(task=None):
    """Fails."""
    log("failed", *began(task))
    return {}["missing"]


def produce(_url, _queue_name, part):
    """Enqueue one part of the scenario; the one that is to be revoked is due when it has been."""

    def put(result, name):
        log("sent", result.id, name)
        return result

    if part == "mix":
        for _ in range(30):
            put(ok(), "ok")
        put(flaky(1), "flaky")
        put(flaky(9), "flaky")
        put(explode(), "explode")
        put(ok.schedule(delay=2), "ok")
        time.sleep(0.1)
    elif part == "dead":
        for _ in range(int(os.environ["DEAD"])):
            put(explode(), "explode")
            put(flaky(9), "flaky")
    else:
        put(ok.schedule(delay=2), "ok").revoke()
