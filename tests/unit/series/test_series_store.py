"""The store as evaluations see it: which series there are, what they are worth, what changed, how they leave."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from series_fleet import Fleet, match

from collector.model.labels import Matcher, labels_of
from collector.model.stale import STALE
from collector.series.buckets import LE_TEXT
from collector.series.expose import families, totals
from collector.series.observe import METRICS
from collector.series.store import Store
from collector.trail.rows import Errors, Rows
from collector.trail.transitions import FACTS, MEASURES

T0 = 1_790_000_000
HOUR = 3_600


class Counted:
    """A matcher's test that counts how often it was asked."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.asked = 0

    def test(self, text):
        """Ask."""
        self.asked += 1
        return text == self.wanted

    def matchers(self, name="queue"):
        """The one matcher."""
        return (Matcher(name=name, op="=", value=self.wanted, test=self.test),)


def regex(name, pattern, op="=~"):
    """A matcher by regular expression."""
    compiled = re.compile(pattern)
    wanted = op == "=~"
    return Matcher(name=name, op=op, value=pattern, test=lambda text: bool(compiled.fullmatch(text)) == wanted)


def test_every_fact_and_measure_feeds_exactly_one_metric():
    """The table leaves nothing out and feeds nothing twice."""
    feeds = [feed for metric in METRICS for feed in metric.feeds]
    assert sorted(feeds) == sorted((*FACTS, *MEASURES))


def test_a_series_is_named_by_task_queue_source_and_error(fleet):
    """Failures carry their error class, and an empty name is a label that is not there."""
    fleet.facts("sent", T0 + 1, queue="")
    fleet.facts("failed", T0 + 1, error="ValueError")
    fleet.facts("failed", T0 + 1, error="")
    fleet.store.advance(T0 + 1)
    assert fleet.value("task_sent_total") == {labels_of({"task": "t", "source": "s"}): 1}
    plain = {"task": "t", "queue": "q", "source": "s"}
    assert fleet.value("task_failed_total") == {labels_of({**plain, "error": "ValueError"}): 1, labels_of(plain): 1}


def test_a_selection_is_the_same_object_until_its_membership_changes(fleet):
    """Caches may hang on the identity of the labels; a birth elsewhere leaves it, a birth inside changes it."""
    fleet.facts("sent", T0 + 1, queue="a")
    first = fleet.one("task_sent_total", queue="a")
    fleet.facts("sent", T0 + 1, queue="b")
    fleet.facts("sent", T0 + 2, queue="a")
    assert fleet.one("task_sent_total", queue="a") is first
    fleet.facts("sent", T0 + 1, queue="a", task="u")
    second = fleet.one("task_sent_total", queue="a")
    assert second.labels[:1] == first.labels
    assert len(second.labels) == 2


def test_a_birth_is_tested_once_per_selection(fleet):
    """Selecting again costs no matching, and after births only the newborns are matched."""
    for index in range(200):
        fleet.fact("sent", T0 + 1, task=f"t{index}", queue=f"q{index % 2}")
    fleet.flush()
    test = Counted("q1")
    matchers = test.matchers()
    fleet.store.select("task_sent_total", matchers)
    fleet.store.select("task_sent_total", matchers)
    assert test.asked == 200
    fleet.facts("sent", T0 + 1, task="new", queue="q1")
    (found,) = fleet.store.select("task_sent_total", matchers)
    assert test.asked == 201
    assert len(found.labels) == 101


def test_a_selector_without_a_name_reaches_every_metric_that_matches(fleet):
    """One set per metric, sampled and event-fed, by the matchers of `__name__`."""
    fleet.facts("sent", T0 + 1)
    fleet.facts("started", T0 + 1)
    fleet.measured("run", 1.0, T0 + 1)
    fleet.flush()
    fleet.store.put("task_gauge", labels_of({"queue": "q"}), T0 + 1, 5)
    names = [found.name for found in fleet.store.select(None, (regex("__name__", "task_.*"), *match(queue="q")))]
    assert names == [
        "task_sent_total",
        "task_started_total",
        "task_run_seconds_bucket",
        "task_run_seconds_count",
        "task_run_seconds_sum",
        "task_gauge",
    ]
    assert fleet.store.select("task_sent_total", (regex("__name__", "task_sent.*", "!~"),)) == ()
    assert fleet.store.select("nothing", ()) == ()


