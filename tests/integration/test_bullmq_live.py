"""Real BullMQ against the daemon: what the processors themselves said is what it counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.brokers import Unavailable
from tests.frameworks.bullmq import Bullmq, bullmq
from tests.integration.live import ROOT, Daemon
from tests.replay.truth import replay_json

pytestmark = [pytest.mark.redis, pytest.mark.slow]
KEPT = {"removeOnComplete": True}
READ_ONLY = {"auth", "client", "select", "time", "xinfo", "xread", "hmget", "hexists", "scan"}


@pytest.fixture
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bullmq]:
    """Two queues with telemetry; parameter: their prefix."""
    try:
        with bullmq(tmp_path, "mail", "render", prefix=getattr(request, "param", "bull"), otel=True) as running:
            yield running
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(str(why), pytrace=False)
        pytest.skip(str(why))


@contextmanager
def recording(url: str, path: Path) -> Iterator[None]:
    """`tasktrail record` of a source; ended at the end."""
    call = [sys.executable, "-m", "collector", "record", "--source", url, "-o", str(path)]
    process = subprocess.Popen(
        call, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def ordinary() -> list[dict[str, Any]]:
    """Jobs of every kind that end by themselves."""
    flaky = {"kind": "flaky", "fails": 2}
    return [
        {"add": "send", "times": 3},
        {"add": "retrying", "data": flaky, "opts": {"attempts": 4, "backoff": {"type": "fixed", "delay": 150}}},
        {"add": "retrying", "data": {"kind": "flaky", "fails": 9}, "opts": {"attempts": 2}},
        {"add": "crash", "data": {"kind": "explode"}},
        {"add": "fatal", "data": {"kind": "fatal"}, "opts": {"attempts": 5}},
        {"add": "send", "opts": {"delay": 300}},
        {"add": "send", "opts": {"priority": 5}},
        {"add": "later", "data": {"kind": "later"}},
        {"add": "send", "opts": KEPT},
        {"add": "send", "opts": {"delay": 60_000, "jobId": "gone"}},
        {"remove": "gone"},
        {"add": "daily", "opts": {"jobId": "report-today", **KEPT}, "queue": "render"},
        {"sleep": 700},
        {"add": "daily", "opts": {"jobId": "report-today", **KEPT}, "queue": "render"},
    ]


def child(kind: str, **opts: Any) -> dict[str, Any]:
    """A child of a flow."""
    return {"name": "part", "queueName": "render", "data": {"kind": kind, "ms": 50}, "opts": opts}


def flows() -> list[dict[str, Any]]:
    """A parent that fails because a child does, and never runs; and one that runs after its children."""
    broken = [child("explode", failParentOnFailure=True), child("")]
    return [
        {"flow": {"name": "order", "queueName": "mail", "children": broken}},
        {"flow": {"name": "order", "queueName": "mail", "data": {"kind": "parent"}, "children": [child("nap")]}},
    ]


def seen(truth: Counter[str]) -> dict[str, int]:
    """What is to be counted of a task of which this is true."""
    return {
        "sent": truth["publish"],
        "started": truth["start"],
        "succeeded": truth["end"],
        "retried": truth["retried"],
        "requeued": truth["moved"],
        "revoked": truth["removed"],
    }


def over(daemon: Daemon) -> int:
    """How many lives of jobs have ended, as the daemon counts them."""
    metrics = daemon.metrics()
    ends = ("succeeded", "failed", "revoked")
    return int(sum(value for word in ends for _, value in metrics.get(f"task_{word}_total", [])))


def of_trail(trail: dict[str, Any]) -> dict[str, int]:
    """The same numbers of a trail."""
    return {kind: trail[kind] for kind in seen(Counter())}


@pytest.mark.case("K13.1")
def test_the_truth_of_the_processors(queues: Bullmq, tmp_path: Path, run: Callable[..., Daemon]) -> None:
    """Every job's counts are what its processor logged: retries, moves, stalls, flows, ids used again."""
    url = queues.url.replace("redis://", "bullmq+redis://")
    daemon = run("--source", url)
    capture = tmp_path / "capture.jsonl"
    with recording(url, capture):
        queues.worker("w1")
        queues.produce({"add": "hang", "data": {"kind": "hang"}}, {"add": "hang", "data": {"kind": "hang", "until": 5}})
        queues.wait(2, "start")
        queues.kill("w1")
        queues.worker("w2")
        queues.produce(*ordinary(), *flows())
        queues.wait(4, "start", name="hang")
        queues.kill("w2")
        queues.worker("w3")
        queues.wait(1, "end", name="later")
        queues.wait(2, "end", name="daily")
        truth = queues.truth()
        names = {row["id"]: row["name"] for row in queues.rows() if row["ev"] == "publish"}
        total = len(truth)
        daemon.wait(lambda: over(daemon) == total + 1, 20.0, "not all are over")  # the daily report has two lives
    truth = queues.truth()
    replayed = json.loads(replay_json(["--trails", "--json", str(capture)]))
    assert {task_id: of_trail(trail) for task_id, trail in replayed["trails"].items()} == {
        task_id: seen(one) for task_id, one in truth.items()
    }
    told = next(row for row in queues.rows() if row["ev"] == "publish" and row["name"] == "later")
    (start,) = [row for row in queues.rows() if row["ev"] == "end" and row["id"] == told["id"]]
    seen_one = json.loads(replay_json(["--json", "--task", told["id"], str(capture)]))["task"]
    assert seen_one["trace_id"] == told["trace"].split("-")[1]
    assert {attempt["worker"] for attempt in seen_one["attempts"]} == {start["worker"]}
    by_name: dict[str, Counter[str]] = {}
    for task_id, one in truth.items():
        by_name.setdefault(names[task_id], Counter()).update(seen(one))
    for word in seen(Counter()):
        counted: Counter[str] = Counter()
        for labels, value in daemon.metrics()[f"task_{word}_total"]:
            counted[labels["task"]] += int(value)
        assert +counted == +Counter({name: one[word] for name, one in by_name.items()}), word
    assert failures(daemon) == {
        ("retrying", "RangeError"): 1,
        ("crash", "TypeError"): 1,
        ("part", "TypeError"): 1,
        ("fatal", "UnrecoverableError"): 1,
        ("hang", "UnrecoverableError"): 1,  # it stalled too often
        ("order", "UnrecoverableError"): 1,  # a child of it failed
    }


