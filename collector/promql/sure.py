"""Which expressions cannot fail when they are evaluated, whatever series there are.

An operator may leave such a side unseen where the other one is empty. Of any other its error is told, as Prometheus
does, which evaluates both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import promql_parser as tree

from collector.promql.aggregate import SIMPLE

_FUNCTIONS = frozenset(["increase", "rate", "histogram_quantile", "max_over_time", "min_over_time", "avg_over_time"])
"""Those that meet no two series with equal labels, where their argument has none."""


def is_sure(ast: Any) -> bool:
    """Whether it is made of nothing but series of one name each, numbers, and what cannot mix them up."""
    parts = _PARTS.get(type(ast))
    return parts is not None and (found := parts(ast)) is not None and all(map(is_sure, found))


def _operands(ast: Any) -> list[Any] | None:
    sides = [ast.lhs, ast.rhs]
    return sides if any(isinstance(side, tree.NumberLiteral) for side in sides) else None


_PARTS: dict[type, Callable[[Any], list[Any] | None]] = {
    tree.NumberLiteral: lambda _: [],
    # With two names in it, two of its series may have equal labels once the name is dropped.
    tree.VectorSelector: lambda ast: None if ast.name is None else [],
    tree.MatrixSelector: lambda ast: [ast.vector_selector],
    tree.ParenExpr: lambda ast: [ast.expr],
    tree.AggregateExpr: lambda ast: [ast.expr] if str(ast.op) in SIMPLE else None,
    tree.Call: lambda ast: ast.args if ast.func.name in _FUNCTIONS else None,
    tree.BinaryExpr: _operands,
}
"""What an expression is made of; None: it may fail by itself."""