def test_a_metric_that_comes_later_is_found_by_a_selector_asked_before(fleet):
    """What was decided about names is decided anew when a sampled metric comes or goes."""
    matchers = match(queue="q")
    assert fleet.store.select("queue_length", matchers) == ()
    fleet.store.put("queue_length", labels_of({"queue": "q"}), T0, 3)
    (found,) = fleet.store.select("queue_length", matchers)
    assert (found.kind, found.labels) == ("sampled", (labels_of({"queue": "q"}),))


def test_a_name_may_be_fed_by_events_and_by_samples(fleet):
    """Samples of a rule test under a counter's name stand beside the counter, as a set of their own."""
    fleet.facts("sent", T0 + 1)
    fleet.store.put("task_sent_total", labels_of({"task": "x"}), T0 + 1, 7)
    kinds = [found.kind for found in fleet.store.select("task_sent_total", ())]
    assert kinds == ["counter", "sampled"]
    assert len(fleet.store.select("task_sent_total", match(task="x"))) == 1


def test_trail_gauges_are_ups_less_downs_at_every_instant(fleet):
    """Exact now and in the past, and there from the first of either on."""
    fleet.facts("flight_up", T0 + 1, T0 + 2, T0 + 3)
    fleet.facts("flight_down", T0 + 2.5, T0 + 5)
    for second in range(1, 7):
        fleet.store.advance(T0 + second)
    assert list(fleet.value("tasks_in_flight").values()) == [1]
    assert [list(fleet.value("tasks_in_flight", at=T0 + at).values()) for at in (0, 1, 2, 3, 5)] == [
        [],
        [1],
        [2],
        [2],
        [1],
    ]
    assert fleet.one("tasks_in_flight").kind == "gauge"


def test_a_downward_fact_first_gives_what_it_says(fleet):
    """In disorder a gauge may come down before it went up; it is there, and right in the end."""
    fleet.facts("dead_down", T0 + 1)
    fleet.store.advance(T0 + 1)
    assert list(fleet.value("dead_letters_open").values()) == [-1]
    fleet.facts("dead_up", T0 + 0.5)
    assert list(fleet.value("dead_letters_open").values()) == [0]
    assert fleet.store.born(fleet.one("dead_letters_open")).tolist() == [True]


def test_changed_says_whether_an_input_moved(fleet):
    """Only for the series that did, only after the version asked about, when a fact is folded or comes late."""
    fleet.facts("sent", T0 + 1, queue="a")
    fleet.facts("sent", T0 + 1, queue="b")
    fleet.facts("flight_down", T0 + 1)
    fleet.measured("run", 1.0, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 2)
    names = [("task_sent_total", {"queue": "a"}), ("tasks_in_flight", {}), ("task_run_seconds_bucket", {})]
    sets = [fleet.one(name, **labels) for name, labels in names]

    def changed(since):
        return [fleet.store.changed(series, since) for series in sets]

    version = fleet.store.version
    assert changed(version) == [False, False, False]
    assert changed(0) == [True, True, True]
    fleet.facts("sent", T0 + 3, queue="a")
    fleet.store.advance(T0 + 2.5)
    assert changed(version) == [False, False, False]
    fleet.store.advance(T0 + 3)
    assert changed(version) == [True, False, False]
    version = fleet.store.version
    fleet.facts("sent", T0 + 3, queue="b")
    fleet.facts("flight_down", T0 + 3)
    assert changed(version) == [False, True, False]
    fleet.measured("run", 1.0, T0 + 3)
    fleet.flush()
    assert changed(version) == [False, True, True]


def test_an_expected_series_exists_from_zero_and_is_not_born():
    """It has the value 0 at any instant, an increase of 0, and absent() may tell it from one with an event."""
    fleet = Fleet()
    fleet.store.expect("task_dead_lettered_total", labels_of({"task": "t", "queue": "q"}))
    fleet.store.expect("task_run_seconds_count", labels_of({"task": "t", "queue": "q"}))
    fleet.store.expect("tasks_in_flight", labels_of({"task": "t", "queue": "q"}))
    fleet.store.expect("unknown", labels_of({"task": "t", "queue": "q"}))
    series = fleet.one("task_dead_lettered_total", task="t")
    assert fleet.value("task_dead_lettered_total", at=T0 - 1e6) == {labels_of({"task": "t", "queue": "q"}): 0}
    assert fleet.store.increase(series, T0 - 300, T0).tolist() == [0]
    assert fleet.store.born(series).tolist() == [False]
    assert fleet.store.born(fleet.one("task_run_seconds_count")).tolist() == [False]
    assert fleet.store.select("tasks_in_flight", ()) == ()


