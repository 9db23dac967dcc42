"""Celery's captures against what its producers and tasks logged: counts per id, final states, and the known traps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.model.event import TASK_KINDS
from tests.replay.truth import CAPTURES, Unseen, captures, manifest, replay_json, replayed, stale, unexplained

BY_HAND = ("revoked while waiting", "terminated while running")

UNSEEN = [
    Unseen(
        fact="state",
        when=lambda true: true["expect"] == "ignored",
        got=("started", "unknown"),
        reason="`Ignore()`, and a task that calls `replace()`: no end event for the first run.",
    ),
    Unseen(
        fact="started",
        task="shop.quiet",
        got=(0,),
        reason="`send_events=False` tasks: only task-sent. (Its success is the result backend's.)",
    ),
    Unseen(
        fact="state",
        when=lambda true: true["expect"] == "revoked" and true.get("note") not in BY_HAND,
        got=("expired",),
        reason="`task-revoked`: `expired=true`: expired. The truth has one word for both.",
    ),
    Unseen(
        fact="state",
        when=lambda true: true["expect"] == "lost",
        got=("started",),
        reason="A whole worker killed -9: nothing. An early-acked task is lost: started, never ended. Needs a timer.",
    ),
    Unseen(
        fact="failed",
        capture="dlx",
        when=lambda true: true["expect"] == "dead-lettered" and not (true.get("note") or "").startswith("no reader"),
        got=(1,),
        reason="unknown task: task-sent, then task-failed `NotRegistered`. It failed before it was dead-lettered.",
    ),
    Unseen(
        fact="failed",
        when=lambda true: not true["expect"] and bool(true["raised"]),
        got=(1,),
        reason="The truth names no end for it, only that it raised: the member of a chord that failed.",
    ),
    *(
        Unseen(
            fact=fact,
            when=lambda true: not true["name"] and not true["expect"],
            reason="The body of a chord whose header failed is never published: there is no event of it.",
        )
        for fact in ("sent", "task")
    ),
    *(
        Unseen(
            fact=fact,
            capture="late-enable",
            task="shop.charge",
            ids=("26b563b1-e794-4e14-a145-4c40c439f34a", "c963cfe0-afae-4a3b-b909-6a04e7d80068"),
            got=got,
            reason="Events exist only if workers run with `-E`; `enable_events` acts on what runs after it.",
        )
        for fact, got in (("started", (0,)), ("succeeded", (0,)), ("state", ("sent",)))
    ),
    Unseen(
        fact="sent",
        capture="celery-redis-threads",
        got=(0,),
        reason="`task-sent` only if the publishing process has `task_send_sent_event`.",
    ),
]

NAMES = [name for name in manifest() if name.startswith("celery")]


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_counts_what_happened(name: str) -> None:
    """Each task has the counts and the final state that its producers and the task itself logged."""
    assert unexplained(name, UNSEEN) == []


def test_nothing_is_called_unseen_that_is_seen() -> None:
    """Every reason for a difference still explains one."""
    assert stale(NAMES, UNSEEN) == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_a_capture_is_malformed(name: str) -> None:
    """Real traffic is read without a single reject."""
    assert replayed(name)["events"]["malformed"] == 0


def rewritten(folder: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, Any]:
    """The replay of a capture whose lines went through `change`; None leaves a line out."""
    lines = [change(json.loads(line)) for line in (CAPTURES / name).read_text().splitlines()]
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))
    result: dict[str, Any] = json.loads(replay_json(["--trails", "--json", str(path)]))
    return result


def is_result(line: dict[str, Any]) -> bool:
    """Whether a line is of the result backend."""
    return "celery-task-meta-" in (line.get("channel") or line.get("key") or "")


EXTENDED = ("name", "args", "kwargs", "worker", "retries", "queue")


def shortened(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it is without `result_extended`."""
    if not is_result(line) or not isinstance(line["body"], str):
        return line
    is_key = line["source"] == "redis-key"
    stored = json.loads(json.loads(line["body"]) if is_key else line["body"])
    body = json.dumps({field: value for field, value in stored.items() if field not in EXTENDED})
    return {**line, "body": json.dumps(body) if is_key else body}


COUNTED = (*TASK_KINDS, "redelivered", "duplicate_success")


def counts(result: dict[str, Any]) -> dict[str, Any]:
    """Task id → state and counts."""
    return {task_id: [trail["state"], *(trail.get(fact, 0) for fact in COUNTED)]
            for task_id, trail in result["trails"].items()}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if "redis" in name])
def test_results_add_nothing_to_what_events_tell(name: str, tmp_path: Path) -> None:
    """With and without the result backend, extended or not, every task counts the same; only silent tasks gain."""
    whole, bare = counts(replayed(name)), counts(rewritten(tmp_path, name, shortened))
    alone = counts(rewritten(tmp_path, name, lambda line: None if is_result(line) else line))
    silent = {task_id for task_id, trail in replayed(name)["trails"].items() if trail["task"] == "shop.quiet"}
    assert bare == whole
    assert {key: told for key, told in whole.items() if key not in silent} == {
        key: told for key, told in alone.items() if key not in silent
    }


