"""celery-exporter's own alert rules, their tests and its dashboards, from a checkout outside this repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.live import ROOT, Daemon, daemon, ndjson

CHECKOUT = "TASKTRAIL_TEST_CELERY_EXPORTER"


@pytest.fixture
def mixin() -> Path:
    """The folder of its rules; without a checkout a skip with the reason."""
    folder = os.environ.get(CHECKOUT)
    if not folder:
        pytest.skip(f"{CHECKOUT} names no checkout of celery-exporter")
    return Path(folder) / "celery-mixin"


@pytest.mark.parametrize("call", [("check", "prometheus_alerts.yaml"), ("test", "tests/tests.yaml")])
def test_its_rules_and_tests_hold(mixin: Path, call: tuple[str, str]) -> None:
    """They are understood, and give the verdicts that promtool gives."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "collector", *call]
    done = subprocess.run(command, cwd=mixin, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def died(number: int) -> list[dict[str, Any]]:
    """One task that failed on one of two hosts."""
    at = time.time()
    about = {"task_id": f"id-{number}", "task": "pay.settle", "queue": "payments"}
    on = {**about, "worker": f"celery@box-{number % 2}", "attempt": 1}
    return [
        {"kind": "sent", "time": at, **about},
        {"kind": "received", "time": at, **on},
        {"kind": "started", "time": at, **on},
        {"kind": "failed", "time": at, "error": "ValueError", "run_seconds": 0.5, **on},
    ]


@pytest.fixture
def fed(mixin: Path, tmp_path: Path):
    """A daemon on its rules, with its names on /metrics, that was told of ten failures."""
    config = tmp_path / "tasktrail.yaml"
    config.write_text(f"compat: celery-exporter\nrules: [{mixin / 'prometheus_alerts.yaml'}]\n")
    with daemon(tmp_path, "-c", str(config), "--notify", "log:") as running:
        running.wait_ready()
        status, _ = running.ask("/v1/events", ndjson([event for number in range(10) for event in died(number)]))
        assert status == 200
        yield running


def result(running: Daemon, query: str) -> list[dict[str, Any]]:
    """The result of an instant query."""
    answer = running.json(f"/api/v1/query?query={quote(query)}")
    assert answer["status"] == "success", answer
    return answer["data"]["result"]


def test_its_rules_begin_to_fire_with_the_first_failures(fed: Daemon) -> None:
    """All its rules are healthy in a running daemon; what fails is pending, and what nothing measures is absent."""
    fed.wait(lambda: bool(fed.alerts()), 20, "nothing is pending")
    (alert,) = fed.alerts()
    assert (alert["labels"]["alertname"], alert["state"]) == ("CeleryTaskHighFailRate", "pending")
    assert alert["labels"]["name"] == "pay.settle"
    assert alert["labels"]["job"] == "celery-exporter"
    healthy = lambda: {r["health"] for g in fed.json("/api/v1/rules")["data"]["groups"] for r in g["rules"]}  # noqa: E731
    fed.wait(lambda: healthy() == {"ok"}, 20, "a rule is not healthy")
    assert result(fed, "celery_worker_up") == result(fed, "celery_queue_length") == []


def test_its_series_have_its_labels_and_numbers(fed: Daemon) -> None:
    """Counted by host under its labels, in queries and on /metrics; the wait in the queue is measured."""
    by_host = result(fed, 'sum by (hostname, exception) (celery_task_failed_total{exception!=""})')
    assert {one["metric"]["hostname"]: one["value"][1] for one in by_host} == {"box-0": "5", "box-1": "5"}
    assert {one["metric"]["exception"] for one in by_host} == {"ValueError"}
    (sent,) = result(fed, "celery_task_sent_total")
    assert sent["metric"]["hostname"] == "None"
    assert result(fed, "sum(celery_task_queue_wait_time_count)")[0]["value"][1] == "10"
    shown = {name: rows for name, rows in fed.metrics().items() if name.startswith("celery_")}
    assert sum(value for _, value in shown["celery_task_failed_total"]) == 10
    assert not [name for name in shown if "worker" in name or "queue_length" in name]


def test_every_panel_of_its_dashboards_is_answered(fed: Daemon, mixin: Path) -> None:
    """Whatever its dashboards ask is understood, with their variables as Grafana fills them in."""
    asked = [
        re.sub(r"\$\{?(\w+)\}?", lambda found: VARIABLES.get(found[1], ".*"), target["expr"])
        for path in sorted((mixin / "dashboards_out").glob("*.json"))
        for panel in _panels(json.loads(path.read_text()))
        for target in panel.get("targets", ())
    ]
    assert len(asked) > 20
    answered = [query for query in asked if result(fed, query)]
    assert len(answered) > 10


VARIABLES = {"__rate_interval": "5m", "__range": "1h", "__interval": "1m", "cluster": "", "namespace": ""}


def _panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for panel in board.get("panels", ()) for one in (panel, *_panels(panel))]
