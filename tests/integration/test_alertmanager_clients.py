"""Alertmanager's own clients on our API v2: the real amtool, and the notifier of a real Prometheus."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import alertmanager, prometheus
from tests.brokers.process import free_port, is_alive, spawn, wait_until
from tests.integration.live import ROOT, Daemon, Hook, died, hook, ndjson

ROUTES = """global: {resolve_timeout: 5s}
route:
  receiver: default
  group_by: [alertname]
  group_wait: 0s
  group_interval: 1s
  routes:
  - matchers: ['severity="page"']
    receiver: pager
receivers:
- name: default
- name: pager
  webhook_configs: [{url: 'URL?secret=hunter2'}]
"""


@pytest.fixture(scope="session")
def amtool() -> str:
    """The real tool."""
    return alertmanager.program("amtool")


@pytest.fixture
def told() -> Iterator[Hook]:
    """A webhook."""
    with hook() as made:
        yield made


@pytest.fixture
def daemon(run: Callable[..., Daemon], told: Hook, tmp_path: Path) -> Daemon:
    """A daemon with a routes file and one dead letter."""
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES.replace("URL", told.url.removeprefix("webhook+")))
    made = run("--routes", str(path))
    assert made.ask("/v1/events", ndjson(died("a", task="pay.settle")))[0] == 200
    made.wait(lambda: "DeadLetter" in names(made), 20, "no alert")
    return made


def names(daemon: Daemon, query: str = "") -> set[str]:
    """The names of what the API lists."""
    return {one["labels"]["alertname"] for one in daemon.json(f"/api/v2/alerts{query}")}


@pytest.fixture
def tool(amtool: str, daemon: Daemon, tmp_path: Path) -> Callable[..., str]:
    """Calls amtool on the daemon; gives what it prints."""

    def call(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [amtool, *arguments, f"--alertmanager.url={daemon.base}"],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return call


def ours(*call: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", *call], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_amtool_looks_silences_and_ends(tool: Callable[..., str], daemon: Daemon) -> None:
    """`amtool alert query` lists and filters; `silence add query update expire import` work on it."""
    assert "DeadLetter" in tool("alert", "query", "task=pay.settle")
    assert "DeadLetter" not in tool("alert", "query", "task!=pay.settle")
    made = tool("silence", "add", "alertname=DeadLetter", "task=~pay.*", "-c", "known", "-a", "me", "-d", "1h").strip()
    assert made in tool("silence", "query", "alertname=DeadLetter")
    assert made not in tool("silence", "query", "alertname=TaskFailing")
    assert "DeadLetter" not in tool("alert", "query")
    assert "DeadLetter" in tool("alert", "query", "--silenced")
    (listed,) = [one for one in daemon.json("/api/v2/alerts") if one["labels"]["alertname"] == "DeadLetter"]
    assert (listed["status"]["state"], listed["status"]["silencedBy"]) == ("suppressed", [made])
    assert made in tool("silence", "update", "-d", "2h", "-c", "longer", made)
    assert daemon.json(f"/api/v2/silence/{made}")["comment"] == "longer"
    exported = tool("silence", "query", "-o", "json")
    tool("silence", "expire", made)
    assert daemon.json(f"/api/v2/silence/{made}")["status"]["state"] == "expired"
    assert "DeadLetter" in tool("alert", "query")
    tool("silence", "import", "--force", stdin=exported)
    assert [one["status"]["state"] for one in daemon.json("/api/v2/silences")] == ["active", "expired"]


def test_amtool_shows_the_configuration(tool: Callable[..., str], daemon: Daemon, amtool: str, tmp_path: Path) -> None:
    """`config show` gives the file without secrets; `config routes` reads it; `check-config` takes the file itself."""
    shown = tool("config", "show")
    assert "receiver: pager" in shown
    assert "hunter2" not in shown
    assert tool("config", "routes", "test", "severity=page").strip() == "pager"
    done = subprocess.run(
        [amtool, "check-config", str(tmp_path / "routes.yaml")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_our_commands_on_the_same_daemon(daemon: Daemon, tool: Callable[..., str], told: Hook) -> None:
    """`alerts`, `silence`, `ack` and `drill` steer it, as tables and as JSON; amtool sees what they did."""
    url = ("--url", daemon.base)
    code, out, _ = ours("alerts", *url, "--json", "task=pay.settle", "alertname=DeadLetter")
    (alert,) = json.loads(out)["alerts"]
    assert (code, alert["alertname"], alert["receivers"]) == (0, "DeadLetter", ["pager"])
    assert "DeadLetter" in ours("alerts", *url)[1]
    code, out, _ = ours("silence", "add", "task=pay.settle", "-c", "known", "-a", "me", *url)
    assert code == 0
    assert out.strip() in tool("silence", "query")
    assert "known" in ours("silence", "list", *url)[1]
    assert ours("silence", "expire", out.strip(), *url)[0] == 0
    assert json.loads(ours("silence", "list", *url, "--json")[1]) == {"silences": []}
    assert ours("silence", "expire", "nobody", *url)[0] == 2
    code, out, _ = ours("ack", alert["fingerprint"], "-c", "on it", "-a", "ann", *url, "--json")
    assert (code, json.loads(out)["acks"][0]["author"]) == (0, "ann")
    assert "acked by ann" in ours("alerts", *url)[1]
    assert "ann" in ours("ack", "--list", *url)[1]
    assert ours("ack", "alertname=Nobody", *url)[0] == 2
    code, out, _ = ours("drill", "alert-path", *url, "--json")
    result = json.loads(out)
    assert (code, result["ok"], [one["receiver"] for one in result["took"]]) == (0, True, ["pager"])
    drilled = [body for _, body in told.got if body["commonLabels"]["alertname"] == "TasktrailDrill"]
    assert "[DRILL]" in drilled[0]["commonAnnotations"]["summary"]
    code, _, err = ours("drill", "alert-path", "severity=info", *url)
    assert (code, "no target" in err) == (1, True)
    code, _, err = ours("alerts", "--url", f"http://127.0.0.1:{free_port()}")
    assert (code, "no daemon answers" in err, "Traceback" in err) == (2, True, False)


RULES = """groups:
- name: g
  interval: 1s
  rules:
  - alert: FromOutside
    expr: vector(1)
    labels: {severity: page}
    annotations: {summary: made elsewhere}
