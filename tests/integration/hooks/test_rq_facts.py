"""What RQ's hook says of each odd end, in workers that fork and in those that do not."""

from __future__ import annotations

import json

import pytest
import redis

pytestmark = [pytest.mark.redis, pytest.mark.slow]

RUNS = {
    "back": ["sent", "started", "retried", "started", "failed"],
    "repeated": ["sent", "started", "succeeded", "sent", "started", "succeeded"],
    "killed": ["sent", "started", "failed"],
}
TASKS = {"back": "app_rq.back", "repeated": "app_rq.work", "killed": "app_rq.die"}


@pytest.mark.parametrize(("worker", "is_json"), [("Worker", False), ("SimpleWorker", True)])
def test_odd_ends(site, worker, is_json):
    """A job that gives itself back, one that is repeated and one that is killed are told as they went, by name."""
    app = site("rq3", "redis-stream://{redis}/events")
    ids = json.loads(app.run(f"import app_rq as app; app.odd({worker!r}, is_json={is_json})").splitlines()[-1])
    with redis.Redis.from_url(app.redis.address) as client:
        told = sorted(
            (json.loads(fields[b"data"]) for _, fields in client.xrange("events")), key=lambda one: one["time"]
        )
    runs = {name: [event for event in told if event["task_id"] == ids[name]] for name in ids}
    assert {name: [one["kind"] for one in run] for name, run in runs.items()} == {name: RUNS[name] for name in ids}
    assert {name: {one["task"] for one in run} for name, run in runs.items()} == {n: {TASKS[n]} for n in ids}
    assert [run[-1]["error"] for name, run in runs.items() if name == "killed"] == ["ChildProcessError"] * (not is_json)
