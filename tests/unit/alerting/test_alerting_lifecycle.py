"""Alerts through their lives, slot by slot. The rule is `A` on `x` with an interval of 10 s."""

from __future__ import annotations

import pytest

from collector.alerting import lifecycle
from tests.unit.alerting.standins import row

ONE = {row(job="a"): 1}
TWO = {row(job="a"): 1, row(job="b"): 2}


@pytest.fixture
def step(series):
    """Give `x` its elements and evaluate at a slot; what changed, as (job, state)."""

    def at(group, when, elements, *, blind=False):
        series.answers["x"] = elements
        changed = group.evaluate(series, when, blind=lambda _: blind)
        return sorted((dict(alert.labels).get("job", ""), alert.state) for alert in changed)

    return at


def states(group):
    """State by job."""
    return {dict(alert.labels).get("job", ""): alert.state for alert in group.alerts()}


def test_without_for(make_rule, step):
    """Without `for` an alert fires with its first element and resolves with the first slot without."""
    group = make_rule()
    assert step(group, 0, ONE) == [("a", "firing")]
    assert step(group, 10, ONE) == []
    assert step(group, 20, {}) == [("a", "resolved")]
    (alert,) = group.alerts()
    assert (alert.active_at, alert.fired_at, alert.resolved_at) == (0, 0, 20)


def test_with_for(make_rule, step):
    """With `for` an alert is pending until its expression held for so long."""
    group = make_rule("for: 20s")
    assert step(group, 0, ONE) == [("a", "pending")]
    assert step(group, 10, ONE) == []
    assert step(group, 20, ONE) == [("a", "firing")]
    (alert,) = group.alerts()
    assert (alert.active_at, alert.fired_at) == (0, 20)


def test_pending_is_forgotten(make_rule, step):
    """A pending alert whose expression stops to hold begins anew; nobody is told."""
    group = make_rule("for: 20s")
    step(group, 0, ONE)
    assert step(group, 10, {}) == []
    assert group.alerts() == []
    assert step(group, 20, ONE) == [("a", "pending")]
    assert group.alerts()[0].active_at == 20


def test_for_counts_in_milliseconds(make_rule, step):
    """The comparison with `for` does not fail by the rounding of large floats."""
    group = make_rule("for: 300ms")
    step(group, 1_700_000_000.1, ONE)
    assert step(group, 1_700_000_000.4, ONE) == [("a", "firing")]


def test_keep_firing_for(make_rule, step):
    """An alert goes on firing for `keep_firing_for` after its last element, which a new element resets."""
    group = make_rule("keep_firing_for: 20s")
    step(group, 0, ONE)
    assert step(group, 10, {}) == []
    assert step(group, 20, ONE) == []
    assert step(group, 30, {}) == []
    assert step(group, 40, {}) == []
    assert step(group, 50, {}) == [("a", "resolved")]


def test_resolved_is_kept_for_a_while(make_rule, step):
    """A resolved alert stays for 15 minutes to be seen, and a new element in that time is a new episode."""
    group = make_rule()
    step(group, 0, ONE)
    step(group, 10, {})
    step(group, 910, {})
    assert states(group) == {"a": "resolved"}
    step(group, 920, {})
    assert states(group) == {}
    step(group, 930, ONE)
    step(group, 940, {})
    assert step(group, 950, ONE) == [("a", "firing")]
    assert group.alerts()[0].active_at == 950


def test_each_label_set_for_itself(make_rule, step):
    """Every element is an alert of its own."""
    group = make_rule("for: 10s")
    step(group, 0, ONE)
    assert step(group, 10, TWO) == [("a", "firing"), ("b", "pending")]
    assert step(group, 20, {row(job="b"): 5}) == [("a", "resolved"), ("b", "firing")]


def test_labels_and_annotations(make_rule, step, series):
    """Labels are those of the element without its name, of the rule, and the alert's name; texts are expanded."""
    group = make_rule(
        "labels: {kind: 'is {{ $labels.job }}', job: ''}",
        "annotations: {summary: '{{ $labels.__name__ }} {{ $value }}'}",
    )
    series.answers["x"] = {row(__name__="up", job="a"): 3.5}
    (alert,) = group.evaluate(series, 0)
    assert dict(alert.labels) == {"alertname": "A", "kind": "is a"}
    assert dict(alert.annotations) == {"summary": "up 3.5"}
    assert (alert.group, alert.rule, len(alert.fingerprint)) == ("g", "rules.yaml:5", 16)


