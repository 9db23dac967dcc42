"""A Celery application that logs what really happens: its tasks, and a producer.

Run by an interpreter that has Celery: `celery -A celery_jobs worker ...` in this folder, and
`python celery_jobs.py COUNT` as the producer. BROKER and RESULTS are URLs, TRUTH the file that both append to.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from celery import Celery
from celery.exceptions import Ignore, Reject

app = Celery("jobs", broker=os.environ["BROKER"], backend=os.environ.get("RESULTS") or None)
app.conf.update(
    task_send_sent_event=os.environ.get("SENT", "1") == "1",
    task_default_queue="orders",
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    result_extended=os.environ.get("EXTENDED", "1") == "1",
    broker_transport_options=json.loads(os.environ.get("TRANSPORT", "{}")),
    task_acks_late=os.environ.get("LATE", "0") == "1",
)


def say(fact: str, task_id: str, task: str) -> None:
    """One line of truth; short enough to be written at once."""
    line = json.dumps({"fact": fact, "id": task_id, "task": task, "t": time.time()}) + "\n"
    handle = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


def logged(kind: str) -> Any:
    """A task that says that it started, and how it ended."""

    def wrap(body: Any) -> Any:
        def run(self: Any, *arguments: Any) -> Any:
            say("started", self.request.id, kind)
            try:
                done = body(self, *arguments)
            except Exception as error:
                again = self.request.retries < 2 and isinstance(error, ConnectionError)
                say("retried" if again else "raised", self.request.id, kind)
                raise
            say("succeeded", self.request.id, kind)
            return done

        return run

    return wrap


@app.task(name="jobs.charge", bind=True)
@logged("jobs.charge")
def charge(self: Any, seconds: float = 0.0) -> str:
    """Succeeds."""
    del self
    time.sleep(seconds)
    return "done"


@app.task(
    name="jobs.notify",
    bind=True,
    autoretry_for=(ConnectionError,),
    retry_backoff=False,
    default_retry_delay=0.2,
    max_retries=2,
)
@logged("jobs.notify")
def notify(self: Any, failures: int) -> str:
    """Fails so many times first."""
    if self.request.retries < failures:
        raise ConnectionError("peer went away\nsecond line")
    return "done"


@app.task(name="jobs.lookup", bind=True)
@logged("jobs.lookup")
def lookup(self: Any) -> None:
    """Fails for good."""
    del self
    raise KeyError("missing")


@app.task(name="jobs.verify", bind=True, acks_late=True)
@logged("jobs.verify")
def verify(self: Any) -> None:
    """Is rejected."""
    del self
    raise Reject("not today", requeue=False)


@app.task(name="jobs.skip", bind=True)
@logged("jobs.skip")
def skip(self: Any) -> None:
    """Ends without a word."""
    del self
    raise Ignore


def produce(count: int) -> None:
    """Publish `count` of each kind."""
    for number in range(count):
        for task, arguments in (
            (charge, ()),
            (notify, (number % 4,)),
            (lookup, ()),
            (verify, ()),
            (skip, ()),
        ):
            say("sent", task.apply_async(arguments).id, task.name)
    say("sent", app.send_task("jobs.missing").id, "jobs.missing")


if __name__ == "__main__":
    if sys.argv[1] == "charge":
        queue = sys.argv[4] if len(sys.argv) > 4 else None
        for _ in range(int(sys.argv[2])):
            sent = charge.apply_async(
                (float(sys.argv[3]),), queue=queue, headers=json.loads(os.environ.get("HEADERS", "{}"))
            )
            say("sent", sent.id, "jobs.charge")
    else:
        produce(int(sys.argv[1]))
