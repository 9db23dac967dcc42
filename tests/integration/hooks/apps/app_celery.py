"""Celery, a prefork worker on Redis."""

import datetime as dt
import os
import signal
import time

import celery
import tasktrail_celery
from celery.exceptions import Reject
from truth import REDIS, PeerError, act, note, plan, watch

app = celery.Celery("app", broker=REDIS)
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=16)
tasktrail_celery.install()
tasktrail_celery.install()  # a second time changes nothing
watch(tasktrail_celery.SENDER)
WORKERS = [["celery", "-A", "app_celery", "worker", "-c", "3", "--loglevel", "WARNING", "-Q", "hooks"]]


def register(name, **options):
    """A task of the plan."""

    @app.task(bind=True, name=f"app.{name}", default_retry_delay=0, retry_backoff=False, max_retries=2, **options)
    def task(self):
        act(name, self.request.id, self.request.retries + 1, 3)

    return task


TASKS = {name: register(name, autoretry_for=(PeerError,)) for name in ("fine", "flaky", "doomed", "explode")}


def produce():
    """Publish the plan."""
    for name in plan():
        sent = TASKS[name].apply_async(queue="hooks")
        note("published", sent.id, name)


@app.task(bind=True, name="app.reject", acks_late=True)
def reject(self, requeue):
    """Gives its message back, once or for good."""
    raise Reject("not today", requeue=requeue and not self.request.delivery_info["redelivered"])


@app.task(name="app.hang", time_limit=1)
def hang():
    """Runs into its hard time limit."""
    time.sleep(60)


@app.task(name="app.die")
def die():
    """Takes its process along."""
    os.kill(os.getpid(), signal.SIGKILL)


def produce_odd():
    """One of each odd end; gives the ids by name."""
    ids = {
        "traced": TASKS["fine"].apply_async(queue="hooks", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-03"}).id,
        "rejected": reject.apply_async((False,), queue="hooks").id,
        "requeued": reject.apply_async((True,), queue="hooks").id,
        "limited": hang.apply_async(queue="hooks").id,
        "late": TASKS["fine"]
        .apply_async(queue="hooks", expires=dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=5))
        .id,
        "unknown": app.send_task("app.nowhere", queue="hooks").id,
    }
    grouped = celery.group(TASKS["fine"].s().set(queue="hooks") for _ in range(2)).apply_async()
    chain = celery.chain(TASKS["fine"].s().set(queue="hooks"), TASKS["fine"].si().set(queue="hooks")).apply_async()
    ids.update(group=grouped.id, member=grouped.results[0].id, second=chain.id, first=chain.parent.id)
    return ids
