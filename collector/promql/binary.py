"""Binary operators: between numbers, between a vector and a number, and between vectors that are matched by labels.

Which rows match is worked out once per pair of label tuples, for all rows, present or not. Only where a side is not
unique then is the matching done anew for the rows that are present, because only they may be in conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.promql.errors import PromqlError
from collector.promql.frame import EMPTY, Distinct, Frame, Instant, Relabel, both, drop_names, label_value, without_name
from collector.promql.querier import Array
from collector.promql.selectors import FrameNode, ScalarNode


def _power(base: Any, exponent: Any) -> Any:
    """As C's pow; for one exponent 0.5 numpy would take the square root, which differs for -Inf and -0."""
    shape = np.broadcast_shapes(np.shape(base), np.shape(exponent))
    powers = np.power(np.full(shape or 1, base), np.full(shape or 1, exponent))
    return powers if shape else powers[0]


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": _power,
    "atan2": np.arctan2,
}
COMPARISON: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


class Scalars:
    """Number and number. A comparison gives 1 or 0."""

    def __init__(self, op: str, left: ScalarNode, right: ScalarNode) -> None:
        self._work = ARITHMETIC.get(op) or COMPARISON[op]
        self._left = left
        self._right = right

    def eval(self, now: Instant) -> float:
        """The number."""
        return float(self._work(np.float64(self._left.eval(now)), np.float64(self._right.eval(now))))


