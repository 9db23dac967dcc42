"""The language, case by case in text: each `eval` of each script in this folder."""

from __future__ import annotations

import re
from pathlib import Path

import promql_scripts
import pytest

from collector.promql.aggregate import SIMPLE
from collector.promql.binary import ARITHMETIC, COMPARISON
from collector.promql.functions import FUNCTIONS

SCRIPTS = sorted(Path(__file__).parent.glob("*.test"))
CASES = [(script.stem, case) for script in SCRIPTS for case in promql_scripts.cases(script.read_text())]
TOLERANCE = 1e-13
"""Relative; only for logarithms and the like, whose last digit differs between libraries."""


@pytest.mark.parametrize(("script", "case"), CASES, ids=[f"{script}:{case.line}" for script, case in CASES])
def test_case(script, case):
    """An expression gives what Prometheus gives."""
    assert promql_scripts.run(case, TOLERANCE) is None, case.query


def test_every_function_has_a_case():
    """No function is in the table without a case in a script."""
    queries = " ".join(case.query for _, case in CASES)
    assert [name for name in FUNCTIONS if not re.search(rf"\b{name}\(", queries)] == []


def test_every_operator_has_a_case():
    """No operator or aggregation is offered without a case in a script."""
    queries = " ".join(case.query for _, case in CASES)
    words = [*ARITHMETIC, *COMPARISON, *SIMPLE, "topk", "bottomk", "quantile", "count_values", "and", "or", "unless"]
    words += ["by", "without", "on", "ignoring", "bool", "group_left", "group_right", "offset", "@ start()", "@ end()"]
    assert [word for word in words if word not in queries] == []


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("load 1m\n  a 1\neval instant at 0 a\n  a 2", "instead of"),
        ("load 1m\n  a 1\neval instant at 0 a", "series"),
        ("load 1m\n  a 1\neval instant at 0 a\n  a 1\n  b 1", "series"),
        ("load 1m\n  a 1\neval instant at 0 a\n  expect fail", "should have failed"),
        ("load 1m\n  a{x='1'} 1\n  a{x='2'} 1\neval instant at 0 a / on() a\n  a 1", "failed: found duplicate"),
        ("load 1m\n  a{x='1'} 1\n  a{x='2'} 1\neval instant at 0 a / on() a\n  expect fail msg: no", "failed with"),
        ("load 1m\n  a 1\n  b 2\neval instant at 0 a or b\n  expect ordered\n  b 2\n  a 1", "order"),
        ("load 1m\n  a 1x5\neval range from 0 to 2m step 1m a\n  a 1 1", "instead of"),
        ("load 1m\n  a 1x5\neval range from 0 to 2m step 1m a\n  a 1 1 2", "instead of"),
        ('eval instant at 0 "a"\n  expect string "b"', "instead of"),
    ],
)
def test_runner_finds_what_is_wrong(script, found):
    """A case that does not hold is reported, whatever is wrong with it."""
    (case,) = promql_scripts.cases(script)
    assert found in promql_scripts.run(case, TOLERANCE)
