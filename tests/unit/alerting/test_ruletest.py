"""Test files: promtool's format and what is added to it, read whole, refused with every problem at its place."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.alerting import notation, ruletest, testevents
from collector.model.errors import ProblemsError
from collector.model.stale import STALE
from collector.promql import compile_expr

BROKEN = sorted((Path(__file__).parent / "broken_tests").glob("*.yaml"))


def read(text):
    """A file's tests."""
    return ruletest.load("a_test.yaml", text, compile_expr)


def events(text):
    """When, kind, task id and attempt of the events of one test."""
    (test,) = read("tests:\n  - " + text.strip().replace("\n", "\n    ")).tests
    return [(one.at, one.event.kind, one.event.task_id, one.event.attempt) for one in test.events]


@pytest.mark.parametrize("path", BROKEN, ids=[path.stem for path in BROKEN])
def test_broken(path):
    """A file that is broken in one way gives its expected message, with its place."""
    expected = path.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    with pytest.raises(ProblemsError) as raised:
        ruletest.load(path.name, path.read_text(encoding="utf-8"), compile_expr)
    assert [str(problem) for problem in raised.value.problems] == expected


def test_there_are_enough():
    """The folder holds the mistakes that people make, each by its name."""
    assert len(BROKEN) >= 70


def test_defaults():
    """What a file leaves out is as promtool has it: a minute, the beginning of time, and nothing expected."""
    file = read("rule_files: [a.yaml]\ntests:\n- alert_rule_test: [{alertname: A}]\n- name: b\n  interval: 5s\n")
    first, second = file.tests
    assert (file.evaluation_interval, file.fuzzy_compare, file.group_order) == (60, False, {})
    assert [name for name, _ in file.rule_files] == ["a.yaml"]
    assert (first.name, first.interval, first.start, first.evaluate_on_events) == ("unnamed#0", 60, None, False)
    assert (first.cases[0].eval_time, first.cases[0].expected) == (0, ())
    assert (second.name, second.interval) == ("b", 5)


def test_interval_of_the_file():
    """Series are as far apart as the file evaluates, where the test does not say it."""
    assert read("evaluation_interval: 10s\ntests: [{}]").tests[0].interval == 10


@pytest.mark.parametrize(
    ("written", "start"),
    [("1609459200", 1609459200), ("100.5", 100.5), ("'2021-01-01T00:00:00Z'", 1609459200),
     ("2021-01-01T01:00:00+01:00", 1609459200), ("0", 0)],
)  # fmt: skip
def test_start(written, start):
    """A test begins at Unix seconds or at an RFC 3339 time."""
    assert read(f"tests: [{{start_timestamp: {written}}}]").tests[0].start == start


def test_evaluation_on_events():
    """It is asked for in a file or in a test; the test decides."""
    tests = read("evaluate_on_events: true\ntests: [{}, {evaluate_on_events: false}]").tests
    assert [test.evaluate_on_events for test in tests] == [True, False]


def test_last_of_equal_series():
    """Two series of one name and labels are one, the last, as in promtool."""
    equal = ("{series: 'a{x=\"1\",y=\"\"}', values: '1 2'}", "{series: 'a{x=\"1\"}', values: 3}")
    text = "tests:\n- input_series:\n  - {}\n  - {}\n".format(*equal)
    (series,) = read(text).tests[0].series
    assert (series.name, series.labels, series.values) == ("a", (("x", "1"),), (3,))


def test_unknown_alerts():
    """A test of an alert that no rule gives is found, with what was probably meant."""
    file = read("tests:\n- alert_rule_test:\n  - {alertname: DeadLeter}\n")
    rules = ruletest.GroupSpec(file="", name="g", interval=None, query_offset=0, limit=0, rules=())
    (problem,) = ruletest.unknown_alerts(file, [rules])
    assert str(problem).startswith("a_test.yaml:3:17: no rule in the files that are tested gives the alert `DeadLeter`")


