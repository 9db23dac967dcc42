"""An expression's tree for those who look at it and do not evaluate it: walks, names, and its text.

Nodes are the parser's own (promql-parser), as `syntax.parse` gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as tree

from collector.model.labels import Matcher
from collector.promql.compile import OPS
from collector.promql.matchers import NAME, matcher

COMPARISONS = frozenset(("==", "!=", ">", "<", ">=", "<="))
SETS = frozenset(("and", "or", "unless"))
_SHOWN_CHARACTERS = 90

Node = Any
"""A node of the parser's tree."""


def bare(node: Node) -> Node:
    """What stands inside of parentheses."""
    while isinstance(node, tree.ParenExpr):
        node = node.expr
    return node


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below."""
    match node:
        case tree.BinaryExpr():
            return node.lhs, node.rhs
        case tree.Call():
            return tuple(node.args)
        case tree.AggregateExpr():
            return (node.expr,) if node.param is None else (node.param, node.expr)
        case tree.MatrixSelector():
            return (node.vector_selector,)
        case tree.ParenExpr() | tree.UnaryExpr() | tree.SubqueryExpr():
            return (node.expr,)
        case _:
            return ()


def walk(node: Node, above: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node with those above it, the nearest last."""
    yield node, above
    for child in children(node):
        yield from walk(child, (*above, node))


def selectors(node: Node) -> list[Node]:
    """The instant selectors in it, those inside of range selectors too."""
    return [one for one, _ in walk(node) if isinstance(one, tree.VectorSelector)]


def matchers_of(selector: Node) -> list[Matcher]:
    """The matchers of a selector, compiled."""
    return [matcher(one.name, OPS[str(one.op).rpartition(".")[2]], one.value) for one in selector.matchers.matchers]


def name_of(selector: Node) -> str | None:
    """The name of the metric that a selector reads; None where only a pattern says which."""
    fixed = (one.value for one in matchers_of(selector) if one.name == NAME and one.op == "=")
    return selector.name or next(fixed, None)


def is_scalar(node: Node) -> bool:
    """Whether it is one number, without labels."""
    match bare(node):
        case tree.NumberLiteral():
            return True
        case tree.Call(func=function):
            return str(function.name) in {"scalar", "time", "pi"}
        case tree.UnaryExpr(expr=inner):
            return is_scalar(inner)
        case tree.BinaryExpr(lhs=left, rhs=right):
            return is_scalar(left) and is_scalar(right)
        case _:
            return False


def is_filter(node: Node) -> bool:
    """Whether it is a comparison that lets elements through or not."""
    is_comparison = isinstance(node, tree.BinaryExpr) and str(node.op) in COMPARISONS
    return is_comparison and not (node.modifier and node.modifier.return_bool)


def text_of(node: Node) -> str:
    """A node as text on one line, cut where it is long."""
    text = " ".join(node.prettify().split()).replace("( ", "(").replace(" )", ")")
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
