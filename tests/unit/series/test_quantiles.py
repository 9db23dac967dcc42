"""Quantiles over sliding windows: 1% at most from the exact one, whatever the order, and exact `le` counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series_fleet import Fleet, match

from collector.series.buckets import EDGES, LE, LE_OF_BIN, LE_TEXT, MIDDLES, Pages, bins_of

T0 = 1_790_000_000

seconds_st = st.one_of(
    st.just(0.0), st.sampled_from(LE[:-1]), st.floats(math.log(1e-6), math.log(864_000)).map(math.exp)
)
observations_st = st.lists(st.tuples(st.integers(0, 2), seconds_st, st.integers(0, 700)), min_size=1, max_size=60)


def exact(values, q):
    """The ceil(q * n)-th smallest."""
    return sorted(values)[max(math.ceil(round(q * len(values), 9)), 1) - 1]


def observed(observations, steps, keep=(300.0,)):
    """A fleet that got the observations in their order, with the frontier walking in between, then to T0 + 700."""
    fleet = Fleet(keep=keep)
    at = 0.0
    for index, (task, seconds, offset) in enumerate(observations):
        fleet.measured("run", seconds, T0 + offset, task=f"t{task}")
        if index < len(steps) and steps[index]:
            fleet.flush()
            at = min(at + steps[index], 700)
            fleet.store.advance(T0 + at)
            for window in keep:  # windows run while facts come
                ask(fleet, T0 + at - window, T0 + at)
    fleet.flush()
    fleet.store.advance(T0 + 700)
    return fleet


def ask(fleet, start, end, q=0.5, name="task_run_seconds_bucket"):
    """Label set -> quantile, each series by itself."""
    (series,) = fleet.store.select(name, ())
    groups = np.arange(len(series.labels))
    return dict(
        zip(series.labels, fleet.store.quantile(series, groups, len(groups), q, start, end).tolist(), strict=True)
    )


@settings(max_examples=120, deadline=None)
@given(
    observations=observations_st,
    steps=st.lists(st.sampled_from([0.0, 0.1, 1.0, 33.3, 90.0]), max_size=60),
    keep=st.sampled_from([(300.0,), (30.0, 300.0), (30.0, 900.0, 86_400.0)]),
    q=st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0]),
    data=st.data(),
)
def test_a_quantile_is_at_most_one_percent_off(observations, steps, keep, q, data):
    """For any kept window at the frontier or before it, over the observations in (start, end]."""
    fleet = observed(observations, steps, keep)
    window = data.draw(st.sampled_from(keep))
    back = data.draw(st.sampled_from([0, 60] if window > 60 and len(keep) < 3 else [0]))
    start, end = T0 + 700 - window, T0 + 700 - back
    for labels, got in ask(fleet, start, end, q).items():
        values = [v for task, v, at in observations if ("task", f"t{task}") in labels and start < T0 + at <= end]
        if values:
            assert got == pytest.approx(exact(values, q), rel=0.01, abs=1e-9)
        else:
            assert math.isnan(got)


@settings(max_examples=60, deadline=None)
@given(observations=observations_st, steps=st.lists(st.sampled_from([0.1, 5.0, 60.0]), max_size=60), data=st.data())
def test_quantiles_sums_and_buckets_do_not_depend_on_the_order(observations, steps, data):
    """The same observations in another order, along another walk, give the same numbers to the last bit."""
    answers = []
    for order in (observations, data.draw(st.permutations(observations))):
        fleet = observed(order, steps if order is observations else [])
        quantiles = {labels: repr(value) for labels, value in ask(fleet, T0 + 400, T0 + 700).items()}
        sums = fleet.one("task_run_seconds_sum")
        increases = fleet.store.increase(sums, T0 + 400, T0 + 700).tolist()
        answers.append(
            (
                quantiles,
                dict(zip(sums.labels, increases, strict=True)),
                fleet.value("task_run_seconds_sum"),
                fleet.value("task_run_seconds_bucket", le="10.0"),
            )
        )
    assert answers[0] == answers[1]


@given(groups=st.lists(st.integers(0, 4), min_size=1, max_size=12), q=st.sampled_from([0.0, 0.5, 0.99]), data=st.data())
@settings(max_examples=60, deadline=None)
def test_groups_merge_their_histograms(groups, q, data):
    """The quantile of a group is that of all observations of its series, in any order; an empty one is NaN."""
    pages = Pages(len(groups))
    values = [data.draw(st.lists(st.floats(1e-5, 1e4), max_size=6)) for _ in groups]
    for histogram, seconds in enumerate(values):
        if seconds:
            pages.add(((histogram << 11) | bins_of(np.array(seconds))).astype(np.uint32))
    got = pages.quantile(np.arange(len(groups)), np.array(groups), 5, q)
    for group in range(5):
        together = [v for of, seconds in zip(groups, values, strict=True) if of == group for v in seconds]
        if together:
            assert got[group] == pytest.approx(exact(together, q), rel=0.01)
        else:
            assert math.isnan(got[group])


def test_quantiles_outside_zero_to_one_are_infinite_as_in_prometheus():
    """Below 0 -Inf, above 1 +Inf, NaN for NaN and for nothing observed."""
    pages = Pages(2)
    pages.add(np.array([700], np.uint32))
    columns = groups = np.arange(2)
    assert pages.quantile(columns, groups, 2, -0.1)[0] == -math.inf
    assert pages.quantile(columns, groups, 2, 1.1)[0] == math.inf
    assert np.isnan(pages.quantile(columns, groups, 2, 1.1)[1])
    assert np.isnan(pages.quantile(columns, groups, 2, math.nan)).all()
    assert pages.quantile(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0.5).tolist() == []


def test_the_bins_keep_their_promise():
    """Neighbouring edges are at most 2% apart, a middle is at most 1% from both, every mark is an edge, keys fit."""
    inner = EDGES[1:]
    assert (inner[1:] / inner[:-1]).max() <= 1.0201
    middles = MIDDLES[2:-1]
    assert (np.abs(middles / inner[:-1] - 1) <= 0.01).all()
    assert (np.abs(middles / inner[1:] - 1) <= 0.01).all()
    assert set(LE[:-1]) <= set(EDGES.tolist())
    assert len(MIDDLES) <= 1 << 11
    assert len(LE) == len(LE_TEXT) == 20
    assert len(LE_OF_BIN) == len(MIDDLES)


@given(seconds=seconds_st)
def test_a_duration_lies_under_exactly_the_marks_that_are_not_below_it(seconds):
    """Left-open buckets: a duration equal to a mark is counted at that mark."""
    lowest = LE_OF_BIN[bins_of(np.array([seconds]))[0]]
    assert lowest == next(index for index, mark in enumerate(LE) if seconds <= mark)


def test_bins_end_where_their_edges_are():
    """Every edge, and the floats beside it, lie in the bin that a search among the edges gives."""
    beside = [np.nextafter(EDGES, -np.inf), EDGES, np.nextafter(EDGES, np.inf), [5e-324, 1e9, np.inf]]
    seconds = np.concatenate([*beside, np.geomspace(1e-8, 1e8, 50_000)])
    assert np.array_equal(bins_of(seconds), np.searchsorted(EDGES, seconds))


def test_extremes_are_answered_not_refused(fleet):
    """0 answers 0, less than a microsecond one microsecond, years the largest bin."""
    for task, seconds in (("zero", 0.0), ("tiny", 1e-9), ("micro", 1e-6), ("huge", 1e12)):
        fleet.measured("run", seconds, T0 + 1.0, task=task)
    fleet.flush()
    fleet.store.advance(T0 + 2)
    got = {dict(labels)["task"]: value for labels, value in ask(fleet, T0 - 298, T0 + 2).items()}
    assert got == {"zero": 0.0, "tiny": 1e-6, "micro": 1e-6, "huge": 8_640_000.0}


def test_count_and_sum_are_exact_counters(fleet):
    """`_count` and `_sum` answer values and increases in whole observations and microseconds."""
    for offset in range(10):
        fleet.measured("run", 0.1, T0 + offset + 0.5)
    fleet.flush()
    fleet.store.advance(T0 + 10)
    assert list(fleet.value("task_run_seconds_sum").values()) == [1.0]
    assert list(fleet.value("task_run_seconds_sum", at=T0 + 3).values()) == [0.3]
    assert list(fleet.value("task_run_seconds_count").values()) == [10]
    assert fleet.increase("task_run_seconds_count", T0 + 5, T0 + 10) == [5]
    assert fleet.increase("task_run_seconds_sum", T0 + 5, T0 + 10) == [0.5]


def test_le_series_are_exact_on_demand(fleet):
    """A matcher of `le`, in either spelling, gives counters with exact values and increases."""
    for offset, seconds in enumerate([0.005, 0.0051, 0.5, 0.7, 30.0, 90_000.0]):
        fleet.measured("run", seconds, T0 + offset + 1)
    fleet.flush()
    fleet.store.advance(T0 + 10)
    half = fleet.one("task_run_seconds_bucket", le="0.5")
    assert (half.kind, dict(half.labels[0])["le"]) == ("counter", "0.5")
    assert fleet.store.value(half, T0 + 10)[0].tolist() == [3]
    assert fleet.store.value(half, T0 + 2)[0].tolist() == [2]
    assert fleet.store.increase(half, T0 + 1, T0 + 10).tolist() == [2]
    assert fleet.value("task_run_seconds_bucket", le="1") == fleet.value("task_run_seconds_bucket", le="1.0")
    assert list(fleet.value("task_run_seconds_bucket", le="+Inf").values()) == [6]
    assert fleet.store.select("task_run_seconds_bucket", match(le="0.123")) == ()


def test_buckets_expand_a_histogram_into_its_twenty_series(fleet):
    """The set is the same object as long as the histogram's is, and cumulative along `le`."""
    fleet.measured("wait", 2.0, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 2)
    whole = fleet.one("task_wait_seconds_bucket")
    series = fleet.store.buckets(whole)
    assert series is fleet.store.buckets(fleet.one("task_wait_seconds_bucket"))
    assert [dict(labels)["le"] for labels in series.labels] == list(LE_TEXT)
    assert fleet.store.value(series, T0 + 2)[0].tolist() == [float(mark >= 2) for mark in LE]
    assert fleet.store.increase(series, T0, T0 + 2).tolist() == [float(mark >= 2) for mark in LE]
    with pytest.raises(ValueError, match="without le"):
        fleet.store.value(whole, T0 + 2)
    with pytest.raises(TypeError, match="no histogram"):
        fleet.store.buckets(fleet.one("task_wait_seconds_count"))


