"""Groups and rules on the stand-ins for PromQL and for the store."""

from __future__ import annotations

import pytest

from collector.alerting.group import Group, Surroundings
from collector.alerting.rulefile import load
from tests.unit.alerting.standins import Expression, Series


@pytest.fixture
def compile_expr():
    """The stand-in for the compiler."""
    return Expression


@pytest.fixture
def series():
    """The stand-in for the store."""
    return Series()


@pytest.fixture
def written():
    """What rules wrote: (name, labels, instant, value)."""
    return []


@pytest.fixture
def make_group(compile_expr, written):
    """A group of one file's text, its first one."""

    def make(text, **options):
        spec = load("rules.yaml", text, compile_expr).groups[0]
        put = lambda name, labels, at, value: written.append((name, dict(labels), at, value))  # noqa: E731
        return Group(spec, Surroundings(compile_expr=compile_expr, put=put, **options))

    return make


@pytest.fixture
def make_rule(make_group):
    """A group with one alert `A` on `x`, with the lines given."""

    def make(*lines, group="", **options):
        text = f"groups:\n- name: g\n  interval: 10s\n{group}  rules:\n  - alert: A\n    expr: x\n"
        return make_group(text + "".join(f"    {line}\n" for line in lines), **options)

    return make
