"""A real Celery worker on a real RabbitMQ: its events, and copies of its dead letters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import brokers
from tests.brokers.process import is_alive, spawn, wait_until
from tests.frameworks import venvs
from tests.integration.live import Daemon

JOBS = Path(__file__).parents[1] / "frameworks" / "celery_rabbit_jobs.py"
ENDS = ("succeeded", "failed", "dead_lettered")
pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.slow,
]


@pytest.fixture
def vhost(rabbitmq_url: str) -> Iterator[str]:
    """A virtual host of one's own; its name."""
    name = f"v{uuid.uuid4().hex[:8]}"
    try:
        brokers.control_rabbitmq("add_vhost", name)
        brokers.control_rabbitmq("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield name
    brokers.control_rabbitmq("delete_vhost", name)


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has Celery."""
    try:
        return venvs.python("celery-rabbitmq", "celery==5.7.0")
    except brokers.Unavailable as why:
        pytest.skip(str(why))


def truth(path: Path) -> Counter[tuple[str, str]]:
    """What the tasks logged: how often each fact of each task."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return Counter((line["fact"], line["task"]) for line in lines)


def seen(daemon: Daemon) -> Counter[tuple[str, str]]:
    """What the daemon counted, of the same facts."""
    metrics = daemon.metrics()
    found: Counter[tuple[str, str]] = Counter()
    for fact in ("succeeded", "retried", "dead_lettered"):
        for labels, value in metrics.get(f"task_{fact}_total", []):
            if value:
                found[fact, labels["task"]] += int(value)
    return found


def test_the_truth_of_a_real_run(rabbitmq_url: str, vhost: str, python: str, tmp_path: Path) -> None:
    """Successes, retries and dead letters are counted as the tasks logged them; the user's dead letters stay."""
    log = tmp_path / "truth"
    url = rabbitmq_url.rstrip("/") + f"/{vhost}"
    environment = {"AMQP_URL": url, "TRUTH": str(log), "PYTHONPATH": str(JOBS.parent)}
    dead = "dead_letter_exchange=graveyard&dead_letter_routing_key=parcels.dead"
    daemon = Daemon(tmp_path, "--source", f"celery+{url}?{dead}").wait_ready()
    work = [python, "-m", "celery", "-A", "celery_rabbit_jobs", "worker", "-E", "-c", "2", "-Q", "parcels"]
    publish = [python, str(JOBS)]
    subprocess.run(publish, env={**os.environ, **environment}, check=True, timeout=60)
    reads = lambda: "reads exchange graveyard" in daemon.source("celery")["detail"]  # noqa: E731
    daemon.wait(reads, 20, "the dead-letter exchange is not read")
    worker = spawn(work, str(tmp_path), detached=False, environment=environment)
    try:
        ended = lambda: sum(truth(log)[fact, task] for fact, task in truth(log) if fact in ENDS)  # noqa: E731
        daemon.wait(lambda: ended() == 10, 60, "the tasks are not done")
        facts = ("succeeded", "retried", "dead_lettered")
        expected = Counter({key: count for key, count in truth(log).items() if key[0] in facts})
        daemon.wait(lambda: seen(daemon) == expected, 30, "it is not as the tasks logged it")
        lengths = brokers.control_rabbitmq("list_queues", "-p", vhost, "name", "messages").split()
        assert lengths[lengths.index("parcels.dead") + 1] == "2"
        on_record = daemon.dead_letters()
        assert Counter(("dead_lettered", one["task"]) for one in on_record) == Counter(
            {key: count for key, count in expected.items() if key[0] == "dead_lettered"}
        )
        assert [one["origin"] for one in on_record] == [{"queue": "parcels", "reason": "rejected"}] * 2
        daemon.process.kill()
        daemon.process.wait()
        left = lambda: brokers.control_rabbitmq("list_queues", "-p", vhost, "name")  # noqa: E731
        assert wait_until(lambda: "tasktrail." not in left(), 10)
    finally:
        os.killpg(worker, signal.SIGKILL)
        wait_until(lambda: not is_alive(worker), 10)
        daemon.end()
