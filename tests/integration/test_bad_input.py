"""Bad input, by every way in: counted by reason and place, secrets masked, and the next good event counts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from collector import app
from collector.config.settings import Settings
from collector.model.event import Event
from collector.model.secret import Secret
from collector.trail.stitcher import Stitcher
from tests.brokers.process import free_port
from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Daemon, Hook, died, ndjson, produce
from tests.truth import malformed

Run = Callable[..., Daemon]
SECRET = "hunter2-5up3r"
GOOD = {"kind": "started", "task_id": "good", "task": "pay.settle", "queue": "q", "attempt": 1}
HUGE = b'{"kind":"started","task_id":"huge","error_message":"' + b"x" * 50_000_000 + b'"}'
TOLD = b'{"kind":"exploded","task_id":"told","password":"' + SECRET.encode() + b'"}'


def bad(*, lines: bool) -> list[tuple[bytes, str]]:
    """Bodies and their reasons; `lines`: only those that one line can hold."""
    sample: dict[str, object] = {**GOOD, "task_id": "bad", "time": time.time()}
    listed = [(write(sample), reason) for _, write, reason in malformed.KINDS]
    whole = [(b"", "empty"), (b"  \n ", "empty")]
    return [*listed, (TOLD, "unknown_kind"), *([] if lines else whole)]


def holds(daemon: Daemon, scheme: str, expected: list[str], position: Callable[[str, str], bool]) -> None:
    """Every reason is counted, every record has its place, the good events count, and no secret is shown."""
    daemon.wait(lambda: daemon.source(scheme)["events"]["accepted"] >= 2, 30, "the good events are not counted")
    source = daemon.source(scheme)
    assert source["events"]["malformed"] == len(expected)
    assert source["events"]["read"] == len(expected) + source["events"]["accepted"]
    counted = {labels["reason"]: count for labels, count in daemon.metrics()["tasktrail_rejected_total"]}
    assert counted == Counter(expected)
    kept = source["rejected"]
    assert {one["reason"] for one in kept} <= set(expected)
    assert all(position(one["place"], one["receipt"]) for one in kept), kept
    assert all(len(one["first_bytes"]) <= 200 for one in kept)
    assert any("exploded" in one["first_bytes"] for one in kept)
    everything = daemon.log.encode() + daemon.ask("/api/sources")[1] + daemon.ask("/metrics")[1]
    assert SECRET.encode() not in everything
    assert "Traceback" not in daemon.log


@pytest.mark.case("K24.1")
@pytest.mark.kafka
def test_over_kafka(run: Run, kafka: str) -> None:
    """Kafka records of any content, a tombstone and one of 50 MB among them."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(kafka, topic, 1, max_message_bytes="60000000"))
    bodies = [*bad(lines=False), (HUGE, "too_large"), (None, "empty")]
    records = [body for body, _ in bodies]
    good = [json.dumps({**GOOD, "task_id": name}).encode() for name in ("first", "last")]
    asyncio.run(produce(kafka, topic, [(body, 0) for body in (good[0], *records, good[1])]))
    daemon = run("--source", f"kafka://{kafka}/{topic}")
    holds(daemon, "kafka", [reason for _, reason in bodies], lambda place, at: place == f"{topic}/0" and at.isdigit())


@pytest.mark.case("K24.1")
@pytest.mark.redis
def test_over_redis(run: Run, redis_url: str) -> None:
    """Stream entries of any content."""
    stream = f"s{uuid.uuid4().hex[:12]}"
    bodies = bad(lines=False)
    good = [json.dumps({**GOOD, "task_id": name}).encode() for name in ("first", "last")]
    with redis.Redis.from_url(redis_url) as client:
        for body in (good[0], *(body for body, _ in bodies), good[1]):
            client.xadd(stream, {"data": body})
    daemon = run("--source", f"{redis_url.replace('redis://', 'redis-stream://')}/{stream}")
    holds(daemon, "redis-stream", [reason for _, reason in bodies], lambda place, at: place == stream and "-" in at)


