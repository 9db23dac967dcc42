"""What is read, what is refused, and what an expression says of itself."""

from __future__ import annotations

import promql_events
import promql_parser
import pytest

from collector.promql import PromqlError, compile_expr
from collector.promql.functions import FUNCTIONS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no expression found in input"),
        ("sum(", "unclosed left parenthesis"),
        ("foo(a)", "unknown function with name 'foo'"),
        ("rate(a)", "expected type matrix in call to function 'rate', got vector"),
        ("1 > 2", "comparisons between scalars must use BOOL modifier"),
        ("a and on(x) group_left b", "no grouping allowed for 'and' operation"),
        ("{}", "vector selector must contain at least one non-empty matcher"),
        ('a{b=~"("}', "illegal regex"),
        ("info(a)", r"info\(\) is an experimental function"),
        ("mad_over_time(a[5m])", r"mad_over_time\(\) is an experimental function"),
        ('sort_by_label(a, "x")', r"sort_by_label\(\) is an experimental function"),
        ("step()", r"step\(\) is an experimental function"),
        ("limitk(2, a)", "limitk is an experimental aggregation"),
        ("limit_ratio(0.5, a)", "limit_ratio is an experimental aggregation"),
        ("a + fill(0) b", "fill modifiers are experimental"),
        ("histogram_avg(a)", r"histogram_avg\(\) reads native histograms"),
        ('a{x="1" or y="2"}', "`or` between matchers is not PromQL"),
        ("a @ -1", "a negative time after @"),
        ('a{x="\\xff"}', "a byte escape beyond"),
        ('count_values("", a)', 'invalid label name ""'),
        ('label_replace(a, "x", "", "y", "(")', r"invalid regular expression in label_replace\(\)"),
        ("(" * 5000 + "1" + ")" * 5000, "nested too deeply"),
        ("-" * 5000 + "a", "nested too deeply"),
        ("+".join(["a"] * 5000), "nested too deeply"),
        ("+".join(["a"] * 400), "nested too deeply"),
        ("rate(a[100000000y])", "too large"),
        ("a offset 100000000y", "too large"),
        ("a @ 1e300", "too large"),
        ("a" * 200_000, "longer than 100000 characters"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_a_sentence(text, message):
    """No expression is accepted and then evaluated otherwise than Prometheus would; none ends the process."""
    with pytest.raises(PromqlError, match=message):
        compile_expr(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a", "vector"),
        ("a[5m]", "matrix"),
        ("1 + 1", "scalar"),
        ("scalar(a)", "scalar"),
        ('"a"', "string"),
        ("a[5m:1m]", "matrix"),
        ("-1", "scalar"),
        ("-a", "vector"),
        ("(a)", "vector"),
        ("a > bool 1", "vector"),
    ],
)
def test_type(text, kind):
    """An expression knows its type before it is evaluated."""
    assert compile_expr(text).type == kind


def test_signatures_are_those_of_the_parser():
    """The table and the parser agree on every function's arguments and result."""
    samples = {"vector": "x", "matrix": "x[1m]", "scalar": "1", "string": '"a"'}
    for name, function in FUNCTIONS.items():
        text = f"{name}({', '.join(samples[kind] for kind in function.arguments)})"
        parsed = promql_parser.parse(text).func
        kinds = tuple(str(kind).rpartition(".")[2].lower() for kind in parsed.arg_types)
        assert (kinds, str(parsed.return_type).rpartition(".")[2].lower()) == (function.arguments, function.returns), (
            name
        )
        assert (parsed.variadic > 0, parsed.variadic < 0) == (function.optional > 0, function.optional < 0), name
        assert compile_expr(text).type == function.returns


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("a", ()),
        ("rate(a[5m])", (300,)),
        ("rate(a[5m] offset 1h)", (3900,)),
        ("a offset 1h", (3600,)),
        ("a offset -1h", ()),
        ("rate(a[5m] offset -2m)", (180,)),
        ("rate(a[5m]) / rate(b[1h]) + rate(c[5m])", (300, 3600)),
        ("max_over_time(rate(a[5m])[30m:1m] offset 1h)", (300 + 1800 + 3600,)),
        ("max_over_time((a or b offset 1m)[10m:])", (600, 660)),
    ],
)
def test_windows_say_how_far_back_it_reads(text, windows):
    """Windows with their offsets and the subqueries around them; each distance once."""
    assert compile_expr(text).windows == windows


def test_selectors_name_what_it_reads():
    """Name, matchers and window of each selector, in the order of the text."""
    expr = compile_expr('rate(a{x="1"}[5m]) / b + {__name__="c", __name__!~"d"} + {__name__=~"e.*"}')
    found = [(one.name, [(m.name, m.op, m.value) for m in one.matchers], one.window) for one in expr.selectors]
    assert found == [
        ("a", [("x", "=", "1")], 300.0),
        ("b", [], 0.0),
        ("c", [], 0.0),
        (None, [("__name__", "=~", "e.*")], 0.0),
    ]


@pytest.mark.parametrize(
    ("op", "value", "text", "holds"),
    [
        ("=", "a", "a", True), ("=", "a", "ab", False), ("!=", "a", "ab", True), ("!=", "a", "a", False),
        ("=~", "a", "ab", False), ("=~", "a|b", "b", True), ("=~", "a.b", "a\\nb", False), ("=~", "a.b", "a\nb", True),
        ("=~", "a", "a\n", False), ("=~", "", "", True), ("!~", "a|b", "b", False), ("!~", "a|b", "ab", True),
        ("=~", "é+", "éé", True),
    ],
)  # fmt: skip
def test_matchers_hold_for_whole_values(op, value, text, holds):
    """Regular expressions are anchored at both ends, and a dot is any character."""
    (selector,) = compile_expr(f"a{{x{op}`{value}`}}").selectors
    assert selector.matchers[0].matches(text) is holds


def test_a_selector_that_contradicts_its_name_reads_nothing():
    """`{__name__="a", __name__!="a"}` is no error and matches nothing."""
    events = promql_events.Events()
    events.put("a", "gauge", {(): 1.0})
    assert compile_expr('{__name__="a", __name__=~"a|b"}').evaluate(events, 0.0, 1.0).rows() == [
        ((("__name__", "a"),), 1)
    ]
    assert compile_expr('{__name__="a", __name__!="a"}').evaluate(events, 0.0, 1.0).rows() == []


def test_a_range_vector_is_no_value_at_an_instant():
    """The samples of a range vector are there, but not as a frame."""
    events = promql_events.Events()
    events.put("a", "gauge", {(): 1.0})
    expr = compile_expr("a[3s]")
    with pytest.raises(PromqlError, match="a range vector is not a value"):
        expr.evaluate(events, 10.0, 1.0)
    ranges = expr.ranges(events, 10.0, 1.0)
    assert (ranges.start, ranges.end, ranges.series[0][0].tolist()) == (7.0, 10.0, [8.0, 9.0, 10.0])