# Notation


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("up", {"__name__": "up"}),
        ("", {}),
        ("{}", {}),
        ('{job="a"}', {"job": "a"}),
        ("up{job=\"a\", instance = 'b' , }", {"__name__": "up", "job": "a", "instance": "b"}),
        ('{"a.b", "x.y"="1"}', {"__name__": "a.b", "x.y": "1"}),
        ('{__name__="a",x=""}', {"__name__": "a", "x": ""}),
        (r'a{x="q\"\\\n}",y=`\n`}', {"__name__": "a", "x": 'q"\\\n}', "y": "\\n"}),
    ],
)
def test_metric(text, labels):
    """A metric is read as Prometheus reads it."""
    assert notation.parse_metric(text) == labels


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("1 -2 +3 .5 1e3 1_000", [1, -2, 3, 0.5, 1000, 1000]),
        ("-2+4x3", [-2, 2, 6, 10]),
        ("1-2x4", [1, -1, -3, -5, -7]),
        ("1x2", [1, 1, 1]),
        ("0x10", [0] * 11),
        ("1 _x3 _ 2", [1, None, None, None, None, 2]),
        ("0+0.1x3", [0, 0.1, 0.2, 0.1 + 0.1 + 0.1]),
        ("Inf -Inf +inf", [math.inf, -math.inf, math.inf]),
    ],
)
def test_values(text, values):
    """The expanding notation gives promtool's numbers, to the last digit."""
    assert notation.parse_values(text) == values


def test_a_repeated_value_is_the_same():
    """`-0x2` is -0 three times: nothing is added to it."""
    assert [math.copysign(1, value) for value in notation.parse_values("-0x2 0x1")] == [-1, -1, -1, 1, 1]


def test_stale_and_nan():
    """A stale marker is one, and NaN is another."""
    stale, nan = notation.parse_values("stale NaN")
    assert stale is STALE
    assert math.isnan(nan)


@pytest.mark.parametrize(
    "word", ["x3", "Infx3", "1x", "staler", "1x-2", "1x1.5", "--1", "1+-1x3", "1e", "__", "1__0", "."]
)
def test_no_values(word):
    """What promtool refuses is refused."""
    with pytest.raises(notation.NotationError):
        notation.parse_values(word)


@given(st.text(alphabet="up{}=\"',\\`x1 \n_+-.e", max_size=12))
def test_any_text(text):
    """Whatever stands there is read or refused with a sentence, never a crash."""
    for parse in (notation.parse_metric, notation.parse_values):
        with suppress(notation.NotationError):
            parse(text)


# Events


def test_repeated_event():
    """An event is repeated at its distance, and `{n}` in its id is the number of the repetition."""
    assert events("input_events: [{at: 2s, every: 1500ms, times: 3, kind: sent, task_id: 'job-{n}'}]") == [
        (2, "sent", "job-0", None),
        (3.5, "sent", "job-1", None),
        (5, "sent", "job-2", None),
    ]


def test_order_of_events():
    """Events come in the order of their times, those of one instant as they are written."""
    found = events(
        "input_events:\n- {at: 2s, kind: started, task_id: a, attempt: 1}\n- {at: 1s, kind: sent, task_id: a}\n"
        "- {at: 2s, kind: succeeded, task_id: a, attempt: 1}"
    )
    assert [kind for _, kind, _, _ in found] == ["sent", "started", "succeeded"]


def test_worker_event():
    """An event about a worker needs no task."""
    assert events("input_events: [{at: 1s, kind: heartbeat, worker: w1}]") == [(1, "heartbeat", "", None)]


def test_generated_tasks():
    """Of many tasks a share is retried and a share fails, the same ones in every run."""
    found = events(
        "input_tasks: [{task: t, during: 10s, per_second: 2, retried: 0.25, failed: 0.1, dead_lettered: 0.05}]"
    )
    kinds = [kind for _, kind, _, _ in found]
    counts = {
        kind: kinds.count(kind) for kind in ("sent", "started", "retried", "failed", "dead_lettered", "succeeded")
    }
    assert counts == {"sent": 20, "started": 25, "retried": 5, "failed": 2, "dead_lettered": 1, "succeeded": 18}
    assert [(at, kind, attempt) for at, kind, task_id, attempt in found if task_id == "t/0/3"] == [
        (1.5, "sent", None),
        (1.5, "started", 1),
        (1.6, "retried", 1),
        (2.6, "started", 2),
        (2.7, "succeeded", 2),
    ]


@given(st.integers(1, 300), st.floats(0, 1))
def test_share(count, share):
    """A share of many is as many as it says, rounded down, however it is cut."""
    chosen = sum(testevents._is_chosen(number, share) for number in range(count))
    assert chosen == math.floor(count * share + 1e-9)
