"""Which dead letters have one cause: task, error class, message without what differs from one to the next, top frame.

Takes texts, gives a short name of the cause. Pure.
"""

from __future__ import annotations

import re
from hashlib import blake2b

LONGEST = 300
"""Characters of a message that are compared: what differs further on is rarely another cause."""
_LONGEST_TRACE = 64 * 1024

# Longest forms first: what one of them took the next ones do not see.
_VARYING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s'\"<>]+"), "<url>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,63}"), "<mail>"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"(?i)\b0x[0-9a-f]+\b"), "<id>"),
    (re.compile(r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
)
_QUOTED = re.compile(r"'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"")
_SPACE = re.compile(r"\s+")
_PYTHON = re.compile(r"File \\?\"([^\"\\\n]{1,300})\\?\", line \d+, in ([\w<>.]{1,100})")
_JAVA = re.compile(r"(?:^|\n|\\n)[ \t]{0,40}+(?:\\t)?at ([\w$.<>/]{3,200})\(")


def normalised(message: str) -> str:
    """A message without what differs between two failures of one cause: numbers, ids, times, quoted words."""
    text = message[:LONGEST]
    for pattern, stand_in in _VARYING:
        text = pattern.sub(stand_in, text)
    return _SPACE.sub(" ", _QUOTED.sub("<text>", text)).strip()


def top_frame(trace: str) -> str:
    """Where the failure was raised, without the line's number: of a Python or Java traceback, also one within JSON.

    Gives "" where there is no traceback. Python's innermost call comes last, Java's first.
    """
    text = trace[-_LONGEST_TRACE:]
    calls = _PYTHON.findall(text)
    if calls:
        path, function = calls[-1]
        return f"{path.replace(chr(92), '/').rpartition('/')[2]}:{function}"
    found = _JAVA.search(trace[:_LONGEST_TRACE])
    return found[1] if found else ""


def fingerprint(task: str, error: str, message: str, frame: str) -> str:
    """The name of a cause: 12 hex digits, the same in every process and version."""
    parts = (task, error, normalised(message), frame)
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()
