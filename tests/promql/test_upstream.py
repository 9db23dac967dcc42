"""Prometheus' own engine scripts, from a checkout outside this repository that `TASKTRAIL_TEST_PROMETHEUS` names.

Of them count what every Prometheus does without a flag, on floats: an `eval` that reads no native histogram, expects
none and calls nothing experimental. What of this does not pass is in the table, and nothing else is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import promql_scripts
import pytest

from collector.promql import PromqlError, compile_expr
from collector.promql.matchers import NAME

CHECKOUT = "TASKTRAIL_TEST_PROMETHEUS"
TOLERANCE = 1e-6
"""Prometheus' own, of these scripts."""
LEAST_SHARE = 0.97

SCRIPTS = (
    "aggregators", "at_modifier", "collision", "functions", "histograms", "literals", "name_label_dropping",
    "operators", "range_queries", "selectors", "staleness", "subquery", "trig_functions",
)  # fmt: skip
OTHERS = {
    "duration_expression": "sums of durations are behind a flag",
    "extended_vectors": "`anchored` and `smoothed` are behind a flag",
    "fill-modifier": "`fill` is behind a flag",
    "info": "info() is behind a flag",
    "limit": "limitk and limit_ratio are behind a flag",
    "native_histograms": "native histograms; everything here is a float",
    "start_timestamps": "start timestamps of samples are behind a flag",
    "type_and_unit": "labels for type and unit are behind a flag",
}
"""Scripts about what is refused, and why it is."""

_DELAYED = "the names of metrics go late there: a flag (promql-delayed-name-removal) that is off by default"
NOT_PASSING: dict[tuple[str, str], str] = {
    **{
        ("name_label_dropping", query): _DELAYED
        for query in (
            'label_replace(rate({env="1"}[10m]), "my_name", "rate_$1", "__name__", "(.+)")',
            'label_replace(rate({env="1"}[10m]), "__name__", "rate_$1", "__name__", "(.+)")',
            'label_join(rate({env="1"}[10m]), "my_name", "_", "__name__")',
            'label_join(rate({env="1"}[10m]), "__name__", "_", "__name__", "env")',
            'sum(rate({env="1"}[10m])) by (env)',
            'label_replace(sum by (__name__) (rate(metric_total{env="2"}[5m])), "__name__", "$1", "__name__", "(.+)")',
            'sum by (__name__) (metric_total{env="1"} or rate(metric_total{env="2"}[5m]))',
            'sum by (__name__) (rate(metric_total{env="2"}[5m]) or metric_total{env="1"})',
        )
    },
    (
        "aggregators",
        'count_values("a\\xc5z", version)',
    ): "fails as it should, but for the byte in the text, in other words",
}
"""Script and expression of what does not pass, and why."""


@pytest.fixture(scope="module")
def checkout() -> Path:
    """The checkout; without one a skip with the reason."""
    folder = os.environ.get(CHECKOUT)
    if not folder:
        pytest.skip(f"{CHECKOUT} names no checkout of Prometheus")
    return Path(folder)


@pytest.fixture(scope="module")
def experimental(checkout) -> frozenset[str]:
    """What Prometheus itself calls experimental."""
    text = (checkout / "promql/parser/functions.go").read_text(encoding="utf-8")
    functions = re.findall(r'Name:\s*"(\w+)"[^{}]*?(?:\{[^{}]*\}[^{}]*?)*?Experimental:\s*true', text)
    return frozenset((*functions, "limitk", "limit_ratio"))


@pytest.fixture(scope="module")
def cases(checkout, experimental) -> list:
    """(script, case) of every stable eval on floats."""
    folder = checkout / "promql/promqltest/testdata"
    found = [(name, case) for name in SCRIPTS for case in promql_scripts.cases((folder / f"{name}.test").read_text())]
    return [(name, case) for name, case in found if is_stable(case, experimental)]


def is_stable(case, experimental) -> bool:
    """Whether it is about floats, and nothing that a flag decides."""
    called = set(re.findall(r"(?<!@ )\b(\w+)\s*(?:(?:by|without)\s*\([^()]*\)\s*)?\(", case.query))
    if case.unsupported or called & experimental:
        return False
    try:
        selectors = compile_expr(case.query).selectors
    except PromqlError:
        return not re.search(r"\b(histogram_(?:count|sum|avg|stddev|stdvar))\b", case.query)
    return not any(_reads(selector, name, dict(labels)) for selector in selectors for name, labels in case.left_out)


def _reads(selector, name, labels) -> bool:
    full = {**labels, NAME: name}
    is_named = selector.name in {None, name}
    return is_named and all(matcher.matches(full.get(matcher.name, "")) for matcher in selector.matchers)


def failing(cases) -> dict[tuple[str, str], str]:
    """Script and expression to what is wrong."""
    found = {}
    for name, case in cases:
        if wrong := promql_scripts.run(case, TOLERANCE):
            found[name, case.query] = f"line {case.line}: {wrong}"
    return found


def test_nearly_all_pass(cases):
    """At least 97% of the stable evals on floats give what Prometheus gives, and every other one is in the table."""
    wrong = failing(cases)
    assert len(cases) > 800
    assert 1 - len(wrong) / len(cases) >= LEAST_SHARE
    assert {key: what for key, what in wrong.items() if key not in NOT_PASSING} == {}


def test_the_table_is_true(cases):
    """What is in the table is in the scripts, and does not pass."""
    assert sorted(NOT_PASSING.keys() - failing(cases).keys()) == []


def test_every_script_is_known(checkout):
    """No script of the checkout is passed over without a reason."""
    there = {path.stem for path in (checkout / "promql/promqltest/testdata").glob("*.test")}
    assert there == {*SCRIPTS, *OTHERS}
