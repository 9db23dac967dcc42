"""Where a text stops being an expression: the parser only says that it is none, neither why nor from where on.

A beginning of the text may stand if the parser takes it with some ending. The longest one that may is found by halving;
what comes behind it cannot follow.
"""

from __future__ import annotations

import re
from bisect import bisect_left

import promql_parser

UNPARSED = "invalid promql query"
"""All that the parser says where its grammar has no place for something."""
MOST_PIECES = 300
LONGEST = 4000
"""Pieces, and characters, of a text that is looked through: some ten beginnings are read, with eight endings each."""
_SHOWN = 40
"""Characters of a beginning that are shown, its last ones; and of a piece, its first ones."""
_UNREAD = (UNPARSED, "unexpected ")
"""How the parser begins where it speaks of the form of a text; all else is about what the text means."""

_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
# a selector's braces and a range are one piece: how they are filled is said by the parser itself
_PIECE = re.compile(
    rf"""#[^\n]*|{_STRING}|\{{(?:{_STRING}|[^}}"'])*\}}|\[[^\]]*\]|[\w:.]+|[-+*/%^=<>!~]+|\S""", re.DOTALL
)
_TEXT = re.compile(rf"#[^\n]*|{_STRING}", re.DOTALL)
# what may end a beginning: before its innermost bracket is closed, and behind that
_INNER = ("", "5m", "()", "(x)(x)")
_OUTER = ("", "(x)")


def where(text: str) -> str:
    """What is wrong with a text that is refused as UNPARSED, and where; empty where that is not known."""
    if len(text) > LONGEST:
        return ""
    pieces = [piece for piece in _PIECE.finditer(text) if not piece[0].startswith("#")]
    if len(pieces) > MOST_PIECES:
        return ""
    known = bisect_left(range(len(pieces)), True, key=lambda number: not _may_begin(text[: pieces[number].end()]))
    if known == 0:
        return f"it cannot begin with `{_cut(pieces[0][0])}`"
    before = " ".join(text[: pieces[known - 1].end()].split())
    shown = before if len(before) <= _SHOWN else f"…{before[-_SHOWN:]}"
    if known == len(pieces):
        return f"something must follow `{shown}`"
    return f"`{_cut(pieces[known][0])}` cannot follow `{shown}`"


def _cut(piece: str) -> str:
    return piece if len(piece) <= _SHOWN else f"{piece[:_SHOWN]}…"


def _may_begin(text: str) -> bool:
    """Whether some ending makes it an expression, or one that is refused for what it means.

    Every string is a short one then: the parser compiles patterns, which may take it seconds.
    """
    text = _TEXT.sub(lambda found: "" if found[0].startswith("#") else '"x"', text)
    pieces = _PIECE.findall(text)
    closing = ")" * (pieces.count("(") - pieces.count(")"))
    outer = _OUTER if closing else ("",)
    return any(_is_grammatical(f"{text}\n{one}{closing[:1]}{two}{closing[1:]}") for one in _INNER for two in outer)


def _is_grammatical(text: str) -> bool:
    try:
        promql_parser.parse(text)
    except ValueError as error:
        return not str(error).startswith(_UNREAD)
    return True
