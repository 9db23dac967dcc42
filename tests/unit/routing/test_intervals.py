"""Time intervals: which instants lie inside."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from collector.routing.intervals import contains
from collector.routing.route import Route, muted
from collector.routing.routefile import load

FILE = """
route: {{receiver: a}}
receivers: [{{name: a}}]
time_intervals:
- name: it
  time_intervals: [{written}]
"""


def inside(written: str, at: str, zone: str = "UTC") -> bool:
    """Whether a local time lies in an interval as written."""
    (interval,) = load("routes.yaml", FILE.format(written=written)).intervals["it"]
    return contains(interval, datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(zone)).timestamp())


@pytest.mark.parametrize(
    ("written", "at", "holds"),
    [
        ("{}", "2026-01-01T00:00", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-01-01T09:00", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-01-01T16:59:59", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-01-01T17:00", False),
        ("{times: [{start_time: '22:00', end_time: '24:00'}]}", "2026-01-01T23:59:59", True),
        ("{times: []}", "2026-01-01T12:00", False),
        ("{weekdays: ['monday:friday']}", "2026-01-02T12:00", True),
        ("{weekdays: ['monday:friday']}", "2026-01-03T12:00", False),
        ("{weekdays: [Sunday]}", "2026-01-04T12:00", True),
        ("{weekdays: ['friday:monday']}", "2026-01-04T12:00", True),
        ("{weekdays: ['friday:monday']}", "2026-01-06T12:00", False),
        ("{days_of_month: ['-3:-1']}", "2026-02-26T12:00", True),
        ("{days_of_month: ['-3:-1']}", "2026-02-25T12:00", False),
        ("{days_of_month: ['31']}", "2026-02-28T12:00", False),
        ("{days_of_month: ['29:31']}", "2026-02-28T12:00", False),
        ("{days_of_month: ['28:31']}", "2026-02-28T12:00", True),
        ("{days_of_month: ['1:-1']}", "2026-02-14T12:00", True),
        ("{days_of_month: ['-31:-29']}", "2026-02-01T12:00", False),
        ("{months: ['january:march', 12]}", "2026-12-01T12:00", True),
        ("{months: ['january:march', 12]}", "2026-04-01T12:00", False),
        ("{years: ['2025:2026']}", "2026-12-31T23:59", True),
        ("{years: ['2025:2026']}", "2027-01-01T00:00", False),
        ("{weekdays: [monday], months: [1]}", "2026-01-05T12:00", True),
        ("{weekdays: [monday], months: [1]}", "2026-02-02T12:00", False),
    ],
)
def test_contains(written: str, at: str, *, holds: bool) -> None:
    """All fields that are written must allow the instant; of each field one range is enough."""
    assert inside(written, at) is holds


@pytest.mark.parametrize(
    ("at", "holds"),
    [("2026-03-29T01:59", True), ("2026-03-29T03:00", False), ("2026-10-25T02:30", True), ("2026-07-01T01:30", True)],
)
def test_named_zones(at: str, *, holds: bool) -> None:
    """Hours are those of the named zone, in summer as in winter, also on the days when its clocks change."""
    written = "{times: [{start_time: '01:00', end_time: '03:00'}], location: Europe/Berlin}"
    assert inside(written, at, "Europe/Berlin") is holds


def test_the_zone_of_this_machine(monkeypatch) -> None:
    """`Local` is the zone that the machine is set to."""
    written = "{times: [{start_time: '01:00', end_time: '03:00'}], location: Local}"
    try:
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert inside(written, "2026-07-01T02:30", "Europe/Berlin")
        assert not inside(written, "2026-07-01T02:30", "UTC")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_muted_says_why() -> None:
    """A route is quiet inside of a mute interval and outside of its active ones, and says which."""
    routing = load("routes.yaml", FILE.format(written="{years: [2026]}"))
    then, later = (datetime(year, 6, 1, tzinfo=ZoneInfo("UTC")).timestamp() for year in (2026, 2027))
    mute = Route(receiver="a", mute_intervals=("it",))
    active = Route(receiver="a", active_intervals=("it",))
    assert (muted(mute, routing.intervals, then), muted(mute, routing.intervals, later)) == (
        "muted by the time interval it",
        "",
    )
    assert (muted(active, routing.intervals, then), muted(active, routing.intervals, later)) == (
        "",
        "outside of the active time intervals it",
    )
