"""From the text of an expression to the parser's tree: what the library promql-parser needs around it.

It ends the process on very deep nesting, reads a raw string's backslashes as escapes, loses the sign of `@ -1`, and
knows neither `1_000` nor `0s`; so the text is looked through first, with strings and comments told apart from the rest.
"""

from __future__ import annotations

import re
from typing import Any

import promql_parser

from collector.promql.errors import PromqlError
from collector.promql.matchers import regex_fault
from collector.promql.unparsed import UNPARSED, where

DEEPEST = 200
"""How many brackets may be open at once, and how many operators may stand in a row."""
MOST_OPERATORS = 1000
LONGEST = 100_000

_DIGITS = r"\d(?:_?\d)*"
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?P<raw>`[^`]*`)"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<negative_at>@\s*-)"
    r"|(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])"
    r"|(?P<operator>[-+*/%^=<>!~]+|\b(?:and|or|unless|atan2)\b)"
    r"|(?P<word>[a-z_:][\w:]*)"
    r"|(?P<nothing>(?<![\w.])0(?:ms|[smhdwy])\b)"
    rf"|(?P<number>(?<![\w.])(?:0x(?:_?[0-9a-f])+|(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[-+]?{_DIGITS})?)\b)",
    re.DOTALL | re.IGNORECASE,
)

_REFUSED_PATTERN = "illegal regex for "

_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:x[89a-fA-F]|[23][0-7]{2})")
"""A byte that is no character by itself; the parser takes it for the character of that number, Go does not."""


def parse(text: str) -> Any:
    """The parser's tree. Raises PromqlError with the parser's text, or ours where it would not survive."""
    text = _prepared(text)
    try:
        return promql_parser.parse(text)
    except ValueError as error:
        raise PromqlError(_told(str(error), text)) from error


def _told(message: str, text: str) -> str:
    """The parser's text; where it gives no reason or no place, with ours."""
    if message == UNPARSED:
        return f"{message}: {place}" if (place := where(text)) else message
    pattern = message.removeprefix(_REFUSED_PATTERN)
    fault = regex_fault(pattern) if pattern != message else ""
    return f"{message}: it {fault}" if fault else message


def pretty(text: str) -> str:
    """The expression laid out for people. Raises PromqlError."""
    return str(parse(text).prettify())


def _prepared(text: str) -> str:
    """The text as the parser can read it, after the checks it does not make."""
    if len(text) > LONGEST:
        raise PromqlError(f"the expression is longer than {LONGEST} characters")
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "string":
                if _BYTE.search(token.group()):
                    raise PromqlError(
                        "a byte escape beyond \\x7f in a string is not supported: write the character itself"
                    )
            case "raw":
                parts += (text[end : token.start()], _quoted(token.group()[1:-1]))
                end = token.end()
            case "negative_at":
                raise PromqlError("a negative time after @ (before 1970) is not supported")
            case "nothing":
                parts += (text[end : token.start()], "0")
                end = token.end()
            case "number" if "_" in token.group():
                parts += (text[end : token.start()], token.group().replace("_", ""))
                end = token.end()
            case _:
                pass
    _check_depth(text)
    return "".join((*parts, text[end:]))


def _check_depth(text: str) -> None:
    depth = deepest = operators = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            depth += 1
            deepest = max(deepest, depth)
        elif token.lastgroup == "close":
            depth -= 1
        elif token.lastgroup == "operator":
            operators += len(token.group())
    if deepest > DEEPEST or operators > MOST_OPERATORS:
        raise PromqlError(f"the expression is nested too deeply: over {DEEPEST} brackets or {MOST_OPERATORS} operators")


def _quoted(raw: str) -> str:
    return '"' + raw.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def milliseconds(duration: Any) -> int:
    """A duration of the parser (timedelta or None) in milliseconds."""
    return 0 if duration is None else round(duration.total_seconds() * 1000)