def test_the_first_event_takes_the_place_of_an_expected_series():
    """The real one, with its source and error, was there from 0 on; the expected one is gone, others stay."""
    fleet = Fleet()
    for task in ("t", "u"):
        fleet.store.expect("task_dead_lettered_total", labels_of({"task": task, "queue": "q"}))
    fleet.facts("dead_lettered", T0 + 10, error="E")
    series = fleet.one("task_dead_lettered_total", task="t")
    assert [dict(labels).get("error") for labels in series.labels] == ["E"]
    fleet.store.advance(T0 + 10)
    assert list(fleet.value("task_dead_lettered_total", at=T0 + 5, task="t").values()) == [0]
    assert fleet.store.born(series).tolist() == [True]
    fleet.facts("dead_lettered", T0 + 11, error="F")
    assert len(fleet.one("task_dead_lettered_total").labels) == 3


def test_an_expected_series_with_all_labels_becomes_the_real_one():
    """Where the labels are the same it is the same series."""
    fleet = Fleet()
    labels = labels_of({"task": "t", "queue": "q", "source": "s"})
    fleet.store.expect("task_sent_total", labels)
    series = fleet.one("task_sent_total")
    fleet.facts("sent", T0 + 1)
    fleet.store.advance(T0 + 1)
    assert fleet.one("task_sent_total") is series
    assert fleet.value("task_sent_total") == {labels: 1}
    fleet.store.expect("task_sent_total", labels_of({"task": "t", "queue": "q"}))
    assert fleet.one("task_sent_total") is series


def test_beyond_the_cap_facts_are_counted_together_and_the_overflow_is_counted():
    """No fact is lost: it goes to the source's `_other` series, whose failures have no error class of their own."""
    fleet = Fleet(cap=2)
    for task in ("a", "b", "c", "d"):
        fleet.facts("sent", T0 + 1, task=task)
    fleet.facts("failed", T0 + 1, task="a", error="E")
    fleet.facts("sent", T0 + 2, task="d")
    fleet.store.advance(T0 + 2)
    values = {dict(labels)["task"]: value for labels, value in fleet.value("task_sent_total").items()}
    assert values == {"a": 1, "b": 1, "_other": 3}
    (other,) = fleet.value("task_failed_total")
    assert other == labels_of({"task": "_other", "queue": "_other", "source": "s", "error": "_other"})
    assert fleet.store.evictions == {"series_cap": 3}


def idle(fleet, hours):
    """Let hours pass, a minute at a time at most."""
    start = fleet.store.frontier
    for minute in range(1, hours * 60 + 1):
        fleet.store.advance(start + minute * 60)


def test_a_series_without_events_leaves_after_its_time():
    """Counted by reason; its labels leave every selection; its totals stay; its column serves the next one, from 0."""
    fleet = Fleet(idle_seconds=2 * HOUR)
    fleet.facts("sent", T0 + 1, T0 + 2, task="old")
    fleet.facts("failed", T0 + 1, task="old", error="E")
    fleet.measured("run", 4.0, T0 + 1, task="old")
    fleet.flush()
    fleet.store.advance(T0 + 2)
    before = fleet.one("task_sent_total")
    idle(fleet, 1)
    assert fleet.one("task_sent_total") is before
    idle(fleet, 2)
    assert fleet.store.select("task_sent_total", ()) == ()
    assert fleet.store.select("task_run_seconds_bucket", ()) == ()
    assert fleet.store.evictions == {"series_idle": 3}
    assert totals(fleet.store)["old"]["sent"] == 2
    at = fleet.store.frontier
    fleet.facts("sent", at + 1, task="old")
    fleet.measured("run", 9.0, at + 1, task="new")
    fleet.flush()
    fleet.store.advance(at + 1)
    assert list(fleet.value("task_sent_total").values()) == [1]
    assert fleet.increase("task_sent_total", at - 200, at + 1) == [1]
    assert list(fleet.value("task_run_seconds_count").values()) == [1]
    assert list(fleet.value("task_run_seconds_sum").values()) == [9]
    assert list(fleet.value("task_run_seconds_bucket", le="10").values()) == [1]
    assert list(fleet.value("task_run_seconds_bucket", le="5").values()) == [0]
    assert totals(fleet.store)["old"] == {**dict.fromkeys(totals(fleet.store)["old"], 0), "sent": 3, "failed": 1}


