"""Celery's side of the live tests on RabbitMQ: tasks that log their own truth, and what publishes them.

Run by an environment that has celery, with AMQP_URL and TRUTH (a file that each process appends to):
`python -m celery -A celery_rabbit_jobs worker -E` works, `python celery_rabbit_jobs.py` publishes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

DEAD = {"x-dead-letter-exchange": "graveyard", "x-dead-letter-routing-key": "parcels.dead"}
app = Celery("jobs", broker=os.environ["AMQP_URL"])
app.conf.task_queues = [Queue("parcels", Exchange(""), routing_key="parcels", queue_arguments=DEAD)]
app.conf.task_default_queue = "parcels"
app.conf.task_send_sent_event = True
app.conf.task_acks_late = True


def log(fact, task_id, name):
    """One line of truth."""
    with Path(os.environ["TRUTH"]).open("a") as file:
        file.write(json.dumps({"fact": fact, "id": task_id, "task": name}) + "\n")


@app.task(bind=True, name="parcels.pack")
def pack(self):
    """Done at once."""
    log("succeeded", self.request.id, self.name)


@app.task(bind=True, name="parcels.ship", max_retries=2)
def ship(self, fails):
    """Fails so many times; the third time for good."""
    if self.request.retries < fails:
        is_last = self.request.retries == 2
        log("failed" if is_last else "retried", self.request.id, self.name)
        raise self.retry(exc=ConnectionError("the carrier went away"), countdown=0.2)
    log("succeeded", self.request.id, self.name)


@app.task(bind=True, name="parcels.weigh")
def weigh(self):
    """Rejected: a dead letter."""
    log("dead_lettered", self.request.id, self.name)
    raise Reject("no scale", requeue=False)


def publish():
    """Ten messages, and the place where dead letters go."""
    with app.connection_for_write() as connection:
        exchange = Exchange("graveyard", "direct", durable=True)
        Queue("parcels.dead", exchange, routing_key="parcels.dead")(connection.channel()).declare()
    sent = [pack.delay() for _ in range(5)] + [
        ship.delay(1),
        ship.delay(1),
        ship.delay(9),
        weigh.delay(),
        weigh.delay(),
    ]
    names = ["parcels.pack"] * 5 + ["parcels.ship"] * 3 + ["parcels.weigh"] * 2
    for result, name in zip(sent, names, strict=True):
        log("sent", result.id, name)


if __name__ == "__main__":
    sys.exit(publish())
