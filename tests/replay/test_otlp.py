"""Spans of real runs: what an exporter sent tells the same story as the tasks themselves."""

from __future__ import annotations

import json

import pytest

from tests.replay.truth import CAPTURES, manifest, replay_json

CAPTURE = "celery-otel.jsonl"


@pytest.mark.parametrize("tap", ["otlp-http", "otlp-json"])
def test_spans_alone_tell_what_the_tasks_did(tap, tmp_path):
    """From the spans alone every task that ran has its true counts, name, state and trace, in either encoding."""
    lines = [line for line in (CAPTURES / CAPTURE).read_bytes().splitlines() if json.loads(line)["source"] == tap]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"\n".join(lines))
    result = json.loads(replay_json(["--trails", "--json", str(path)]))
    truth = manifest()[CAPTURE]["truth"]["tasks"]
    assert result["events"]["malformed"] == 0
    assert result["trails"].keys() == truth.keys()
    for task_id, true in truth.items():
        trail = result["trails"][task_id]
        assert trail["task"] == true["name"]
        assert trail["queue"] == true["queue"]
        assert trail["state"] == true["expect"]
        assert [trail[fact] for fact in ("sent", "started", "succeeded", "retried")] == [
            true[fact] for fact in ("published", "started", "succeeded", "retried")
        ]


def test_both_encodings_at_once_count_once(tmp_path):
    """The same spans in protobuf and in JSON are the same facts."""
    lines = [line for line in (CAPTURES / CAPTURE).read_bytes().splitlines() if b'"otlp-' in line]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"\n".join(lines))
    result = json.loads(replay_json(["--json", str(path)]))
    assert result["events"]["accepted"] == result["events"]["duplicate"] + 9  # the nine `sent` are told once
    assert sum(task["started"] for task in result["tasks"].values()) == 10
