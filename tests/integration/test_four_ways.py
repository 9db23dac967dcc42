"""Four ways, one truth: the same events by Kafka, Redis Streams, HTTP and `replay` give the same counts and alerts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import redis

from collector.channels.webhook import NO_TIME
from tests.brokers.process import wait_until
from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Daemon, Hook, daemon, hook, produce
from tests.truth.generator import Line, Truth, generate

EVENTS = 200_000
PARTITIONS = 4
FOUND = "findings"
"""What the daemon makes of the facts, of which this truth says nothing: tasks of it that are never started, say."""
RULES = """
groups:
  - name: four-ways
    interval: 1s
    rules:
      - alert: Failing
        expr: sum by (task, queue) (increase(task_failed_total[30s])) > {failed}
      - alert: DeadLetters
        expr: sum by (task, queue, source) (dead_letters_open) > {dead}
      - alert: Retrying
        expr: |
          sum by (task) (increase(task_retried_total[30s]))
            / sum by (task) (increase(task_started_total[30s])) > 0.3
        for: 5s
      - alert: Slow
        expr: histogram_quantile(0.95, sum by (le, task) (rate(task_run_seconds_bucket[1m]))) > 10
        for: 3s
        labels: {{severity: warn}}
"""
Episode: TypeAlias = tuple[tuple[tuple[str, str], ...], str, str]
"""Labels but `source`, start, end; times as the webhook writes them, "" for none."""


@dataclass(frozen=True)
class Events:
    """The events, their truth, and what a replay of them gives."""

    folder: Path
    lines: list[Line]
    truth: Truth
    replayed: dict[str, Any]

    @property
    def episodes(self) -> Counter[Episode]:
        """The alerts of the replay."""
        return Counter(
            (_labels(one["labels"]), _at(one["fired_at"]), _at(one["resolved_at"])) for one in self.replayed["alerts"]
        )


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """Generated once, replayed once."""
    folder = tmp_path_factory.mktemp("four-ways")
    lines, truth = generate(seed=2, events=EVENTS)
    path = folder / "events.ndjson"
    path.write_bytes(b"".join(line.body + b"\n" for line in lines))
    (folder / "rules.yaml").write_text(RULES.format(failed=EVENTS // 60_000, dead=EVENTS // 40_000))
    call = [
        sys.executable,
        "-m",
        "collector",
        "replay",
        path.name,
        "--rules",
        "rules.yaml",
        "--until",
        "+10m",
        "--json",
    ]
    done = subprocess.run(call, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    return Events(folder, lines, truth, json.loads(done.stdout))


def test_replay_gives_the_truth(events: Events) -> None:
    """A replay counts exactly what the generator says, per task and kind, and has alerts of every rule to compare."""
    truth = events.truth
    assert events.replayed["events"] == {
        "read": truth.read,
        "accepted": truth.accepted,
        "duplicate": truth.duplicate,
        "malformed": truth.malformed,
        "ignored": 0,
    }
    counted = {
        task: {kind: count for kind, count in kinds.items() if count and kind != FOUND}
        for task, kinds in events.replayed["tasks"].items()
    }
    assert _differing(counted, truth.tasks) == {}
    assert {one["alertname"] for one in events.replayed["alerts"]} == {"Failing", "DeadLetters", "Retrying", "Slow"}


@pytest.fixture(scope="module")
def ways(events: Events, request: pytest.FixtureRequest) -> Iterator[dict[str, Way]]:
    """A daemon for each way, all at work at the same time. A way whose broker is not there is left out."""
    started: dict[str, Way] = {}
    with ExitStack() as stack:
        for name, (broker, begin) in WAYS.items():
            try:
                address = request.getfixturevalue(broker) if broker else ""
            except pytest.skip.Exception:
                continue  # its test says so itself
            started[name] = begin(Way(events, stack), address)
        yield started


class Way:
    """One daemon that reads the events in one way."""

    def __init__(self, events: Events, stack: ExitStack) -> None:
        self.events = events
        self.hook = stack.enter_context(hook())
        self._stack = stack

    def start(self, url: str) -> Daemon:
        """A daemon with one source."""
        folder = self.events.folder
        config = folder / f"{uuid.uuid4().hex}.yaml"
        # The events are years old, and at their end time goes on to now: nothing may be forgotten on the way.
        config.write_text(f"sources:\n  - {{url: '{url}', clock: event}}\nbounds: {{series_idle: 20y}}\n")
        arguments = ("-c", config.name, "--rules", "rules.yaml", "--notify", self.hook.url)
        self.daemon = self._stack.enter_context(daemon(folder, *arguments))
        return self.daemon


def _by_kafka(way: Way, bootstrap: str) -> Way:
    """Four partitions by task id, filled before they are read, so that they are read in whatever order they come."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(bootstrap, topic, PARTITIONS))
    records = [(line.body, zlib.crc32(line.key.encode()) % PARTITIONS) for line in way.events.lines]
    asyncio.run(produce(bootstrap, topic, records))
    way.start(f"kafka://{bootstrap}/{topic}")
    return way


