"""Where a text may be cut: never inside of what a reader sees as one character."""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_MOST_BACK = 64
"""So far the cut moves back; what is longer is no character but a heap of marks."""


def boundary(text: str, index: int) -> int:
    """The last place at or before `index` that lies between two characters as they are seen."""
    if index >= len(text):
        return len(text)
    for place in range(index, max(index - _MOST_BACK, 0), -1):
        if not _joined(text, place):
            return place
    return index if index > _MOST_BACK else 0


def cut(text: str, most: int, mark: str = "...") -> str:
    """The text with at most so many code points; one that was cut ends with the mark."""
    return text if len(text) <= most else text[: boundary(text, most - len(mark))] + mark


def _joined(text: str, place: int) -> bool:
    """Whether the code points before and after a place are seen as one."""
    before, after = text[place - 1], text[place]
    if after < "\u0300":  # the common case
        return before == _JOINER
    if _JOINER in {before, after} or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f" or "\u1160" <= after <= "\u11ff":
        return True  # skin tones, tags of flags, the later parts of a Hangul syllable
    return _is_flag_half(after) and _halves_before(text, place) % 2 == 1


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _halves_before(text: str, place: int) -> int:
    count = 0
    while place - count > 0 and _is_flag_half(text[place - count - 1]):
        count += 1
    return count
