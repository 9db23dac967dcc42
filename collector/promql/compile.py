"""From text to something that can be evaluated: the parser's tree becomes a tree of our nodes, once.

What is not supported is refused here, with a sentence, never at evaluation and never silently.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import msgspec
import numpy as np
import promql_parser as tree

from collector.promql import aggregate, binary
from collector.promql.aggregate import By
from collector.promql.errors import PromqlError
from collector.promql.frame import Frame, Instant, Ranges
from collector.promql.functions import FUNCTIONS, M, S, T, Type, V, refusal
from collector.promql.matchers import NAME, matcher
from collector.promql.querier import Querier
from collector.promql.selectors import Constant, InstantVector, RangeVector, Selector, Source, Subquery, When
from collector.promql.sure import is_sure
from collector.promql.syntax import milliseconds, parse

DEEPEST = 200
"""Levels of nesting that are evaluated; each costs a few frames of Python's stack."""

OPS: dict[str, Literal["=", "!=", "=~", "!~"]] = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_SETS = ("and", "or", "unless")


class Expr:
    """A compiled expression. It keeps what it works out from labels: one object per rule, evaluated again and again."""

    def __init__(self, text: str, kind: Type, node: Any, selectors: tuple[Selector, ...]) -> None:
        self.text = text
        self.type = kind
        self.selectors = selectors
        self.windows = tuple(sorted({one.reach for one in selectors if one.reach > 0}))
        """How far back it reads, in seconds, each distance once: windows with their offsets and subqueries."""
        self._node = node

    def evaluate(  # noqa: PLR0913 - the last three are those of a range query
        self,
        querier: Querier,
        at: float,
        step: float,
        *,
        subquery_step: float | None = None,
        start: float | None = None,
        end: float | None = None,
    ) -> Frame | float | str:
        """The value at an instant (Unix seconds, whole milliseconds).

        `step` is the group's interval; `subquery_step` the resolution of subqueries without one (default: the same);
        `start` and `end` are those of a range query. Raises PromqlError where the series it meets do not fit
        (many-to-many matches, equal label sets), in Prometheus' words, and for a range vector (see `ranges`).
        """
        if self.type == M:
            raise PromqlError("a range vector is not a value at an instant")
        result: Frame | float | str = self._eval(querier, at, step, subquery_step, start, end)
        return result

    def ranges(self, querier: Querier, at: float, step: float, subquery_step: float | None = None) -> Ranges:
        """The samples that an expression of type `matrix` gives at an instant."""
        result: Ranges = self._eval(querier, at, step, subquery_step, None, None)
        return result

    def _eval(  # noqa: PLR0913, PLR0917 - see `evaluate`
        self,
        querier: Querier,
        at: float,
        step: float,
        subquery_step: float | None,
        start: float | None,
        end: float | None,
    ) -> Any:
        now = Instant(
            querier=querier,
            at=round(at * 1000),
            start=round((at if start is None else start) * 1000),
            end=round((at if end is None else end) * 1000),
            step=step,
            subquery_step=round((step if subquery_step is None else subquery_step) * 1000),
        )
        with np.errstate(all="ignore"):
            return self._node.eval(now)


def compile_expr(text: str) -> Expr:
    """The expression, ready to evaluate. Raises PromqlError for what does not parse or is not supported."""
    compiler = _Compiler()
    kind, node = compiler.whole(parse(text))
    return Expr(text, kind, node, tuple(compiler.selectors))


def compile_selector(text: str) -> Selector:
    """What a selector without window, offset and `@` reads. Raises PromqlError for anything else."""
    ast = parse(text)
    compiler = _Compiler()
    compiler.whole(ast)
    if not isinstance(ast, tree.VectorSelector) or _when(ast) != When():
        raise PromqlError(f"not a series selector: {text}")
    (selector,) = compiler.selectors
    return selector


class _Around(msgspec.Struct, frozen=True):
    """What an expression's surroundings mean for it."""

    is_named: bool
    """Whether anyone looks at the metric's name; if not, series keep the labels they have in the store."""
    reach: int = 0
    """How far back the subqueries around it go, in milliseconds."""
    depth: int = 0

    def inside(self, *, is_named: bool) -> _Around:
        if self.depth >= DEEPEST:
            raise PromqlError(f"the expression is nested too deeply (over {DEEPEST} levels)")
        return _Around(is_named, self.reach, self.depth + 1)


