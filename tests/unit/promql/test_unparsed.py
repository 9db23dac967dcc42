"""Where a text stops being an expression: named where the parser names nothing, and never a place that is right."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
import pytest

from collector.config import rulefiles
from collector.promql import PromqlError, compile_expr
from collector.promql.unparsed import LONGEST, MOST_PIECES, UNPARSED, where

SCRIPTS = Path(__file__).parents[2] / "promql"
EVAL = re.compile(r"\s*eval instant at \S+ (.*)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a >", "something must follow `a >`"),
        ("sum by (x) (y) > # more", "something must follow `sum by (x) (y) >`"),
        ("sum by task (a)", "`task` cannot follow `sum by`"),
        ("a > > b", "`>` cannot follow `a >`"),
        ("topk(3 a)", "`a` cannot follow `topk(3`"),
        ("sum(a == on b)", "`b` cannot follow `sum(a == on`"),
        ("sum by (a b) (c)", "`b` cannot follow `sum by (a`"),
        ("foo 'x'", "`'x'` cannot follow `foo`"),
        ("* 3", "it cannot begin with `*`"),
        ("foo '" + "x" * 50 + "'", "`'" + "x" * 39 + "…` cannot follow `foo`"),
        ("a" * 50 + " +\n  1 2", "`2` cannot follow `…" + "a" * 36 + " + 1`"),
    ],
)
def test_the_first_piece_that_has_no_place_is_named(text: str, says: str) -> None:
    """With what stands before it, as it is written."""
    with pytest.raises(PromqlError) as caught:
        compile_expr(text)
    assert str(caught.value) == f"{UNPARSED}: {says}"


def test_a_very_long_text_is_not_looked_through() -> None:
    """It would take too long; then the parser's word stands alone."""
    assert where("a " * MOST_PIECES) == "`a` cannot follow `a`"
    assert where("a " * (MOST_PIECES + 1)) == ""
    assert where("a b".ljust(LONGEST)) == "`b` cannot follow `a`"
    assert where("a b".ljust(LONGEST + 1)) == ""


def test_no_pattern_is_compiled_to_find_a_place(monkeypatch) -> None:
    """A few characters of one may take the parser a second, and it is asked some eighty times."""
    asked: list[str] = []
    monkeypatch.setattr(promql_parser, "parse", lambda text, real=promql_parser.parse: asked.append(text) or real(text))
    assert where('a{x=~"(.{30}){30}"} # a{x=~"(.{30}){30}"}\nb') == '`b` cannot follow `a{x=~"(.{30}){30}"}`'
    assert asked
    assert not [text for text in asked if ".{30}" in text]


def test_the_beginning_of_what_is_right_is_never_what_is_wrong() -> None:
    """An expression with something foreign in any place is blamed on what is foreign, not on what stands before it."""
    texts = {rule.expr.text for spec in rulefiles.load(["shipped"]) for rule in spec.rules}
    texts |= {
        match[1]
        for path in sorted(SCRIPTS.glob("[a-h]*.test"))
        for line in path.read_text().splitlines()
        if (match := EVAL.match(line))
    }
    tried = 0
    for text in sorted(texts):
        words = text.split("#")[0].split()
        for number in range(1, len(words)):
            broken = " ".join([*words[:number], "=", *words[number:]])
            if _is_unparsed(broken):
                blamed, _, _ = where(broken).partition("` cannot follow")
                assert f"{blamed} ".startswith(("`= ", "`{")), (broken, blamed)
                assert " = " in f" {blamed[1:]} "
                tried += 1
    assert tried > 500


def _is_unparsed(text: str) -> bool:
    try:
        promql_parser.parse(text)
    except ValueError as error:
        return str(error) == UNPARSED
    return False