def test_a_running_window_is_built_once_and_moved(fleet):
    """Asked at every second, a window takes away what left it instead of counting anew; ad hoc widths leave nothing."""
    for offset in range(400):
        fleet.measured("run", 1.0 + offset, T0 + offset)
        fleet.flush()
        fleet.store.advance(T0 + offset + 0.5)
        if offset:
            ask(fleet, fleet.store.frontier - 300, fleet.store.frontier)
            ask(fleet, fleet.store.frontier - 17, fleet.store.frontier)
    running = fleet.store.catalogue.histograms._running
    assert set(running) == {300_000_000}
    (got,) = ask(fleet, T0 + 99.5, T0 + 399.5, q=0.0).values()
    assert got == pytest.approx(101, rel=0.01)  # the edge is rounded down to 1 s, so the fact at 100 is in
    (start,) = {run.start for run in running.values()}
    assert start == (T0 + 99) * 1_000_000


def test_a_running_window_nobody_asks_for_leaves(fleet):
    """After an hour without a question it is dropped; the next question gets the right answer all the same."""
    fleet.measured("run", 5.0, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 2)
    ask(fleet, T0 - 298, T0 + 2)
    fleet.measured("run", 7.0, T0 + 4_000)
    fleet.flush()
    fleet.store.advance(T0 + 4_001)
    assert not fleet.store.catalogue.histograms._running
    (got,) = ask(fleet, T0 + 3_701, T0 + 4_001).values()
    assert got == pytest.approx(7, rel=0.01)


