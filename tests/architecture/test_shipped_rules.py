"""The shipped rules as documents: each says who is woken, why, and what to do, and each is tested both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from collector.routing.dressing import NOT_URGENT

RULES = Path(__file__).resolve().parents[2] / "rules"
ALERTS = [
    rule
    for group in yaml.safe_load((RULES / "shipped.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
JUDGING = [rule for rule in ALERTS if rule["alert"] != "Watchdog"]
"""All but the one that always fires, and says nothing of anything."""
CASES = [
    case
    for test in yaml.safe_load((RULES / "shipped_test.yaml").read_text())["tests"]
    for case in test["alert_rule_test"]
]
PAGES = {path.stem: path.read_text() for path in (RULES / "runbooks").glob("*.md")}
# What may be read: what contracts and trails give, and what Tasktrail says of itself.
METRICS = {
    "dead_letters_open", "tasks_in_flight", "task_contract_info", "task_dead_lettered_total", "task_failed_total",
    "task_started_total", "task_retried_total", "task_lost_total", "task_duplicate_success_total",
    "task_run_seconds_bucket", "task_run_seconds_count", "task_run_seconds_sum", "task_queue:task_run_seconds:usual",
    "task_wait_seconds_bucket", "task_wait_seconds_count", "task_wait_seconds_sum",
    "task_queue:task_wait_seconds:usual", "tasktrail_source_up", "tasktrail_source_lag_seconds",
    "tasktrail_events_total", "tasktrail_rejected_total", "tasktrail_rule_failures_total",
    "tasktrail_notifications_total", "tasktrail_rule_slots_missed_total", "tasktrail_state_failing",
    "tasktrail_state_set_aside", "tasktrail_state_waiting", "tasktrail_clock_ahead_seconds",
    "task_overdue_total", "tasks_overdue",
    "queue_length", "queue_oldest_age_seconds", "queue_consumers",
    "queue_source:queue_length:growth", "queue_source:queue_length:drain_seconds", "queue:queue_length:work_seconds",
    "queue_source:queue_length:in_an_hour", "consumer_lag_verdicts", "consumer_pending_idle_seconds",
    "consumer_pending_deliveries", "tasktrail_probe_up",
    "dead_letters_unreviewed_age_seconds",
    "task_review_within_seconds", "dead_letter_oldest_age_seconds", "dead_letter_expires_seconds",
    "tasktrail_bound_used_ratio", "task:deadlines_missed:share5m", "task:deadlines_missed:share30m",
    "task:deadlines_missed:share1h", "task:deadlines_missed:share6h",
    "task_findings_total", "task_policy_violations_total",
    "task_redelivered_total", "task_objective",
}  # fmt: skip


@pytest.mark.parametrize("rule", JUDGING, ids=lambda rule: rule["alert"])
def test_an_alert_says_who_why_and_what_to_do(rule):
    """Severity, owner, a summary with a fact in it, a description, and a runbook page that names the alert."""
    assert rule["labels"].keys() == {"severity", "owner"}
    assert rule["labels"]["severity"] in ("page", NOT_URGENT)
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert "$" in rule["annotations"]["summary"]
    page = re.fullmatch(r"\{\{ \$externalURL \}\}/runbooks/([a-z-]+)", rule["annotations"]["runbook_url"])
    assert page
    assert f"`{rule['alert']}`" in PAGES[page[1]]


@pytest.mark.parametrize("rule", JUDGING, ids=lambda rule: rule["alert"])
def test_an_alert_is_tested_firing_and_silent(rule):
    """There is a case where it fires and one where it does not."""
    expected = [bool(case["exp_alerts"]) for case in CASES if case["alertname"] == rule["alert"]]
    assert set(expected) == {True, False}


def test_the_watchdog_pages_nobody():
    """There is one alert that always fires; nobody is called for its severity, and it has a page that explains it."""
    (rule,) = [rule for rule in ALERTS if rule not in JUDGING]
    assert (rule["expr"], rule["labels"]["severity"]) == ("vector(1)", "none")
    assert "`Watchdog`" in PAGES["watchdog"]


def test_no_metric_is_misspelt():
    """A rule that reads a name nobody writes is silent for ever."""
    text = "\n".join(rule["expr"] for rule in ALERTS)
    assert set(re.findall(r"\b(?:task|tasks|dead|tasktrail|queue|consumer)[_:]\w[\w:]*", text)) <= METRICS


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_leads_with_what_to_do(name):
    """Without an external URL only the first lines are sent, so that these must be enough to begin with."""
    title, _, rest = PAGES[name].partition("\n")
    assert title.startswith("# ")
    first = rest.strip().partition("\n\n")[0]
    assert "First: " in first
    assert len(first) <= 400
    assert any(f"/runbooks/{name}" in rule["annotations"]["runbook_url"] for rule in ALERTS)
    for heading in ("## What it means", "## Repair", "## When to escalate"):
        assert heading in PAGES[name]
