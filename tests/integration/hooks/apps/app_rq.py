"""RQ, two workers that fork for each job."""

from rq import Queue, Retry, get_current_job
from tasktrail_rq import SENDER, Hooked, Worker  # noqa: F401 - the command line names it
from truth import REDIS, act, note, plan, timed, watch

import redis

watch(SENDER)
Hooked.tell = timed(Hooked.tell)  # what its work horses do; what their worker makes of it costs no task any time

WORKERS = [["rq", "worker", "--worker-class", "app_rq.Worker", "--url", REDIS, "--quiet", "hooks"]] * 2


def run(name):
    """A task of the plan."""
    job = get_current_job()
    act(name, job.id, 3 - (job.retries_left or 0), 3)


def fine():
    """Works."""
    run("fine")


def flaky():
    """Works the second time."""
    run("flaky")


def doomed():
    """Fails always."""
    run("doomed")


def explode():
    """Fails for good."""
    run("explode")


def produce():
    """Publish the plan."""
    queue = Queue("hooks", connection=redis.Redis.from_url(REDIS))
    for name in plan():
        retry = Retry(max=2) if name in ("flaky", "doomed") else None
        job = queue.enqueue(globals()[name], retry=retry, failure_ttl=60, result_ttl=0)
        note("published", job.id, name)