def test_a_running_window_may_begin_earlier_again(fleet):
    """Asked for a start before the last one, it takes back in what it had let go."""
    for offset in range(10):
        fleet.measured("run", 1.0 + offset, T0 + offset)
    fleet.flush()
    fleet.store.advance(T0 + 20)
    assert min(ask(fleet, T0 + 5, T0 + 305, q=0.0).values()) == pytest.approx(7, rel=0.01)
    assert min(ask(fleet, T0 - 1, T0 + 299, q=0.0).values()) == pytest.approx(1, rel=0.01)


def test_a_hundred_histograms_are_as_good_as_one(fleet):
    """Columns, pages and totals grow while a window runs; each histogram keeps its own numbers."""
    for task in range(100):
        fleet.measured("run", 1.0 + task, T0 + 1 + task, task=f"t{task:02}")
        fleet.flush()
        fleet.store.advance(T0 + 1 + task)
        got = ask(fleet, T0 - 199 + task, T0 + 101 + task)
        assert sorted(got.values()) == pytest.approx([1.0 + other for other in range(task + 1)], rel=0.01)
    assert sum(fleet.value("task_run_seconds_bucket", le="10").values()) == 10


def test_a_late_observation_finds_its_merged_slot():
    """Merged slots still take what comes late; what is older than any window is only in the totals."""
    fleet = Fleet(keep=(30.0, 900.0))
    for second in range(0, 900, 10):
        fleet.measured("run", 2.0, T0 + second)
    fleet.flush()
    fleet.store.advance(T0 + 900)
    ends = list(fleet.store.catalogue.histograms.slots.ends)
    fleet.measured("run", 50.0, T0 + 120)
    fleet.measured("run", 50.0, T0 + 121)
    fleet.flush()
    assert set(fleet.store.catalogue.histograms.slots.ends) - set(ends) == {(T0 + 125) * 1_000_000}
    fleet.measured("run", 50.0, T0 - 9_000)
    fleet.flush()
    fleet.store.advance(T0 + 901)
    assert set(ask(fleet, T0, T0 + 900, q=0.97).values()) == {MIDDLES[bins_of(np.array([2.0]))[0]]}
    assert list(ask(fleet, T0, T0 + 900, q=1.0).values()) == pytest.approx([50], rel=0.01)
    (series,) = fleet.store.select("task_run_seconds_bucket", match(le="+Inf"))
    assert fleet.store.increase(series, T0 + 115, T0 + 125).tolist() == [1 + 2]
    assert fleet.store.increase(series, T0 - 99_999, T0 + 901).tolist() == [92]
    assert fleet.store.value(series, T0 + 901)[0].tolist() == [93]


