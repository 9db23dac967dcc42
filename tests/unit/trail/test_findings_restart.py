"""Findings over a restart: what was to be found is found by the next process, and nothing is found again."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract
from collector.trail.transitions import FACTS, STRIDE
from tests.unit.trail.findings_bench import Court, restarted
from tests.unit.trail.test_findings import usual

PAY = Contract(match="pay", semantics="best_effort", time_limit=100.0, max_attempts=1, period=1_000.0)


def test_what_was_to_be_found_is_found_after_a_restart():
    """Workers, limits, schedules and what is usual are remembered."""
    court = Court(PAY)
    usual(court, 3.0, "wait")
    court.feed(*court.beats("w1", 0, 20), court.event("sent", 0), court.event("started", 15, worker="w1"))
    court.feed(court.event("sent", 0, "b"), court.event("started", 10, "b", worker="w2", attempt=1))
    court.feed(court.event("sent", 0, "c")).walk(21)
    assert court.found() == []
    again = restarted(court, PAY).walk(1_300)
    assert again.found() == [
        ("lost", 35.0),
        ("stuck", 115.0),
        ("never_started", 905.0),
        ("missed_schedule", 1_105.0),
    ]


def test_what_was_found_is_not_found_again_after_a_restart():
    """Losses, violations and missed turns; and a loss is made good by what comes after the restart."""
    court = Court(PAY)
    court.feed(*court.beats("w1", 0, 20), court.event("sent", 0), court.event("started", 15, worker="w1", attempt=1))
    court.feed(court.event("sent", 1, "b"), court.event("started", 15, "b", attempt=2)).walk(1_150)
    before = court.found()
    assert [what for what, _ in before] == ["max_attempts", "lost", "stuck", "missed_schedule"]
    again = restarted(court, PAY)
    again.feed(again.event("started", 1_200, worker="w3", attempt=1)).walk(1_290)
    assert again.found() == [("recovered lost", 1_200.0)]


def test_a_deadline_outlives_a_restart():
    """Of what is open, and of what had failed before its deadline."""
    due = Contract(match="pay", semantics="best_effort", deadline=300.0)
    court = Court(due)
    court.feed(court.event("sent", 0), court.event("sent", 0, "b"), court.event("failed", 5, "b")).walk(100)
    again = restarted(court, due).walk(1_000)
    out = again.stitcher.promises.out
    assert [FACTS[code % STRIDE] for code in out.codes].count("overdue") == 2


@pytest.mark.parametrize("told", [3, 20])
def test_a_wrong_clock_is_found_once_over_a_restart(told):
    """Whether the daemon is restarted before or after; and the others of its source need not be heard again first."""
    court = Court()
    court.stitch(court.event("heartbeat", 0, "", worker="w2"))
    found = []
    for at in range(40):
        if at == told:
            found += court.walk(at).found()
            court = restarted(court)
            at_restart = len(found)
        court.stitch(court.event("heartbeat", at - 60, "", worker="w1"), ats=[at])
        if at % 10 == 9 and at > 12:
            court.stitch(court.event("heartbeat", at, "", worker="w2"))
    found += court.walk(60).found()
    assert (at_restart, found) == (int(told > 5), [("skew", 4.0)])
