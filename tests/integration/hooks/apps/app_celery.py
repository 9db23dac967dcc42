"""Celery, a prefork worker on Redis."""

import celery
import tasktrail_celery
from truth import REDIS, PeerError, act, note, plan, watch

app = celery.Celery("app", broker=REDIS)
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=16)
tasktrail_celery.install()
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
