"""Real workers of frameworks that keep their tasks in Redis, watched by the real daemon from outside."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests import brokers
from tests.brokers.process import Broker, is_alive, spawn, wait_until
from tests.frameworks import journal, venvs
from tests.integration.live import ROOT, Daemon
from tests.replay.truth import replay_json

pytestmark = pytest.mark.redis
JOBS = Path(journal.__file__).parent
READING = frozenset(
    [
        *("HMGET", "HGETALL", "LRANGE", "ZRANGE", "SSCAN", "GETRANGE", "XRANGE", "XREAD", "XLEN", "XINFO", "XPENDING"),
        *("PTTL", "SCAN", "TIME", "PSUBSCRIBE", "PING", "CLIENT", "CONFIG", "SELECT"),
        # the probe
        *("EXISTS", "GET", "HGET", "HLEN", "HVALS", "LINDEX", "LLEN", "SMEMBERS", "ZCARD", "ZCOUNT"),
    ]
)
PATIENCE = 90.0
"""Seconds: far more than anything here takes, so that a loaded machine is no failure."""
FACTS = ("sent", "started", "succeeded", "retried", "failed")


@pytest.fixture
def server() -> Iterator[Broker]:
    """A Redis of its own."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


class Stage:
    """Workers and producers of one framework on one server."""

    def __init__(self, python: str, jobs: str, url: str, folder: Path, command: list[str]) -> None:
        self.python = python
        self.jobs = jobs
        self.url = url
        self.folder = folder
        self.command = command
        self.journal = str(folder / "journal")
        self.environment = {"JOURNAL": self.journal, "PYTHONPATH": str(JOBS), "SAQ_URL": url, "SAQ_QUEUE": "work"}
        self.environment |= {"JOBS_URL": url, "JOBS_QUEUE": "work", "JOBS_PREFIX": "kept"}
        self.workers: list[int] = []

    def work(self, name: str) -> int:
        """Start a worker."""
        command = [self.python, *(part.format(name=name, url=self.url) for part in self.command)]
        environment = {**self.environment, "WORKER": name}
        self.workers.append(spawn(command, str(self.folder), detached=False, environment=environment))
        return self.workers[-1]

    def produce(self, part: str) -> None:
        """Enqueue a part of the scenario."""
        call = [self.python, "-c", f"import {self.jobs} as jobs; jobs.produce({self.url!r}, 'work', {part!r})"]
        environment = {name: value for name, value in self.environment.items() if name != "SAQ_URL"}
        subprocess.run(call, env={**os.environ, **environment}, check=True, timeout=PATIENCE, capture_output=True)

    def is_mix_over(self, counts: dict[str, dict[str, int]]) -> bool:
        """Whether every job of the mix that can run (one of RQ's cannot) has run to its end."""
        ended = sum(one["succeeded"] + one["failed"] for one in counts.values())
        return sum(one["sent"] for one in counts.values()) <= ended + (self.jobs == "rq_jobs") > 30

    def hanging(self) -> dict[str, int]:
        """What the job that hangs has logged."""
        found = journal.counts(self.journal)
        return next((one for name, one in found.items() if name.endswith("hang")), dict.fromkeys(FACTS, 0))

    def end(self) -> None:
        """End all workers."""
        for pid in self.workers:
            if is_alive(pid):
                os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not any(map(is_alive, self.workers)), 15)
        for pid in filter(is_alive, self.workers):
            os.kill(pid, signal.SIGKILL)


def _python(name: str, requirements: list[str]) -> str:
    """The framework's interpreter; without it a skip, or where CI=true a failure."""
    try:
        return venvs.python(name, *requirements)
    except brokers.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run against real frameworks: {why}", pytrace=False)
        pytest.skip(str(why))


RQ = [
    "-m",
    "rq.cli",
    "worker",
    "--url",
    "{url}",
    "--with-scheduler",
    "-n",
    "{name}",
    "--maintenance-interval",
    "3",
    "work",
]
OTHERS = {
    "arq-0.28.0": ("arq", ["arq==0.28.0"], "arq_jobs", ["-m", "arq", "arq_jobs.WorkerSettings"]),
    "taskiq-0.13.0": (
        "taskiq",
        ["taskiq==0.13.0", "taskiq-redis==1.2.4"],
        "taskiq_jobs",
        ["-m", "taskiq", "worker", "taskiq_jobs:broker", "--workers", "1", "--ack-type", "when_executed"],
    ),
    "streaq-7.2.0": ("streaq", ["streaq==7.2.0"], "streaq_jobs", ["-m", "streaq", "run", "streaq_jobs:worker"]),
}
FRAMEWORKS = {
    "rq-3.0.0": ("rq", ["rq==3.0.0"], "rq_jobs", RQ),
    "rq-2.12.0": ("rq", ["rq==2.12.0"], "rq_jobs", RQ),
    **OTHERS,
    "saq-0.26.4": ("saq", ["saq[redis]==0.26.4", "typing_extensions"], "saq_jobs", ["-m", "saq", "saq_jobs.settings"]),
}


