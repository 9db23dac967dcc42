"""Event-fed series: exact where that is promised, as if sampled everywhere else."""

from __future__ import annotations

import numpy as np
import promql_events
import pytest
from promql_events import task

from collector.promql import PromqlError, compile_expr

AT = 1_700_000_000.0


@pytest.fixture
def events():
    """Two tasks that failed, one that never did; how long they ran."""
    fake = promql_events.Events()
    fake.put("failed_total", "counter", {task("a"): [AT - 300, AT - 299.9, AT - 1, AT], task("b"): [], task("c"): [AT]})
    fake.put(
        "run_bucket", "histogram", {task("a", queue="x"): [1], task("b", queue="x"): [1], task("a", queue="y"): [1]}
    )
    fake.put("in_flight", "gauge", {task("a"): 3.0, task("b"): 0.0})
    fake.put("zero_total", "counter", {task("a"): [], task("b"): []})
    return fake


def rows(text, querier, at=AT, step=15.0):
    """The elements as {task (or all labels where there is none): value}."""
    found = compile_expr(text).evaluate(querier, at, step).rows()
    return {dict(labels).get("task", labels): value for labels, value in found}


@pytest.mark.case("K20.1")
def test_increase_is_the_number_of_events_in_the_left_open_window(events):
    """The first event counts, the one at the window's start does not, and nothing is extrapolated."""
    assert rows("increase(failed_total[5m])", events) == {"a": 3, "b": 0, "c": 1}


def test_rate_is_the_increase_over_the_length_of_the_window(events):
    """No extrapolation, whatever the distance of the events from the window's ends."""
    assert rows("rate(failed_total[5m])", events) == {"a": 3 / 300, "b": 0, "c": 1 / 300}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("increase(failed_total[1m] offset 4m)", {"a": 1, "b": 0, "c": 0}),
        ("increase(failed_total[1s] offset -1s)", {"a": 0, "b": 0, "c": 0}),
        (f"increase(failed_total[1s] @ {AT - 1})", {"a": 1, "b": 0, "c": 0}),
        ("sum(increase(failed_total[5m]))", {(): 4}),
        ("increase(failed_total[5m]) > 0", {"a": 3, "c": 1}),
        ("max_over_time(increase(failed_total[2s])[10s:1s])", {"a": 2, "b": 0, "c": 1}),
        ("in_flight > 0", {"a": 3}),
        ("failed_total", {"a": 4, "b": 0, "c": 1}),
        ("sum by (task) ({__name__=~'in_flight|failed_total'})", {"a": 7, "b": 0, "c": 1}),
        ("timestamp(in_flight)", {"a": AT, "b": AT}),
    ],
)
def test_windows_move_with_offset_at_and_subqueries(events, text, expected):
    """Modifiers and surroundings mean for exact series what they mean for sampled ones."""
    assert rows(text, events) == expected


@pytest.mark.parametrize("function", ["delta", "deriv", "changes", "avg_over_time", "irate", "resets"])
def test_other_functions_see_samples_at_the_group_interval(events, function):
    """What is not promised to be exact behaves as if the series were scraped at every slot."""
    rows(f"{function}(failed_total[5m])", events, step=30.0)
    assert events.steps == [("failed_total", AT - 300, AT, 30.0)]


def test_increase_of_a_gauge_is_prometheus_increase(events):
    """Only counters are counted; a gauge's samples are stretched as anywhere else."""
    assert rows("increase(in_flight[5m])", events) == {"a": 0, "b": 0}
    assert events.steps == [("in_flight", AT - 300, AT, 15.0)]


@pytest.mark.parametrize(
    ("text", "groups", "found"),
    [
        ("sum by (le) (rate(run_bucket[5m]))", [0, 0, 0], {(): 0.5}),
        ("sum by (le, task) (rate(run_bucket[5m]))", [0, 1, 0], {"a": 0.5, "b": 1.5}),
        ("sum by (le, task) (increase(run_bucket[5m]))", [0, 1, 0], {"a": 0.5, "b": 1.5}),
        ("(sum by (task, le) ((rate(run_bucket[5m]))))", [0, 1, 0], {"a": 0.5, "b": 1.5}),
        ("sum without (queue) (rate(run_bucket[5m]))", [0, 1, 0], {"a": 0.5, "b": 1.5}),
        ("sum by (le, queue) (rate(run_bucket[5m]))", [0, 0, 1], {(("queue", "x"),): 0.5, (("queue", "y"),): 1.5}),
    ],
)
def test_quantiles_of_groups_are_asked_of_the_querier(events, text, groups, found):
    """`le` is no label of a group, for an event-fed histogram has none to sum over."""
    assert rows(f"histogram_quantile(0.95, {text})", events) == found
    assert events.quantiles == [("run_bucket", groups, max(groups) + 1, 0.95, AT - 300, AT)]


def test_quantiles_without_a_sum_are_of_each_series(events):
    """Every series is a group of its own then."""
    found = compile_expr("histogram_quantile(0.5, rate(run_bucket[1m] offset 1m))").evaluate(events, AT, 15.0)
    assert [value for _, value in found.rows()] == [0.5, 1.5, 2.5]
    assert found.labels is events.metrics["run_bucket"][0].labels
    assert events.quantiles == [("run_bucket", [0, 1, 2], 3, 0.5, AT - 120, AT - 60)]


