"""`tasktrail check --explain`: samples, and what the mapping makes of them."""

from __future__ import annotations

import json

from collector.cli.main import main

CONFIG = """
sources:
  - url: kafka://localhost:9092/jobs
    name: jobs
    mapping:
      kind: {path: status, values: {done: succeeded}, otherwise: ignore}
      task_id: id
      traceparent: {header: traceparent}
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_each_sample_is_shown_as_its_event_or_with_the_reason_why_not(tmp_path, capsys):
    """Events, what is ignored, and what is rejected, each with its line; exit code 1 for the rejected."""
    (tmp_path / "t.yaml").write_text(CONFIG)
    (tmp_path / "samples").write_text('{"status": "done", "id": "7"}\n{"status": "x", "id": "8"}\n{"status": "done"}\n')
    assert main(["check", str(tmp_path / "t.yaml"), "--explain", str(tmp_path / "samples")]) == 1
    first, second, third = capsys.readouterr().out.splitlines()
    assert json.loads(first.partition(": ")[2]) == {"kind": "succeeded", "task_id": "7"}
    assert "samples:2: ignored" in second
    assert "samples:3: rejected as missing_id" in third


def test_a_capture_is_a_sample_with_headers(tmp_path, capsys):
    """What `record` wrote shows also what headers give."""
    (tmp_path / "t.yaml").write_text(CONFIG)
    line = {
        "t": 1_790_000_000, "source": "kafka", "topic": "jobs", "partition": 0, "offset": 3,
        "headers": [["traceparent", f"00-{TRACE}-b7ad6b7169203331-01"]], "body": '{"status": "done", "id": "7"}',
    }  # fmt: skip
    (tmp_path / "c.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["check", str(tmp_path / "t.yaml"), "--explain", str(tmp_path / "c.jsonl")]) == 0
    assert TRACE in capsys.readouterr().out


def test_a_captured_entry_of_plain_fields_is_a_sample(tmp_path, capsys):
    """What `record` wrote of a Redis stream is explained by its fields."""
    (tmp_path / "t.yaml").write_text(CONFIG)
    line = {"t": 1_790_000_000, "source": "redis-stream", "stream": "s", "fields": {"status": "done", "id": "7"}}
    (tmp_path / "c.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["check", str(tmp_path / "t.yaml"), "--explain", str(tmp_path / "c.jsonl")]) == 0
    assert '{"kind":"succeeded","task_id":"7"}' in capsys.readouterr().out


def test_without_a_mapping_there_is_nothing_to_explain(tmp_path, capsys):
    """It says so, with exit code 2."""
    (tmp_path / "t.yaml").write_text("sources: ['stdin:']\n")
    (tmp_path / "samples").write_text("{}\n")
    assert main(["check", str(tmp_path / "t.yaml"), "--explain", str(tmp_path / "samples")]) == 2
    assert "no source" in capsys.readouterr().err
