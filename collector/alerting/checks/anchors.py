"""Parts of a regular expression that cannot match, because something has to come before its `^` or after its `$`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"(?P<escape>\\(?:[QE]|[pP]\{[^}]*\}|x\{[^}]*\}|.))"
    r"|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])"
    r"|(?P<open>\((?P<flags>\?(?:P?<\w+>|[imsU-]*[:)])?)?)"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<start>\^)|(?P<end>\$)"
    r"|(?P<optional>[*?]|\{0?,\d*\}|\{0\})"
    r"|(?P<repeat>\+|\{\d+(?:,\d*)?\})"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_ZERO_WIDTH = frozenset((r"\b", r"\B", r"\A", r"\z", r"\Q", r"\E"))


def dead_alternatives(pattern: str) -> Iterator[tuple[str, str]]:
    """Each alternative of a whole-value pattern that can never match, and why, with what to do.

    Looks at what stands outside of parentheses only, and at nothing where a flag changes what anchors mean.
    """
    if re.search(r"\(\?[a-zA-Z]*m|\\Q", pattern):
        return
    for part, tokens in _alternatives(pattern):
        needed = [index for index, (_, must) in enumerate(tokens) if must]
        starts = [index for index, (kind, _) in enumerate(tokens) if kind == "start"]
        ends = [index for index, (kind, _) in enumerate(tokens) if kind == "end"]
        if starts and needed and needed[0] < starts[-1]:
            yield part, "something has to come before its `^`; patterns hold for the whole value, so leave `^` out"
        elif ends and needed and needed[-1] > ends[0]:
            yield part, "something has to come after its `$`; patterns hold for the whole value, so leave `$` out"


def _alternatives(pattern: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """The alternatives at the top: their text, and their tokens as (kind, whether it takes at least one sign)."""
    depth, begin = 0, 0
    tokens: list[tuple[str, bool]] = []
    for found in _TOKEN.finditer(pattern):
        kind = found.lastgroup if not found["open"] else "open"
        if kind == "bar" and not depth:
            yield pattern[begin : found.start()], tokens
            begin, tokens = found.end(), []
        elif kind == "open":
            depth += not found[0].endswith(")")
        elif kind == "close":
            depth -= 1
            if not depth:
                tokens.append(("group", False))
        elif not depth and kind == "optional" and tokens:
            tokens[-1] = ("group", False)
        elif not depth and kind in {"start", "end"}:
            tokens.append((kind, False))
        elif not depth and kind in {"escape", "set", "plain"}:
            tokens.append((kind, found[0] not in _ZERO_WIDTH))
    yield pattern[begin:], tokens
