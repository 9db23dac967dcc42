"""`rate` and its kin over a gauge: every fall is taken for a restart of a counter, so the result means nothing."""

from __future__ import annotations

from collections.abc import Iterator

import promql_parser as tree

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem
from collector.promql.reading import name_of, selectors, text_of, walk

_INSTEAD = {"rate": "deriv", "irate": "idelta", "increase": "delta"}


def rate_of_gauge(subject: Subject) -> Iterator[Problem]:
    """Functions for counters whose argument is a known gauge."""
    for node, _ in walk(subject.tree):
        if not isinstance(node, tree.Call) or str(node.func.name) not in _INSTEAD:
            continue
        function = str(node.func.name)
        for selector in selectors(node.args[0]):
            name = name_of(selector)
            if subject.ground.of(name).kind == "gauge":
                advice = f"use {_INSTEAD[function]}() for its change, or a counter"
                yield subject.wrong(f"`{text_of(node)}`: {name} is a gauge, and {function}() is for counters: {advice}")
