"""`replay` of what a source delivered: in which form it is read, and that it says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.cli.main import main

CAPTURES = Path(__file__).parents[2] / "replay" / "captures"

T0 = 1_790_000_000
MAPPED = """
sources:
  - url: %s
    name: jobs
    mapping:
      kind: {path: status, values: {begun: started, done: succeeded}}
      task_id: id
      task: {value: report}
"""
STATUSES = ("begun", "done")


def kafka(number: int, status: str) -> dict[str, object]:
    """A line of a topic's capture."""
    body = json.dumps({"status": status, "id": "7"})
    return {"t": T0 + number, "source": "kafka", "topic": "jobs", "partition": 0, "offset": number, "body": body}


def entry(number: int, status: str) -> dict[str, object]:
    """A line of a stream's capture: an entry of plain fields."""
    where = {"stream": "jobs", "id": f"{(T0 + number) * 1000}-0"}
    return {"t": T0 + number, "source": "redis-stream", **where, "fields": {"status": status, "id": "7"}}


def exchanged(number: int, status: str) -> dict[str, object]:
    """A line of an exchange's capture."""
    body = json.dumps({"status": status, "id": "7"})
    return {"t": T0 + number, "source": "amqp", "exchange": "jobs", "routing_key": "a", "body": body}


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("kafka://k:9092/jobs", kafka),
        ("kafka://k:9092?topic_pattern=jo.*", kafka),
        ("redis-stream://r:6379/0/jobs", entry),
        ("amqp://a:5672/shop/exchange/jobs", exchanged),
    ],
)
def test_a_capture_is_read_as_the_source_of_the_configuration_reads(tmp_path, capsys, url, line):
    """With `-c` the mapping of the source that reads the topic, stream or exchange holds; it is named on stderr."""
    (tmp_path / "t.yaml").write_text(MAPPED % url)
    (tmp_path / "c").write_text("".join(json.dumps(line(*one)) + "\n" for one in enumerate(STATUSES)))
    assert main(["replay", str(tmp_path / "c"), "-c", str(tmp_path / "t.yaml"), "--json"]) == 0
    out, err = capsys.readouterr()
    counted = json.loads(out)["tasks"]["report"]
    assert (counted["started"], counted["succeeded"]) == (1, 1)
    assert err == "records read as: source jobs (2)\n"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("kafka-dlq", "kafka://k:9092?topic_pattern=.*&groups=billing,ledger,s3-sink,agg,mailer"),
        ("redis-streams-group", "redis-stream://r:6379/0/events:orders,events:orders:dead?format=messages"),
    ],
)
def test_what_groups_did_belongs_to_the_messages_of_their_source(tmp_path, capsys, name, url):
    """Offsets and pending entries are read with the topics and streams they are about, all as one source."""
    path = CAPTURES / f"{name}.jsonl"
    (tmp_path / "t.yaml").write_text(f"sources: [{{url: '{url}', name: own}}]\n")
    results = []
    for more in ([], ["-c", str(tmp_path / "t.yaml")]):
        assert main(["replay", str(path), "--json", *more]) == 0
        out, err = capsys.readouterr()
        results.append(json.loads(out))
    assert results[0]["tasks"] == results[1]["tasks"]
    assert err == f"records read as: source own ({len(path.read_bytes().splitlines())})\n"


def test_what_only_looks_like_a_form_is_said(tmp_path, capsys):
    """Without a source that reads it a topic is recognised by its content: stderr says as what, and what says other."""
    (tmp_path / "c").write_text("".join(json.dumps(kafka(*one)) + "\n" for one in enumerate(STATUSES)))
    (tmp_path / "t.yaml").write_text(MAPPED % "kafka://k:9092/others")
    for more in ([], ["-c", str(tmp_path / "t.yaml")]):
        assert main(["replay", str(tmp_path / "c"), "--json", *more]) == 0
        err = capsys.readouterr().err
        assert err.startswith("records read as: messages of hand-written consumers")
        assert "-c FILE" in err


def test_a_configuration_also_says_rules_and_tasks(tmp_path, capsys):
    """`rules:` and `tasks:` of the file hold, as they do for `run`; `--rules` replaces them."""
    for name in ("a", "b"):
        rule = f"groups: [{{name: g, interval: 1s, rules: [{{alert: {name}, expr: 'task_started_total > 0'}}]}}]"
        (tmp_path / f"{name}.yaml").write_text(rule)
    (tmp_path / "tasks.yaml").write_text("tasks: [{match: report, semantics: best_effort, owner: reporting}]\n")
    said = f"rules: [{tmp_path}/a.yaml]\ntasks: {tmp_path}/tasks.yaml\n"
    (tmp_path / "t.yaml").write_text(said + MAPPED % "kafka://k:9092/jobs")
    (tmp_path / "c").write_text(json.dumps(kafka(0, "begun")) + "\n")
    for more, name in (([], "a"), (["--rules", f"{tmp_path}/b.yaml"], "b")):
        until = ["--until", "+10s", "--json", *more]
        assert main(["replay", str(tmp_path / "c"), "-c", str(tmp_path / "t.yaml"), *until]) == 0
        result = json.loads(capsys.readouterr().out)
        assert [alert["alertname"] for alert in result["alerts"]] == [name]
        assert "reporting" in json.dumps(result["notifications"])


def test_events_need_no_word(tmp_path, capsys):
    """Lines of native events are what they are: nothing is said of them."""
    (tmp_path / "c").write_text(json.dumps({"kind": "sent", "task_id": "1", "time": T0}) + "\n")
    assert main(["replay", str(tmp_path / "c"), "--json"]) == 0
    assert capsys.readouterr().err == ""
