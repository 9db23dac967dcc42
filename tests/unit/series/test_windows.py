"""Exact counts: what any kept window holds, for any order of arrival and any walk of the frontier."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series_fleet import Fleet

from collector.series.window import SECOND, Bank, Pending, grain_of, slots_of, ticks_of

T0 = 1_790_000_000

facts_st = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 400), st.integers(0, 4_000).map(lambda n: n / 10 + 0.01))),
    max_size=60,
)


def walk(fleet, facts, steps):
    """Feed facts in their order, in batches between the drawn steps of the frontier; returns the frontier's offset."""
    at = 0.0
    for index, (task, offset) in enumerate(facts):
        fleet.fact("sent", T0 + offset, task=f"t{task}")
        if index < len(steps) and steps[index]:
            fleet.flush()
            at += steps[index]
            fleet.store.advance(T0 + at)
    fleet.flush()
    at += 1
    fleet.store.advance(T0 + at)
    return at


@settings(max_examples=150, deadline=None)
@given(
    facts=facts_st, steps=st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.5, 20.0, 120.0]), max_size=60), data=st.data()
)
@pytest.mark.parametrize(
    ("window", "grain"), [(30, 0.1), (300, 1), (900, 5), (86_400, 60)], ids=["100ms", "1s", "5s", "1min"]
)
def test_a_window_counts_exactly_its_facts(window, grain, facts, steps, data):
    """At multiples of the grain an increase is the number of facts in (start, end], whatever order they came in."""
    fleet = Fleet(keep=())
    fleet.store.catalogue.counts.levels.clear()
    fleet.store.keep(window)
    frontier = walk(fleet, facts, steps)
    if not facts:
        return
    series = fleet.one("task_sent_total")
    for _ in range(5):
        back = data.draw(st.integers(0, round(window / grain)))
        top = int(T0 * 10 + frontier * 10) // round(grain * 10)
        start = (top - back) * round(grain * 10) / 10
        latest = data.draw(st.integers(0, back))
        end = data.draw(st.sampled_from([T0 + frontier, (top - latest) * round(grain * 10) / 10]))
        got = dict(zip(series.labels, fleet.store.increase(series, start, end).tolist(), strict=True))
        for labels, count in got.items():
            task = int(dict(labels)["task"][1:])
            low, high = ticks_of(start), ticks_of(end)
            assert count == sum(low < ticks_of(T0 + offset) <= high for of, offset in facts if of == task)


@settings(max_examples=100, deadline=None)
@given(facts=facts_st, steps=st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.3, 60.0]), max_size=60), data=st.data())
def test_the_order_of_arrival_leaves_no_trace(facts, steps, data):
    """Two stores that got the same facts in different orders, along different walks, give the same answers."""
    answers = []
    for order in (facts, data.draw(st.permutations(facts))):
        fleet = Fleet(keep=(30, 300, 86_400))
        walk(fleet, order, steps if order is facts else steps[::-1])
        fleet.store.advance(T0 + 5_000)
        if not facts:
            return
        values = fleet.value("task_sent_total")
        series = fleet.one("task_sent_total")
        row = [fleet.store.increase(series, T0 + at, T0 + 5_000).tolist() for at in (0, 4_720, 4_980)]
        answers.append((values, dict(zip(series.labels, zip(*row, strict=True), strict=True))))
    assert answers[0] == answers[1]


def test_a_fact_at_a_slot_end_belongs_to_the_slot_it_ends(fleet):
    """Windows are left-open: a fact at exactly the start is out, one at exactly the end is in."""
    fleet.facts("sent", T0 + 10.0, T0 + 310.0)
    fleet.store.advance(T0 + 310)
    assert fleet.increase("task_sent_total", T0 + 10, T0 + 310) == [1]
    fleet.store.advance(T0 + 310.5)
    assert fleet.increase("task_sent_total", T0 + 9, T0 + 309) == [1]