@pytest.fixture(params=[*FRAMEWORKS, "arq-0.28.0+notified", "streaq-7.2.0+notified"])
def stage(request: pytest.FixtureRequest, server: Broker, tmp_path: Path) -> Iterator[tuple[str, Stage]]:
    """One framework's stage, and the scheme that reads it."""
    name, _, notified = request.param.partition("+")
    form, requirements, jobs, command = FRAMEWORKS[name]
    made = Stage(_python(name, requirements), jobs, server.address, tmp_path, command)
    if notified:
        with redis.Redis.from_url(server.address) as client:
            client.config_set("notify-keyspace-events", "KA")
    queues = {"arq": "/work", "taskiq": "/work?prefix=kept"}
    yield f"{form}+{server.address}{queues.get(form, '')}", made
    made.end()


def seen(daemon: Daemon) -> dict[str, dict[str, int]]:
    """What the daemon has counted, as a journal counts it."""
    found: dict[str, dict[str, int]] = {}
    metrics = daemon.metrics()
    for fact in (*FACTS, "duplicate_success"):
        for labels, value in metrics.get(f"task_{fact}_total", ()):
            counts = found.setdefault(labels.get("task", ""), dict.fromkeys(FACTS, 0))
            counts["succeeded" if fact == "duplicate_success" else fact] += int(value)
    return {task: counts for task, counts in found.items() if any(counts.values())}


def watched(client: Any, daemon: Daemon) -> set[str]:
    """The addresses of the daemon's connections."""
    found = {one["addr"] for one in client.client_list() if one["name"] == "tasktrail"}
    assert found, daemon.log
    return found


def spied(client: Any, during: Callable[[], None]) -> list[tuple[str, str]]:
    """Who sent which command meanwhile, by MONITOR."""
    with client.monitor() as monitor:
        during()
        client.echo("the end")
        said = []
        for one in monitor.listen():
            if one["command"] == "ECHO the end":
                return said
            said.append((f"{one['client_address']}:{one['client_port']}", one["command"].split()[0].upper()))
    raise AssertionError


def replayed(tape: Path) -> dict[str, dict[str, int]]:
    """What a replay of a recording counts."""
    tasks = json.loads(replay_json(["--json", str(tape)]))["tasks"]
    for counts in tasks.values():
        counts["succeeded"] += counts["duplicate_success"]
    return {task: {fact: counts[fact] for fact in FACTS} for task, counts in tasks.items()}


def agrees(daemon: Daemon, made: Stage, is_over: Callable[[dict[str, dict[str, int]]], bool]) -> None:
    """Wait until the scenario is over by what the tasks log, and the daemon has counted the same."""
    wait_until(lambda: is_over(journal.counts(made.journal)), PATIENCE)
    wait_until(lambda: seen(daemon) == journal.counts(made.journal), PATIENCE)
    assert is_over(journal.counts(made.journal)), journal.rows(made.journal)
    assert seen(daemon) == journal.counts(made.journal)


def test_the_daemon_has_the_truth(stage: tuple[str, Stage], server: Broker, run: Callable[..., Daemon]) -> None:
    """Successes, retries, exhausted, scheduled and deferred jobs and killed workers are counted as the tasks log them.

    So does a replay of what `record` wrote meanwhile. No command of ours is one that writes, claims or blocks others;
    nothing of ours is left after kill -9.
    """
    url, made = stage
    client = redis.Redis.from_url(server.address, socket_timeout=PATIENCE)
    tasks = made.folder / "tasks.yaml"
    tasks.write_text("tasks:\n- {match: '*', semantics: must_complete, owner: shop}\n")
    daemon = run("--source", url, "--tasks", str(tasks))
    tape = made.folder / "tape.jsonl"
    record = [sys.executable, "-m", "collector", "record", "--source", url, "-o", str(tape)]
    recorder = spawn(record, str(made.folder), detached=False, environment={"PYTHONPATH": str(ROOT)})
    assert wait_until(lambda: sum(one["name"] == "tasktrail" for one in client.client_list()) == 4, PATIENCE), (
        "two each"
    )
    ours: set[str] = set()

    def scenario() -> None:
        first = made.work("w1")
        made.produce("mix")
        agrees(daemon, made, made.is_mix_over)
        made.produce("hang")
        assert wait_until(lambda: made.hanging()["started"] == 1, PATIENCE)
        os.kill(first, signal.SIGKILL)
        made.work("w2")
        if made.jobs == "taskiq_jobs":  # reclaims only when there is something new
            time.sleep(4)
            made.produce("after")
        agrees(daemon, made, lambda _: made.hanging()["failed"] + made.hanging()["succeeded"] > 0)
        ours.update(watched(client, daemon))

    commands = {command for address, command in spied(client, scenario) if address in ours}
    assert commands
    assert commands <= READING
    if made.jobs == "rq_jobs":
        failed = sum(counts["failed"] for counts in journal.counts(made.journal).values())
        on_record = {one["task_id"]: one for one in daemon.dead_letters()}
        assert len(on_record) == failed
        assert {(one["place"], one["owner"]) for one in on_record.values()} == {("rq:failed:work", "shop")}
        assert {name.decode() for name in client.zrange("rq:failed:work", 0, -1)} == set(on_record)
    part = made.folder / "part.jsonl"

    def is_on_tape() -> bool:
        """The recorder polls by itself, and may be behind the daemon."""
        part.write_bytes(tape.read_bytes().rpartition(b"\n")[0] + b"\n")
        return replayed(part) == journal.counts(made.journal)

    wait_until(is_on_tape, PATIENCE)
    os.kill(recorder, signal.SIGINT)
    assert wait_until(lambda: not is_alive(recorder), PATIENCE)
    assert replayed(tape) == journal.counts(made.journal)
    daemon.process.kill()
    daemon.process.wait()
    assert wait_until(lambda: all(one["name"] != "tasktrail" for one in client.client_list()), PATIENCE)
    assert not client.keys("*tasktrail*")
    client.close()


