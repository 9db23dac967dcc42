"""Dramatiq's side of the live tests: actors that log their own truth, and what publishes to them.

Run by an environment that has dramatiq[rabbitmq], with AMQP_URL and TRUTH (a file that each process appends to):
`python -m dramatiq dramatiq_jobs` works, `python dramatiq_jobs.py` publishes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import CurrentMessage

QUEUE = os.environ.get("QUEUE", "parcels")
broker = RabbitmqBroker(url=os.environ["AMQP_URL"])
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


def log(fact, message):
    """One line of truth."""
    line = json.dumps({"fact": fact, "id": message.message_id, "task": message.actor_name})
    with Path(os.environ["TRUTH"]).open("a") as file:
        file.write(line + "\n")


@dramatiq.actor(queue_name=QUEUE)
def pack():
    """Done at once."""
    log("succeeded", CurrentMessage.get_current_message())


@dramatiq.actor(queue_name=QUEUE, max_retries=2, min_backoff=200, max_backoff=400)
def ship(fails):
    """Fails so many times; the third time for good."""
    message = CurrentMessage.get_current_message()
    tried = message.options.get("retries", 0)
    if tried < fails:
        log("retried" if tried < 2 else "dead_lettered", message)
        raise ConnectionError('the carrier "x" went away\nsecond line, ünïcode')
    log("succeeded", message)


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def weigh():
    """Fails for good."""
    log("dead_lettered", CurrentMessage.get_current_message())
    raise KeyError("scale")


def publish():
    """Ten messages."""
    sent = [pack.send() for _ in range(5)] + [ship.send(1), ship.send(1), ship.send(9), weigh.send()]
    sent.append(pack.send_with_options(delay=500))
    for message in sent:
        log("sent", message)
    time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(publish())
