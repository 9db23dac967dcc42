"""Jobs for real RQ workers, and who enqueues them. Runs in RQ's environment."""

import os
import signal
import time
from datetime import timedelta

from journal import log
from redis import Redis
from rq import Queue, Retry, get_current_job


def began():
    """Log a start; the job."""
    job = get_current_job()
    log("started", job.id, job.func_name)
    return job


def ok():
    """Succeeds."""
    job = began()
    log("succeeded", job.id, job.func_name)


def flaky(fails):
    """Raises so many times, then succeeds."""
    job = began()
    tries = job.meta.get("tries", 0)
    job.meta["tries"] = tries + 1
    job.save_meta()
    if tries < fails:
        log("retried" if job.retries_left else "failed", job.id, job.func_name)
        raise ConnectionError('peer "db-1" went away\nsecond line')
    log("succeeded", job.id, job.func_name)


def explode():
    """Fails."""
    job = began()
    log("failed", job.id, job.func_name)
    return {}["missing"]


def die():
    """Takes its process down."""
    job = began()
    log("failed", job.id, job.func_name)
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    """Runs into its time limit."""
    job = began()
    log("failed", job.id, job.func_name)
    time.sleep(60)


def produce(url, queue_name, part):
    """Enqueue one part of the scenario."""
    queue = Queue(queue_name, connection=Redis.from_url(url))

    def put(job):
        log("sent", job.id, job.func_name)
        return job

    if part == "mix":
        for _ in range(30):
            put(queue.enqueue(ok, description="anything"))
        put(queue.enqueue(flaky, 1, retry=Retry(max=3, interval=1)))
        put(queue.enqueue(flaky, 9, retry=Retry(max=2, interval=1)))
        put(queue.enqueue(explode))
        put(queue.enqueue_in(timedelta(seconds=1), ok))
        put(queue.enqueue(ok, depends_on=put(queue.enqueue(ok))))
        put(queue.enqueue(ok, depends_on=put(queue.enqueue(explode))))
        put(queue.enqueue(die))
    else:
        put(queue.enqueue(hang, job_timeout=4))
