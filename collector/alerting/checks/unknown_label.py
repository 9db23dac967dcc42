"""A label that the series do not have: a matcher on it matches nothing, a grouping by it puts all in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import promql_parser as tree

from collector.alerting.checks.ground import Subject
from collector.alerting.checks.result_labels import Names, result_labels
from collector.model.errors import Problem
from collector.promql.matchers import NAME
from collector.promql.reading import is_scalar, matchers_of, name_of, text_of, walk


def unknown_label(subject: Subject) -> Iterator[Problem]:
    """Labels in matchers, groupings and vector matching that cannot be there."""
    for node, _ in walk(subject.tree):
        for label, where, known in _asked(subject, node):
            if label not in known:
                yield subject.wrong(f"{where} has no label `{label}`: {advice(label, known)}")


def advice(label: str, known: Iterable[str]) -> str:
    """What to do about a label that is not one of `known`."""
    names = sorted(known)
    close = get_close_matches(label, names, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"it has {', '.join(names)}" if names else "it has none"


def _asked(subject: Subject, node: Any) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Each label that a node asks for: its name, where it is looked for, and what is there."""
    ground = subject.ground
    match node:
        case tree.VectorSelector():
            name = name_of(node)
            known = ground.labels_of(name)
            yield from _each([one.name for one in matchers_of(node) if one.name != NAME], f"`{name}`", known)
        case tree.AggregateExpr(modifier=modifier, expr=inner) if modifier is not None:
            is_without = str(modifier.type).endswith("Without")
            yield from _each(modifier.labels, _shown(inner), result_labels(inner, ground), only_near=is_without)
        case tree.BinaryExpr(lhs=left, rhs=right, modifier=modifier) if modifier is not None:
            if is_scalar(left) or is_scalar(right) or modifier.matching is None:
                return
            is_ignoring = str(modifier.matching.type).endswith("Exclude")
            for side in (left, right):
                known = result_labels(side, ground)
                yield from _each(modifier.matching.labels, _shown(side), known, only_near=is_ignoring)
            one = left if str(modifier.card).endswith("OneToMany") else right
            yield from _each(modifier.group_labels or (), _shown(one), result_labels(one, ground))
        case _:
            return


def _each(
    labels: Iterable[str], where: str, known: Names, *, only_near: bool = False
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """`only_near`: leaving out what is not there does no harm, so that only what looks misspelt is told."""
    if known is None:
        return
    for label in labels:
        if not only_near or get_close_matches(label, known, n=1, cutoff=0.75):
            yield label, where, known


def _shown(node: Any) -> str:
    return f"`{text_of(node)}`"