def test_what_lies_beyond_the_frontier_waits(fleet):
    """A fact counts from the instant on that the frontier reaches it, not before."""
    fleet.facts("sent", T0 + 5.0)
    fleet.store.advance(T0 + 4.999)
    assert fleet.value("task_sent_total") == {}
    assert fleet.increase("task_sent_total", T0, T0 + 10) == [0]
    fleet.store.advance(T0 + 5)
    assert list(fleet.value("task_sent_total").values()) == [1]


def test_a_late_fact_counts_in_the_past_windows_where_it_belongs(fleet):
    """It is added to the present and to every window that holds its instant, and to no other."""
    fleet.facts("sent", T0 + 1.0)
    fleet.store.advance(T0 + 100)
    fleet.facts("sent", T0 + 50.0)
    assert fleet.increase("task_sent_total", T0 + 49, T0 + 100) == [1]
    assert fleet.increase("task_sent_total", T0 + 50, T0 + 100) == [0]
    assert fleet.increase("task_sent_total", T0, T0 + 49) == [1]
    assert fleet.increase("task_sent_total", T0, T0 + 50) == [2]


def test_the_frontier_never_goes_back(fleet):
    """An earlier instant does nothing."""
    fleet.facts("sent", T0 + 1.0)
    fleet.store.advance(T0 + 10)
    version = fleet.store.version
    fleet.store.advance(T0 + 5)
    assert (fleet.store.frontier, fleet.store.version) == (T0 + 10, version)


def test_idle_time_costs_no_row():
    """An hour without events writes nothing, however often the frontier moves, and windows over it are 0."""
    fleet = Fleet(keep=(30, 300))
    fleet.facts("sent", T0 + 0.05)
    fleet.store.advance(T0 + 1)
    for step in range(3_600):
        fleet.store.advance(T0 + 1 + step)
    assert [len(level.rows) for level in fleet.store.catalogue.counts.levels] == [1, 1]
    assert fleet.increase("task_sent_total", T0 + 3_300, T0 + 3_600) == [0]
    assert list(fleet.value("task_sent_total").values()) == [1]


def test_one_long_step_writes_only_rows_that_a_window_can_reach():
    """A day's backlog folded at once leaves no more rows than the kept windows need."""
    fleet = Fleet(keep=(30,))
    fleet.facts("sent", *(T0 + second for second in range(5_000)))
    fleet.store.advance(T0 + 5_000)
    rows = [len(level.rows) for level in fleet.store.catalogue.counts.levels]
    assert rows[0] <= 33
    assert rows[1] <= 303
    assert fleet.increase("task_sent_total", T0 + 4_700, T0 + 5_000) == [299]


def test_rows_leave_when_no_window_reaches_them():
    """The number of rows is bounded by the window, not by the time that passes."""
    fleet = Fleet()
    for second in range(1_000):
        fleet.facts("sent", T0 + second)
        fleet.store.advance(T0 + second)
    (level,) = fleet.store.catalogue.counts.levels
    assert len(level.rows) <= 304
    assert fleet.increase("task_sent_total", T0 + 699, T0 + 999) == [300]


def test_a_window_kept_later_counts_from_then_on(fleet):
    """A rule loaded later invents nothing about the time before it was loaded."""
    fleet.facts("sent", T0 + 1.0, T0 + 2.0)
    fleet.store.advance(T0 + 10)
    fleet.store.keep(20)
    fleet.store.keep(900)
    fleet.facts("sent", T0 + 10.5, T0 + 11.0)
    fleet.store.advance(T0 + 12)
    assert fleet.increase("task_sent_total", T0 + 10.4, T0 + 12) == [2]
    assert fleet.increase("task_sent_total", T0 - 600, T0 + 12) == [2]
    assert fleet.increase("task_sent_total", T0, T0 + 12) == [4]


