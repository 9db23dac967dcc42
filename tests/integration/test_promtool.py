"""`promtool query ...`, the tool of Prometheus itself, against the running daemon."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.brokers.process import Unavailable
from tests.integration.live import Daemon
from tests.promtool import promtool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def tool() -> str:
    """The tool; without it a skip with the reason."""
    try:
        return promtool()
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def daemon(run: Callable[..., Daemon]) -> Daemon:
    """A daemon that has seen two tasks of each of two names."""
    made = run("--rules", "shipped")
    events = [
        {"kind": kind, "task_id": f"{task}-{number}", "task": task, "queue": "q", "time": time.time()}
        for kind in ("sent", "started", "succeeded")
        for task in ("a", "b")
        for number in range(2)
    ]
    assert made.ask("/v1/events", "\n".join(map(json.dumps, events)).encode())[0] == 200
    query = "/api/v1/query?query=sum(task_succeeded_total)"
    made.wait(lambda: made.json(query)["data"]["result"] != [], 10, "nothing is counted")
    return made


def ask(tool: str, *call: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a call."""
    done = subprocess.run([tool, *call], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_instant(tool: str, daemon: Daemon) -> None:
    """A vector, a matrix, a scalar, and an expression that is none."""
    text = "sum by (task) (increase(task_succeeded_total[5m]))"
    code, out, _ = ask(tool, "query", "instant", "-o", "json", daemon.base, text)
    assert code == 0
    assert {one["metric"]["task"]: one["value"][1] for one in json.loads(out)} == {"a": "2", "b": "2"}
    code, out, _ = ask(tool, "query", "instant", daemon.base, 'task_sent_total{task="a"}[1m]')
    assert (code, out.splitlines()[0]) == (0, 'task_sent_total{queue="q", source="http", task="a"} =>')
    assert ask(tool, "query", "instant", daemon.base, "1 / 0")[1].startswith("scalar: +Inf")
    code, _, said = ask(tool, "query", "instant", daemon.base, "sum(")
    assert (code, said) == (1, 'query error: bad_data: invalid parameter "query": unclosed left parenthesis')


def test_range(tool: str, daemon: Daemon) -> None:
    """A matrix over the last minute; too fine a grid is refused."""
    end = int(time.time()) + 1
    span = ["--start", str(end - 60), "--end", str(end), "--step", "1s"]
    code, out, _ = ask(tool, "query", "range", "-o", "json", *span, daemon.base, "sum(task_started_total)")
    (series,) = json.loads(out)
    assert (code, series["values"][-1]) == (0, [end, "4"])
    span[1] = str(end - 20_000)
    code, _, said = ask(tool, "query", "range", *span, daemon.base, "sum(task_started_total)")
    assert code == 1
    assert "exceeded maximum resolution of 11,000 points" in said


def test_series_and_labels(tool: str, daemon: Daemon) -> None:
    """Label sets by matchers, and the values of a label."""
    code, out, _ = ask(tool, "query", "series", "--match", 'task_sent_total{task=~"a|b"}', daemon.base)
    expected = [f'{{__name__="task_sent_total", queue="q", source="http", task="{task}"}}' for task in ("a", "b")]
    assert (code, out.splitlines()) == (0, expected)
    assert ask(tool, "query", "labels", daemon.base, "task")[:2] == (0, "a\nb")
    code, out, _ = ask(tool, "query", "labels", "--match", "celery_task_sent_total", daemon.base, "name")
    assert (code, out.split()) == (0, ["a", "b"])


def test_check_metrics(tool: str, daemon: Daemon) -> None:
    """What /metrics gives parses, and its lint finds nothing wrong with it."""
    _, text = daemon.ask("/metrics")
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
