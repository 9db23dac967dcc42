"""A stand-in for PromQL: expressions that give what a test put down for them."""

# ruff: noqa: ARG002, D102 - stand-ins have the methods of what they stand for

from __future__ import annotations

from types import SimpleNamespace

import promql_parser

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
