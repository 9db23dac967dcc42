"""From when on the past is known, and what is answered about earlier."""

from __future__ import annotations

import math

import pytest
from series_fleet import Fleet

T0 = 1_790_000_000
MINUTE = 60


def busy(keep, minutes=20):
    """A fact, an observation of 2 s and a sample in each minute; the frontier at the last."""
    fleet = Fleet(keep=keep)
    for minute in range(minutes + 1):
        at = T0 + MINUTE * minute
        fleet.fact("sent", at)
        fleet.measured("run", 2.0, at)
        fleet.flush()
        fleet.store.put("depth", (), at, minute)
        fleet.store.advance(at)
    return fleet


NAMES = ("task_sent_total", "task_run_seconds_bucket", "task_run_seconds_count", "task_run_seconds_sum")


@pytest.mark.parametrize("name", NAMES)
def test_all_is_known_as_long_as_nothing_left(name):
    """A young store knows everything, whatever rules announced."""
    fleet = busy((), minutes=3)
    assert fleet.store.known_from(fleet.one(name)) == -math.inf


@pytest.mark.parametrize("keep", [(), (300.0,)])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_reaches_five_minutes_back_without_any_rule(name, keep):
    """Windows of 5 minutes are known, and not much more."""
    fleet = busy(keep)
    assert T0 + 13 * MINUTE < fleet.store.known_from(fleet.one(name)) <= T0 + 15 * MINUTE


def test_a_rule_keeps_more():
    """What a rule reads is known as far back as it reads."""
    fleet = busy((900.0,))
    assert fleet.store.known_from(fleet.one("task_sent_total")) <= T0 + 5 * MINUTE


def test_an_earlier_instant_is_answered_by_the_oldest_that_is_known():
    """Reading beyond what is kept counts what is kept, never something newer."""
    fleet = busy(())
    known = fleet.store.known_from(fleet.one("task_sent_total"))
    (kept,) = fleet.increase("task_sent_total", known, T0 + 20 * MINUTE)
    assert fleet.increase("task_sent_total", T0 - 9 * MINUTE, T0 + 20 * MINUTE) == [kept]
    assert kept == 6


def test_counts_and_sums_that_no_rule_announced_come_from_the_buckets():
    """`_count` is exact and `_sum` within 1%, in any window that is kept, and at past instants."""
    fleet = busy(())
    end = T0 + 20 * MINUTE
    assert fleet.increase("task_run_seconds_count", end - 3 * MINUTE, end) == [3]
    assert fleet.increase("task_run_seconds_sum", end - 3 * MINUTE, end) == [pytest.approx(6.0, rel=0.01)]
    assert list(fleet.value("task_run_seconds_count", end - MINUTE).values()) == [20]
    assert list(fleet.value("task_run_seconds_sum", end - MINUTE).values()) == [pytest.approx(40.0, rel=0.01)]
    assert list(fleet.value("task_run_seconds_sum").values()) == [42]


def test_announced_counts_and_sums_are_exact():
    """A rule that names them keeps their past as it is."""
    fleet = busy((300.0,))
    end = T0 + 20 * MINUTE
    assert fleet.increase("task_run_seconds_sum", end - 3 * MINUTE, end) == [6]
    assert list(fleet.value("task_run_seconds_sum", end - MINUTE).values()) == [40]


def test_samples_are_known_until_they_leave():
    """A sampled metric says from when on none of its samples left."""
    fleet = busy(())
    assert fleet.store.known_from(fleet.one("depth")) == -math.inf
    fleet = busy((), minutes=60)
    assert T0 + 40 * MINUTE < fleet.store.known_from(fleet.one("depth")) < T0 + 60 * MINUTE


def test_the_first_event_of_each_series_is_known():
    """A series that waits for its first event has none; what a rule expects stood at 0 since ever."""
    fleet = Fleet()
    fleet.facts("sent", T0 + 5)
    fleet.facts("flight_down", T0 + 7)
    fleet.store.advance(T0 + 5)
    fleet.store.expect("task_sent_total", (("queue", "q"), ("task", "expected")))
    assert fleet.store.born_at(fleet.one("task_sent_total")).tolist() == [T0 + 5, -math.inf]
    assert fleet.store.born_at(fleet.one("tasks_in_flight")).tolist() == [math.inf]
    fleet.store.put("depth", (), T0, 1)
    assert fleet.store.born_at(fleet.one("depth")).tolist() == [-math.inf]
