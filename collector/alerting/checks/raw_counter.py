"""A counter as it is, alone or compared with a number: it only ever rises, so the alert, once it fires, never ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as tree

from collector.alerting.checks.ground import Ground, Subject
from collector.model.errors import Problem
from collector.promql.reading import COMPARISONS, bare, is_scalar, name_of, selectors, text_of, walk

_KEEPING = frozenset(("sum", "min", "max", "avg", "topk", "bottomk", "quantile"))
"""Aggregations of counters that rise like counters; the same for functions."""
_ALIKE = frozenset(("abs", "ceil", "floor", "round", "sort", "sort_desc", "label_replace", "label_join", "scalar"))
_JOINING = frozenset("+*/")


def raw_counter(subject: Subject) -> Iterator[Problem]:
    """Alerts on a counter's own value, and comparisons of it with a number."""
    if subject.rule.kind == "alert" and _is_raw(subject.tree, subject.ground):
        yield subject.wrong(f"`{text_of(subject.tree)}` is there for ever once it began: {_advice(subject.tree)}")
    for node, _ in walk(subject.tree):
        if not isinstance(node, tree.BinaryExpr) or str(node.op) not in COMPARISONS:
            continue
        for side, other in ((node.lhs, node.rhs), (node.rhs, node.lhs)):
            if is_scalar(other) and _is_raw(side, subject.ground):
                what = f"`{text_of(node)}` compares a counter, which only ever rises"
                yield subject.wrong(f"{what}: {_advice(side)}")


def _advice(counted: Any) -> str:
    name = name_of(selectors(counted)[0])
    return f"compare increase({name}[5m]), or what it was: {name} - {name} offset 5m"


def _is_raw(node: Any, ground: Ground) -> bool:  # noqa: PLR0911 - a table in the form of a match
    """Whether a value is a counter's since it began."""
    node = bare(node)
    match node:
        case tree.VectorSelector():
            name = name_of(node) or ""
            kind = ground.of(name).kind
            return kind in {"counter", "bucket"} or (name not in ground.metrics and name.endswith("_total"))
        case tree.UnaryExpr(expr=inner):
            return _is_raw(inner, ground)
        case tree.AggregateExpr():
            return str(node.op) in _KEEPING and _is_raw(node.expr, ground)
        case tree.Call():
            return str(node.func.name) in _ALIKE and _is_raw(node.args[0], ground)
        case tree.BinaryExpr(lhs=left, rhs=right) if is_scalar(left) or is_scalar(right):
            return str(node.op) not in COMPARISONS and _is_raw(right if is_scalar(left) else left, ground)
        case tree.BinaryExpr(lhs=left, rhs=right):
            return str(node.op) in _JOINING and _is_raw(left, ground) and _is_raw(right, ground)
        case _:
            return False