"""


@pytest.mark.slow
def test_a_prometheus_sends_its_alerts(daemon: Daemon, told: Hook, tmp_path: Path) -> None:
    """Alerts of a real Prometheus are listed, routed and told; when it is gone they end after resolve_timeout."""
    program = prometheus.program()
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "prometheus.yml").write_text(
        "global: {evaluation_interval: 1s}\nrule_files: [rules.yml]\nalerting: {alertmanagers: [{static_configs: "
        f"[{{targets: ['127.0.0.1:{daemon.port}']}}]}}]}}\n"
    )
    call = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    call.append("--rules.alert.resend-delay=1s")  # else what is found out before it knows us comes a minute later
    pid = spawn([*call, f"--web.listen-address=127.0.0.1:{free_port()}"], str(tmp_path), detached=False)
    try:
        daemon.wait(lambda: "FromOutside" in names(daemon), 30, "nothing comes from Prometheus")
        sent = lambda state: [one for one in bodies(told) if one["status"] == state]  # noqa: E731
        daemon.wait(lambda: bool(sent("firing")), 20, "nobody is told")
        alert = sent("firing")[0]["alerts"][0]
        assert alert["annotations"]["summary"] == "made elsewhere"
        assert "graph" in alert["generatorURL"]
    finally:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not is_alive(pid), 10)


def bodies(told: Hook) -> list[dict[str, Any]]:
    """What was told of the alert from outside."""
    return [body for _, body in told.got if body["commonLabels"].get("alertname") == "FromOutside"]


def test_an_alert_from_outside_ends_when_nobody_speaks_of_it(daemon: Daemon, told: Hook) -> None:
    """Posted without an end it fires for resolve_timeout and is told as resolved then; what is none is refused."""
    body = json.dumps([{"labels": {"alertname": "FromOutside", "severity": "page"}, "generatorURL": "http://x/"}])
    assert daemon.ask("/api/v2/alerts", body.encode(), "application/json")[0] == 200
    daemon.wait(lambda: [one["status"] for one in bodies(told)] == ["firing"], 10, "nobody is told")
    daemon.wait(lambda: [one["status"] for one in bodies(told)] == ["firing", "resolved"], 20, "it does not end")
    status, answer = daemon.ask("/api/v2/alerts", b'[{"labels": {}}]', "application/json")
    assert (status, json.loads(answer)) == (400, "at least one label pair required")
