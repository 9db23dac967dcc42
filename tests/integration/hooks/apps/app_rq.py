"""RQ, two workers that fork for each job."""

import json
import os
import signal

import tasktrail_rq
from rq import Queue, Repeat, Retry, get_current_job
from rq.serializers import JSONSerializer
from tasktrail_rq import SENDER, Hooked, Worker  # noqa: F401 - the command line names it
from truth import REDIS, act, note, plan, timed, watch

import redis

watch(SENDER)
Hooked.tell, Hooked.note = timed(Hooked.tell, b"tell"), timed(Hooked.note, b"note")

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


def die():
    """Its work horse is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def back():
    """Gives itself back, once."""
    return Retry(max=1)


def work():
    """Nothing."""


def odd(worker, *, is_json):
    """Run a few odd jobs in this process's worker of this class; prints their ids by their names."""
    connection, more = redis.Redis.from_url(REDIS), {"serializer": JSONSerializer} if is_json else {}
    queue = Queue("odd", connection=connection, **more)
    jobs = {"back": queue.enqueue(back), "repeated": queue.enqueue(work, repeat=Repeat(times=1, interval=0))}
    if worker == "Worker":
        jobs["killed"] = queue.enqueue(die)
    getattr(tasktrail_rq, worker)([queue], connection=connection, **more).work(burst=True, logging_level="CRITICAL")
    print(json.dumps({name: job.id for name, job in jobs.items()}))
