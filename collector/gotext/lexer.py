"""Template text to tokens: text between actions, and what stands inside `{{ }}`.

Trim marks (`{{- ` and ` -}}`) and comments are dealt with here; nothing behind sees them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Literal, TypeAlias, cast

import msgspec

from collector.gotext.values import TemplateError

_BLANKS = " \t\r\n"
_SPACES = frozenset(_BLANKS)
_CLOSE = re.compile(r"[ \t\r\n]+-\}\}|\}\}")
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
  | (?P<rune>'(?:[^'\\\n]|\\.[^'\n]*)')
  | (?P<number>[+-]?(?:\d|\.\d)(?:[eEpP][+-]|[\w.])*)
  | (?P<field>\.[^\W\d]\w*)
  | (?P<variable>\$\w*)
  | (?P<word>[^\W\d]\w*)
  | (?P<declare>:=)
  | (?P<mark>[=|(),.])
    """,
    re.VERBOSE,
)

TokenKind: TypeAlias = Literal[
    "text", "open", "close", "space", "string", "rune", "number", "field", "variable", "word", "declare", "mark"
]


class Token(msgspec.Struct, frozen=True, gc=False):
    """One piece; `at` is its offset in the template."""

    kind: TokenKind
    text: str
    at: int


def place(source: str, at: int) -> str:
    """`line:column`, both from 1, of an offset."""
    return f"{source.count(chr(10), 0, at) + 1}:{at - source.rfind(chr(10), 0, at)}"


def tokens(source: str) -> Iterator[Token]:
    """All tokens of a template. Raises TemplateError where an action is not closed or holds a foreign character."""
    at = 0
    is_trimming = False
    while True:
        start = source.find("{{", at)
        text = source[at:] if start < 0 else source[at:start]
        if is_trimming:
            text = text.lstrip(_BLANKS)
        opens_trimmed = start >= 0 and source[start + 2 : start + 3] == "-" and source[start + 3 : start + 4] in _SPACES
        if opens_trimmed:
            text = text.rstrip(_BLANKS)
        if text:
            yield Token("text", text, at)
        if start < 0:
            return
        inside = start + (4 if opens_trimmed else 2)
        if source.startswith("/*", inside):
            at, is_trimming = _comment_end(source, start, inside)
            continue
        yield Token("open", "{{", start)
        at, is_trimming = yield from _action(source, start, inside)


def _comment_end(source: str, start: int, inside: int) -> tuple[int, bool]:
    end = source.find("*/", inside + 2)
    if end < 0:
        raise TemplateError(f"{place(source, start)}: unclosed comment: end it with */}}}}")
    after = end + 2
    if source.startswith("}}", after):
        return after + 2, False
    if source[after : after + 1] in _SPACES and source.startswith("-}}", after + 1):
        return after + 4, True
    raise TemplateError(f"{place(source, start)}: a comment has to end with */}}}} and nothing in between")


def _action(source: str, start: int, at: int) -> Generator[Token, None, tuple[int, bool]]:
    """The tokens up to the closing braces; returns where the text goes on, and whether it is trimmed there."""
    while True:
        close = _CLOSE.match(source, at)
        if close:
            yield Token("close", "}}", at)
            return close.end(), len(close.group()) > 2
        if at >= len(source):
            raise TemplateError(f"{place(source, start)}: unclosed action: end it with }}}}")
        match = _TOKEN.match(source, at)
        if match is None:
            raise TemplateError(f"{place(source, at)}: {_complaint(source[at])}")
        yield Token(cast("TokenKind", match.lastgroup), match.group(), at)
        at = match.end()


def _complaint(character: str) -> str:
    if character in "\"'`":
        return f"unclosed quote {character}: close it on the same line"
    return f"unexpected character {character!r} in an action: remove it, or put it in quotes"
