"""What is kept between evaluations: the same objects while nothing changes, the right answer when something does."""

from __future__ import annotations

import numpy as np
import promql_events
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promql_events import task

from collector.promql import compile_expr
from collector.promql.aggregate import SIMPLE, By, Grouping
from collector.promql.frame import Relabel, without_name
from collector.promql.sums import Layout, mean, neumaier, quantile, total

EXPRESSIONS = [
    "g",
    "g > 1",
    "g * 2",
    "sum by (task) (g)",
    "avg by (queue) (g) > 1",
    "max without (queue) (g) / on (task) sum by (task) (h)",
    "g / on (task, queue) group_left (owner) h",
    "g and on (queue) h > 0",
    "g or h",
    "g unless on (task) (h < 2)",
    "topk by (queue) (1, g)",
    'label_replace(g, "kind", "$1", "task", "(.).*")',
    'sum by (kind) (label_join(g, "kind", "-", "task", "queue"))',
    "abs(g) + 0 * h",
    "min_over_time(g[3s])",
    "sum_over_time(sum by (task) (g)[3s:1s])",
    "quantile by (queue) (0.5, {__name__=~'g|h'})",
    "sort_desc(g)",
    "count_values by (queue) ('v', g)",
]
SERIES = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), st.sampled_from([0.0, 1.0, 2.5, -3.0, 0.1]), max_size=8
)


def gauges(g, h):
    """A querier with two gauges."""
    events = promql_events.Events()
    for name, series in (("g", g), ("h", h)):
        events.put(name, "gauge", {task(one, queue=queue): value for (one, queue), value in series.items()})
    return events


def outcome(expr, querier):
    """Rows, or the error's text."""
    try:
        return expr.evaluate(querier, 10.0, 1.0).rows()
    except Exception as error:  # noqa: BLE001 - the two sides must fail alike, whatever it is
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("text", EXPRESSIONS)
@settings(max_examples=30, deadline=None)
@given(worlds=st.lists(st.tuples(SERIES, SERIES), min_size=2, max_size=4))
def test_a_kept_expression_answers_as_a_new_one(text, worlds):
    """Whatever series come, go, or change their order, nothing that was kept shows in the answer."""
    kept = compile_expr(text)
    for g, h in worlds:
        querier = gauges(g, h)
        fresh = outcome(compile_expr(text), querier)
        assert repr(outcome(kept, querier)) == repr(fresh)
        assert repr(outcome(kept, querier)) == repr(fresh)


@pytest.mark.parametrize(
    "text", [text for text in EXPRESSIONS if "_over_time" not in text and "count_values" not in text]
)
def test_labels_stay_the_same_object(text):
    """As long as the series stay, so do the labels of every result, whatever the values are."""
    series = {("a", "x"): 1.0, ("b", "x"): 2.0, ("c", "y"): 3.0}
    querier, expr = gauges(series, series), compile_expr(text)
    first = expr.evaluate(querier, 10.0, 1.0)
    querier.metrics["g"][1][:] = [5.0, 0.0, -1.0]
    second = expr.evaluate(querier, 11.0, 1.0)
    assert second.labels is first.labels


@pytest.mark.parametrize("text", ["increase(c[1m])", "increase(c[1m]) > 0", "rate(c[1m]) * 60", "abs(rate(c[1m]))"])
def test_counters_give_the_labels_of_the_store(text):
    """Nothing is copied on the way of the commonest rules."""
    events = promql_events.Events()
    events.put("c", "counter", {task("a"): [9.0], task("b"): []})
    assert compile_expr(text).evaluate(events, 10.0, 1.0).labels is events.metrics["c"][0].labels


def test_new_series_extend_what_is_kept():
    """Only the labels that were added are worked on."""
    seen = []
    relabel = Relabel(lambda labels: seen.append(labels) or without_name(labels))
    old = (task("a", __name__="m"), task("b", __name__="m"))
    relabel(old)
    seen.clear()
    grown = (*old, task("c", __name__="m"))
    assert relabel(grown) == (task("a"), task("b"), task("c"))
    assert seen == [grown[2]]


def test_groups_keep_their_labels_while_none_is_added():
    """A new series in a known group leaves the groups' labels the same object."""
    grouping = Grouping(By(("task",)).key)
    grouping.of((task("a", queue="x"), task("b", queue="x")))
    before = grouping.labels
    layout = grouping.of((task("a", queue="x"), task("b", queue="x"), task("a", queue="y")))
    assert grouping.labels is before
    assert layout.index.tolist() == [0, 1, 0]


def neumaier_by_hand(values):
    """Sum and compensation, one value after the other."""
    plain, lost = values[0], 0.0
    for value in values[1:]:
        after = plain + value
        lost += (plain - after) + value if abs(plain) >= abs(value) else (value - after) + plain
        plain = after
    return plain, lost


FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=30))
def test_sums_are_compensated_in_the_order_of_the_rows(values):
    """The vectorised sum is the sequential one, to the last bit."""
    plain, lost = neumaier(np.array(values))
    assert (float(plain), float(lost)) == neumaier_by_hand(values)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), FINITE, st.booleans()), min_size=1, max_size=60))
def test_sums_of_groups_are_sums_of_their_members(rows):
    """Groups of any size, with rows absent, add up as each group would alone."""
    layout = Layout(np.array([group for group, _, _ in rows]), 7)
    present = np.array([is_there for _, _, is_there in rows])
    sums = SIMPLE["sum"](np.array([value for _, value, _ in rows]), present, layout)
    for group in range(7):
        members = [value for one, value, is_there in rows if one == group and is_there]
        if members:
            assert sums[group] == sum(neumaier_by_hand(members))


@settings(deadline=None)
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40))
def test_whole_numbers_take_the_short_way_to_the_same_sum(values):
    """The quick sum of counts is the exact one."""
    assert total(np.array(values, float)) == sum(values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e308, 1e308, 1e308], 1e308),
        ([np.inf, 1.0], np.inf),
        ([np.inf, -np.inf], np.nan),
        ([1e100, 1, -1e100, 2], 0.75),
    ],
)
def test_means_do_not_overflow(values, expected):
    """Where the sum is too large for a number, the mean still is one."""
    with np.errstate(all="ignore"):  # as around every evaluation
        found = mean(np.array(values))
    assert found == pytest.approx(expected, rel=1e-15, nan_ok=True)


def test_quantile_counts_unknown_values_as_the_least():
    """NaN is below everything, as Prometheus sorts it."""
    assert np.isnan(quantile(0.0, np.array([2.0, np.nan, 1.0])))
    assert quantile(0.5, np.array([2.0, np.nan, 1.0])) == 1.0