def test_many_series_leave_in_short_steps():
    """At most a thousand at a time, every minute, until all are gone."""
    fleet = Fleet(idle_seconds=HOUR)
    for index in range(2_300):
        fleet.fact("sent", T0 + 1, task=f"t{index}")
    fleet.flush()
    fleet.store.advance(T0 + 1)
    idle(fleet, 1)
    left = [fleet.store.catalogue.size]
    for _ in range(3):
        fleet.store.advance(fleet.store.frontier + 60)
        left.append(fleet.store.catalogue.size)
    assert left == [1_300, 300, 0, 0]


def test_no_gauge_leaves_while_it_is_not_zero():
    """What went up must be there to come down; at 0 it may go."""
    fleet = Fleet(idle_seconds=HOUR)
    fleet.facts("flight_up", T0 + 1, T0 + 1)
    fleet.facts("flight_down", T0 + 1)
    fleet.store.advance(T0 + 1)
    idle(fleet, 3)
    assert list(fleet.value("tasks_in_flight").values()) == [1]
    fleet.facts("flight_down", fleet.store.frontier)
    idle(fleet, 3)
    assert fleet.store.select("tasks_in_flight", ()) == ()


def test_no_series_leaves_while_a_fact_for_it_waits():
    """A fact far ahead keeps its column."""
    fleet = Fleet(idle_seconds=HOUR)
    fleet.facts("sent", T0 + 1, T0 + 4 * HOUR)
    fleet.store.advance(T0 + 1)
    idle(fleet, 3)
    assert list(fleet.value("task_sent_total").values()) == [1]
    idle(fleet, 1)
    assert list(fleet.value("task_sent_total").values()) == [2]


def test_no_series_leaves_while_a_window_reaches_its_last_event():
    """A kept window is longer than the idle time: the window wins."""
    fleet = Fleet(idle_seconds=60)
    fleet.store.keep(4 * HOUR, "task_sent_total")
    fleet.facts("sent", T0 + 60)
    fleet.store.advance(T0 + 60)
    idle(fleet, 3)
    assert fleet.increase("task_sent_total", T0 - HOUR, fleet.store.frontier) == [1]


def test_an_expected_series_comes_back_when_the_real_one_leaves():
    """What a rule expects exists from 0 again."""
    fleet = Fleet(idle_seconds=HOUR)
    expected = labels_of({"task": "t", "queue": "q"})
    fleet.store.expect("task_sent_total", expected)
    fleet.facts("sent", T0 + 1)
    fleet.store.advance(T0 + 1)
    idle(fleet, 2)
    assert fleet.value("task_sent_total") == {expected: 0}


def test_event_fed_series_are_sampled_at_the_end_and_every_step_before(fleet):
    """As far back as the series existed, in (start, end]."""
    fleet.facts("sent", T0 + 95, T0 + 100, T0 + 101)
    fleet.facts("sent", T0 + 119, task="u")
    for second in range(90, 121):
        fleet.store.advance(T0 + second)
    (times, values), (other_times, other_values) = fleet.store.samples(
        fleet.one("task_sent_total"), T0 + 60, T0 + 120, 10
    )
    assert times.tolist() == [T0 + 100, T0 + 110, T0 + 120]
    assert values.tolist() == [2, 3, 3]
    assert (other_times.tolist(), other_values.tolist()) == ([T0 + 120], [1])


def test_only_what_a_rule_reads_is_kept(fleet):
    """`keep` with a name adds slots for that metric alone, without one for all."""
    catalogue = fleet.store.catalogue
    banks = (catalogue.counts, catalogue.histograms.counts, catalogue.histograms.sums)
    store = Store(METRICS, Rows(), Errors())
    banks = (store.catalogue.counts, store.catalogue.histograms.counts, store.catalogue.histograms.sums)

    def grains():
        return [[level.grain / 1e6 for level in bank.levels] for bank in banks]

    store.keep(0)
    assert grains() == [[1], [], []]
    store.keep(900, "task_run_seconds_sum")
    store.keep(30, "task_sent_total")
    store.keep(7200, "some_sampled_gauge")
    assert grains() == [[0.1, 1], [], [5]]
    store.keep(7200, "task_run_seconds_bucket")
    assert grains() == [[0.1, 1], [], [5]]
    store.keep(60)
    assert grains() == [[0.1, 1], [1], [1, 5]]


