"""What a Celery channel says of its workers: what is off, and about how much was missed between two connections."""

from __future__ import annotations

import base64
import json
from collections import Counter

import pytest

from collector.sources.celery_workers import Kinds, Worker, Workers, missed
from collector.sources.redis_pubsub import Messages


def beat(processed: int, active: int = 0) -> bytes:
    """A heartbeat."""
    told = {"type": "worker-heartbeat", "hostname": "w1", "pid": 7, "active": active, "processed": processed}
    return json.dumps({"body": base64.b64encode(json.dumps(told).encode()).decode()}).encode()


def hear(workers: Workers, *bodies: bytes, key: str = "worker.heartbeat", at: float = 0.0) -> None:
    """Let them be heard on one channel."""
    channels = [f"/0.celeryev/{key}".encode()] * len(bodies)
    workers.hear(Messages([b"*"] * len(bodies), channels, list(bodies), at), Counter(channels), at)


def worker(processed: int, heard_at: float, pid: int = 7) -> Worker:
    """One at a heartbeat."""
    return Worker(pid, processed, heard_at)


@pytest.mark.parametrize(
    ("before", "after", "estimate"),
    [
        ({"a": worker(100, 10)}, {"a": worker(140, 14)}, 30),
        ({"a": worker(100, 10), "b": worker(5, 11)}, {"a": worker(140, 14), "b": worker(9, 13)}, 36),
        ({"a": worker(100, 13.5)}, {"a": worker(140, 14)}, 120),
        ({"a": worker(100, 10)}, {"a": worker(100, 14)}, None),
        ({"a": worker(100, 10)}, {"a": worker(140, 14, pid=8)}, None),
        ({"a": worker(100, 10)}, {"a": worker(3, 14)}, None),
        ({"a": worker(100, 10)}, {}, None),
        ({}, {"a": worker(140, 14)}, None),
    ],
)
def test_what_was_missed(before: dict[str, Worker], after: dict[str, Worker], estimate: int | None) -> None:
    """Three events for each task, of those between two heartbeats the hole's share; where nothing moved: unknown."""
    assert missed(before, after, 1.0) == estimate


def test_a_clock_that_was_set_back_is_survived() -> None:
    """A hole of no length between heartbeats at one instant is of unknown size."""
    assert missed({"a": worker(100, 10)}, {"a": worker(140, 10)}, 0.0) is None


def test_what_is_on_is_known_after_a_reconnect() -> None:
    """A `task-sent` that was heard on one connection is not said to be off on the next one."""
    kinds = Kinds()
    hear(Workers("celeryev", 0.0, kinds), b"{}", key="task.sent")
    again = Workers("celeryev", 0.0, kinds)
    hear(again, beat(1))
    hear(again, *[b"{}"] * 100, key="task.multi")
    assert again.said(1.0)[-1] == "task events are on, with `task-sent`"


def test_who_works_without_a_word_is_named() -> None:
    """Where nobody tells of tasks, that is said of all; where some do, those are named who do not."""
    workers = Workers("celeryev", 0.0, Kinds())
    hear(workers, beat(5, active=1))
    assert workers.said(0.0)[-1].startswith("no task event yet")
    off = "although workers are busy: start workers with `-E`"
    assert workers.said(0.0, ["w1"])[-1].startswith(f"task events are off {off}")
    hear(workers, b"{}", key="task.multi")
    assert workers.said(0.0)[-1] == "task events are on"
    assert workers.said(0.0, ["w3@h"])[-1].startswith(f"task events are off at w3@h {off}")


def test_workers_are_asked_when_they_come_and_when_they_are_mute() -> None:
    """Once each, whatever others tell."""
    workers = Workers("celeryev", 0.0, Kinds())
    hear(workers, beat(5))
    hear(workers, b"{}", key="task.multi")
    assert [workers.take_wish([]), workers.take_wish([])] == [True, False]
    assert [workers.take_wish(["w1"]), workers.take_wish(["w1"]), workers.take_wish([])] == [True, False, False]
    assert workers.is_asked
