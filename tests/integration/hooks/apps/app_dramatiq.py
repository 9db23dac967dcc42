"""Dramatiq on Redis, two processes."""

import dramatiq
import tasktrail_dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from truth import REDIS, act, note, plan, watch

broker = RedisBroker(url=REDIS)
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)
tasktrail_dramatiq.install(broker)
watch(tasktrail_dramatiq.SENDER)
WORKERS = [["dramatiq", "app_dramatiq", "--processes", "2", "--threads", "4"]]


def register(name, retries):
    """A task of the plan."""

    @dramatiq.actor(actor_name=f"app.{name}", queue_name="hooks", max_retries=retries, min_backoff=1, max_backoff=2)
    def task():
        message = CurrentMessage.get_current_message()
        act(name, message.message_id, message.options.get("retries", 0) + 1, 3)

    return task


TASKS = {name: register(name, 0 if name == "explode" else 2) for name in ("fine", "flaky", "doomed", "explode")}


def produce():
    """Publish the plan."""
    for name in plan():
        note("published", TASKS[name].send().message_id, name)
