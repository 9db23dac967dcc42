"""Text from outside as it may be shown: what would move a cursor or turn the writing around is written out."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but the tab, line and paragraph separators, and marks of the writing's direction."""


def shown(text: str) -> str:
    """The text on one line, with each character that is not seen but does something as its escape."""
    return _UNSEEN.sub(_escaped, text)


def counted(count: float, one: str, several: str = "") -> str:
    """How many there are of something, as people say it: `1 alert`, `2 alerts`, `2 retries`."""
    return f"{count:,.0f} {one if count == 1 else several or f'{one}s'}"


def _escaped(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
