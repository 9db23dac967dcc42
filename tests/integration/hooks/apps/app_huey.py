"""Huey, two processes."""

import tasktrail_huey
from huey import RedisHuey
from truth import REDIS, act, note, plan, watch

huey = RedisHuey("hooks", url=REDIS, store_none=False)
tasktrail_huey.install(huey)
watch(tasktrail_huey.SENDER)
WORKERS = [["huey_consumer", "app_huey.huey", "--workers", "2", "--worker-type", "process", "--quiet"]]


def register(name, retries):
    """A task of the plan."""

    @huey.task(context=True, retries=retries, name=f"app.{name}")
    def run(task=None):
        act(name, task.id, retries - task.retries + 1, 3)

    return run


TASKS = {name: register(name, 0 if name == "explode" else 2) for name in ("fine", "flaky", "doomed", "explode")}


def produce():
    """Publish the plan."""
    for name in plan():
        note("published", TASKS[name]().id, name)
