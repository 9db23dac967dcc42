"""A routes file in the running daemon: webhooks of its receivers, and how both sides are told what is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.live import ROOT, Daemon, Hook, died, hook, ndjson

ROUTES = """route:
  receiver: default
  group_by: [alertname, task]
  group_wait: 0s
  routes:
  - matchers: ['alertname="DeadLetter"']
    receiver: pager
    continue: true
  - matchers: ['alertname="DeadLetter"']
    receiver: "null"
receivers:
- name: default
- name: "null"
- name: pager
  webhook_configs:
  - url: '{url}'
    http_config: {{authorization: {{credentials: hunter2}}}}
inhibit_rules:
- source_matchers: ['alertname="DeadLetter"']
  target_matchers: ['alertname="TaskFailing"']
  equal: [task]
"""


def test_a_receiver_of_the_file_is_told(run: Callable[..., Daemon], told: Hook, tmp_path: Path) -> None:
    """Alerts go where the file sends them, as Alertmanager's JSON; `--notify` targets hear what the default hears."""
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES.format(url=told.url.removeprefix("webhook+")))
    with hook() as default:
        daemon = run("--routes", str(path), "--notify", default.url, "--state", "none")
        assert daemon.ask("/v1/events", ndjson(died("a", task="pay.settle")))[0] == 200
        daemon.wait(lambda: bool(told.got), 20, "nobody is told")
        daemon.wait(lambda: len(daemon.firing("TaskFailing")) == 1, 20, "the other rule does not fire")
        (body,) = [body for _, body in told.got]
        assert (body["receiver"], body["status"], body["version"]) == ("pager", "firing", "4")
        assert body["groupLabels"] == {"alertname": "DeadLetter", "task": "pay.settle"}
        assert body["groupKey"] == ('{}/{alertname="DeadLetter"}:{alertname="DeadLetter", task="pay.settle"}')
        assert [alert["labels"]["alertname"] for alert in default.alerts] == []  # inhibited, or sent elsewhere
        assert "hunter2" not in daemon.log


def test_what_cannot_be_used_is_refused_at_start(tmp_path: Path) -> None:
    """Every problem of the file, and every target that is not served, is said with its place; exit code 2."""
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES.format(url="x").replace("receiver: pager", "receiver: pagr"))
    call = [sys.executable, "-m", "collector", "run", "--listen", "127.0.0.1:0", "--routes", str(path)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert f"{path}:7:15: unknown receiver `pagr`: did you mean `pager`?" in done.stderr
    assert f"{path}:16:10: this is not an http or https URL" in done.stderr
    path.write_text(ROUTES.format(url="http://h/").replace("webhook_configs:\n  - url: 'http://h/'", "jira_configs:\n"
        "  - {project: P, issue_type: B, api_url: 'http://h/'}\n  webhook_configs:\n  - url: 'http://h/'"))  # fmt: skip
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, f"{path}:16:5: `jira_configs` is not served" in done.stderr) == (2, True)


def test_a_file_whose_receivers_tell_nobody(run: Callable[..., Daemon], tmp_path: Path) -> None:
    """Start-up says that nothing will be sent, and what the file asks for and does not get."""
    path = tmp_path / "routes.yaml"
    path.write_text("route: {receiver: none}\nreceivers: [{name: none}]\ntracing: {endpoint: x}\n")
    daemon = run("--routes", str(path), "--state", "none")
    assert "no receiver has a target" in daemon.log
    assert f"{path}:3:1: `tracing` is not done" in daemon.log
