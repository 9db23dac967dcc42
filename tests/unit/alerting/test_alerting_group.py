"""Groups: rules in order, recordings, slots, and one bad rule among good ones."""

# ruff: noqa: ARG002, D102 - stand-ins have the methods of what they stand for

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from collector import promql
from collector.alerting.dependencies import connect
from collector.alerting.group import Group, Surroundings, next_slot
from collector.alerting.overlay import Overlay
from collector.alerting.rulefile import load
from collector.model.errors import TasktrailError
from collector.model.labels import Matcher, labels_of
from collector.series.store import Store as RealStore
from collector.trail.rows import Errors, Rows
from tests.unit.alerting.standins import row

RECORD = "groups: [{name: g, limit: 2, rules: [{record: r, expr: x, labels: {team: core}}]}]"
CHAIN = """
groups:
- name: g
  query_offset: 5s
  rules:
  - {record: first, expr: x}
  - {record: second, expr: first}
  - {alert: A, expr: second}
  - {alert: B, expr: y}
"""


def is_stale(value):
    """Whether a value is the marker, bit for bit."""
    return struct.pack(">d", value).hex() == "7ff0000000000002"


@pytest.mark.parametrize(
    ("at", "interval", "slot"),
    [
        (0, 15, 15),
        (14.999, 15, 15),
        (15, 15, 30),
        (1_700_000_001.3, 0.1, 1_700_000_001.4),
        (1.0, 0.001, 1.001),
        (-3, 15, 0),
    ],
)
def test_next_slot(at, interval, slot):
    """Slots are the multiples of the interval, and the next one is always later."""
    assert next_slot(at, interval) == slot


def test_next_slot_moves_on():
    """From slot to slot no step is left out or taken twice, also where the interval has no exact float."""
    at = 1_700_000_000.0
    for number in range(1, 200):
        at = next_slot(at, 0.1)
        assert round(at * 10) == 17_000_000_000 + number


def test_recording(make_group, series, written):
    """A recording rule writes elements under its name with its labels, and a stale marker for what went away."""
    group = make_group(RECORD)
    series.answers["x"] = {row(__name__="x", job="a"): 1, row(job="b"): 2}
    assert group.evaluate(series, 0) == []
    assert written == [("r", {"job": "a", "team": "core"}, 0, 1), ("r", {"job": "b", "team": "core"}, 0, 2)]
    del written[:]
    series.answers["x"] = {row(job="a"): 3}
    group.evaluate(series, 15)
    assert [entry[:3] for entry in written] == [
        ("r", {"job": "b", "team": "core"}, 15),
        ("r", {"job": "a", "team": "core"}, 15),
    ]
    assert is_stale(written[0][3])
    assert math.isclose(written[1][3], 3)


def test_an_empty_label_takes_one_away(make_group, series, written):
    """A recording rule with an empty label records without that label."""
    group = make_group(RECORD.replace("team: core", "team: core, job: ''"))
    series.answers["x"] = {row(job="a", host="h"): 1}
    group.evaluate(series, 0)
    assert written == [("r", {"host": "h", "team": "core"}, 0, 1)]


@pytest.mark.parametrize(
    ("elements", "error"),
    [
        ({row(team="a"): 1, row(team="b"): 2}, "the same labels"),
        ({row(job=name): 1 for name in "abc"}, "over the group's limit of 2 with 3 series"),
        ("text", "gives text"),
        (TasktrailError("many-to-many"), "many-to-many"),
    ],
)
def test_failing_recording(elements, error, make_group, series, written):
    """A recording rule that fails writes nothing, is unhealthy and says why."""
    group = make_group(RECORD)
    series.answers["x"] = elements
    group.evaluate(series, 0)
    assert (written, group.rules[0].health) == ([], "err")
    assert error in group.rules[0].last_error
    assert [(failure.rule, error in failure.message) for failure in group.failures] == [(group.rules[0], True)]