@pytest.mark.case("K24.1")
def test_over_http(run: Run) -> None:
    """Pushes of any content get an answer that is no server's fault; one of 50 MB is refused."""
    daemon = run()
    bodies = bad(lines=True)
    assert daemon.ask("/v1/events", json.dumps({**GOOD, "task_id": "first"}).encode())[0] == 200
    for body, _ in bodies:
        status, answer = daemon.ask("/v1/events", body)
        assert status == 400, (body[:60], status, answer)
    status, _ = daemon.ask("/v1/events", b"")
    assert status == 400
    status, _ = daemon.ask("/v1/events", HUGE)
    assert status == 413
    assert daemon.ask("/v1/events", json.dumps({**GOOD, "task_id": "last"}).encode())[0] == 200
    expected = [*(reason for _, reason in bodies), "empty", "too_large"]
    holds(daemon, "http", expected, lambda place, at: place == "push" and at.isdigit())


def test_a_push_among_others_counts(run: Run) -> None:
    """Of a body with good and bad lines the good ones count, and the answer says how many did not."""
    daemon = run()
    status, answer = daemon.ask("/v1/events", ndjson(died("a")) + TOLD + b"\n" + ndjson(died("b")))
    outcome = json.loads(answer)
    (first,) = outcome.pop("rejected")["first"]
    assert (status, outcome) == (200, {"read": 7, "accepted": 6, "duplicate": 0, "malformed": 1, "ignored": 0})
    assert (first["index"], SECRET in first["detail"]) == (3, False)


@pytest.mark.case("K24.1")
def test_from_a_file(tmp_path: Path) -> None:
    """Lines of any content, one of 50 MB among them; a replay counts them and says where they stand."""
    bodies = [*bad(lines=True), (HUGE, "not_json")]
    good = [json.dumps({**GOOD, "task_id": name}).encode() for name in ("first", "last")]
    (tmp_path / "events.ndjson").write_bytes(b"\n".join((good[0], *(body for body, _ in bodies), good[1])) + b"\n")
    call = [sys.executable, "-m", "collector", "replay", "events.ndjson", "--json"]
    done = subprocess.run(call, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    events = json.loads(done.stdout)["events"]
    read = len(bodies) + 2
    assert events == {"read": read, "accepted": 2, "duplicate": 0, "malformed": len(bodies), "ignored": 0}
    assert b"events.ndjson@" in done.stderr
    assert SECRET.encode() not in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr


@contextmanager
def in_process(settings: Settings) -> Iterator[None]:
    """The whole daemon in a thread of this process, so that a test may break a part of it."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(app.run(settings, stop)))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(15)
        loop.close()


def test_a_record_that_our_own_code_cannot_stand(monkeypatch: pytest.MonkeyPatch, told: Hook, tmp_path: Path) -> None:
    """It is set aside as an internal error with its traceback, alerted, and stepped over; the others count once."""
    stitch = Stitcher.stitch

    def broken(
        self: Stitcher, source: str, application: str, events: list[Event], ats: Any, out: Any, channel: str = ""
    ) -> Any:
        counts = [0, 0, 0]
        for event, at in zip(events, ats, strict=True):
            if event.task_id == "poison":
                raise RuntimeError("a bug of ours")
            counted = stitch(self, source, application, [event], [at], out, channel)
            counts = [sum(pair) for pair in zip(counts, counted, strict=True)]
        return tuple(counts)

    monkeypatch.setattr(Stitcher, "stitch", broken)
    port = free_port()
    settings = Settings(listen=f"127.0.0.1:{port}", notify=(Secret(told.url),), state="none")
    asked = Daemon.__new__(Daemon)
    asked.port = port
    with in_process(settings):
        while asked.ask("/-/ready")[0] != 200:
            time.sleep(0.05)
        status, answer = asked.ask("/v1/events", ndjson([*died("a"), {**GOOD, "task_id": "poison"}, *died("b")]))
        assert status == 200
        told_back = json.loads(answer)
        assert told_back.pop("rejected")["reasons"] == {"internal_error": 1}
        assert told_back == {"read": 7, "accepted": 6, "duplicate": 0, "malformed": 1, "ignored": 0}
        (rejected,) = asked.source("http")["rejected"]
        assert (rejected["reason"], rejected["receipt"]) == ("internal_error", "4")
        assert "poison" in rejected["first_bytes"]
        assert "a bug of ours" in rejected["traceback"]
        deadline = time.monotonic() + 30
        while "RecordSetAside" not in {one["labels"]["alertname"] for one in told.alerts}:
            assert time.monotonic() < deadline, "nobody is told of the bug"
            time.sleep(0.1)
        failed = sum(value for _, value in asked.metrics()["task_failed_total"])
        assert failed == 2