def failures(daemon: Daemon) -> Counter[tuple[str, str]]:
    """Final failures by task and error class."""
    counted = daemon.metrics().get("task_failed_total", [])
    return +Counter({(labels["task"], labels["error"]): int(value) for labels, value in counted})


def ours(client: redis.Redis) -> list[dict[str, Any]]:
    """The daemon's connections."""
    return [one for one in client.client_list() if one["name"] == "tasktrail"]


def lasting(client: redis.Redis) -> set[bytes]:
    """All keys but those that workers set and drop every half second."""
    return {key for key in client.scan_iter() if not key.endswith((b":stalled-check", b":stalled"))}


@pytest.mark.case("K06.2")
@pytest.mark.parametrize("queues", ["{a:b}"], indirect=True)
def test_it_only_reads_and_leaves_nothing(queues: Bullmq, run: Callable[..., Daemon]) -> None:
    """The daemon only reads; cut off it goes on where it was; after kill -9 nothing of it is left."""
    client = redis.Redis.from_url(queues.url)
    queues.worker("w1")
    jobs = [{"add": "send", "times": 5}, {"add": "crash", "data": {"kind": "explode"}}]
    with client.monitor() as monitor:
        daemon = run("--source", queues.url.replace("redis://", "bullmq+redis://"))
        (first,) = ours(client)
        queues.produce(*jobs)
        daemon.wait(lambda: over(daemon) == 6, 20.0, "not all are over")
        client.client_kill_filter(_id=first["id"])
        queues.produce(*jobs)
        daemon.wait(lambda: over(daemon) == 12, 20.0, "not all are over")
        (second,) = ours(client)
        assert failures(daemon) == {("crash", "TypeError"): 2}
        keys = lasting(client)
        daemon.stop(signal.SIGKILL)
        client.echo("done")
        addresses = {first["addr"], second["addr"]}
        said = []
        for command in monitor.listen():
            if command["command"].startswith("ECHO"):
                break
            if f"{command['client_address']}:{command['client_port']}" in addresses:
                said.append(command["command"].split()[0].lower())
    assert {"xread", "hmget"} <= set(said) <= READ_ONLY
    assert not ours(client)
    assert keys == lasting(client)
    again = run("--source", queues.url.replace("redis://", "bullmq+redis://") + "/mail,nobody?prefix=%7Ba:b%7D")
    again.wait(lambda: over(again) == 12, 20.0, "a new one does not count the same")
    assert "queue {a:b}:nobody is invisible" in again.source("bullmq+redis")["detail"]
    client.close()
