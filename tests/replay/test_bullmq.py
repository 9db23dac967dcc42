"""Captures of BullMQ: what is seen from outside is what the processors logged."""

from __future__ import annotations

import json

import pytest

from tests.replay.truth import CAPTURES, Unseen, captures, manifest, replay_json, replayed, stale, unexplained

NAMES = captures("bullmq")
UNSEEN = [
    Unseen(
        fact="sent",
        capture="basic",
        when=lambda true: true["published"] > 1,
        got=(1,),
        reason="`duplicated` / `deduplicated`: an add that did nothing; the truth counts what user code published",
    ),
    Unseen(
        fact="sent",
        capture="basic",
        when=lambda true: true["published"] == 0,
        got=(1,),
        reason="a job scheduler's jobs are `added` too; the truth counts what user code published",
    ),
    Unseen(
        fact="failed",
        capture="basic",
        when=lambda true: "manual-retry" in true.get("other", ()),
        got=(2,),
        reason="`prev=failed`: manual retry; it failed for good twice, where the truth has the final state alone",
    ),
    Unseen(
        fact="state",
        capture="basic",
        when=lambda true: true["expect"] == "removed",
        got=("revoked",),
        reason="`removed`: of a job that was waiting; our word for it",
    ),
    Unseen(
        fact="succeeded",
        capture="stalled",
        when=lambda true: true["succeeded"] == 2,
        got=(1,),
        reason="a blocked event loop: the job runs twice to the end, one `completed`",
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_states_are_the_truth(name):
    """Every job's counts and final state are those of its processor, but for what cannot be seen."""
    assert unexplained(name, UNSEEN) == []
    assert replayed(name)["events"]["malformed"] == 0


def test_no_explanation_is_stale():
    """Every difference that is explained is there."""
    assert len(NAMES) == 4
    assert stale(NAMES, UNSEEN) == []


def _task(name: str, task_id: str) -> dict:
    return json.loads(replay_json(["--json", "--task", task_id, str(CAPTURES / name)]))["task"]


@pytest.mark.parametrize("name", NAMES)
def test_traces_and_parents_are_the_truth(name):
    """Trace ids are those that the producers were given, and parents those that they named."""
    for task_id, true in manifest()[name]["truth"]["tasks"].items():
        seen = _task(name, task_id)
        assert seen["parent_id"] == true.get("parent", "")
        if "trace" in true:
            assert seen["trace_id"] == true["trace"].split("-")[1]


def test_a_flow_has_its_children():
    """A parent's timeline names its children."""
    (parent,) = {true["parent"] for true in manifest()["bullmq-flow.jsonl"]["truth"]["tasks"].values()
                 if true.get("parent") and true["name"] == "leaf"}  # fmt: skip
    assert len(_task("bullmq-flow.jsonl", parent)["children"]) == 1


def _hashes(name: str) -> set[str]:
    """Jobs of which the capture holds a hash: one that is removed at once has none when it is looked for."""
    lines = [json.loads(line) for line in (CAPTURES / name).read_text().splitlines()]
    return {line["key"].partition(":")[2] for line in lines if line.get("type") == "hash"}


@pytest.mark.parametrize("name", [name for name in NAMES if "keyspace" not in name])
def test_errors_and_workers_are_those_of_the_hashes(name):
    """The last failure's class is the one that was raised, and the last start names the worker that ran it."""
    hashes = _hashes(name)
    for task_id, true in manifest()[name]["truth"]["tasks"].items():
        seen = _task(name, task_id)
        if true["raised"] and true["expect"] == "failed" and task_id in hashes:
            assert seen["error"] == true["raised"][-1]
            assert seen["attempts"][-1]["error"] == true["raised"][-1]
        if true.get("workers") and task_id in hashes:
            assert true["workers"][-1] in {attempt["worker"] for attempt in seen["attempts"]}


def test_a_stall_is_a_redelivery_and_no_retry():
    """A job whose worker died is started again for the same attempt; the start that only fails it is none."""
    trails = replayed("bullmq-stalled.jsonl")["trails"]
    assert [trails[f"mail:{number}"].get("redelivered", 0) for number in (1, 2, 3)] == [1, 1, 1]
    assert [trails[f"mail:{number}"]["retried"] for number in (1, 2, 3)] == [0, 0, 0]


def test_a_job_id_that_is_used_again_next_day_is_another_life(tmp_path):
    """A custom id that is added again after its removal is counted afresh: no redelivery, no duplicate success."""
    lines = []
    for day in (0, 1):
        start = 1_795_970_000_000 + day * 86_400_000
        words = ({"event": "added", "name": "report"}, {"event": "waiting"}, {"event": "active", "prev": "waiting"},
                 {"event": "completed", "prev": "active", "returnvalue": "1"})  # fmt: skip
        for number, words_of in enumerate(words):
            at = start + 10 * number
            place = {"t": at / 1000, "source": "redis-stream", "stream": "bull:mail:events", "id": f"{at}-0"}
            lines.append({**place, "fields": {**words_of, "jobId": "report-eu"}})
    capture = tmp_path / "daily.jsonl"
    capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replayed = json.loads(replay_json(["--trails", "--json", str(capture)]))
    counts = replayed["tasks"]["report"]
    assert [counts[fact] for fact in ("sent", "started", "succeeded")] == [2, 2, 2]
    assert not any(counts.get(fact) for fact in ("redelivered", "duplicate_success"))
    assert replayed["trails"]["mail:report-eu"]["state"] == "succeeded"
