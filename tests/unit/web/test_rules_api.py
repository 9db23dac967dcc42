"""Rule groups and alerts as Prometheus lists them, with what is ours besides."""

from __future__ import annotations

import pytest

from tests.unit.parts import T0


async def test_a_group_with_its_rules(asked) -> None:
    """Every field that Prometheus has, with its type; evaluations have their times."""
    failures, backlog = (await asked.data("rules"))["groups"]
    assert (failures["name"], failures["file"], failures["interval"], failures["limit"]) == (
        "failures",
        asked.rules,
        5,
        7,
    )
    assert failures["lastEvaluation"] == "2025-06-15T15:06:55Z"
    assert failures["evaluationTime"] >= 0
    record, alerting = failures["rules"]
    assert record == {
        "name": "task:failed:rate1m",
        "query": "sum by (task) (rate(task_failed_total[1m]))",
        "labels": {"kind": "recorded"},
        "health": "ok",
        "evaluationTime": 0,
        "lastEvaluation": "2025-06-15T15:06:55Z",
        "blind": False,
        "type": "recording",
    }
    (alert,) = alerting.pop("alerts")
    assert alerting == {
        "name": "Failing",
        "query": "sum by (task) (increase(task_failed_total[30s])) > 0",
        "labels": {"severity": "page", "owner": "{{ $labels.task }}"},
        "annotations": {"summary": "{{ $value }} failed"},
        "duration": 5,
        "keepFiringFor": 60,
        "state": "firing",
        "health": "ok",
        "evaluationTime": 0,
        "lastEvaluation": "2025-06-15T15:06:55Z",
        "blind": False,
        "type": "alerting",
    }
    assert (alert["state"], alert["value"], alert["blind"]) == ("firing", "1e+00", False)
    assert alert["labels"] == {"alertname": "Failing", "severity": "page", "owner": "b", "task": "b"}
    assert alert["annotations"] == {"summary": "1 failed"}
    assert [rule["state"] for rule in backlog["rules"]] == ["inactive"]
    assert backlog["rules"][0]["alerts"] == []


async def test_alerts_are_those_of_the_rules(asked) -> None:
    """/alerts lists what is pending or firing; one that only `keep_firing_for` keeps says since when."""
    (alert,) = (await asked.data("alerts"))["alerts"]
    assert (alert["state"], "keepFiringSince" in alert) == ("firing", False)
    await asked.to(T0 + 40)
    (alert,) = (await asked.data("alerts"))["alerts"]
    assert (alert["state"], alert["keepFiringSince"]) == ("firing", "2025-06-15T15:07:15Z")
    await asked.to(T0 + 100)
    assert await asked.data("alerts") == {"alerts": []}


async def test_a_rule_whose_source_is_down_is_blind(asked) -> None:
    """`blind` stands beside Prometheus' fields, on the rule and on its alert."""
    asked.run.daemon.axes[0].is_up = False
    await asked.to(T0 + 15)
    groups = (await asked.data("rules", type="alert"))["groups"]
    failing = groups[0]["rules"][0]
    assert (failing["blind"], failing["alerts"][0]["blind"]) == (True, True)


async def test_a_rule_that_failed_says_why(asked) -> None:
    """A rule that cannot be evaluated is unhealthy, with its error."""
    rule = asked.run.daemon.groups[1].rules[0]
    rule.complain("no way")
    (group,) = (await asked.data("rules", rule_group="backlog"))["groups"]
    assert (group["rules"][0]["health"], group["rules"][0]["lastError"]) == ("err", "no way")


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["task:failed:rate1m", "Failing", "InFlight"]),
        ({"type": "alert"}, ["Failing", "InFlight"]),
        ({"type": "record"}, ["task:failed:rate1m"]),
        ({"rule_name": "InFlight"}, ["InFlight"]),
        ({"rule_name": ["InFlight", "Failing"]}, ["Failing", "InFlight"]),
        ({"rule_group": "failures"}, ["task:failed:rate1m", "Failing"]),
        ({"file": "other.yaml"}, []),
        ({"match": '{severity="page"}'}, ["Failing"]),
        ({"match": ['{severity="info"}', '{kind=~".+"}']}, ["task:failed:rate1m", "InFlight"]),
        ({"match": '{owner=~".+"}'}, []),
    ],
)
async def test_rules_are_filtered(asked, filters, names) -> None:
    """By type, name, group, file and labels as written, where a template matches nothing; empty groups are left out."""
    groups = (await asked.data("rules", **filters))["groups"]
    assert [rule["name"] for group in groups for rule in group["rules"]] == names
    assert all(group["rules"] for group in groups)


async def test_groups_come_in_pages(asked) -> None:
    """A page says where the next one begins; the last one does not."""
    first = await asked.data("rules", group_limit=1)
    assert [group["name"] for group in first["groups"]] == ["failures"]
    second = await asked.data("rules", group_limit=1, group_next_token=first["groupNextToken"])
    assert [group["name"] for group in second["groups"]] == ["backlog"]
    assert "groupNextToken" not in second


async def test_alerts_may_be_left_out(asked) -> None:
    """`exclude_alerts` leaves the alerts of rules out."""
    groups = (await asked.data("rules", exclude_alerts="true", type="alert"))["groups"]
    assert [rule["alerts"] for group in groups for rule in group["rules"]] == [None, None]