class _Compiler:
    def __init__(self) -> None:
        self.selectors: list[Selector] = []

    def whole(self, ast: Any) -> tuple[Type, Any]:
        """Type and node of a whole expression. Raises PromqlError, also where the library's types have no room."""
        try:
            return self.expr(ast, _Around(is_named=True))
        except (ValueError, OverflowError) as error:
            raise PromqlError(f"a duration or a time in it is too large ({error})") from error

    def expr(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        """Type and node of any expression."""
        return getattr(self, _METHODS[type(ast)])(ast, around)  # type: ignore[no-any-return]

    def node(self, ast: Any, around: _Around) -> Any:
        return self.expr(ast, around)[1]

    def number(self, ast: Any, around: _Around) -> tuple[Type, Any]:  # noqa: ARG002 - one signature for all
        return S, Constant(float(ast.val))

    def string(self, ast: Any, around: _Around) -> tuple[Type, Any]:  # noqa: ARG002 - one signature for all
        return T, Constant(str(ast.val))

    def paren(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        return self.expr(ast.expr, around.inside(is_named=around.is_named))

    def unary(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        kind, node = self.expr(ast.expr, around.inside(is_named=True))
        return kind, binary.NegatedScalar(node) if kind == S else binary.Negated(node)

    def vector(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        when = _when(ast)
        return V, InstantVector(self._source(ast, around, when, 0), when)

    def matrix(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        selector = ast.vector_selector
        when = _when(selector)
        window = _length(ast.range)
        return M, RangeVector(self._source(selector, around, when, window), when, window)

    def _source(self, ast: Any, around: _Around, when: When, window: int) -> Source:
        if ast.matchers.or_matchers:
            raise PromqlError("`or` between matchers is not PromQL: put it between selectors")
        matchers = tuple(
            matcher(one.name, OPS[str(one.op).rpartition(".")[2]], one.value) for one in ast.matchers.matchers
        )
        fixed = [one for one in matchers if one.name == NAME and one.op == "="]
        name = ast.name or (fixed[0].value if fixed else None)
        source = Source(name, matchers, named=around.is_named)
        reach = max(0, around.reach + when.offset + window) / 1000
        self.selectors.append(Selector(name, source.matchers, window / 1000, reach))
        return source

    def subquery(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        when = _when(ast)
        window = _length(ast.range)
        within = _Around(around.is_named, around.reach + when.offset + window, around.depth + 1)
        return M, Subquery(self.node(ast.expr, within), when, window, _length(ast.step))

    def call(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        name = str(ast.func.name)
        function = FUNCTIONS.get(name)
        if function is None:
            raise PromqlError(refusal(name))
        arguments = around.inside(is_named=function.wants_names)
        return function.returns, function.build(*(self.node(one, arguments) for one in ast.args))

    def aggregate(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        op = str(ast.op)
        by = _grouping(ast.modifier)
        keeps_elements = op in {"topk", "bottomk"}
        inner = self.node(ast.expr, around.inside(is_named=by.needs_name() or (keeps_elements and around.is_named)))
        if op in aggregate.SIMPLE:
            return V, aggregate.Aggregate(op, inner, by)
        if op not in {"topk", "bottomk", "quantile", "count_values"}:
            raise PromqlError(f"{op} is an experimental aggregation of Prometheus and is not supported")
        parameter = self.node(ast.param, around.inside(is_named=False))
        if keeps_elements:
            return V, aggregate.TopK(parameter, inner, by, greatest=op == "topk")
        if op == "quantile":
            return V, aggregate.Quantile(parameter, inner, by)
        return V, aggregate.CountValues(parameter, inner, by)

    def binary(self, ast: Any, around: _Around) -> tuple[Type, Any]:
        op = str(ast.op)
        modifier = ast.modifier
        is_bool = modifier is not None and bool(modifier.return_bool)
        # errors name whole series, so vectors that are matched keep their names
        left_kind, left = self.expr(ast.lhs, around.inside(is_named=True))
        right_kind, right = self.expr(ast.rhs, around.inside(is_named=True))
        if left_kind == S and right_kind == S:
            return S, binary.Scalars(op, left, right)
        if S in {left_kind, right_kind}:
            vector, scalar = (right, left) if left_kind == S else (left, right)
            return V, binary.VectorScalar(op, vector, scalar, is_swapped=left_kind == S, is_bool=is_bool)
        matching = _matching(modifier)
        sides = binary.Sides(
            op,
            left,
            right,
            sure=[name for name, side in (("left", ast.lhs), ("right", ast.rhs)) if is_sure(side)],
            is_right_cheaper=_windows(ast.rhs) < _windows(ast.lhs),
        )
        if op in _SETS:
            return V, binary.SetOperator(op, sides, matching)
        if op not in binary.ARITHMETIC and op not in binary.COMPARISON:
            raise PromqlError(f"the operator {op} is not supported")
        return V, binary.VectorVector(op, sides, matching, is_bool=is_bool)


def _windows(ast: Any) -> int:
    """How many windows an expression looks through: what it costs, roughly (a bracket in a text counts, too)."""
    return str(ast).count("[")


_METHODS: dict[type, str] = {
    tree.NumberLiteral: "number",
    tree.StringLiteral: "string",
    tree.ParenExpr: "paren",
    tree.UnaryExpr: "unary",
    tree.VectorSelector: "vector",
    tree.MatrixSelector: "matrix",
    tree.SubqueryExpr: "subquery",
    tree.Call: "call",
    tree.AggregateExpr: "aggregate",
    tree.BinaryExpr: "binary",
}


def _length(duration: timedelta | None) -> int:
    """Milliseconds of a window or a step, 0 where none is written. Raises PromqlError for a written zero."""
    if duration is not None and not duration:
        raise PromqlError("duration must be greater than 0")
    return milliseconds(duration)


def _when(ast: Any) -> When:
    offset = milliseconds(ast.offset)
    if ast.at is None:
        return When(offset)
    kind = str(ast.at.type).rpartition(".")[2]
    if kind == "Start":
        return When(offset, "start")
    return When(offset, "end") if kind == "End" else When(offset, round(ast.at.at.timestamp() * 1000))


def _grouping(modifier: Any) -> By:
    if modifier is None:
        return By()
    return By(tuple(modifier.labels), is_without=str(modifier.type).endswith("Without"))


def _matching(modifier: Any) -> binary.Matching:
    if modifier is None:
        return binary.Matching()
    fill = modifier.fill_values
    if fill is not None and (fill.lhs is not None or fill.rhs is not None):
        raise PromqlError("fill modifiers are experimental in Prometheus and are not supported")
    card = str(modifier.card).rpartition(".")[2]
    group: Literal["", "left", "right"] = "left" if card == "ManyToOne" else "right" if card == "OneToMany" else ""
    return binary.Matching(
        names=tuple(modifier.matching.labels) if modifier.matching is not None else (),
        is_on=modifier.matching is not None and str(modifier.matching.type).endswith("Include"),
        group=group,
        include=tuple(modifier.group_labels or ()),
    )
