"""`replay --diff`: two rule sets over the same events, and what only one of them would have sent."""

from __future__ import annotations

import json

import pytest

from collector.cli.diff import difference
from collector.cli.main import main
from tests.unit.parts import FAILING, T0, event

EVENTS = [event("failed", "1", T0 + 1), event("retried", "2", T0 + 40), event("sent", "3", T0 + 120)]
HELD = FAILING.replace("    labels:", "    for: 5s\n    labels:")
RETRYING = FAILING.replace("task_failed_total", "task_retried_total").replace("Failing", "Retrying")


@pytest.fixture
def replay(tmp_path, capsys):
    """What `replay` prints for two rule sets."""
    (tmp_path / "events.ndjson").write_bytes(b"\n".join(EVENTS))

    def run(rules, other, *options):
        (tmp_path / "new.yaml").write_text(rules)
        (tmp_path / "old.yaml").write_text(other)
        files = [str(tmp_path / name) for name in ("events.ndjson", "new.yaml", "old.yaml")]
        assert main(["replay", files[0], "--rules", files[1], "--diff", files[2], *options]) == 0
        return capsys.readouterr().out

    return run


def test_the_same_rules_make_no_difference(replay):
    """Nothing is only on one side and nothing has moved."""
    result = json.loads(replay(FAILING, FAILING, "--json"))
    assert len(result["alerts"]) == 1
    assert result["diff"]["alerts"] == {"same": 1, "only": {"rules": [], "diff": []}, "moved": []}
    assert result["diff"]["notifications"] == {"same": 2, "only": {"rules": [], "diff": []}, "moved": []}


def test_alerts_of_one_side_only(replay):
    """What only one rule set would have sent is listed on its side, with its notifications."""
    found = json.loads(replay(FAILING, RETRYING, "--json"))["diff"]
    only = found["alerts"]["only"]
    assert [one["alertname"] for one in only["rules"]] == ["Failing"]
    assert [one["alertname"] for one in only["diff"]] == ["Retrying"]
    assert only["diff"][0]["fired_at"] == T0 + 40
    assert [one["status"] for one in found["notifications"]["only"]["diff"]] == ["firing", "resolved"]


def test_times_that_moved(replay):
    """The real state machine runs for both: a `for` moves when an alert fires, and when that is said."""
    found = json.loads(replay(HELD, FAILING, "--json"))["diff"]
    (moved,) = found["alerts"]["moved"]
    assert (moved["alertname"], found["alerts"]["same"]) == ("Failing", 0)
    assert moved["rules"] == {"active_at": T0 + 1, "fired_at": T0 + 10, "resolved_at": T0 + 15}
    assert moved["diff"] == {"active_at": T0 + 1, "fired_at": T0 + 1, "resolved_at": T0 + 15}
    told = [(one["status"], one["rules"] - T0, one["diff"] - T0) for one in found["notifications"]["moved"]]
    assert told[0] == ("firing", 10, 1)


def test_people_read_it(replay):
    """The table names the alert, its shift and its side; the last lines count."""
    lines = replay(HELD, FAILING + RETRYING.replace("\ngroups:\n", "").replace("name: g", "name: h")).splitlines()
    text = " ".join(" ".join(lines).replace("│", " ").split())
    assert "Failing" in text
    assert "+9 s" in text
    assert "--diff only" in text
    assert lines[-2] == "alerts: 0 with --rules only, 1 with --diff only, 1 moved, 0 the same"


def episode(active, resolved, fingerprint="a"):
    """An episode of an alert."""
    times = {"active_at": active, "fired_at": active, "resolved_at": resolved}
    return {"alertname": "A", "labels": {}, "fingerprint": fingerprint, **times}


def result(*episodes):
    """The result of a replay."""
    return {"alerts": list(episodes), "notifications": []}


def test_episodes_that_overlap_are_one():
    """Episodes of one alert are compared where they overlap in time; others stand alone on their side."""
    found = difference(
        result(episode(10, 20), episode(50, None)), result(episode(15, 30), episode(31, 40), episode(60, 70))
    )["alerts"]
    assert [(one["rules"]["active_at"], one["diff"]["active_at"]) for one in found["moved"]] == [(10, 15), (50, 60)]
    assert (found["only"]["rules"], found["only"]["diff"]) == ([], [episode(31, 40)])


def test_other_labels_are_another_alert():
    """An alert is its labels: with another fingerprint it is not the same one."""
    found = difference(result(episode(1, 2)), result(episode(1, 2, "b")))["alerts"]
    assert (len(found["only"]["rules"]), len(found["only"]["diff"]), found["same"]) == (1, 1, 0)
