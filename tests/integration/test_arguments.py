"""What tasks were called with leaves a daemon only where its configuration says so, and never with a secret in it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.integration.live import ROOT, Daemon, Hook, hook

pytestmark = pytest.mark.redis

RULES = """
groups:
- name: g
  interval: 1s
  rules: [{alert: Failing, expr: 'increase(task_failed_total[5m]) > 0', labels: {severity: page, owner: me}}]
"""
CONFIG = "show_arguments: {shown}\nlog: {{level: debug}}\nrules: [rules.yaml]\nnotify: ['{target}']\n"
PAGES = (
    "/", "/metrics", "/api/tasks", "/api/tasks/{id}", "/api/sources", "/api/v1/alerts", "/api/v1/rules",
    "/api/v2/alerts", "/api/v2/alerts/groups", "/api/coverage", "/api/dead-letters",
)  # fmt: skip
CALL = {"args": "('zebra-71', 5)", "kwargs": "{'password': 'hunter2', 'n': 1}"}


@pytest.fixture
def second() -> Iterator[Hook]:
    """Another webhook target."""
    with hook() as target:
        yield target


def publish(client: redis.Redis, prefix: str, task_id: str) -> None:
    """The events of one task that fails, as a worker of Celery's sends them."""
    named = {"name": "shop.pay", "queue": "q", **CALL}
    events = [
        {"type": kind, "uuid": task_id, "hostname": "w1@here", "timestamp": time.time(), **more}
        for kind, more in (
            ("task-sent", named),
            ("task-received", named),
            ("task-started", {}),
            ("task-failed", {"exception": "KeyError('x')"}),
        )
    ]
    body = base64.b64encode(json.dumps(events).encode()).decode()
    message = json.dumps({"body": body, "properties": {"body_encoding": "base64"}})
    client.publish(f"{prefix}/0.celeryev/task.multi", message)


def everything(daemon: Daemon, target: Hook, task_id: str) -> str:
    """All that a daemon lets out: its log, its pages, its messages."""
    pages = [daemon.ask(page.format(id=task_id))[1].decode() for page in PAGES]
    return "\n".join([daemon.log, *pages, json.dumps([body for _, body in target.got])])


@pytest.mark.case("K11.1")
def test_hidden_unless_allowed(
    run: Callable[..., Daemon], told: Hook, second: Hook, redis_url: str, tmp_path: Path
) -> None:
    """Off: nothing of them is anywhere. On: the task and the message have them, with stars for what is secret."""
    prefix, task_id = f"p{uuid.uuid4().hex[:8]}:", uuid.uuid4().hex
    (tmp_path / "rules.yaml").write_text(RULES)
    source = f"celery+{redis_url}?global_keyprefix={prefix}"
    daemons = []
    for shown, target in ((False, told), (True, second)):
        path = tmp_path / f"{shown}.yaml"
        path.write_text(CONFIG.format(shown=str(shown).lower(), target=target.url))
        state = tmp_path / f"state-{shown}"
        state.mkdir()
        daemons.append(run("-c", str(path), "--source", source, "--state", str(state)))
    for daemon in daemons:
        daemon.wait(lambda one=daemon: one.source("celery+redis")["up"], 60, "the source is not up")
    with redis.Redis.from_url(redis_url) as client:
        publish(client, prefix, task_id)
    for daemon, target in zip(daemons, (told, second), strict=True):
        daemon.wait(lambda one=target: bool(one.alerts), 60, "nobody was told")
    hidden, shown = (everything(one, target, task_id) for one, target in zip(daemons, (told, second), strict=True))
    assert task_id in json.dumps(told.got)
    assert "zebra" not in hidden
    call = "('zebra-71', 5) {'password': ***, 'n': 1}"
    assert call in json.dumps(second.got)
    assert daemons[1].json(f"/api/tasks/{task_id}")["arguments"] == call
    told_of = [sys.executable, "-m", "collector", "task", task_id, "--url", daemons[1].base]
    story = subprocess.run(told_of, cwd=ROOT, capture_output=True, text=True, timeout=90, check=True).stdout
    assert f"called with {call}" in story
    assert "hunter2" not in hidden + shown
    for daemon in daemons:
        daemon.stop()
    for path in (tmp_path / "state-False").rglob("*"):
        assert path.is_dir() or b"zebra" not in path.read_bytes(), "it is on the disk"