class VectorScalar:
    """A vector and a number, in either order: `vector op number`, or turned round where `is_swapped`."""

    def __init__(self, op: str, vector: FrameNode, scalar: ScalarNode, *, is_swapped: bool, is_bool: bool) -> None:
        self._arithmetic = ARITHMETIC.get(op)
        self._comparison = COMPARISON.get(op)
        self._vector = vector
        self._scalar = scalar
        self._is_swapped = is_swapped
        self._is_bool = is_bool
        self._unnamed = drop_names()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The elements with their new values, or those for which the comparison holds."""
        if self._is_swapped:  # the left side first, for it may be the one that fails
            number = self._scalar.eval(now)
            frame = self._vector.eval(now)
        else:
            frame = self._vector.eval(now)
            number = self._scalar.eval(now)
        sides = (number, frame.values) if self._is_swapped else (frame.values, number)
        if self._arithmetic is not None:
            return self._changed(frame, self._arithmetic(*sides))
        assert self._comparison is not None  # noqa: S101 - an operator is one or the other
        holds = self._comparison(*sides)
        if self._is_bool:
            return self._changed(frame, holds.astype(float))
        return Frame(frame.labels, frame.values, both(holds, frame.present), frame.order)

    def _changed(self, frame: Frame, values: Array) -> Frame:
        labels = self._unnamed(frame.labels)
        changed = Frame(labels, values, frame.present, frame.order)
        return changed if labels is frame.labels else self._distinct(changed)


class Matching(msgspec.Struct, frozen=True):
    """How the elements of two vectors find each other."""

    names: tuple[str, ...] = ()
    is_on: bool = False
    """`on (names)`; else `ignoring (names)`."""
    group: Literal["", "left", "right"] = ""
    """The side with many elements per match."""
    include: tuple[str, ...] = ()
    """Labels that are taken from the one side."""

    def signature(self, labels: Labels) -> Labels:
        """The labels that must be equal; what an error message calls the match group."""
        if self.is_on:
            return tuple(pair for pair in labels if pair[0] in self.names)
        ignored = ("__name__", *self.names)
        return tuple(pair for pair in labels if pair[0] not in ignored)

    def result(self, many: Labels, one: Labels, *, drops_name: bool) -> Labels:
        """The labels of a matched pair."""
        kept = without_name(many) if drops_name else many
        if not self.group:
            if self.is_on:
                kept = tuple(pair for pair in kept if pair[0] in self.names)
            elif self.names:
                kept = tuple(pair for pair in kept if pair[0] not in self.names)
        if self.include:
            taken = {name: label_value(one, name) for name in self.include}
            rest = {name: value for name, value in kept if name not in taken}
            kept = tuple(sorted((name, value) for name, value in {**rest, **taken}.items() if value))
        return kept


class Plan(msgspec.Struct):
    """Which rows of the many side meet which rows of the one side, and what the pairs are called."""

    many: Array
    one: Array
    labels: tuple[Labels, ...]


_OPTIONAL: dict[str, frozenset[str]] = {"or": frozenset(["left", "right"]), "unless": frozenset(["right"])}
"""The sides that may be empty while the operator gives something; any other operator needs both."""


class Sides:
    """Two vectors, the cheaper one first: where it is empty and the operator needs it, the other one is left out.

    Most rules compare, of a healthy system, two things of which one has not happened.
    """

    def __init__(
        self, op: str, left: FrameNode, right: FrameNode, *, sure: Collection[str], is_right_cheaper: bool
    ) -> None:
        """`sure`: the sides that cannot fail (sure.py); of any other its error must be seen."""
        self._optional = _OPTIONAL.get(op, frozenset())
        self._order = [("left", left), ("right", right)]
        if is_right_cheaper and "left" in sure and not self._optional:
            self._order.reverse()
        self._is_second_sure = self._order[1][0] in sure

    def eval(self, now: Instant) -> tuple[Frame, Frame] | None:
        """Left and right; None where the operator gives nothing."""
        (name, node), (other, second) = self._order
        first = node.eval(now)
        is_nothing = name not in self._optional and not len(first)
        if is_nothing and self._is_second_sure:
            return None
        found = {name: first, other: second.eval(now)}
        if is_nothing or (other not in self._optional and not len(found[other])):
            return None
        return found["left"], found["right"]


class VectorVector:
    """Arithmetic or comparison of two vectors."""

    def __init__(self, op: str, sides: Sides, matching: Matching, *, is_bool: bool) -> None:
        self._arithmetic = ARITHMETIC.get(op)
        self._comparison = COMPARISON.get(op)
        self._sides = sides
        self._matching = matching
        self._is_bool = is_bool
        self._drops_name = is_bool or op in ARITHMETIC
        self._labels: tuple[tuple[Labels, ...], tuple[Labels, ...]] = ((), ())
        self._plan: Plan | None = Plan(np.zeros(0, np.intp), np.zeros(0, np.intp), ())
        self._signatures = (Relabel(matching.signature), Relabel(matching.signature))
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """An element for each matched pair, or each for which the comparison holds, in the order of the many side."""
        if (sides := self._sides.eval(now)) is None:
            return EMPTY
        left, right = sides
        is_right = self._matching.group == "right"
        many, one = (right, left) if is_right else (left, right)
        plan = self._planned(many.labels, one.labels)
        if plan is None:
            many, one = many.compact(), one.compact()
            plan = self._match(many.labels, one.labels, is_strict=True)
            assert plan is not None  # noqa: S101 - a strict match raises instead
        present = both(_taken(many.present, plan.many), _taken(one.present, plan.one))
        values = (many.values[plan.many], one.values[plan.one])
        return self._combined(plan, present, *(values[::-1] if is_right else values))

    def _combined(self, plan: Plan, present: Array | None, left: Array, right: Array) -> Frame:
        if self._arithmetic is not None:
            return self._distinct(Frame(plan.labels, self._arithmetic(left, right), present))
        assert self._comparison is not None  # noqa: S101 - an operator is one or the other
        holds = self._comparison(left, right)
        if self._is_bool:
            return self._distinct(Frame(plan.labels, holds.astype(float), present))
        return self._distinct(Frame(plan.labels, left, both(holds, present)))

    def _planned(self, many: tuple[Labels, ...], one: tuple[Labels, ...]) -> Plan | None:
        if many is not self._labels[0] or one is not self._labels[1]:
            plan = self._match(many, one, is_strict=False)
            if plan is not None and self._plan is not None and plan.labels == self._plan.labels:
                plan.labels = self._plan.labels
            self._plan = plan
            self._labels = (many, one)
        return self._plan

    def _match(self, many: tuple[Labels, ...], one: tuple[Labels, ...], *, is_strict: bool) -> Plan | None:
        """The pairs; where they are not unique, None, or PromqlError if `is_strict`."""
        matching = self._matching
        rows: dict[Labels, int] = {}
        for row, signature in enumerate(self._signatures[1](one)):
            if signature in rows:
                if not is_strict:
                    return None
                raise PromqlError(_duplicate(matching, signature, one[row], one[rows[signature]]))
            rows[signature] = row
        pairs: list[tuple[int, int]] = []
        names: list[Labels] = []
        taken: set[tuple[Labels, Labels]] = set()
        for row, signature in enumerate(self._signatures[0](many)):
            partner = rows.get(signature)
            if partner is None:
                continue
            name = matching.result(many[row], one[partner], drops_name=self._drops_name)
            key = (signature, name if matching.group else ())
            if key in taken:
                if not is_strict:
                    return None
                raise PromqlError(_AMBIGUOUS[bool(matching.group)])
            taken.add(key)
            pairs.append((row, partner))
            names.append(name)
        index = np.array(pairs, np.intp).reshape(-1, 2)
        return Plan(index[:, 0], index[:, 1], tuple(names))


_AMBIGUOUS = {
    False: "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
    True: "multiple matches for labels: grouping labels must ensure unique matches",
}


def _taken(present: Array | None, rows: Array) -> Array | None:
    return None if present is None else present[rows]


def _duplicate(matching: Matching, group: Labels, one: Labels, other: Labels) -> str:
    side = "left" if matching.group == "right" else "right"
    first, second = sorted((label_text(one), label_text(other)))
    return (
        f"found duplicate series for the match group {label_text(group)} on the {side} hand-side of the operation: "
        f"[{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def label_text(labels: Labels) -> str:
    """Labels as Prometheus prints them: `{a="b", c="d"}`."""
    pairs = (f'{name}="{value}"' for name, value in labels)
    return "{" + ", ".join(pairs) + "}"


class SetOperator:
    """`and`, `or`, `unless`: the elements of one side, by whether the other side has a match."""

    def __init__(self, op: str, sides: Sides, matching: Matching) -> None:
        self._op = op
        self._sides = sides
        self._signatures = (Relabel(matching.signature), Relabel(matching.signature))
        self._labels: tuple[tuple[Labels, ...], tuple[Labels, ...]] = ((), ())
        self._matches: tuple[Array, Array, int] = (np.zeros(0, np.intp), np.zeros(0, np.intp), 0)
        self._joined: tuple[Labels, ...] = ()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """Left elements with a match, without one, or all of them and the right ones without a match."""
        if (sides := self._sides.eval(now)) is None:
            return EMPTY
        left, right = sides
        lefts, rights, count = self._matched(left.labels, right.labels)
        if self._op == "or":
            return self._either(left, right)
        matched = _any(rights, right.present, count)[lefts]
        mask = matched if self._op == "and" else ~matched
        return Frame(left.labels, left.values, both(mask, left.present), left.order)

    def _either(self, left: Frame, right: Frame) -> Frame:
        lefts, rights, count = self._matches
        new = ~_any(lefts, left.present, count)[rights]
        mine = np.ones(len(left.labels), bool) if left.present is None else left.present
        values = np.concatenate((left.values, right.values))
        present = np.concatenate((mine, new if right.present is None else new & right.present))
        return self._distinct(Frame(self._joined, values, present))

    def _matched(self, left: tuple[Labels, ...], right: tuple[Labels, ...]) -> tuple[Array, Array, int]:
        if left is not self._labels[0] or right is not self._labels[1]:
            groups: dict[Labels, int] = {}
            index = [
                np.array([groups.setdefault(one, len(groups)) for one in signatures(side)], np.intp)
                for signatures, side in zip(self._signatures, (left, right), strict=True)
            ]
            self._matches = (index[0], index[1], len(groups))
            self._labels = (left, right)
            if self._op == "or":
                joined = left + right
                self._joined = self._joined if joined == self._joined else joined
        return self._matches


def _any(index: Array, present: Array | None, count: int) -> Array:
    """Which of `count` groups have an element."""
    found = np.zeros(count, bool)
    found[index if present is None else index[present]] = True
    return found


class Negated:
    """`-vector`."""

    def __init__(self, inner: FrameNode) -> None:
        self._inner = inner
        self._unnamed = drop_names()
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The elements with the sign turned, without their name."""
        frame = self._inner.eval(now)
        return self._distinct(Frame(self._unnamed(frame.labels), -frame.values, frame.present, frame.order))


class NegatedScalar:
    """`-number`."""

    def __init__(self, inner: ScalarNode) -> None:
        self._inner = inner

    def eval(self, now: Instant) -> float:
        """The number with the sign turned."""
        return -self._inner.eval(now)
