"""Mutes at the flush: who is left out, why, and what is owed when the mute ends."""

from __future__ import annotations

import pytest

from collector.routing.group import Target
from collector.routing.grouping import Grouping
from collector.routing.inhibition import InhibitRule
from collector.routing.matchers import parse_matchers
from collector.routing.route import BUILT_IN, Route
from collector.routing.routefile import load

ROUTE = Route(receiver="default", group_by=("alertname",), group_wait=0, group_interval=10, repeat_interval=3600)


class Muted:
    """A grouping whose gate holds back alerts with the errors that are named."""

    def __init__(self, *names: str, route: Route = ROUTE, **how) -> None:
        self.names = set(names)
        self.grouping = Grouping(route, {"default": [Target("a")]}, gates=[self.gate], **how)

    def gate(self, alert, _now: float) -> str:
        """The gate."""
        return f"held {dict(alert.labels)['error']}" if dict(alert.labels).get("error") in self.names else ""

    def say(self, now: float, *alerts) -> list[tuple[str, str, str]]:
        """Insert, flush and confirm; of each notification the status, and the errors that fire and have ended."""
        self.grouping.insert(alerts, now)
        found = []
        for one in self.grouping.due(now):
            self.grouping.confirm(one, now)
            states = [
                "".join(sorted(dict(each.labels)["error"] for each in one.alerts if each.state == state))
                for state in ("firing", "resolved")
            ]
            found.append((one.status, *states))
        return found


@pytest.mark.case("K21.1")
def test_a_muted_alert_is_left_out_with_its_reason(alert) -> None:
    """The others of its group are told; the group says who was left out, and why; when the mute ends it is told."""
    muted = Muted("B")
    assert muted.say(0, alert(error="A"), alert(error="B")) == [("firing", "A", "")]
    (reasons,) = muted.grouping.muted().values()
    assert list(reasons.values()) == ["held B"]
    muted.names.clear()
    assert muted.say(10) == [("firing", "AB", "")]
    assert muted.grouping.muted() == {}


def test_a_group_that_is_all_muted_is_silent(alert) -> None:
    """Nothing is sent, also not at repeat_interval, and an end that nobody heard the start of is not told."""
    muted = Muted("A")
    assert [muted.say(now, *[alert(error="A")] * (now == 0)) for now in (0, 10, 4000)] == [[], [], []]
    muted.names.clear()
    assert muted.say(4005, alert("resolved", end=4005, error="A")) == []
    assert muted.say(4010) == []
    assert muted.say(4020) == []
    assert len(muted.grouping) == 0


@pytest.mark.case("K21.1")
def test_an_end_during_the_mute_is_owed(alert) -> None:
    """What was told as firing and ended while it was muted is told as resolved when the mute ends, once."""
    muted = Muted()
    assert muted.say(0, alert(error="A")) == [("firing", "A", "")]
    muted.names.add("A")
    assert muted.say(10, alert("resolved", end=5, error="A")) == []
    assert muted.say(20) == []
    muted.names.clear()
    assert muted.say(30) == [("resolved", "", "A")]
    assert muted.say(40) == []
    assert len(muted.grouping) == 0


def test_an_end_during_the_mute_is_owed_after_others_spoke(alert) -> None:
    """So it is where the group spoke meanwhile: of another's end, or of a new alert."""
    for other, said in (
        (alert("resolved", end=5, error="B"), ("resolved", "", "B")),
        (alert(error="C"), ("firing", "BC", "")),
    ):
        muted = Muted()
        assert muted.say(0, alert(error="A"), alert(error="B")) == [("firing", "AB", "")]
        muted.names.add("A")
        assert muted.say(10, alert("resolved", end=6, error="A"), other) == [said]
        muted.names.clear()
        ((_, _, ended),) = muted.say(20)
        assert ended == "A"
        assert muted.say(30) == []


def test_still_firing_after_the_mute_is_said_again_where_the_group_was_told_as_ended(alert) -> None:
    """A target that closed the incident with the last message hears that one alert still fires."""
    muted = Muted()
    muted.say(0, alert(error="A"), alert(error="B"))
    muted.names.add("A")
    assert muted.say(10, alert("resolved", end=5, error="B")) == [("resolved", "", "B")]
    muted.names.clear()
    assert muted.say(20) == [("firing", "A", "")]


def test_a_mute_that_changes_nothing_says_nothing(alert) -> None:
    """What was told, was muted and fires on is no news after the mute."""
    muted = Muted()
    muted.say(0, alert(error="A"))
    muted.names.add("A")
    assert muted.say(10) == []
    muted.names.clear()
    assert muted.say(20) == []


def test_inhibition_holds_over_groups_and_receivers(alert) -> None:
    """A source alert of another route keeps a target quiet, and its end lets it speak."""
    rule = InhibitRule(sources=parse_matchers("error=S"), targets=parse_matchers("error=T"))
    muted = Muted(inhibit_rules=[rule])
    source = alert(alertname="Down", error="S")
    assert muted.say(0, source, alert(error="T")) == [("firing", "S", "")]
    (reasons,) = muted.grouping.muted().values()
    assert list(reasons.values()) == ["inhibited by Down"]
    said = muted.say(10, alert("resolved", end=5, alertname="Down", error="S"))
    assert sorted(said) == [("firing", "T", ""), ("resolved", "", "S")]


def test_time_intervals_mute_a_route(alert) -> None:
    """In its interval a route says nothing; after it, what fires then."""
    file = """
route: {receiver: default, routes: [{mute_time_intervals: [y1970], group_wait: 0s, group_interval: 10s}]}
receivers: [{name: default}]
time_intervals: [{name: y1970, time_intervals: [{years: [1970]}]}]
"""
    routing = load("routes.yaml", file)
    muted = Muted(route=routing.route, intervals=routing.intervals)
    assert muted.say(0, alert(error="A"), alert(error="B")) == []
    assert muted.say(10, alert("resolved", end=5, error="B")) == []
    assert muted.say(31_536_000) == [("firing", "A", "")]


def test_a_summary_waits_for_the_end_of_the_interval(alert) -> None:
    """What fired and ended while nobody watched is summed up when the route may speak."""
    file = """
route: {receiver: default, routes: [{mute_time_intervals: [y1970], group_interval: 10s}]}
receivers: [{name: default}]
time_intervals: [{name: y1970, time_intervals: [{years: [1970]}]}]
"""
    routing = load("routes.yaml", file)
    muted = Muted(route=routing.route, intervals=routing.intervals)
    muted.grouping.insert([alert("resolved", end=5, error="A")], 10, live=False)
    muted.grouping.go_live(20)
    assert muted.say(20) == []
    assert muted.say(31_536_000) == [("resolved", "", "A")]


def test_a_receiver_without_targets_tells_nobody(alert) -> None:
    """A receiver that is named and has no targets makes no notifications; one that is not named makes them for none."""
    for receivers, count in (({"default": []}, 0), ({}, 1)):
        grouping = Grouping(BUILT_IN, receivers)
        grouping.insert([alert()], 0)
        assert len(grouping.due(0)) == count
        grouping.insert([alert("resolved", end=1)], 1)
        grouping.due(10)
        grouping.due(20)
        assert len(grouping) == 0 or count
