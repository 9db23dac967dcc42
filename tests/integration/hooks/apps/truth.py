"""What the tasks themselves write down: a JSON line for each that is published, starts, ends or fails, in one write."""

import json
import os
import threading
import time

REDIS = os.environ["APP_REDIS"]
COUNT = int(os.environ.get("APP_TASKS", "0"))
_PLAN = {0: "flaky", 1: "doomed", 2: "explode"}  # by the last digits of a task's number; all others simply work
_log = os.open(os.environ["APP_TRUTH"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


class PeerError(Exception):
    """What is tried again; each of its names for a cause has a quote, a line end and a letter that is not ASCII."""

    def __init__(self):
        super().__init__('peer "db-1" went away\nsecond line: ünïcode')


def watch(sender):
    """Set a hook's limit, and write down how long each of its calls takes, where the environment asks for it."""
    sender.limit = int(os.environ.get("APP_LIMIT", str(sender.limit)))
    sender.put = timed(sender.put, b"put")


def timed(call, name):
    """The same, which writes down by name how long it took, where that is asked for and the thread is a worker's."""
    if "APP_TIMES" not in os.environ:
        return call
    times = os.open(os.environ["APP_TIMES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def measured(*args, **kwargs):
        began = time.perf_counter()
        call(*args, **kwargs)
        took = time.perf_counter() - began
        if not threading.current_thread().name.startswith("tasktrail"):
            os.write(times, b"%s %.2f\n" % (name, took * 1e6))

    return measured


def plan():
    """The names of the tasks to publish, in their order."""
    return [_PLAN.get(number % 20, "fine") for number in range(COUNT)]


def note(what, task_id, name, **more):
    """Write one line. `what`: published, start, end, raise (with `retry` and `error`)."""
    os.write(_log, (json.dumps({"what": what, "id": str(task_id), "name": name, **more}) + "\n").encode())


def act(name, task_id, attempt, tries, error=PeerError):
    """One run of a task: `flaky` fails in its first, `doomed` in each of its `tries`, `explode` at once for good."""
    note("start", task_id, name, attempt=attempt)
    if name == "explode":
        note("raise", task_id, name, retry=False, error="KeyError")
        raise KeyError("missing")
    if name == "doomed" or (name == "flaky" and attempt == 1):
        raised = error()
        note("raise", task_id, name, retry=attempt < tries, error=type(raised).__name__)
        raise raised
    note("end", task_id, name)