def test_results_alone_tell_the_ends(tmp_path: Path) -> None:
    """Where workers send no events, the result backend still says what succeeded, was retried and failed."""
    name = "celery-redis-retries.jsonl"
    got = rewritten(tmp_path, name, lambda line: line if is_result(line) else None)["trails"]
    for task_id, true in manifest()[name]["truth"]["tasks"].items():
        trail = got[task_id]
        ends = [trail[kind] for kind in ("succeeded", "retried", "failed")]
        assert ends == [true["succeeded"], true["retried"], int(true["expect"] == "failed")]
        assert trail["state"] == true["expect"]


def one(name: str, task: str, index: int = 0) -> dict[str, Any]:
    """The trail of one task of a capture."""
    return [trail for trail in replayed(name)["trails"].values() if trail["task"] == task][index]


def test_a_hard_time_limit_is_one_failure() -> None:
    """Celery 5.7 says twice that a task ran into its hard time limit, 5.4 once: it failed once."""
    for name in ("celery-redis-limits.jsonl", "celery54-redis-limits.jsonl"):
        trail = one(name, "shop.export")
        assert (trail["failed"], trail["state"]) == (1, "failed")


def test_a_rejected_task_did_not_fail() -> None:
    """`Reject` is told as failed and rejected in 5.7, as rejected in 5.4: it is rejected once and never failed."""
    for name in ("celery-redis-limits.jsonl", "celery54-redis-limits.jsonl"):
        verify = [trail for trail in replayed(name)["trails"].values() if trail["task"] == "shop.verify"]
        assert sorted((trail["state"], trail["rejected"], trail["failed"]) for trail in verify) == [
            ("rejected", 1, 0),
            ("succeeded", 0, 0),
        ]


def test_a_retry_is_no_redelivery() -> None:
    """`received(n+1)` before `retried(n)` is the next attempt; only the same attempt again is a redelivery."""
    for trail in replayed("celery-redis-burst.jsonl")["trails"].values():
        assert trail.get("redelivered", 0) == 0
        assert trail["started"] == 1 + trail["retried"]
    ship = one("celery-redis-visibility.jsonl", "shop.ship")
    assert (ship["redelivered"], ship["duplicate_success"], ship["retried"]) == (1, 1, 0)


def test_a_worker_that_went_offline_may_still_succeed() -> None:
    """`worker-offline` comes before the last success of a warm shutdown, which counts."""
    name = "celery-redis-shutdown.jsonl"
    lines = [json.loads(line) for line in (CAPTURES / name).read_text().splitlines()]
    kinds = [event["type"] for line in lines if "celeryev" in line.get("channel", "") for event in events_of(line)]
    assert "task-succeeded" in kinds[kinds.index("worker-offline") :]
    assert replayed(name)["tasks"]["shop.ship"]["succeeded"] == 2


def events_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The worker events of a line."""
    told = json.loads(base64.b64decode(json.loads(line["body"])["body"]))
    return told if isinstance(told, list) else [told]


def test_a_replaced_task_is_one_task() -> None:
    """A task that replaced itself keeps its id and its name; its message was published once by anybody but itself."""
    swap = one("celery-redis-canvas.jsonl", "shop.swap")
    assert (swap["sent"], swap["started"], swap["succeeded"], swap["state"]) == (1, 2, 1, "succeeded")


def test_an_id_that_was_published_twice_ran_twice() -> None:
    """Two `task-sent` of one id and two runs: one success and one duplicate."""
    twice = [trail for trail in replayed("celery-redis-basic.jsonl")["trails"].values() if trail["sent"] == 2]
    assert [(trail["started"], trail["succeeded"], trail["duplicate_success"]) for trail in twice] == [(2, 1, 1)]


def test_a_shadow_is_not_the_name() -> None:
    """What `task-sent` calls a task is its name, whatever the worker was told to call it."""
    assert "shop.charge#vip" not in replayed("celery-redis-basic.jsonl")["tasks"]


def test_a_waiting_message_gives_trace_and_queue() -> None:
    """A message that was seen in a list ties its task to the trace it was sent in."""
    seen = json.loads(
        replay_json(["--json", "--trace", "a3be57c188efc1bd8470ad1148e4b1fc", str(CAPTURES / "celery-otel.jsonl")])
    )
    assert "8903a9c8-1cc9-49f6-b344-bafb23813fa9" in json.dumps(seen["trace"])


def test_dead_letters_say_why() -> None:
    """Rejected, expired and undeliverable messages are dead-lettered once each, and a poison task ends by it."""
    total = replayed("celery-rabbit-dlx-classic.jsonl")["tasks"]
    assert sum(task["dead_lettered"] for task in total.values()) == 7
    poison = one("celery-rabbit-dlx-quorum.jsonl", "shop.poison")
    assert (poison["dead_lettered"], poison["requeued"], poison["state"]) == (1, 3, "dead_lettered")


def test_all_captures_of_celery_are_tried() -> None:
    """None is left out."""
    assert {*captures("celery"), *captures("celery+opentelemetry")} == set(NAMES)
