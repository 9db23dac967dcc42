"""Celery on Redis: a message that runs out, a worker that is killed; run twice, lost, recovered, in a live daemon."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import brokers
from tests.brokers.process import wait_until
from tests.frameworks.celery_live import Jobs
from tests.integration.live import Daemon

pytestmark = pytest.mark.redis

VISIBILITY = 5
"""Seconds after which Redis' messages are given out again."""
RUN = 60
"""Seconds that a task runs: far beyond that, also where everything else is slow."""
SLACK = 30.0
"""Seconds that heartbeats and start-ups may be late here."""
PATIENCE = 90.0
"""Seconds: far more than anything here takes, so that a loaded machine is no failure."""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """An application that acknowledges late, on a Redis of its own."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    made = None
    try:
        transport = json.dumps({"visibility_timeout": VISIBILITY})
        made = Jobs(tmp_path, broker.address, LATE="1", TRANSPORT=transport)
        yield made
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    finally:
        if made is not None:
            made.stop()
        broker.stop()


def told(daemon: Daemon, task_id: str, *kinds: str) -> list[dict[str, Any]]:
    """The lines of these kinds in the timeline of a task; none while nothing is known of it."""
    status, body = daemon.ask(f"/api/tasks/{task_id}")
    return [line for line in json.loads(body)["events"] if line["kind"] in kinds] if status == 200 else []


def begun(jobs: Jobs, *arguments: str) -> str:
    """Send a task; gives its id when it says that it has begun."""
    before = set(jobs.facts()) if jobs.truth.exists() else set()
    jobs.produce("charge", "1", f"{RUN}", *arguments)
    (task_id,) = set(jobs.facts()) - before
    assert wait_until(lambda: bool(jobs.facts()[task_id]["started"]), PATIENCE)
    return task_id


def test_a_task_that_is_given_out_again_and_one_whose_worker_is_killed(jobs: Jobs, run: Callable[..., Daemon]) -> None:
    """Run twice, with the setting that did it; lost a heartbeat time-out after signal 9, recovered by the next run."""
    daemon = run("--source", f"celery+{jobs.environment['BROKER']}")
    killed = jobs.start_worker("killed", "-E", "--concurrency", "1", "-Q", "other")
    jobs.start_worker("steady", "-E", "--concurrency", "1", "-Q", "orders")
    heard = lambda: "hears 2 workers (killed@here, steady@here)" in daemon.source("celery+redis")["detail"]  # noqa: E731
    daemon.wait(heard, PATIENCE, "a worker is not heard")
    gone = begun(jobs, "other")
    daemon.wait(lambda: bool(told(daemon, gone, "started")), PATIENCE, "the start is not seen")
    os.killpg(killed, signal.SIGKILL)
    killed_at = time.time()

    twice, began = begun(jobs, "orders"), time.time()
    wait_until(lambda: time.time() > began + VISIBILITY + 1, PATIENCE)
    jobs.start_worker("second", "-E", "--concurrency", "1", "-Q", "orders")  # a new worker puts back what has run out
    daemon.wait(lambda: bool(told(daemon, twice, "redelivered")), PATIENCE, "the second run is not found")
    again = told(daemon, twice, "redelivered")[0]["detail"]
    assert "on steady@here, which still runs: the visibility_timeout of the Redis transport" in again

    daemon.wait(lambda: bool(told(daemon, gone, "lost")), PATIENCE, "the loss is not found")
    (lost,) = told(daemon, gone, "lost")
    assert lost["detail"] == "silent worker killed@here"
    assert lost["time"] < killed_at + 10 + 5 + SLACK
    assert daemon.json(f"/api/tasks/{gone}")["state"] == "lost"
    jobs.start_worker("heir", "-E", "--concurrency", "1", "-Q", "other")
    daemon.wait(lambda: bool(told(daemon, gone, "recovered")), PATIENCE, "the next run is not taken for a recovery")
    assert [line["kind"] for line in told(daemon, gone, "lost", "recovered")] == ["lost", "recovered"]
