"""Each hook with its real framework: what the daemon counts is what the tasks themselves wrote down."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.integration.hooks.rig import REQUIREMENTS, Site, counted

pytestmark = [pytest.mark.redis, pytest.mark.slow]

TASKS = int(os.environ.get("TASKTRAIL_HOOK_TASKS", "300"))
WAYS = {
    "celery": "http", "celery54": "redis", "rq3": "unix", "rq2": "http", "dramatiq": "unix",
    "taskiq": "http", "saq": "unix", "arq": "redis", "huey": "unix", "streaq": "http",
}  # fmt: skip
"""Each over one of the three wires."""
COMPARED = {"sent", "started", "succeeded", "retried", "failed", "dead_lettered", "redelivered", "duplicate_success"}


def expected(app: Site) -> dict[tuple[str, str], int]:
    """What the hook should have told, by the truth."""
    truth = app.truth()
    tasks = {task for task, _ in truth}
    for task in tasks:
        if app.app == "dramatiq":
            truth[task, "dead_lettered"] = truth[task, "failed"]
        if app.app == "streaq":  # its hook does not tell what was sent
            truth[task, "sent"] = 0
    return dict(+Counter(truth))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_what_is_counted_is_what_happened(name, site, run, tmp_path):
    """Starts, successes, retries and final failures per task are those of the truth: none lost, none twice."""
    url = {"unix": f"unix://{tmp_path}/events.sock", "redis": "redis-stream://{redis}/events", "http": ""}[WAYS[name]]
    app = site(name, url)
    daemon = run(*(("--source", app.url) if url else ()))
    app.url = app.url or f"{daemon.base}/v1/events"
    app.start()
    app.publish(TASKS)
    app.wait_finished(TASKS, 60 + TASKS / 10)
    deadline = time.monotonic() + 20
    while (seen := {key: count for key, count in counted(daemon).items() if key[1] in COMPARED}) != (
        truth := expected(app)
    ):
        different = {key: (seen.get(key), truth.get(key)) for key in {*seen, *truth} if seen.get(key) != truth.get(key)}
        assert time.monotonic() < deadline, f"counted and true: {different}\n{app.log[-2000:]}"
        time.sleep(0.2)
    errors = {labels["error"] for labels, _ in daemon.metrics()["task_failed_total"]}
    assert errors == {line["error"] for line in app.lines() if line["what"] == "raise" and not line["retry"]}
