"""What a call was made with, as it may be shown: in one line's length, and what stands behind a secret's name as stars.

Stricter than `secret.mask`, because arguments are Python's or JSON's way to write values: bytes, lists, objects.
"""

from __future__ import annotations

import re

from collector.model.secret import STARS, mask

LONGEST_CALL = 200
"""Characters that are kept."""
_LOOKED_AT = 1000
"""Characters of which secrets are looked for: more than are kept, so that none is cut in half."""
_NAME = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_-]?key|(?:access|private|signing|encryption)[_-]?key"
    r"|authorization|credentials?|cookie)[\w.-]*+(?:\\*[\"']?\s*[:=]|\\*[\"']\s*,)\s*(?:(?:bearer|basic|digest|token)\s+)?"
)
"""A name that says so, and what stands between it and its value: `password=`, `"token": `, `'secret', `."""
_HINTS = ("pass", "pwd", "secret", "token", "key", "authorization", "credential", "cookie")
"""One of these is in every such name: most calls have none, which is seen at once."""
_OPEN, _CLOSE = "([{<", ")]}>"


def mask_call(text: str) -> str:
    """The text with the values of secrets as stars, cut."""
    text = text[:_LOOKED_AT]
    lowered = text.lower()
    if any(hint in lowered for hint in _HINTS):
        text = _without_values(text)
    text = mask(text)
    return text if len(text) <= LONGEST_CALL else f"{text[: LONGEST_CALL - 1]}\u2026"


def _without_values(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (match := _NAME.search(text, at)) is not None:
        parts += [text[at : match.end()], STARS]
        at = _end_of_value(text, match.end())
    parts.append(text[at:])
    return "".join(parts)


def _end_of_value(text: str, at: int) -> int:
    """Where a value ends: with its quotes and brackets, or before what stands between two values."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "\"'":
            at = _end_of_text(text, at)
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            if not depth:
                break
            depth -= 1
        elif not depth and (char in ",;&" or char.isspace()):
            break
        at += 1
    return at


def _end_of_text(text: str, start: int) -> int:
    """Behind the quote that closes the one at `start`: it has as many backslashes before it, or is escaped."""
    quote, level = text[start], _backslashes(text, start)
    at = text.find(quote, start + 1)
    while at >= 0:
        count = _backslashes(text, at)
        if count == level or (not level and count % 2 == 0):
            return at + 1
        at = text.find(quote, at + 1)
    return len(text)


def _backslashes(text: str, at: int) -> int:
    return at - len(text[:at].rstrip("\\"))