def test_families_are_what_metrics_shows(fleet):
    """Types, helps and values; histograms with 20 cumulative buckets and sum; sampled gauges that are not stale."""
    fleet.facts("sent", T0 + 1)
    fleet.facts("flight_up", T0 + 1)
    fleet.measured("run", 0.02, T0 + 1)
    fleet.measured("run", 7.0, T0 + 1)
    fleet.measured("wait", 7.0, T0 + 9)
    fleet.flush()
    fleet.store.put("queue_length", labels_of({"queue": "q"}), T0 + 1, 4)
    fleet.store.put("gone", labels_of({"queue": "q"}), T0 + 1, STALE)
    fleet.store.advance(T0 + 2)
    shown = {family.name: family for family in families(fleet.store)}
    labels = labels_of({"task": "t", "queue": "q", "source": "s"})
    sent, flight, run, wait = (
        shown[name] for name in ("task_sent_total", "tasks_in_flight", "task_run_seconds", "task_wait_seconds")
    )
    assert (sent.labels, sent.values.tolist(), sent.born_at.tolist()) == ([labels], [1], [T0 + 1])
    assert (flight.type, flight.labels, flight.values.tolist()) == ("gauge", [labels], [1])
    assert (run.labels, run.values.tolist(), run.buckets.shape) == ([labels], [7.02], (1, 20))
    assert run.buckets[0, LE_TEXT.index("0.025")] == 1
    assert run.buckets[0, -1] == 2
    assert (wait.labels, wait.values.tolist(), wait.buckets.shape) == ([], [], (0, 20))
    assert (shown["queue_length"].labels, shown["queue_length"].values.tolist()) == ([labels_of({"queue": "q"})], [4])
    assert set(shown) == {"task_sent_total", "tasks_in_flight", "task_run_seconds", "task_wait_seconds", "queue_length"}
    assert all(family.help for family in shown.values())


def test_totals_sum_over_queues_sources_errors_and_what_waits(fleet):
    """One number per task and counter, whether or not the frontier has come to it."""
    fleet.facts("failed", T0 + 1, error="E")
    fleet.facts("failed", T0 + 1, error="F", queue="r", source="z")
    fleet.facts("sent", T0 + 1, T0 + 100)
    fleet.facts("lost", T0 + 1, task="")
    fleet.store.advance(T0 + 1)
    got = totals(fleet.store)
    assert {task: {fact: n for fact, n in facts.items() if n} for task, facts in got.items()} == {
        "": {"lost": 1},
        "t": {"failed": 2, "sent": 2},
    }
    assert {"in_time", "duplicate_success", "redelivered"} <= set(got["t"])


def test_a_sample_holds_five_minutes_left_open(fleet):
    """It is there up to, not at, five minutes later; a later sample replaces it."""
    labels = labels_of({"queue": "q"})
    fleet.store.put("g", labels, T0, 1)
    fleet.store.put("g", labels, T0 + 400, 2)
    assert fleet.value("g", at=T0 - 1) == {}
    assert fleet.value("g", at=T0) == {labels: 1}
    assert fleet.value("g", at=T0 + 299.9) == {labels: 1}
    assert fleet.value("g", at=T0 + 300) == {}
    assert fleet.value("g", at=T0 + 400) == {labels: 2}


def test_a_stale_marker_ends_a_series_and_is_in_no_range(fleet):
    """It hides what was before it; an ordinary NaN is a value."""
    labels = labels_of({"queue": "q"})
    fleet.store.put("g", labels, T0, 1)
    fleet.store.put("g", labels, T0 + 10, STALE)
    fleet.store.put("g", labels, T0 + 20, math.nan)
    assert fleet.value("g", at=T0 + 10) == {}
    assert math.isnan(fleet.value("g", at=T0 + 20)[labels])
    ((times, values),) = fleet.store.samples(fleet.one("g"), T0 - 1, T0 + 30, 15)
    assert times.tolist() == [T0, T0 + 20]
    assert values[0] == 1
    with pytest.raises(ValueError, match="samples, not events"):
        fleet.store.increase(fleet.one("g"), T0, T0 + 1)


