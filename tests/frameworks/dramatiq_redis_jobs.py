"""Actors for real Dramatiq workers on Redis, and who sends to them. Runs in Dramatiq's environment."""

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from journal import log

QUEUE = os.environ.get("JOBS_QUEUE", "default")
broker = RedisBroker(url=os.environ.get("JOBS_URL", "redis://127.0.0.1:1"), heartbeat_timeout=3000)
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=QUEUE)
def pack():
    """Takes longer than there is between two polls."""
    time.sleep(0.5)


@dramatiq.actor(queue_name=QUEUE, max_retries=2, min_backoff=800, max_backoff=900)
def ship(fails):
    """Fails so many times; the third time for good."""
    message = CurrentMessage.get_current_message()
    time.sleep(0.5)
    tried = message.options.get("retries", 0)
    if tried < fails:
        log("retried" if tried < 2 else "dead_lettered", message.message_id, "ship")
        raise ConnectionError('the carrier "x" went away\nsecond line')


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def weigh():
    """Fails for good."""
    time.sleep(0.5)
    log("dead_lettered", CurrentMessage.get_current_message().message_id, "weigh")
    raise KeyError("scale")


def produce(_url, _queue_name, _part):
    """Send all of it."""
    sent = [pack.send() for _ in range(8)] + [ship.send(1), ship.send(9), weigh.send()]
    sent.append(pack.send_with_options(delay=800))
    for message in sent:
        log("sent", message.message_id, message.actor_name)
