"""What tasks and producers log of themselves while a test watches from outside: one JSON object a line, then summed up.

Runs in the frameworks' own environments, too: nothing but the standard library.
"""

import json
import os
from collections import defaultdict
from pathlib import Path


def log(event, task_id, task, **more):
    """Append one line; whole, also from several processes."""
    line = json.dumps({"event": event, "id": task_id, "task": task, **more}) + "\n"
    file = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def rows(path):
    """What was logged so far."""
    try:
        with Path(path).open() as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def counts(path):
    """Per task name how often it was published, began, ended well, was retried, and how many failed for good."""
    found = defaultdict(lambda: dict.fromkeys(("sent", "started", "succeeded", "retried", "failed"), 0))
    for row in rows(path):
        found[row["task"]][row["event"]] += 1
    return dict(found)