@pytest.mark.parametrize(("q", "expected"), [("-1", -np.inf), ("2", np.inf), ("NaN", np.nan)])
def test_quantiles_that_do_not_exist_are_not_asked_for(events, q, expected):
    """Outside 0 to 1 the answer is Prometheus' and the querier is left alone."""
    found = rows(f"histogram_quantile({q}, sum by (le) (rate(run_bucket[5m])))", events)
    assert found == pytest.approx({(): expected}, nan_ok=True)
    assert events.quantiles == []


def test_event_fed_and_sampled_histograms_answer_together(events):
    """One expression over both kinds gives the elements of both."""
    whole = {"0.5": 2.0, "1": 4.0, "+Inf": 4.0}
    events.put("old_bucket", "gauge", {task("z", le=le): value for le, value in whole.items()})
    found = rows('histogram_quantile(0.5, sum by (le, task) (rate({__name__=~"run_bucket|old_bucket"}[5m])))', events)
    assert found == pytest.approx({"a": 0.5, "b": 1.5, "z": np.nan}, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait_bucket", {"1": 2, "+Inf": 4}),
        ("sum by (le) (increase(wait_bucket[1m]))", {"1": 1, "+Inf": 2}),
        ("max_over_time(wait_bucket[5m])", {"1": 2, "+Inf": 4}),
        ("wait_bucket offset 1m", {"1": 1, "+Inf": 2}),
        ("wait_bucket > 3", {"+Inf": 4}),
    ],
)
def test_buckets_of_event_fed_histograms_are_read_one_by_one(events, text, expected):
    """Wherever it is not a quantile of rates that is asked for, a histogram is a counter per bucket."""
    events.put("wait_bucket", "histogram", {task("a"): [AT - 200, AT - 200, AT - 10, AT - 10]})
    found = compile_expr(text).evaluate(events, AT, 15.0).rows()
    assert {dict(labels)["le"]: value for labels, value in found} == expected


def test_an_unknown_number_of_events_is_no_element(events):
    """Where the querier does not know, nothing is said: neither 0 nor NaN."""
    events.increase = lambda *_: np.array([np.nan, 2.0, np.nan])
    assert rows("increase(failed_total[5m])", events) == {"b": 2}
    assert rows("sum(increase(failed_total[5m]))", events) == {(): 2}


@pytest.mark.parametrize(
    ("text", "is_absent"),
    [
        ("absent(zero_total)", True),
        ("absent(failed_total)", False),
        ("absent(in_flight)", False),
        ("absent(sum(zero_total))", True),
        ("absent(increase(zero_total[5m]))", True),
        ("absent(rate(failed_total[5m]))", False),
        ("absent_over_time(zero_total[5m])", True),
        ("absent_over_time(failed_total[5m])", False),
        ("zero_total", False),
    ],
)
def test_a_series_without_any_event_is_absent(events, text, is_absent):
    """Series that exist only to be 0 do not hide that nothing ever happened; outside absent() they are 0."""
    assert rows(text, events) == ({(): 1.0} if is_absent else {} if "absent" in text else {"a": 0, "b": 0})


def test_a_range_is_not_read_that_has_no_end():
    """Event-fed series have a sample at every interval of a range: too many are refused before they are made."""
    events = promql_events.Events()
    events.put("a", "counter", {task("x"): [1.0]})
    with pytest.raises(PromqlError, match="at most 10000000 are read"):
        compile_expr("sum_over_time(a[290y])").evaluate(events, 1_790_000_000.0, 1.0)


def test_a_made_label_is_not_longer_than_a_text():
    """Functions that make labels make one for each series."""
    events = promql_events.Events()
    events.put("a", "counter", {task("x" * 100): [1.0]})
    for text in (
        f'label_replace(a, "b", "{"$1" * 200}", "task", "(.*)")',
        f'label_join(a, "b", "{"-" * 10_000}", "task", "c")',
    ):
        with pytest.raises(PromqlError, match="over 10000 characters"):
            compile_expr(text).evaluate(events, 10.0, 1.0)


_TAIL = "histogram_quantile(0.95, sum by (task, le) (rate(run_bucket[5m])))"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"{_TAIL} > 6 * usual", 0),
        (f"usual < {_TAIL}", 0),
        (f"usual and {_TAIL}", 0),
        (f"{_TAIL} and usual", 0),
        (f"usual unless {_TAIL}", 0),
        (f"{_TAIL} unless usual", 1),
        (f"usual or {_TAIL}", 1),
        (f"{_TAIL} > 0 * in_flight", 1),
        (f"usual + (({_TAIL}) * 2)", 0),
        # what may fail is asked for all the same
        (f"usual and ({_TAIL} > on (task) {_TAIL})", 2),
    ],
)
def test_a_side_that_does_not_matter_is_not_asked_for(events, text, asked):
    """Where one side is empty nothing comes of the other: quantiles cost most, so they are looked at last."""
    rows(text, events)
    assert len(events.quantiles) == asked


def test_an_error_is_told_also_where_the_other_side_is_empty(events):
    """As Prometheus does: a rule that is wrong is not right because nothing has happened yet."""
    with pytest.raises(PromqlError, match="many-to-many"):
        rows("usual and (in_flight * on () in_flight)", events)
