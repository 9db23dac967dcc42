"""Random PromQL for differential tests: one seed, one expression, typed as the language is typed.

The functions, aggregations and operators are those of the tables in `collector.promql`: what is added there is asked.
An expression keeps its parts, so that of one that differs the smallest part that differs can be found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from differential_series import BUCKETS, COUNTERS, GAUGES, METRICS

from collector.promql.binary import ARITHMETIC, COMPARISON
from collector.promql.functions import FUNCTIONS

AGGREGATIONS = (
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values",
)  # fmt: skip
SETS = ("and", "or", "unless")

ROUNDED = frozenset(
    "acos acosh asin asinh atan atanh cos cosh exp ln log10 log2 sin sinh tan tanh ^ atan2".split()  # noqa: SIM905
)
"""Whose last digits are those of a library."""
DISORDERED = frozenset(("topk", "bottomk", "stddev", "stdvar"))
"""What these give depends on the order of series, among equals or in the last digit, and promtool shuffles them."""
ORDERED = frozenset(("absent", "absent_over_time"))
"""Whose labels depend on the order of matchers. All three kinds stand outermost only, where a difference is seen."""

SHAPES: tuple[str, ...] = (
    *(f"call:{name}" for name in sorted(FUNCTIONS)),
    *(f"aggregate:{name}" for name in AGGREGATIONS),
    *(f"operator:{name}" for name in (*ARITHMETIC, *COMPARISON, *SETS)),
    *("call:histogram_quantile", "call:rate", "call:increase", "operator:*", "operator:and", "aggregate:sum") * 2,
    *("selector", "unary", "scalar") * 2,
)
"""What stands outermost, in turn."""


class Expression(NamedTuple):
    """A text, its type, and the parts that are expressions by themselves."""

    text: str
    kind: str
    parts: tuple[Expression, ...] = ()

    def inside(self) -> Iterator[Expression]:
        """All parts that a test can ask by themselves, at any depth, the smallest first."""
        found = [one for part in self.parts for one in (*part.inside(), part)]
        return iter(sorted({one for one in found if one.kind in {"vector", "scalar"}}, key=lambda one: len(one.text)))


class Maker:
    """Makes expressions from one source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def outermost(self, shape: str, depth: int) -> Expression:
        """An expression whose outermost part is of this shape, with a value that a test can compare."""
        kind, _, name = shape.partition(":")
        match kind:
            case "call":
                return self.call(name, depth)
            case "aggregate":
                return self.aggregate(name, depth)
            case "operator":
                return self.binary(name, depth)
            case "unary":
                return self.unary(depth)
            case "scalar":
                return self.scalar(depth)
            case _:
                return self.selector()

    # By type

    def vector(self, depth: int) -> Expression:
        """Anything that is an instant vector."""
        if depth <= 0 or self.chance.random() < 0.2:
            return self.selector()
        pick = self.chance.random()
        if pick < 0.4:
            names = [
                name for name, one in FUNCTIONS.items() if one.returns == "vector" and name not in ROUNDED | ORDERED
            ]
            return self.call(self.chance.choice(names), depth)
        if pick < 0.65:
            return self.aggregate(self.chance.choice([name for name in AGGREGATIONS if name not in DISORDERED]), depth)
        if pick < 0.93:
            operators = (*ARITHMETIC, *COMPARISON, *SETS)
            return self.binary(self.chance.choice([one for one in operators if one not in ROUNDED]), depth)
        return self.unary(depth)

    def scalar(self, depth: int) -> Expression:
        """Anything that is a number."""
        pick = self.chance.random()
        if depth <= 0 or pick < 0.6:
            return Expression(self.chance.choice(NUMBERS), "scalar")
        if pick < 0.75:
            return Expression(self.chance.choice(("time()", "pi()", "1m", "0x1f", "1_000", "0s", "1e3")), "scalar")
        if pick < 0.9:
            return self.wrapped("scalar({})", self.vector(depth - 1), "scalar")
        left, right = self.scalar(0), self.scalar(depth - 1)
        operator = self.chance.choice(("+", "-", "*", "/", "%", "> bool", "== bool"))
        return Expression(f"({left.text} {operator} {right.text})", "scalar", (left, right))

    def matrix(self, depth: int, metrics: tuple[str, ...] = METRICS) -> Expression:
        """A window of samples, or a subquery."""
        length = self.chance.choice(("1m", "2m", "5m", "90s", "10m", "1s", "7m30s", "300"))
        if depth <= 0 or self.chance.random() < 0.7:
            return Expression(f"{self.selected(metrics)}[{length}]{self.shift()}", "matrix")
        step = self.chance.choice(("", "30s", "1m", "17s"))
        inner = self.vector(depth - 1)
        return Expression(f"({inner.text})[{length}:{step}]{self.shift()}", "matrix", (inner,))

    def selector(self, metrics: tuple[str, ...] = METRICS) -> Expression:
        """Series at an instant."""
        return Expression(self.selected(metrics) + self.shift(), "vector")

    def selected(self, metrics: tuple[str, ...]) -> str:
        """A metric with matchers."""
        chance = self.chance
        matchers = chance.sample(MATCHERS, chance.choice((0, 0, 1, 1, 2)))
        name = chance.choice(metrics)
        if metrics is METRICS and chance.random() < 0.1:
            return "{" + ", ".join([chance.choice(NAMES), *matchers]) + "}"
        if chance.random() < 0.05:
            return "{" + ", ".join([f'"{name}"', *matchers]) + "}"
        return name + (f"{{{', '.join(matchers)}}}" if matchers else "")

    def shift(self) -> str:
        """Where in time it is looked at."""
        return self.chance.choice(SHIFTS) if self.chance.random() < 0.3 else ""

    def wrapped(self, form: str, inner: Expression, kind: str = "vector") -> Expression:
        """One expression around another."""
        return Expression(form.format(inner.text), kind, (inner,))

    # By construct

    def unary(self, depth: int) -> Expression:
        """With a sign, or in brackets."""
        return self.wrapped(self.chance.choice(("-({})", "+({})", "(({}))")), self.vector(depth - 1))

    def call(self, name: str, depth: int) -> Expression:
        """A call of a function, with arguments of its types."""
        if name in OWN_ARGUMENTS:
            arguments = OWN_ARGUMENTS[name](self, depth - 1)
        else:
            function = FUNCTIONS[name]
            count = len(function.arguments)
            if function.optional > 0 and self.chance.random() < 0.4:
                count -= function.optional
            arguments = [self.argument(kind, name, depth - 1) for kind in function.arguments[:count]]
        text = ", ".join(one.text for one in arguments)
        return Expression(f"{name}({text})", FUNCTIONS[name].returns, tuple(arguments))

    def argument(self, kind: str, name: str, depth: int) -> Expression:
        """An argument of a type."""
        if kind == "matrix":
            is_counted = name in {"rate", "increase", "irate", "resets"} and self.chance.random() < 0.8
            return self.matrix(depth, (*COUNTERS, BUCKETS) if is_counted else METRICS)
        return self.vector(depth) if kind == "vector" else self.scalar(depth)

    def histogram(self, depth: int) -> Expression:
        """Something with buckets, as histogram functions like it; now and then something without."""
        chance = self.chance
        window = f"rate({BUCKETS}[{chance.choice(('2m', '5m'))}])"
        forms = (window, window, f"sum by (le, job) ({window})", f"sum by (le) ({window})", BUCKETS,
                 f'{BUCKETS}{{le!="+Inf"}}', f"sum without (job) ({BUCKETS})", f"increase({BUCKETS}[10m])")  # fmt: skip
        return self.vector(depth) if chance.random() < 0.05 else Expression(chance.choice(forms), "vector")

    def aggregate(self, name: str, depth: int) -> Expression:
        """An aggregation with its grouping before or after."""
        chance = self.chance
        inner = self.vector(depth - 1)
        if name == "count_values" and "avg" in inner.text:  # the last digit would be a label
            inner = self.selector()
        parameter = {
            "topk": lambda: chance.choice(COUNTS),
            "bottomk": lambda: chance.choice(COUNTS),
            "quantile": lambda: chance.choice(QUANTILES),
            "count_values": lambda: chance.choice(('"value"', '"job"')),
        }.get(name)
        arguments = f"{parameter()}, {inner.text}" if parameter else inner.text
        grouping = chance.choice(GROUPINGS) if chance.random() < 0.65 else ""
        text = f"{name} {grouping} ({arguments})" if chance.random() < 0.5 else f"{name}({arguments}) {grouping}"
        return Expression(text.strip(), "vector", (inner,))

    def binary(self, operator: str, depth: int) -> Expression:
        """An operator between vectors, or a vector and a number; inside brackets, so that it can stand anywhere."""
        chance = self.chance
        modifier = " bool" if operator in COMPARISON and chance.random() < 0.4 else ""
        if operator not in SETS and chance.random() < 0.35:
            sides = [self.vector(depth - 1), self.scalar(depth - 1)]
            chance.shuffle(sides)
            return self.joined(sides[0], operator + modifier, sides[1])
        if chance.random() < 0.3:  # one side of many, one of few
            many, few = self.selector((*COUNTERS, *GAUGES)), self.selector(("info",))
            if operator in SETS:
                return self.joined(many, f"{operator} on (job)", few)
            include = chance.choice(("()", "(team)", "(team, instance)", "", "(team,)"))
            if chance.random() < 0.5:
                return self.joined(many, f"{operator}{modifier} on (job) group_left {include}", few)
            return self.joined(few, f"{operator}{modifier} on (job) group_right {include}", many)
        matching = chance.choice(MATCHINGS) if chance.random() < 0.4 else ""
        if operator in SETS:
            matching = matching.partition(" group_")[0]
        return self.joined(self.vector(depth - 1), f"{operator}{modifier} {matching}", self.vector(depth - 1))

    def joined(self, left: Expression, operator: str, right: Expression) -> Expression:
        """Two sides and what stands between them."""
        return Expression(f"({left.text} {operator.strip()} {right.text})", "vector", (left, right))


