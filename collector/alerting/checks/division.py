"""A division whose divisor can be 0: NaN, which no comparison takes, or +Inf, which all that ask for more take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as tree

from collector.alerting.checks.ground import Ground, Subject
from collector.model.errors import Problem
from collector.promql.reading import (
    COMPARISONS,
    bare,
    is_filter,
    is_scalar,
    matchers_of,
    name_of,
    selectors,
    text_of,
    walk,
)

_CHANGES = frozenset(("rate", "irate", "increase", "delta", "idelta", "changes", "resets", "deriv"))
"""Functions that are 0 where nothing happens."""
_NEVER_ZERO = frozenset(("count_over_time", "present_over_time", "absent", "absent_over_time", "time", "timestamp"))
_COUNTING = frozenset(("count", "group", "count_values"))
_ABOVE = frozenset((">", ">=", "!="))
_BELOW = frozenset(("==", "<", "<="))


def division(subject: Subject) -> Iterator[Problem]:
    """Divisions by what can be 0, with nothing around them that asks for more than 0."""
    for node, above in walk(subject.tree):
        if not isinstance(node, tree.BinaryExpr) or str(node.op) not in {"/", "%"}:
            continue
        if not _can_be_zero(node.rhs, subject.ground) or _is_guarded(node, above):
            continue
        if _is_part(node.lhs, node.rhs) and any(is_filter(one) and str(one.op) != "!=" for one in above):
            continue  # 0 by 0 at the worst, and the comparison drops NaN
        if isinstance(bare(node.rhs), tree.NumberLiteral):
            yield subject.wrong(f"`{text_of(node)}` divides by 0: mend the number")
        else:
            divisor = text_of(bare(node.rhs))
            advice = "write `a / (b > 0)`, or add `and b > 0`"
            yield subject.wrong(f"`{text_of(node)}` is NaN or +Inf where `{divisor}` is 0: {advice}")


def _can_be_zero(node: Any, ground: Ground) -> bool:  # noqa: PLR0911 - a table in the form of a match
    node = bare(node)
    match node:
        case tree.NumberLiteral(val=number):
            return bool(number == 0)
        case tree.VectorSelector():
            return ground.of(name_of(node)).kind in {"gauge", "counter"}
        case tree.AggregateExpr():
            return str(node.op) not in _COUNTING and _can_be_zero(node.expr, ground)
        case tree.Call(func=function, args=arguments):
            name = str(function.name)
            if name == "clamp_min" and isinstance(arguments[1], tree.NumberLiteral) and arguments[1].val > 0:
                return False
            return name in _CHANGES or (name not in _NEVER_ZERO and any(_can_be_zero(one, ground) for one in arguments))
        case tree.BinaryExpr():
            return _of_binary(node, ground)
        case tree.MatrixSelector(vector_selector=inner) | tree.SubqueryExpr(expr=inner) | tree.UnaryExpr(expr=inner):
            return _can_be_zero(inner, ground)
        case _:
            return False


def _of_binary(node: Any, ground: Ground) -> bool:
    op = str(node.op)
    if op in COMPARISONS:
        return not (is_filter(node) and op in _ABOVE) and _can_be_zero(node.lhs, ground)
    left, right = _can_be_zero(node.lhs, ground), _can_be_zero(node.rhs, ground)
    if op == "+":
        return left and right
    return (
        left
        if op in {"/", "unless"}
        else (left and not _asks_for_more(node.rhs, node.lhs)) or (right and op not in {"and", "^"})
    )


def _is_guarded(division: Any, above: tuple[Any, ...]) -> bool:
    """Whether an `and` or `unless` around it sees to the divisor."""
    inside = division
    for node in reversed(above):
        if isinstance(node, tree.BinaryExpr) and str(node.op) in {"and", "unless"}:
            is_left = node.lhs is inside or bare(node.lhs) is bare(inside)
            other = node.rhs if is_left else node.lhs
            if str(node.op) == "and" and _asks_for_more(other, division.rhs):
                return True
            if str(node.op) == "unless" and is_left and _compares(other, division.rhs, _BELOW):
                return True
        inside = node
    return False


def _asks_for_more(condition: Any, divisor: Any) -> bool:
    return _compares(condition, divisor, _ABOVE)


def _compares(condition: Any, divisor: Any, ops: frozenset[str]) -> bool:
    """Whether a condition compares something of the divisor's metrics with a number."""
    wanted = {name_of(one) for one in selectors(divisor)}
    return any(
        is_filter(node)
        and str(node.op) in ops
        and is_scalar(node.rhs)
        and not wanted.isdisjoint(name_of(one) for one in selectors(node.lhs))
        for node, _ in walk(condition)
    )


def _is_part(dividend: Any, divisor: Any) -> bool:
    """Whether what is divided is counted in the divisor, too: then it is 0 where the divisor is."""
    wholes = selectors(divisor)
    return all(any(_is_within(part, whole) for whole in wholes) for part in selectors(dividend))


def _is_within(part: Any, whole: Any) -> bool:
    asked = {(one.name, one.op, one.value) for one in matchers_of(whole)}
    given = {(one.name, one.op, one.value) for one in matchers_of(part)}
    return name_of(part) == name_of(whole) and asked <= given