def test_samples_out_of_order_are_put_in_order(fleet):
    """A second sample for one instant replaces the first; an earlier one goes before."""
    labels = labels_of({"queue": "q"})
    for at, value in ((10, 1), (30, 3), (20, 2), (20, 5)):
        fleet.store.put("g", labels, T0 + at, value)
    ((times, values),) = fleet.store.samples(fleet.one("g"), T0 + 10, T0 + 30, 1)
    assert (times - T0).tolist() == [20, 30]
    assert values.tolist() == [5, 3]
    assert fleet.value("g", at=T0 + 31) == {labels: 3}


def test_sampled_series_change_and_are_born_with_a_sample(fleet):
    """A sample is a change of that series only."""
    fleet.store.put("g", labels_of({"queue": "a"}), T0, 1)
    fleet.store.put("g", labels_of({"queue": "b"}), T0, 1)
    version = fleet.store.version
    fleet.store.put("g", labels_of({"queue": "a"}), T0 + 1, 1)
    assert fleet.store.changed(fleet.one("g", queue="a"), version)
    assert not fleet.store.changed(fleet.one("g", queue="b"), version)
    assert fleet.store.born(fleet.one("g")).tolist() == [True, True]


def test_samples_are_bounded_and_series_without_any_leave(fleet):
    """History is as long as the longest kept window and the look-back; a silent series goes, its place is used."""
    labels = labels_of({"queue": "q"})
    for second in range(3_000):
        fleet.store.put("g", labels, T0 + second, second)
        fleet.store.advance(T0 + second)
    assert len(fleet.store.sampled._times[0]) <= 1_300
    ((times, _),) = fleet.store.samples(fleet.one("g"), T0 + 2_399, T0 + 2_999, 1)
    assert len(times) == 600
    idle(fleet, 1)
    assert fleet.store.select("g", ()) == ()
    fleet.store.put("h", labels, fleet.store.frontier, 1)
    assert len(fleet.store.sampled._times) == 1
    assert fleet.value("h") == {labels: 1}


def test_samples_put_before_time_has_come_stay():
    """A rule test loads all its samples first and then walks: nothing leaves that the walk has not passed."""
    fleet = Fleet()
    labels = labels_of({"queue": "q"})
    for minute in range(200):
        fleet.store.put("g", labels, minute * 60.0, minute)
    for minute in range(200):
        fleet.store.advance(minute * 60.0)
        assert fleet.value("g", at=minute * 60.0) == {labels: minute}


def test_many_sampled_series_grow_their_columns(fleet):
    """Hundreds of series are read with one look-up each."""
    for index in range(300):
        fleet.store.put("g", labels_of({"queue": f"q{index}"}), T0, index)
    assert sorted(fleet.value("g", at=T0).values()) == list(range(300))


def test_selections_asked_once_do_not_pile_up(fleet):
    """Ad hoc queries with ever new matchers are forgotten, the oldest first."""
    fleet.facts("sent", T0 + 1)
    for index in range(2_500):
        fleet.store.select("task_sent_total", match(task=f"x{index}"))
    members = fleet.store.catalogue.families[0].members
    assert len(members._selections) <= 1_000
    assert len(fleet.store._selector._plans) <= 2_001


def test_sets_of_another_store_are_refused(fleet):
    """A foreign object is an error of the caller, named as such."""

    class Foreign:
        name, kind, labels = "x", "counter", ()

    with pytest.raises(TypeError, match="not a series set"):
        fleet.store.value(Foreign(), T0)


def test_empty_sets_answer_empty(fleet):
    """A histogram selection of nothing is no set at all; arrays are parallel to labels."""
    fleet.facts("sent", T0 + 1)
    assert fleet.store.select("task_sent_total", match(task="nobody")) == ()
    values, there = fleet.store.value(fleet.one("task_sent_total"), T0)
    assert (values.dtype, len(values)) == (np.float64, 1)
    assert there.tolist() == [False]


def test_nothing_is_imported_at_the_first_event():
    """What numpy imports when it is first used is there before: then there may be no descriptor left to read it."""
    code = "import sys, collector.series.store; sys.exit('numpy.ma' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
