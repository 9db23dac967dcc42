"""Which labels the elements of an expression can have: a set, or None where anything goes."""

from __future__ import annotations

from typing import Any, TypeAlias

import promql_parser as tree

from collector.alerting.checks.ground import Ground
from collector.promql.reading import SETS, bare, children, is_scalar, name_of

Names: TypeAlias = frozenset[str] | None
_NONE: frozenset[str] = frozenset()
_ABSENT = frozenset(("absent", "absent_over_time"))
_OF_BUCKETS = frozenset(("histogram_quantile", "histogram_fraction"))


def result_labels(node: Any, ground: Ground) -> Names:  # noqa: PLR0911 - a table in the form of a match
    """The labels, `__name__` aside. Raises nothing: what is not understood is None."""
    node = bare(node)
    match node:
        case tree.VectorSelector():
            return ground.labels_of(name_of(node))
        case tree.MatrixSelector():
            return result_labels(node.vector_selector, ground)
        case tree.SubqueryExpr() | tree.UnaryExpr():
            return result_labels(node.expr, ground)
        case tree.NumberLiteral():
            return _NONE
        case tree.AggregateExpr():
            return _of_aggregate(node, ground)
        case tree.Call():
            return _of_call(node, ground)
        case tree.BinaryExpr():
            return _of_binary(node, ground)
        case _:
            return None


def kept_labels(node: Any, ground: Ground) -> frozenset[str]:
    """The labels that an element lacks only where the series that it is made of have none; in doubt not one of them."""
    node = bare(node)
    if isinstance(node, tree.VectorSelector):
        return ground.labels_of(name_of(node)) or _NONE
    below = [kept_labels(one, ground) for one in _made_of(node)]
    return _passed(node, frozenset.intersection(*below)) if below else _NONE


def _made_of(node: Any) -> list[Any]:
    """The vectors below that an element's labels come from."""
    below = [one for one in children(node) if not is_scalar(one)]
    if isinstance(node, tree.BinaryExpr) and len(below) == 2:
        if str(node.op) in {"and", "unless"} or _card(node.modifier) == "ManyToOne":
            return below[:1]
        return below[1:] if _card(node.modifier) == "OneToMany" else below
    return [one for one in below if not isinstance(bare(one), tree.StringLiteral)]


def _passed(node: Any, names: frozenset[str]) -> frozenset[str]:  # noqa: PLR0911 - a table in the form of a match
    """What of the labels below comes through a node as it was."""
    match node:
        case tree.AggregateExpr() if str(node.op) not in {"topk", "bottomk"}:
            if node.modifier is None:
                return _NONE
            named = frozenset(node.modifier.labels)
            return names - named if str(node.modifier.type).endswith("Without") else names & named
        case tree.Call():
            name = str(node.func.name)
            if name in {"label_replace", "label_join"}:
                return names - {bare(node.args[1]).val}
            return _NONE if name in _ABSENT else names - {"le"} if name in _OF_BUCKETS else names
        case tree.BinaryExpr() if node.modifier and str(node.op) not in SETS:
            if _card(node.modifier) == "OneToOne":
                return _of_match(node.modifier, names, names) or _NONE
            return names - set(node.modifier.group_labels or ())
        case _:
            return names


def _of_aggregate(node: Any, ground: Ground) -> Names:
    inner = result_labels(node.expr, ground)
    op = str(node.op)
    if op in {"topk", "bottomk"}:
        return inner
    added = {bare(node.param).val} if op == "count_values" else _NONE
    if node.modifier is None:
        return _NONE | added
    named = frozenset(node.modifier.labels)
    if not str(node.modifier.type).endswith("Without"):
        return (named if inner is None else named & inner) | added
    return None if inner is None else (inner - named) | added


def _of_call(node: Any, ground: Ground) -> Names:
    name = str(node.func.name)
    if name in _ABSENT:
        return None  # the labels that its matchers fix
    vectors = [one for one in node.args if not is_scalar(one) and not isinstance(bare(one), tree.StringLiteral)]
    inner = result_labels(vectors[0], ground) if vectors else _NONE
    if name in {"label_replace", "label_join"}:
        return None if inner is None else inner | {bare(node.args[1]).val}
    if name in _OF_BUCKETS:
        return None if inner is None else inner - {"le"}
    return inner


def _of_binary(node: Any, ground: Ground) -> Names:
    left, right = (result_labels(side, ground) for side in (node.lhs, node.rhs))
    if is_scalar(node.lhs):
        return right
    if is_scalar(node.rhs):
        return left
    op = str(node.op)
    if op in SETS:
        return left if op != "or" or left is None else None if right is None else left | right
    return _of_match(node.modifier, left, right)


def _card(modifier: Any) -> str:
    return str(modifier.card).rpartition(".")[2] if modifier else "OneToOne"


def _of_match(modifier: Any, left: Names, right: Names) -> Names:
    """Of arithmetic or a comparison between two vectors."""
    card = _card(modifier)
    many = right if card == "OneToMany" else left
    if card != "OneToOne":
        return None if many is None else many | frozenset(modifier.group_labels or ())
    if modifier is None or modifier.matching is None:
        return left if right is None else right if left is None else left & right
    named = frozenset(modifier.matching.labels)
    if str(modifier.matching.type).endswith("Include"):
        return named if left is None else named & left
    return None if left is None else left - named
