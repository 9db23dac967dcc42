"""Four ways, one truth: the same events through Kafka, Redis Streams, HTTP and `replay` give the same counts and alerts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import redis

from tests.brokers.process import wait_until
from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Daemon, Hook, produce
from tests.truth.generator import Line, Truth, generate

EVENTS = int(__import__("os").environ.get("EV", "200000"))
PARTITIONS = 4
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
        expr: sum by (task) (increase(task_retried_total[30s])) / sum by (task) (increase(task_started_total[30s])) > 0.3
        for: 5s
      - alert: Slow
        expr: histogram_quantile(0.95, sum by (le, task) (rate(task_run_seconds_bucket[1m]))) > 10
        for: 3s
        labels: {{severity: warn}}
"""
Episode: TypeAlias = tuple[tuple[tuple[str, str], ...], str, str]
"""Labels but `source`, start, end; times as the webhook writes them, "" for none."""
Run: TypeAlias = Callable[..., Daemon]


@dataclass(frozen=True)
class Told:
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
def events(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Generated once, replayed once."""
    folder = tmp_path_factory.mktemp("four-ways")
    lines, truth = generate(seed=2, events=EVENTS)
    path = folder / "events.ndjson"
    path.write_bytes(b"".join(line.body + b"\n" for line in lines))
    (folder / "rules.yaml").write_text(RULES.format(failed=EVENTS // 60_000, dead=EVENTS // 40_000))
    call = [sys.executable, "-m", "collector", "replay", path.name, "--rules", "rules.yaml", "--until", "+10m", "--json"]
    done = subprocess.run(call, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    return Told(folder, lines, truth, json.loads(done.stdout))


def test_replay_gives_the_truth(events: Told) -> None:
    """A replay counts exactly what the generator says, per task and kind, and has alerts of every rule to compare."""
    truth = events.truth
    assert events.replayed["events"] == {
        "read": truth.read,
        "accepted": truth.accepted,
        "duplicate": truth.duplicate,
        "malformed": truth.malformed,
        "ignored": 0,
    }
    counted = {task: {kind: count for kind, count in kinds.items() if count} for task, kinds in events.replayed["tasks"].items()}
    assert counted == truth.tasks
    assert {one["alertname"] for one in events.replayed["alerts"]} == {"Failing", "DeadLetters", "Retrying", "Slow"}


@pytest.mark.kafka
def test_kafka_gives_the_truth(events: Told, run: Run, told: Hook, kafka: str) -> None:
    """Four partitions by task id, read in whatever order they come, give the truth and the replay's alerts."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(kafka, topic, PARTITIONS))
    records = [(line.body, zlib.crc32(line.key.encode()) % PARTITIONS) for line in events.lines]
    asyncio.run(produce(kafka, topic, records))
    daemon = _daemon(events, run, told, f"kafka://{kafka}/{topic}")
    _holds(events, daemon, told, "kafka")


@pytest.mark.redis
def test_redis_gives_the_truth(events: Told, run: Run, told: Hook, redis_url: str) -> None:
    """One stream gives the counts of the truth and the alerts of the replay."""
    stream = f"s{uuid.uuid4().hex[:12]}"
    with redis.Redis.from_url(redis_url) as client:
        for start in range(0, len(events.lines), 5_000):
            pipe = client.pipeline(transaction=False)
            for line in events.lines[start : start + 5_000]:
                pipe.xadd(stream, {"data": line.body})
            pipe.execute()
    url = redis_url.replace("redis://", "redis-stream://")
    daemon = _daemon(events, run, told, f"{url}/{stream}")
    _holds(events, daemon, told, "redis-stream")


def test_http_gives_the_truth(events: Told, run: Run, told: Hook) -> None:
    """Batches pushed over HTTP give the counts of the truth and the alerts of the replay; time stands between them."""
    daemon = _daemon(events, run, told, "http://127.0.0.1:9810/v1/events")
    total: Counter[str] = Counter()
    for start in range(0, len(events.lines), 2_000):
        # Some lines are no UTF-8, no JSON, or nested deeply: NDJSON carries them all.
        body = b"\n".join(line.body for line in events.lines[start : start + 2_000])
        status, answer = daemon.ask("/v1/events", body)
        assert status == 200
        total.update(json.loads(answer))
    assert total["read"] == events.truth.read
    _holds(events, daemon, told, "http")


def _daemon(events: Told, run: Run, hook: Hook, url: str) -> Daemon:
    config = events.folder / f"{uuid.uuid4().hex}.yaml"
    # The events are years old, and at their end time goes on to now: nothing may be forgotten on the way.
    config.write_text(f"sources:\n  - {{url: '{url}', clock: event}}\nbounds: {{series_idle: 20y}}\n")
    return run("-c", str(config), "--rules", str(events.folder / "rules.yaml"), "--notify", hook.url)


def _holds(events: Told, daemon: Daemon, hook: Hook, scheme: str) -> None:
    """Wait for the end of the events, then compare everything."""
    daemon.wait(lambda: daemon.source(scheme)["events"]["read"] >= events.truth.read, 120, "not all events were read")
    # A source that was idle for the grace has nothing older to say: what still fires then ends in its own time.
    wait_until(lambda: _episodes(hook) == events.episodes, 60)
    assert daemon.source(scheme)["events"] == events.replayed["events"]
    assert _rejected(daemon) == events.truth.reasons
    assert _series(daemon) == events.truth.series
    missing, extra = events.episodes - _episodes(hook), _episodes(hook) - events.episodes
    assert not missing and not extra, f"missing {_shown(missing)}, not in the replay {_shown(extra)}\n{daemon.log[-3000:]}"


def _episodes(hook: Hook) -> Counter[Episode]:
    """The alerts of all messages, each with the end that was told last."""
    ends: dict[tuple[tuple[tuple[str, str], ...], str], str] = {}
    for alert in hook.alerts:
        ends[_labels(alert["labels"]), alert["startsAt"]] = "" if alert["endsAt"].startswith("0001") else alert["endsAt"]
    return Counter((labels, start, end) for (labels, start), end in ends.items())


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "source"))


def _at(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(episodes: Counter[Episode]) -> str:
    lines = sorted(f"{start} to {end} {dict(labels)}" for labels, start, end in episodes)
    return f"{len(lines)}: " + "; ".join(lines[:5])


def _rejected(daemon: Daemon) -> dict[str, int]:
    return {labels["reason"]: int(count) for labels, count in daemon.metrics()["tasktrail_rejected_total"]}


def _series(daemon: Daemon) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for name, samples in daemon.metrics().items():
        if not name.startswith("task_") or not name.endswith("_total"):
            continue
        for labels, value in samples:
            if value:
                counts = found.setdefault((labels["task"], labels["queue"]), Counter())
                counts[name.removeprefix("task_").removesuffix("_total")] += int(value)
    return {names: dict(counts) for names, counts in found.items()}
