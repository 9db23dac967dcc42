"""Rule files: loaded whole, refused with every problem at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector import promql
from collector.alerting.rulefile import load
from collector.model.errors import ProblemsError

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.yaml"))

WHOLE = """
groups:
  - name: first
    interval: 30s
    query_offset: 1m
    limit: 5
    labels: {team: core, severity: info}
    rules:
      - record: job:up:sum
        expr: sum(up)
      - alert: Down
        expr: |
          up
            == 0
        for: 5m
        keep_firing_for: 1h30m
        labels:
          severity: page
          code: 1
        annotations:
          summary: "{{ $labels.job }} is down ({{ $value | humanize }})"
  - name: second
    rules:
"""


def problems(text, compile_expr):
    """The messages of a file that is refused."""
    with pytest.raises(ProblemsError) as raised:
        load("rules.yaml", text, compile_expr)
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize("path", BROKEN, ids=[path.stem for path in BROKEN])
def test_broken(path):
    """A file that is broken in one way gives its expected message, with its place."""
    expected = path.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    with pytest.raises(ProblemsError) as raised:
        load(path.name, path.read_text(encoding="utf-8"), promql.compile_expr)
    assert [str(problem) for problem in raised.value.problems] == expected


def test_there_are_enough():
    """The folder holds the mistakes that people make, each by its name."""
    assert len(BROKEN) >= 30


def test_whole_file(compile_expr):
    """Everything that Prometheus reads of a rule file is there, with its defaults."""
    first, second = load("rules.yaml", WHOLE, compile_expr).groups
    assert (first.name, first.interval, first.query_offset, first.limit) == ("first", 30, 60, 5)
    assert (second.interval, second.rules) == (None, ())
    record, alert = first.rules
    assert (record.kind, record.name, dict(record.written_labels)) == (
        "record",
        "job:up:sum",
        {"team": "core", "severity": "info"},
    )
    assert (alert.kind, alert.name, alert.hold, alert.keep_firing_for) == ("alert", "Down", 300, 5400)
    assert dict(alert.written_labels) == {"team": "core", "severity": "page", "code": "1"}
    assert alert.expr.text == "up\n  == 0\n"
    assert (alert.place.line, alert.place.at("expr").content().line) == (11, 13)


def test_two_mistakes_in_one_file(compile_expr):
    """A bad interval and a bad expression are both told, each at its own place."""
    text = "groups:\n- name: a\n  interval: soon\n  rules:\n  - alert: A\n    expr: sum(\n"
    first, second = problems(text, compile_expr)
    assert first.startswith("rules.yaml:3:13: `soon` is not a duration")
    assert second.startswith("rules.yaml:6:11: the expression cannot be used: ")


def test_place_inside_of_a_block(compile_expr):
    """The place of an expression in a block is its first character."""
    text = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: |-\n      sum(\n"
    assert problems(text, compile_expr)[0].startswith("rules.yaml:6:7: ")


@pytest.mark.parametrize("text", ["", "# nothing\n", "groups:\n", "groups: []\n", "groups: [{name: a}]"])
def test_empty(text, compile_expr):
    """Files without rules are fine, as in Prometheus."""
    assert all(not group.rules for group in load("rules.yaml", text, compile_expr).groups)


PIECES = st.sampled_from(
    [
        "groups:\n",
        "- name: a\n",
        "  rules:\n",
        "  - alert: A\n",
        "  - record: r\n",
        "    expr: x\n",
        "    expr: sum(\n",
        "    for: 5m\n",
        "    for: soon\n",
        "    labels:\n",
        "      a: b\n",
        "      a: '{{ $x }}'\n",
        "    annotations: {}\n",
        "  interval: 1s\n",
        "  limit: -1\n",
        "- ",
        "  ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "'",
        '"',
        "|\n",
        "\t",
        "\n",
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=60)))
def test_any_text(text, compile_expr):
    """Whatever a rule file holds, it loads or gives problems; there is no third way."""
    try:
        load("rules.yaml", text, compile_expr)
        found = None
    except ProblemsError as error:
        found = error.problems
    assert found is None or len(found) > 0
