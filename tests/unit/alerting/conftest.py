"""A stand-in for PromQL: expressions that give what a test put down for them."""

# ruff: noqa: ARG002, D102 - stand-ins have the methods of what they stand for

from __future__ import annotations

from types import SimpleNamespace

import promql_parser
import pytest

from collector.alerting.group import Group, Surroundings
from collector.alerting.rulefile import load
from collector.model.errors import TasktrailError
from collector.model.labels import Matcher, labels_of


class Rows:
    """A frame."""

    def __init__(self, rows):
        self._rows = rows

    def rows(self):
        return self._rows


class Expression:
    """Parsed for real; evaluated by looking its text up in the querier."""

    def __init__(self, text):
        try:
            tree = promql_parser.parse(text)
        except ValueError as error:
            raise TasktrailError(str(error)) from None
        self.text = text
        kinds = {promql_parser.MatrixSelector: "matrix", promql_parser.StringLiteral: "string"}
        self.type = kinds.get(type(tree), "vector")
        self.windows = ()
        self.selectors = self._selectors(tree)

    def _selectors(self, tree):
        if not isinstance(tree, promql_parser.VectorSelector):
            return ()
        matchers = tuple(Matcher(m.name, "=", m.value, m.value.__eq__) for m in tree.matchers.matchers)
        return (SimpleNamespace(name=tree.name, matchers=matchers),)

    def evaluate(self, querier, at, step):
        return querier.answer(self, at)


class Series:
    """A querier: what each expression gives, as {labels of a row: value}, a number, a text or an error."""

    version = 1

    def __init__(self):
        self.answers = {}
        self.asked = []

    def answer(self, expr, at):
        self.asked.append((expr.text, at))
        answer = self.answers.get(expr.text, {})
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            return Rows([(labels_of(dict(pairs)), float(value)) for pairs, value in answer.items()])
        return answer


def row(**labels):
    """A key of `Series.answers`."""
    return tuple(labels.items())


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