NUMBERS = (
    "0", "1", "2", "-1", "0.5", "3.7", "1_0.5", "-2.5", "100", "Inf", "-Inf", "NaN", "1e-3", ".5", "60", "2", "3", "1",
)  # fmt: skip
COUNTS = ("1", "2", "3", "1", "2", "5", "0", "-1", "100", "2.7")
QUANTILES = ("0.5", "0.9", "0", "1", "0.25", "-1", "1.5", "NaN", "0.333")
MATCHERS = (
    'job="api"', 'job!="db"', 'job=~"api|db"', 'job!~"a.*"', 'instance="a"', 'instance=~"[ab]"', 'instance=~".+"',
    'instance=""', 'instance!=""', 'job=~"web.1"', 'nothing=""', 'nothing!="x"', "job='web.1'", "job=~`(?i)API`",
    'instance=~"a|"', 'instance!~"|b"',
)  # fmt: skip
NAMES = ('__name__="level"', '__name__=~"temp|level"', '__name__=~".*_total"', '__name__=~"info|odd", job="api"')
SHIFTS = (
    " offset 1m", " offset 30s", " offset -1m", " offset -2m30s", " @ start()", " @ end()", " @ 300", " @ 123.456",
    " offset 2m @ end()", " @ start() offset -1m", " @ 600 offset 90s", " offset 1h",
)  # fmt: skip
GROUPINGS = (
    "by (job)", "by (instance)", "by (job, instance)", "by ()", "without (instance)", "without (job)", "without ()",
    "by (nothing)", "by (job, nothing)", "by (__name__)", "by (le)",
)  # fmt: skip
MATCHINGS = (
    "on (job)", "on (job, instance)", "ignoring (instance)", "ignoring (nothing)", "on ()", "on (job) group_left ()",
    "on (job) group_right (instance)", "ignoring (instance) group_left", "on (instance)", "ignoring (le)",
)  # fmt: skip
_REPLACEMENTS = (
    ('"new"', '"$1"', '"job"', '"(.*)"'), ('"job"', '"x-${1}-$2"', '"job"', '"(.)(.*)"'),
    ('"job"', '""', '"job"', '".*"'),
    ('"instance"', '"same"', '"instance"', '"a|b"'), ('"new"', '"$name!"', '"instance"', '"(?P<name>[a-c])"'),
    ('"__name__"', '"made"', '"job"', '"api"'), ('"new"', '"$$1"', '"nothing"', '""'),
    ('"new"', '"v"', '"job"', '"ap"'),
)  # fmt: skip
_JOINS = (
    ('"new"', '"-"', '"job"', '"instance"'), ('"job"', '""', '"job"', '"nothing"', '"job"'), ('"instance"', '"/"'),
    ('"new"', '", "', '"__name__"', '"job"'),
)  # fmt: skip


def _texts(texts: tuple[str, ...]) -> list[Expression]:
    return [Expression(text, "string") for text in texts]


def _quantile(maker: Maker) -> Expression:
    return Expression(maker.chance.choice(QUANTILES), "scalar")


def _fraction(maker: Maker, depth: int) -> list[Expression]:
    ends = maker.chance.choice((("0", "1"), ("0.1", "0.7"), ("-Inf", "0.5"), ("0.5", "Inf"), ("1", "0"), ("NaN", "1")))
    return [*(Expression(end, "scalar") for end in ends), maker.histogram(depth)]


OWN_ARGUMENTS = {
    "label_replace": lambda maker, depth: [maker.vector(depth), *_texts(maker.chance.choice(_REPLACEMENTS))],
    "label_join": lambda maker, depth: [maker.vector(depth), *_texts(maker.chance.choice(_JOINS))],
    "histogram_quantile": lambda maker, depth: [_quantile(maker), maker.histogram(depth)],
    "histogram_fraction": _fraction,
    "quantile_over_time": lambda maker, depth: [_quantile(maker), maker.matrix(depth)],
}
"""Functions whose arguments mean something only in a certain form."""
