"""A real Dramatiq worker on a real RabbitMQ, seen from outside by firehose and peek."""

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

ENDS = ("succeeded", "dead_lettered")
JOBS = Path(__file__).parents[1] / "frameworks" / "dramatiq_jobs.py"
pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]


@pytest.fixture
def vhost(rabbitmq_url: str) -> Iterator[str]:
    """A virtual host of one's own that is traced; its name."""
    name = f"v{uuid.uuid4().hex[:8]}"
    try:
        brokers.control_rabbitmq("add_vhost", name)
        brokers.control_rabbitmq("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        brokers.control_rabbitmq("trace_on", "-p", name)
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield name
    brokers.control_rabbitmq("delete_vhost", name)


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has Dramatiq."""
    try:
        return venvs.python("dramatiq-rabbitmq", "dramatiq[rabbitmq]==2.2.1")
    except brokers.Unavailable as why:
        pytest.skip(str(why))


def truth(path: Path) -> Counter[tuple[str, str]]:
    """What the tasks logged: how often each fact of each task."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return Counter((line["fact"], line["task"]) for line in lines)


def seen(daemon: Daemon, queue: str) -> Counter[tuple[str, str]]:
    """What the daemon counted, of the facts that can be seen."""
    metrics = daemon.metrics()
    found: Counter[tuple[str, str]] = Counter()
    for fact in ("sent", "retried", "dead_lettered"):
        for labels, value in metrics.get(f"task_{fact}_total", []):
            if value and labels["queue"] == queue:
                found[fact, labels["task"]] += int(value)
    return found


def test_the_truth_of_a_real_run(rabbitmq_url: str, vhost: str, python: str, tmp_path: Path) -> None:
    """What was sent, tried again and died is counted as the tasks themselves logged it, and nothing is taken away."""
    log = tmp_path / "truth"
    url = rabbitmq_url.rstrip("/") + f"/{vhost}"
    environment = {"AMQP_URL": url, "TRUTH": str(log), "PYTHONPATH": str(JOBS.parent)}
    daemon = Daemon(tmp_path, "--source", f"dramatiq+{url}?firehose=true&peek=parcels.XQ").wait_ready()
    work = [python, "-m", "dramatiq", "dramatiq_jobs", "-p", "1", "-t", "2"]
    worker = spawn(work, str(tmp_path), detached=False, environment=environment)
    try:
        subprocess.run([python, str(JOBS)], env={**os.environ, **environment}, check=True, timeout=60)
        ended = lambda: sum(truth(log)[fact, task] for fact, task in truth(log) if fact in ENDS)  # noqa: E731
        daemon.wait(lambda: ended() == 10, 60, "the tasks are not done")
        expected = Counter({key: count for key, count in truth(log).items() if key[0] != "succeeded"})
        daemon.wait(lambda: seen(daemon, "parcels") == expected, 40, "it is not as the tasks logged it")
        assert expected["retried", "ship"] == 4
        retried = next(labels for labels, value in daemon.metrics()["task_retried_total"] if value)
        assert retried["error"] == "ConnectionError"
        lengths = brokers.control_rabbitmq("list_queues", "-p", vhost, "name", "messages").split()
        assert lengths[lengths.index("parcels.XQ") + 1] == "2"
        on_record = daemon.dead_letters()
        assert Counter(("dead_lettered", one["task"]) for one in on_record) == Counter(
            {key: count for key, count in expected.items() if key[0] == "dead_lettered"}
        )
        assert {one["place"] for one in on_record} == {"parcels.XQ"}
        assert {one["origin"]["queue"] for one in on_record} == {"parcels"}
        assert f"rabbitmqctl trace_on -p {vhost}" in daemon.source("dramatiq")["detail"]
    finally:
        os.killpg(worker, signal.SIGKILL)
        wait_until(lambda: not is_alive(worker), 10)
        daemon.end()