def test_one_bad_rule(make_group, series):
    """A rule that fails does not touch the others."""
    group = make_group(CHAIN)
    series.answers.update({"x": TasktrailError("bad"), "y": {row(job="a"): 1}})
    assert [dict(alert.labels)["alertname"] for alert in group.evaluate(series, 0)] == ["B"]
    assert [rule.health for rule in group.rules] == ["err", "ok", "ok", "ok"]


def test_our_own_mistake_is_one_rules_trouble(make_group, series):
    """Whatever an evaluation raises makes that rule unhealthy, says where it came from, and stops nobody else."""
    group = make_group(CHAIN)
    series.answers.update({"second": ZeroDivisionError("by nothing"), "y": {row(job="a"): 1}})
    assert [dict(alert.labels)["alertname"] for alert in group.evaluate(series, 0)] == ["B"]
    assert [rule.health for rule in group.rules] == ["ok", "ok", "err", "ok"]
    (failure,) = group.failures
    assert failure.message == group.rules[2].last_error == "internal error: ZeroDivisionError('by nothing')"
    assert "standins.py" in failure.trace
    series.answers["second"] = {}
    group.evaluate(series, 15)
    assert group.rules[2].health == "ok"


def test_what_was_begun_before_a_mistake_is_told(make_rule, series, monkeypatch):
    """An evaluation that breaks in the middle does not swallow the alerts that it had begun until then."""
    group = make_rule()
    series.answers["x"] = {row(job=job): 1 for job in "abc"}
    (rule,) = group.rules
    texts = iter([(), ()])
    monkeypatch.setattr(rule, "_annotations", lambda *_: next(texts))
    assert [dict(alert.labels)["job"] for alert in group.evaluate(series, 10)] == ["a", "b"]
    assert (rule.health, rule.state()) == ("err", "firing")


def test_query_offset(make_group, series, written):
    """With a query offset a rule reads, and writes, that much earlier; its alerts keep the slot's time."""
    group = make_group(CHAIN)
    series.answers.update({"x": {row(): 1}, "y": {row(): 1}})
    (alert,) = group.evaluate(series, 100)
    assert {at for _, at in series.asked} == {95}
    assert (written[0][2], alert.active_at) == (95, 100)


def test_scalar(make_group, series):
    """A scalar is one element without labels."""
    group = make_group(CHAIN)
    series.answers["y"] = 2.5
    (alert,) = group.evaluate(series, 0)
    assert (dict(alert.labels), alert.value) == ({"alertname": "B"}, 2.5)


def test_template_query(make_group, series):
    """A template's query is compiled once, and evaluated on the same series at the same instant."""
    text = "groups: [{name: g, rules: [{alert: A, expr: x, annotations: {s: '{{ query \"y\" | first | value }}'}}]}]"
    group = make_group(text)
    series.answers.update({"x": {row(): 1}, "y": {row(): 7}})
    (alert,) = group.evaluate(series, 30)
    assert (dict(alert.annotations), series.asked[-1]) == ({"s": "7"}, ("y", 30))


def test_alerts_as_series(make_group, series, written):
    """Where something reads them, alerts are written as Prometheus' two series, stale when they end."""
    group = make_group("groups: [{name: g, rules: [{alert: A, expr: x, for: 15s}]}]", writes_alerts=True)
    series.answers["x"] = {row(job="a"): 1}
    group.evaluate(series, 15)
    labels = {"alertname": "A", "job": "a"}
    assert written == [("ALERTS", {**labels, "alertstate": "pending"}, 15, 1), ("ALERTS_FOR_STATE", labels, 15, 15)]
    del written[:]
    group.evaluate(series, 30)
    assert written[0][:2] == ("ALERTS", {**labels, "alertstate": "pending"})
    assert is_stale(written[0][3])
    assert written[1:] == [("ALERTS", {**labels, "alertstate": "firing"}, 30, 1), ("ALERTS_FOR_STATE", labels, 30, 15)]