def test_counts_wrap_around_without_harm():
    """Rows hold 32 bits; a window over the wrap is still exact, and so is the value."""
    bank = Bank(np.uint32)
    bank.keep(300 * SECOND)
    column = np.array([bank.allocate(1)])
    ticks = np.array([5 * SECOND])
    bank.fold(10 * SECOND, 1, ticks, column, np.array([2**32 - 1]))
    bank.advance(10 * SECOND)
    bank.fold(20 * SECOND, 2, ticks * 3, column, np.array([3]))
    bank.advance(20 * SECOND)
    assert bank.increase(column, 10 * SECOND, 20 * SECOND).tolist() == [3]
    assert bank.value(column, 20 * SECOND).tolist() == [2**32 + 2]
    assert bank.value(column, 10 * SECOND).tolist() == [2**32 - 1]


def test_without_any_kept_window_nothing_is_invented():
    """A bank that keeps no past answers NaN for every window: unknown is not 0."""
    bank = Bank(np.uint32)
    column = np.array([bank.allocate(1)])
    bank.fold(10, 1, np.array([5]), column)
    bank.advance(10)
    assert np.isnan(bank.increase(column, 0, 10)).all()
    assert bank.value(column, 10).tolist() == [1]


def test_columns_grow_without_touching_rows():
    """Rows written before a series was born stay as short as they were, and read as 0 for it."""
    fleet = Fleet()
    fleet.facts("sent", T0 + 1.0)
    fleet.store.advance(T0 + 2)
    for index in range(500):
        fleet.fact("sent", T0 + 3.5, task=f"n{index}")
    fleet.flush()
    fleet.store.advance(T0 + 5)
    (level,) = fleet.store.catalogue.counts.levels
    assert [len(row) for row in level.rows] == [0, 1, 501]
    assert set(fleet.increase("task_sent_total", T0 + 2, T0 + 5)) == {0, 1}


@pytest.mark.parametrize(
    ("window", "grain"),
    [(1, 0.1), (59.9, 0.1), (60, 1), (600, 1), (601, 5), (3600, 5), (3601, 60), (86_400, 60), (86_401, 600)],
)
def test_the_grain_follows_the_window(window, grain):
    """100 ms below a minute, 1 s to 10 minutes, 5 s to an hour, 1 min to a day."""
    assert grain_of(ticks_of(window)) == ticks_of(grain)


@given(tick=st.integers(-(10**16), 10**16), grain=st.sampled_from([100_000, 1_000_000, 60_000_000]))
def test_a_slot_is_left_open(tick, grain):
    """Every tick lies in (s - g, s] of its slot."""
    end = int(slots_of(np.array([tick]), grain)[0]) * grain
    assert end - grain < tick <= end


def test_pending_instants_are_the_grid_points_where_something_changes(fleet):
    """Right ends of 100 ms slots, sorted, each once, none beyond the limit; advancing to one leaves it behind."""
    fleet.fact("sent", T0 + 0.31)
    fleet.fact("sent", T0 + 0.4)
    fleet.fact("sent", T0 + 7.0)
    fleet.fact("failed", T0 + 0.05, error="E")
    fleet.measured("run", 1.0, T0 + 0.55)
    fleet.flush()
    assert fleet.store.pending_instants(T0 + 1) == [T0 + 0.1, T0 + 0.4, T0 + 0.6]
    assert fleet.store.pending_instants(T0 + 0.59) == [T0 + 0.1, T0 + 0.4]
    fleet.store.advance(T0 + 0.4)
    assert fleet.store.pending_instants(T0 + 10) == [T0 + 0.6, T0 + 7]


@given(
    runs=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), max_size=8), cuts=st.lists(st.integers(0, 60))
)
def test_pending_facts_come_out_once_each(runs, cuts):
    """Taking at rising instants gives each fact exactly when it is due."""
    pending = Pending()
    for run in runs:
        pending.push((np.array(sorted(run)),))
    rest = sorted(tick for run in runs for tick in run)
    for cut in sorted(cuts):
        taken = pending.take(cut)
        got = [] if taken is None else sorted(taken[0].tolist())
        assert got == [tick for tick in rest if tick <= cut]
        rest = [tick for tick in rest if tick > cut]
        assert len(pending) == len(rest)