def test_what_was_merged_is_not_merged_again():
    """Ageing touches what has just grown too old, not the whole past."""
    fleet = Fleet(keep=(900.0,))
    slots = fleet.store.catalogue.histograms.slots
    for second in range(700):
        fleet.measured("run", 2.0, T0 + second)
        fleet.flush()
        fleet.store.advance(T0 + second)
    first = slots.held[0]
    fleet.store.advance(T0 + 760)
    assert slots.held[0] is first
    assert not slots.ages((T0 + 760) * 1_000_000)


def test_a_late_observation_at_the_start_of_a_running_window_is_outside(fleet):
    """The window is left-open, also for what comes while it runs."""
    fleet.measured("run", 2.0, T0 + 100)
    fleet.flush()
    fleet.store.advance(T0 + 305)
    ask(fleet, T0 + 5, T0 + 305)
    fleet.measured("run", 1.0, T0 + 5)
    fleet.flush()
    assert list(ask(fleet, T0 + 5, T0 + 305, q=0.0).values()) == pytest.approx([2], rel=0.01)


def test_ranks_do_not_suffer_from_binary_fractions():
    """0.07 * 100 is a little more than 7 in binary; the 7th smallest is meant."""
    pages = Pages(1)
    pages.add(bins_of(np.arange(1.0, 101.0)).astype(np.uint32))
    one = np.zeros(1, np.int64)
    assert pages.quantile(one, one, 1, 0.07)[0] == pytest.approx(7, rel=0.01)


def test_pages_that_fall_empty_are_used_again():
    """Counts taken away give their pages back: a latency that drifts does not grow memory."""
    pages = Pages(1)
    for part in range(20):
        keys = np.full(3, part * 64, np.uint32)
        pages.add(keys)
        pages.remove(keys)
    assert pages._used == 2
    assert not pages._sums.any()
    assert not pages._pool.any()


def test_old_slots_hold_each_key_once():
    """A day of equal observations shrinks to a key and a count per minute; the quantile still counts them all."""
    fleet = Fleet(keep=(86_400.0,))
    for minute in range(0, 180, 10):
        for second in range(600):
            fleet.measured("run", 3.0, T0 + minute * 60 + second)
        fleet.flush()
        fleet.store.advance(T0 + minute * 60 + 600)
    slots = fleet.store.catalogue.histograms.slots
    assert sum(len(keys) for keys, _ in slots.held) < 600 + 200
    (series,) = fleet.store.select("task_run_seconds_bucket", match(le="5"))
    assert fleet.store.increase(series, T0 + 10_800 - 86_400, T0 + 10_800).tolist() == [10_800]


def test_a_window_may_first_be_asked_for_within_a_slot(fleet):
    """What lies in the slot under way counts when a window begins to run, and leaves it once and not more."""
    fleet.measured("run", 0.5, T0 + 0.2)
    fleet.flush()
    fleet.store.advance(T0 + 0.3)
    assert list(ask(fleet, T0 + 0.3 - 300, T0 + 0.3).values()) == [pytest.approx(0.5, rel=0.01)]
    fleet.store.advance(T0 + 400)
    assert all(map(math.isnan, ask(fleet, T0 + 100, T0 + 400).values()))
    fleet.measured("run", 2.0, T0 + 410)
    fleet.flush()
    fleet.store.advance(T0 + 411)
    assert list(ask(fleet, T0 + 111, T0 + 411).values()) == [pytest.approx(2.0, rel=0.01)]