def test_many_alerts_are_many_steps(make_group, series):
    """An evaluation with very many alerts stops often, and gives the same as in one go."""
    text = "groups: [{name: g, rules: [{alert: A, expr: x}, {record: r, expr: x}]}]"
    series.answers["x"] = {row(job=str(number)): number for number in range(1000)}
    stops, changed = 0, []

    def count():
        nonlocal stops, changed
        changed = yield from make_group(text).steps(series, 0)

    for _ in count():
        stops += 1
    assert stops >= 20
    assert changed == make_group(text).evaluate(series, 0)


def test_how_a_rule_is(make_group, series):
    """A rule keeps its health, when it was last evaluated, and what that took."""
    ticks = iter([10.0, 10.25] * 10)
    group = make_group("groups: [{name: g, rules: [{alert: A, expr: x}]}]", cpu=lambda: next(ticks))
    (rule,) = group.rules
    assert (rule.health, rule.evaluated_at, rule.state()) == ("unknown", None, "inactive")
    series.answers["x"] = {row(): 1}
    group.evaluate(series, 15)
    assert (rule.health, rule.evaluated_at, rule.evaluation_seconds, rule.state()) == ("ok", 15, 0.25, "firing")
    assert group.interval == 15


def test_when_a_rule_was_evaluated(make_group, series):
    """Where there is a wall's time, a rule and its group say that, and not the instant that was evaluated."""
    group = make_group("groups: [{name: g, rules: [{alert: A, expr: x}]}]", now=lambda: 1000.0)
    group.evaluate(series, 15)
    assert (group.rules[0].evaluated_at, group.evaluated_at) == (1000, 1000)


def test_what_others_do_in_between_is_not_the_rules(make_rule, series):
    """An evaluation that pauses for others is charged its own steps only."""
    spent = [0.0]
    group = make_rule(cpu=lambda: spent[0])
    series.answers["x"] = {row(job=str(number)): 1 for number in range(1000)}
    for _ in group.steps(series, 10):
        spent[0] += 5.0
    assert group.rules[0].evaluation_seconds == 0


# recordings between slots


def test_dependencies(make_group):
    """A rule knows the recording rules behind it, in the order of their evaluation, and all inputs."""
    group = make_group(CHAIN)
    connect(group.rules)
    first, second, alert, other = group.rules
    assert alert.recordings == (first, second)
    assert other.recordings == ()
    assert [selector.name for selector in alert.inputs] == ["second", "x", "first"]


def test_dependency_circle(make_group):
    """Recording rules that read one another are each evaluated once."""
    group = make_group("groups: [{name: g, rules: [{record: a, expr: b}, {record: b, expr: a}, {alert: A, expr: a}]}]")
    connect(group.rules)
    assert [rule.name for rule in group.rules[2].recordings] == ["b", "a"]


class Store:
    """A store with one recorded metric `second`, and one metric `other`."""

    version = 7

    def __init__(self):
        self.second = Set("second", [labels_of({"job": "a"}), labels_of({"job": "b"})])
        self.other = Set("other", [labels_of({"job": "a"})])

    def select(self, name, matchers):
        return tuple(one for one in (self.second, self.other) if name in (None, one.name))

    def value(self, series, at):
        return np.full(len(series.labels), 0.5), None

    def samples(self, series, start, end, step):
        return [(np.array([10.0, 20.0]), np.array([1.0, 2.0])) for _ in series.labels]

    def born(self, series):
        return np.zeros(len(series.labels), bool)

    def changed(self, series, since):
        return False

    def increase(self, series, start, end):
        return "increase"

    def quantile(self, series, *arguments):
        return "quantile"


class Set:
    """A series set."""

    kind = "sampled"

    def __init__(self, name, labels):
        self.name = name
        self.labels = tuple(labels)