def _by_redis(way: Way, url: str) -> Way:
    """One stream, filled before it is read: of one that is read to its end nothing old is expected any more."""
    stream = f"s{uuid.uuid4().hex[:12]}"
    with redis.Redis.from_url(url) as client:
        for start in range(0, len(way.events.lines), 5_000):
            pipe = client.pipeline(transaction=False)
            for line in way.events.lines[start : start + 5_000]:
                pipe.xadd(stream, {"data": line.body})
            pipe.execute()
    way.start(f"{url.replace('redis://', 'redis-stream://')}/{stream}")
    return way


def _by_http(way: Way, _: str) -> Way:
    """Pushes one after the other, of lines that are not all UTF-8 or JSON."""
    running = way.start("http://127.0.0.1:9810/v1/events")
    for start in range(0, len(way.events.lines), 2_000):
        body = b"\n".join(line.body for line in way.events.lines[start : start + 2_000])
        status, answer = running.ask("/v1/events", body)
        assert status == 200, answer
    return way


# name of the source → the fixture of its broker, and how the events get to the daemon
WAYS: dict[str, tuple[str, Callable[[Way, str], Way]]] = {
    "kafka": ("kafka", _by_kafka),
    "redis-stream": ("redis_url", _by_redis),
    "http": ("", _by_http),
}


@pytest.mark.kafka
def test_kafka_gives_the_truth(kafka: str, ways: dict[str, Way]) -> None:
    """Four partitions give the counts of the truth and the alerts of the replay, whatever order they are read in."""
    _holds(ways["kafka"], "kafka")


@pytest.mark.redis
def test_redis_gives_the_truth(redis_url: str, ways: dict[str, Way]) -> None:
    """A stream gives the counts of the truth and the alerts of the replay."""
    _holds(ways["redis-stream"], "redis-stream")


def test_http_gives_the_truth(ways: dict[str, Way]) -> None:
    """Pushes give the counts of the truth and the alerts of the replay: time stands between them."""
    _holds(ways["http"], "http")


def _holds(way: Way, scheme: str) -> None:
    """Wait for the end of the events, then compare everything."""
    events, running = way.events, way.daemon
    running.wait(lambda: running.source(scheme)["events"]["read"] >= events.truth.read, 120, "not all was read")
    # A source that was idle for the grace has nothing older to say: what still fires then ends in its own time.
    wait_until(lambda: _episodes(way.hook) == events.episodes, 240)
    assert running.source(scheme)["events"] == events.replayed["events"]
    assert _rejected(running) == events.truth.reasons
    assert _differing(_series(running), events.truth.series) == {}
    missing, extra = events.episodes - _episodes(way.hook), _episodes(way.hook) - events.episodes
    assert not missing, f"missing {_shown(missing)}; instead {_shown(extra)}"
    assert not extra, f"not in the replay: {_shown(extra)}"


def _differing(got: dict[Any, Any], want: dict[Any, Any]) -> dict[Any, Any]:
    return {key: (got.get(key), want.get(key)) for key in got.keys() | want.keys() if got.get(key) != want.get(key)}


def _episodes(hook: Hook) -> Counter[Episode]:
    """The alerts of all messages, each with the end that was told last."""
    ends: dict[tuple[tuple[tuple[str, str], ...], str], str] = {}
    for alert in hook.alerts:
        ends[_labels(alert["labels"]), alert["startsAt"]] = alert["endsAt"].replace(NO_TIME, "")
    return Counter((labels, start, end) for (labels, start), end in ends.items())


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "source"))


def _at(at: float | None) -> str:
    return (
        "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _shown(episodes: Counter[Episode]) -> str:
    lines = sorted(f"{start} to {end} {dict(labels)}" for labels, start, end in episodes)
    return f"{len(lines)}: " + "; ".join(lines[:5])


def _rejected(daemon: Daemon) -> dict[str, int]:
    return {labels["reason"]: int(count) for labels, count in daemon.metrics()["tasktrail_rejected_total"]}


def _series(daemon: Daemon) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for name, samples in daemon.metrics().items():
        if not name.startswith("task_") or not name.endswith("_total") or name == f"task_{FOUND}_total":
            continue
        for labels, value in samples:
            if value:
                counts = found.setdefault((labels["task"], labels["queue"]), Counter())
                counts[name.removeprefix("task_").removesuffix("_total")] += int(value)
    return {names: dict(counts) for names, counts in found.items()}