def test_huey_is_told_as_far_as_it_can_be(server: Broker, run: Callable[..., Daemon], tmp_path: Path) -> None:
    """Stored values, errors, retries and revocations are those that the tasks log, though most names are not there.

    What was stored before anybody looked is not told; what cannot be seen is said where the source tells of itself.
    """
    requirements = ["huey==3.5.4", "redis"]
    consumer = ["-m", "huey.bin.huey_consumer", "huey_jobs.huey", "-w", "2", "-s", "1"]
    made = Stage(_python("huey-3.5.4", requirements), "huey_jobs", server.address, tmp_path, consumer)
    client = redis.Redis.from_url(server.address, socket_timeout=PATIENCE)
    client.hset("huey.results.work", "an-old-one", pickle.dumps("fine"))
    daemon = run("--source", f"huey+{server.address}")
    daemon.wait(lambda: "add the Huey hook" in str(daemon.source("huey")), PATIENCE, "nothing is said")

    def scenario() -> None:
        made.work("w1")
        made.produce("mix")
        made.produce("revoked")
        wait_until(lambda: total(seen(daemon)) == total(journal.counts(made.journal)), PATIENCE)

    try:
        scenario()
        assert total(seen(daemon)) == total(journal.counts(made.journal))
        wait_until(lambda: sum(value for _, value in daemon.metrics()["task_revoked_total"]) == 1, PATIENCE)
        assert sum(value for _, value in daemon.metrics()["task_revoked_total"]) == 1
    finally:
        made.end()


def total(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    """Sums over all names."""
    return {fact: sum(one[fact] for one in counts.values()) for fact in FACTS}


def test_dramatiq_is_told_as_far_as_it_can_be(server: Broker, run: Callable[..., Daemon], tmp_path: Path) -> None:
    """What is sent, tried again and given up is what the actors log: all of it waits or runs longer than a poll.

    No command of ours is one that writes, claims or blocks others, and nothing of ours is left.
    """
    worker = ["-m", "dramatiq", "dramatiq_redis_jobs", "--processes", "1", "--threads", "4"]
    python = _python("dramatiq-redis-2.2.1", ["dramatiq[redis]==2.2.1"])
    made = Stage(python, "dramatiq_redis_jobs", server.address, tmp_path, worker)
    client = redis.Redis.from_url(server.address, socket_timeout=PATIENCE)
    daemon = run("--source", f"dramatiq+{server.address}/work")
    daemon.wait(lambda: "add the Dramatiq hook" in str(daemon.source("dramatiq")), PATIENCE, "nothing is said")
    ours: set[str] = set()

    def logged() -> list[tuple[str, str]]:
        return sorted((row["event"], row["task"]) for row in journal.rows(made.journal))

    def told() -> list[tuple[str, str]]:
        found = [
            (fact, labels.get("task", ""), int(value))
            for fact in ("sent", "retried", "dead_lettered")
            for labels, value in daemon.metrics().get(f"task_{fact}_total", ())
        ]
        return sorted((fact, task) for fact, task, count in found for _ in range(count))

    def scenario() -> None:
        made.work("w1")
        made.produce("all")
        wait_until(lambda: sum(event == "dead_lettered" for event, _ in logged()) == 2 and told() == logged(), PATIENCE)
        ours.update(watched(client, daemon))

    try:
        commands = {command for address, command in spied(client, scenario) if address in ours}
        assert sum(event == "dead_lettered" for event, _ in logged()) == 2
        assert told() == logged()
        on_record = daemon.dead_letters()
        assert sorted((one["task"], one["attempts"], one["error"]) for one in on_record) == [
            ("ship", 3, "ConnectionError"),
            ("weigh", 1, ""),
        ]
        assert {(one["place"], one["size"] > 0) for one in on_record} == {("dramatiq:work.XQ.msgs", True)}
        assert commands
        assert commands <= READING
    finally:
        made.end()
    assert not client.keys("*tasktrail*")
    client.close()
