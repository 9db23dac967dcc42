"""A collector that is stopped, absent or slow: workers never wait for it, and what was dropped is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import redis

from tests import brokers
from tests.brokers.process import wait_until
from tests.integration.hooks.rig import HOOKS, counted
from tests.integration.live import Daemon

pytestmark = [pytest.mark.redis, pytest.mark.slow]

TASKS = 200
FLOOD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tasktrail_emit import SENDER, emit
longest = 0.0
for number in range(int(sys.argv[2])):
    began = time.perf_counter()
    emit("sent", number, task="flood", queue="q")
    longest = max(longest, time.perf_counter() - began)
print(longest, flush=True)
sys.stdin.readline()
emit("sent", "last", task="flood", queue="q")
SENDER.flush(60)
"""


def missed(daemon: Daemon) -> int:
    """How many events the daemon was told as dropped."""
    return int(sum(value for _, value in daemon.metrics().get("tasktrail_source_missed_records_total", [])))


@pytest.mark.parametrize("wire", ["unix", "http"])
def test_each_event_is_counted_or_told_as_dropped(run, tmp_path, wire):
    """What a worker emits while the daemon is stopped is, after it goes on, counted or known to be missing."""
    url = f"unix://{tmp_path}/events.sock"
    daemon = run("--source", url)
    url = url if wire == "unix" else f"{daemon.base}/v1/events"
    flood = 40_000
    daemon.process.send_signal(signal.SIGSTOP)
    worker = subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(HOOKS), str(flood)],
        env={**os.environ, "TASKTRAIL_URL": url}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert worker.stdout.readline()  # all was emitted, though nothing was taken
        daemon.process.send_signal(signal.SIGCONT)
        assert wait_until(lambda: missed(daemon) > 0, 40)
        worker.communicate("\n", timeout=90)
    finally:
        worker.kill()
        worker.wait()
    daemon.wait(lambda: counted(daemon)["flood", "sent"] + missed(daemon) == flood + 1, 30, "some are unaccounted for")
    assert counted(daemon)["flood", "sent"] >= 10_000


def test_a_stopped_daemon_holds_up_no_worker(site, run):
    """A prefork Celery worker does all its tasks while the daemon is stopped; afterwards what is missing was told."""
    daemon = run()
    app = site("celery", f"{daemon.base}/v1/events")
    app.more["APP_LIMIT"] = "60"
    app.start()
    app.publish(1)
    app.wait_finished(1, 60)
    daemon.wait(lambda: counted(daemon)["flaky", "succeeded"] == 1, 20, "nothing was counted")
    daemon.process.send_signal(signal.SIGSTOP)
    app.publish(TASKS)
    app.wait_finished(TASKS + 1, 120)
    daemon.process.send_signal(signal.SIGCONT)
    truth = {key: count for key, count in app.truth().items() if key[1] != "sent"}  # the publisher has ended long ago

    def missing() -> int:
        seen = counted(daemon)
        assert all(seen[key] <= count for key, count in truth.items())
        return sum(count - seen[key] for key, count in truth.items())

    daemon.wait(lambda: 0 <= missing() <= missed(daemon), 30, f"{missing()} missing, {missed(daemon)} told")
    assert missed(daemon) > 0


def test_a_daemon_that_comes_late_gets_what_waited(site, run, tmp_path):
    """A prefork Celery worker that starts before the daemon does its tasks, and tells of them when it can."""
    app = site("celery", f"unix://{tmp_path}/events.sock")
    app.start()
    app.publish(TASKS)
    app.wait_finished(TASKS, 120)
    daemon = run("--source", app.url)
    truth = {key: count for key, count in app.truth().items() if key[1] != "sent"}
    told = lambda: {key: count for key, count in counted(daemon).items() if key in truth}  # noqa: E731
    daemon.wait(lambda: told() == truth, 30, "not all was told")
    assert missed(daemon) == 0


def test_a_redis_with_a_password(run, tmp_path):
    """User, password, database and stream are taken from the URL; the stream is capped."""
    try:
        own = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    try:
        with redis.Redis.from_url(own.address) as client:
            client.config_set("requirepass", "s:cret")
        host = own.address.removeprefix("redis://").partition("/")[0]
        url = f"redis-stream://default:s%3Acret@{host}/3/events"
        subprocess.run(
            [sys.executable, "-c", FLOOD, str(HOOKS), "2000"], env={**os.environ, "TASKTRAIL_URL": url},
            input="\n", text=True, check=True, timeout=60, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        daemon = run("--source", url)
        daemon.wait(lambda: counted(daemon)["flood", "sent"] == 2001, 30, "not all was counted")
    finally:
        own.stop()
