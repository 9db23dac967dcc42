"""Verdicts: equal means equal in promtool's sense, and a difference is shown with both sides."""

from __future__ import annotations

import math

import pytest

from collector.alerting import verdict
from collector.alerting.ruletest import ExpectedNotification
from collector.model.alert import Alert, Notification
from collector.model.labels import labels_of

UP = labels_of({"__name__": "up", "job": "a"})


def explained(kind, sides):
    """The lines about a case that failed."""
    got, exp, ok = sides
    assert not ok
    return verdict.explain(verdict.Outcome(kind=kind, name="x", eval_time=0, line=1, column=1, got=got, exp=exp, ok=ok))


@pytest.mark.parametrize(
    ("got", "expected", "fuzzy", "is_equal"),
    [
        (1.0, 1.0, False, True),
        (math.inf, math.inf, False, True),
        (0.1 + 0.2, 0.3, False, False),
        (0.1 + 0.2, 0.3, True, True),
        (0.3, 0.1 + 0.2, True, True),
        (2.9999999999999987, 3.0, True, False),
        (math.nan, math.nan, False, False),
        (math.nan, math.nan, True, False),
    ],
)
def test_values(got, expected, fuzzy, is_equal):
    """Values are equal to the last bit, or nearly with `fuzzy_compare`; NaN is equal to nothing, as in promtool."""
    assert verdict.samples([(UP, got)], [(UP, expected)], fuzzy=fuzzy)[2] is is_equal


def test_order_does_not_matter():
    """Both sides are sorted by their labels."""
    other = labels_of({"__name__": "up", "job": "b"})
    got, exp, ok = verdict.samples([(other, 2), (UP, 1)], [(UP, 1), (other, 2)], fuzzy=False)
    assert ok
    assert got == exp == [{"labels": dict(UP), "value": 1}, {"labels": dict(other), "value": 2}]


@pytest.mark.parametrize(("value", "shown"), [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (3.5, 3.5)])
def test_value_as_data(value, shown):
    """What is no JSON number is a word."""
    assert verdict.samples([(UP, value)], [], fuzzy=False)[0][0]["value"] == shown


def test_another_value():
    """Both sides are shown, and the two numbers beside each other."""
    lines = explained("promql", verdict.samples([(UP, 3.5)], [(UP, 4)], fuzzy=False))
    assert lines == [
        "expected:",
        '    up{job="a"} 4',
        "got:",
        '    up{job="a"} 3.5',
        "differs:",
        '    up{job="a"}: value: expected 4, got 3.5',
    ]


def test_another_label():
    """Where one is left on each side, the labels are held side by side."""
    lines = explained("promql", verdict.samples([(UP, 1)], [(labels_of({"job": "b"}), 1)], fuzzy=False))
    assert lines[-2:] == [
        '    up{job="a"}: label __name__: expected nothing, got "up"',
        '    up{job="a"}: label job: expected "b", got "a"',
    ]


def test_missing_and_unexpected():
    """What one side lacks is named."""
    one, two = (labels_of({"job": name}) for name in "bc")
    assert explained("promql", verdict.samples([(UP, 1)], [(UP, 1), (one, 1), (two, 1)], fuzzy=False))[-2:] == [
        '    missing: {job="b"} 1',
        '    missing: {job="c"} 1',
    ]
    assert explained("promql", verdict.samples([(UP, 1)], [], fuzzy=False))[-1] == '    not expected: up{job="a"} 1'


def test_nan_is_explained():
    """Who expects NaN is told why that never holds."""
    assert (
        "NaN is equal to nothing"
        in explained("promql", verdict.samples([(UP, math.nan)], [(UP, math.nan)], fuzzy=False))[-1]
    )


def test_another_annotation():
    """Of an alert the annotation that differs is named."""
    labels = labels_of({"alertname": "A"})
    lines = explained("alert", verdict.alerts([(labels, (("summary", "one"),))], [(labels, (("summary", "two"),))]))
    assert lines[-1] == '    {alertname="A"}: annotation summary: expected "two", got "one"'


def notification(state="firing"):
    """One about one alert."""
    labels = labels_of({"alertname": "A", "task": "t"})
    alert = Alert(labels=labels, annotations=(), fingerprint="f", state=state, value=1.0, active_at=0.0)
    group = labels_of({"alertname": "A"})
    return Notification(
        key="k", at=0.0, receiver="default", status=state, group_labels=group, common_labels=labels,
        common_annotations=(), alerts=(alert,), title="[FIRING] A", text="...",
    )  # fmt: skip


def wanted(**fields):
    """An expected notification that says so much and no more."""
    nothing = dict.fromkeys(("at", "group_labels", "firing", "resolved", "title"))
    return ExpectedNotification(**{**nothing, "status": "firing", **fields})


@pytest.mark.parametrize(
    ("fields", "ok"),
    [
        ({}, True),
        ({"at": 10.0}, True),
        ({"at": 11.0}, False),
        ({"status": "resolved"}, False),
        ({"group_labels": (("alertname", "A"),)}, True),
        ({"group_labels": ()}, False),
        ({"firing": (labels_of({"alertname": "A", "task": "t"}),), "resolved": ()}, True),
        ({"firing": ()}, False),
        ({"title": "[FIRING] A"}, True),
        ({"title": "A"}, False),
    ],
)
def test_notification(fields, ok):
    """What an expectation says has to hold, what it leaves out may be anything."""
    sides = verdict.notifications([(10.0, notification())], [wanted(**fields)])
    assert sides[2] is ok
    if not ok:
        assert "expected" in explained("notification", sides)[-1]


def test_number_of_notifications():
    """One more or one less than expected is a difference."""
    assert not verdict.notifications([(1.0, notification())], [])[2]
    assert explained("notification", verdict.notifications([], [wanted()]))[-1] == "    missing: firing"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90, "1m30s"), (0.1, "100ms"), (90061.5, "1d1h1m1s500ms")])
def test_durations(seconds, text):
    """Times are shown as they are written."""
    assert verdict.duration_text(seconds) == text