def test_a_firing_alert_tells_its_new_value(make_rule, step):
    """While an alert fires, a new value is a change; while it is pending it is not."""
    group = make_rule("for: 10s")
    step(group, 0, {row(job="a"): 1})
    assert step(group, 5, {row(job="a"): 2}) == []
    step(group, 10, {row(job="a"): 3})
    assert step(group, 20, {row(job="a"): 4}) == [("a", "firing")]


def test_the_sign_of_nothing_is_told(make_rule, step):
    """-0 after 0 is another text, as in Prometheus."""
    group = make_rule("annotations: {a: '{{ $value }}'}")
    step(group, 0, {row(job="a"): 0.0})
    step(group, 15, {row(job="a"): -0.0})
    assert dict(group.alerts()[0].annotations) == {"a": "-0"}


@pytest.mark.parametrize(("text", "times"), [("{{ $value }}", 2), ('{{ query "y" | first | value }}', 3)])
def test_texts_are_made_when_needed(make_rule, series, monkeypatch, text, times):
    """A text is made again where the element is another, or where the template looks outside."""
    made = []
    expand = lifecycle.expand
    monkeypatch.setattr(lifecycle, "expand", lambda *arguments: made.append(arguments) or expand(*arguments))
    group = make_rule(f"annotations: {{a: '{text}'}}")
    series.answers["y"] = {row(): 1}
    for at, value in ((0, 1), (10, 1), (20, 2)):
        series.answers["x"] = {row(job="a"): value}
        group.evaluate(series, at)
    assert len(made) == times


def test_changes_are_copies(make_rule, step, series):
    """What was handed out does not change afterwards."""
    group = make_rule()
    series.answers["x"] = ONE
    (alert,) = group.evaluate(series, 0)
    step(group, 10, {})
    assert alert.state == "firing"


def test_duplicate_label_sets(make_rule, step):
    """Two elements that become one alert make the rule unhealthy, and change nothing."""
    group = make_rule("labels: {job: same}")
    assert step(group, 0, TWO) == []
    rule = group.rules[0]
    assert rule.health == "err"
    assert "the same labels" in rule.last_error
    step(group, 10, ONE)
    assert (rule.health, rule.last_error) == ("ok", "")


def test_failing_template(make_rule, step):
    """A template that fails gives a plain text; the alert goes out, and the failure is counted and told."""
    group = make_rule("annotations: {summary: '{{ query \"none\" | first }}', other: fine}")
    assert step(group, 0, ONE) == [("a", "firing")]
    (alert,) = group.alerts()
    assert dict(alert.annotations) == {
        "summary": "A, value 1, job=a (the template of this text failed)",
        "other": "fine",
    }
    (failure,) = group.failures
    assert "annotation `summary`" in failure.message


def test_failing_label_template_keeps_one_identity(make_rule, step):
    """A label whose template fails has a fixed value, so that the alert stays the same one."""
    group = make_rule("labels: {x: '{{ query \"none\" | first }}'}")
    step(group, 0, ONE)
    assert step(group, 10, ONE) == []
    assert dict(group.alerts()[0].labels)["x"] == "<error expanding template>"


# between slots


def test_start_between_slots(make_rule, series):
    """Between slots an alert may begin: firing where it has no `for`."""
    group = make_rule()
    series.answers["x"] = ONE
    (alert,) = group.evaluate_rule(group.rules[0], series, 3.1)
    assert (alert.state, alert.active_at, alert.fired_at) == ("firing", 3.1, 3.1)
    assert group.evaluate_rule(group.rules[0], series, 3.2) == []


def test_start_pending_between_slots(make_rule, series, step):
    """Between slots an alert with `for` begins as pending, its clock runs from there, and a slot checks it."""
    group = make_rule("for: 5s")
    series.answers["x"] = ONE
    (alert,) = group.evaluate_rule(group.rules[0], series, 3.0)
    assert alert.state == "pending"
    assert group.evaluate_rule(group.rules[0], series, 9.0) == []
    assert step(group, 10, ONE) == [("a", "firing")]


def test_nothing_ends_between_slots(make_rule, series, step):
    """Between slots nothing resolves, resets or is forgotten."""
    group = make_rule("for: 10s")
    step(group, 0, TWO)
    step(group, 10, ONE)
    series.answers["x"] = {}
    assert group.evaluate_rule(group.rules[0], series, 11.0) == []
    assert states(group) == {"a": "firing"}


# blind