def test_between_slots_recordings_come_first():
    """Between slots a rule sees what its recording rules give now, with what they gave before; the store does not."""
    text = """
groups:
- name: g
  interval: 10s
  rules:
  - {record: job:x:sum, expr: sum by (job) (x)}
  - {record: job:x:twice, expr: job:x:sum * 2}
  - {alert: A, expr: job:x:twice > 5}
  - {alert: B, expr: 'count_over_time(job:x:twice[1m]) > 1'}
"""
    store = RealStore([], Rows(), Errors())
    spec = load("rules.yaml", text, promql.compile_expr).groups[0]
    group = Group(spec, Surroundings(compile_expr=promql.compile_expr, put=store.put))
    connect(group.rules)
    labels = labels_of({"job": "a"})
    store.put("x", labels, 100.0, 1.0)
    store.advance(100.0)
    assert group.evaluate(store, 100.0) == []
    store.put("x", labels, 103.0, 3.0)
    store.advance(103.0)
    begun = [alert for rule in group.rules[2:] for alert in group.evaluate_rule(rule, store, 103.0)]
    assert [(dict(alert.labels), alert.value) for alert in begun] == [
        ({"alertname": "A", "job": "a"}, 6),
        ({"alertname": "B", "job": "a"}, 2),
    ]
    assert promql.compile_expr("job:x:twice").evaluate(store, 103.0, 10).rows()[0][1] == 2


@pytest.fixture
def overlay():
    """An overlay that has `second` of its own at 30 s."""
    overlay = Overlay(Store())
    overlay.put("second", {labels_of({"job": "b"}): 5.0, labels_of({"job": "c"}): 6.0}, 30.0)
    return overlay


def test_overlay_replaces(overlay):
    """What was recorded stands in place of the store's metric of that name; others are the store's."""
    (second,) = overlay.select("second", ())
    assert [dict(labels)["job"] for labels in second.labels] == ["b", "c"]
    assert overlay.value(second, 30.0)[0].tolist() == [5.0, 6.0]
    assert [one.name for one in overlay.select(None, ())] == ["other", "second"]
    (other,) = overlay.select("other", ())
    assert overlay.value(other, 30.0)[0].tolist() == [0.5]
    assert (overlay.changed(second, 7), overlay.changed(other, 7), overlay.version) == (True, False, 7)
    assert (overlay.born(second).tolist(), overlay.born(other).tolist()) == ([True, True], [False])
    assert (overlay.increase(other, 0, 1), overlay.quantile(other, 1)) == ("increase", "quantile")


def test_overlay_matchers(overlay):
    """Matchers choose among recorded series, by name, too."""
    only_c = Matcher("job", "=", "c", "c".__eq__)
    (second,) = overlay.select("second", (only_c,))
    assert second.labels == (labels_of({"job": "c"}),)
    by_name = Matcher("__name__", "=", "second", "second".__eq__)
    assert [one.name for one in overlay.select(None, (by_name, only_c)) if one.name == "second"] == ["second"]
    assert overlay.select("second", (Matcher("job", "=", "z", "z".__eq__),)) == ()


def test_overlay_history(overlay):
    """Windows over recorded series hold what the store has, and the value of now at their end."""
    (second,) = overlay.select("second", ())
    b, c = overlay.samples(second, 0.0, 30.0, 15.0)
    assert (b[0].tolist(), b[1].tolist()) == ([10, 20, 30], [1, 2, 5])
    assert (c[0].tolist(), c[1].tolist()) == ([30], [6])
    assert overlay.samples(second, 0.0, 25.0, 15.0)[1][0].tolist() == []
    values, present = overlay.value(second, 20.0)
    assert (values[0], present.tolist()) == (0.5, [True, False])
    (other,) = overlay.select("other", ())
    assert overlay.samples(other, 0.0, 30.0, 15.0)[0][0].tolist() == [10, 20]