@pytest.mark.case("K03.1")
def test_blind_never_resolves(make_rule, step):
    """While its source says nothing, a firing alert stays, marked; after it, the truth decides."""
    group = make_rule()
    step(group, 0, ONE)
    assert step(group, 10, {}, blind=True) == [("a", "firing")]
    assert group.alerts()[0].blind
    assert step(group, 20, {}, blind=True) == []
    assert step(group, 30, {}) == [("a", "resolved")]


def test_blind_is_over(make_rule, step):
    """An alert that still holds after blindness loses the mark."""
    group = make_rule()
    step(group, 0, ONE)
    step(group, 10, {}, blind=True)
    assert step(group, 20, ONE) == [("a", "firing")]
    assert not group.alerts()[0].blind


def test_blind_may_start(make_rule, step):
    """A blind rule may start to fire."""
    assert step(make_rule(), 0, ONE, blind=True) == [("a", "firing")]


@pytest.mark.case("K03.1")
def test_blind_holds_the_clock_of_for(make_rule, step):
    """Blind time does not count for `for`, with elements or without, and does not reset it."""
    group = make_rule("for: 20s")
    step(group, 0, ONE)
    step(group, 10, ONE)
    assert step(group, 20, ONE, blind=True) == [("a", "pending")]
    step(group, 30, {}, blind=True)
    assert step(group, 40, ONE) == [("a", "firing")]


def test_blind_without_elements_holds_the_clock(make_rule, step):
    """A pending alert without elements while blind goes on where it stood."""
    group = make_rule("for: 20s")
    step(group, 0, ONE)
    step(group, 10, {}, blind=True)
    step(group, 20, {}, blind=True)
    assert step(group, 30, ONE) == [("a", "pending")]
    assert step(group, 40, ONE) == [("a", "firing")]


def test_blind_holds_keep_firing_for(make_rule, step):
    """Blind time does not count for `keep_firing_for` either."""
    group = make_rule("keep_firing_for: 20s")
    step(group, 0, ONE)
    step(group, 10, {})
    step(group, 20, {}, blind=True)
    step(group, 30, {}, blind=True)
    assert step(group, 40, {}) == [("a", "firing")]
    assert step(group, 50, {}) == [("a", "resolved")]


@pytest.mark.parametrize("expr", ["absent(x)", "absent_over_time(x[5m])"])
def test_absence_does_not_start_blind(expr, make_group, series):
    """What is not seen because nothing is seen does not fire."""
    group = make_group(f"groups: [{{name: g, rules: [{{alert: A, expr: '{expr}'}}]}}]")
    series.answers[expr] = {row(): 1}
    assert group.evaluate(series, 0, blind=lambda _: True) == []
    assert group.evaluate_rule(group.rules[0], series, 1, is_blind=True) == []
    assert [alert.state for alert in group.evaluate(series, 10)] == ["firing"]


def test_absent_in_a_text_is_no_absence(make_group, series):
    """A label value that reads like the function does not count as it."""
    group = make_group("groups: [{name: g, rules: [{alert: A, expr: 'x{a=\"absent(\"}'}]}]")
    series.answers['x{a="absent("}'] = ONE
    assert len(group.evaluate(series, 0, blind=lambda _: True)) == 1


# limits


def test_limit(make_rule, step):
    """Over the limit what fires goes on, all that is new is one alert, and the rule says so."""
    group = make_rule("labels: {team: core, x: '{{ $labels.job }}'}", group="  limit: 2\n")
    step(group, 0, ONE)
    many = {row(job=name): 1 for name in "abcd"}
    assert step(group, 10, many) == [("", "firing")]
    summary = next(alert for alert in group.alerts() if "job" not in dict(alert.labels))
    assert dict(summary.labels) == {"alertname": "A", "team": "core"}
    assert (summary.value, "limit of 2 with 4 alerts" in dict(summary.annotations)["summary"]) == (4, True)
    assert group.rules[0].health == "err"
    assert step(group, 20, TWO) == [("", "resolved"), ("b", "firing")]
    assert group.rules[0].health == "ok"


def test_a_gap_ends_nothing_however_often_it_holds_before(make_rule, step):
    """An alert of before a restart ends with no slot before its window has passed over what is missing.

    That its expression held once more meanwhile, in a window that reaches back before the gap, changes nothing of it.
    """
    former, group = make_rule(), make_rule()
    step(former, 0, ONE)
    (rule,), (old,) = group.rules, former.rules
    rule.restore(next(saved for _, saved in old.changes() if saved is not None), 0.0)
    rule.holds_back_until = 40
    assert step(group, 10, ONE) == []
    assert step(group, 20, {}) == step(group, 30, {}) == []
    assert states(group) == {"a": "firing"}
    assert step(group, 40, {}) == [("a", "resolved")]
