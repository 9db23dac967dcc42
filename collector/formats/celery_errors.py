"""The error class and message behind what Celery writes of an exception: a `repr`, a traceback, or a stored result.

Takes text, gives (class name, message), either of them None where nothing says it. Never evaluates anything.
"""

from __future__ import annotations

import re
from typing import Any

from collector.model.event import LONGEST_TEXT

Error = tuple[str | None, str | None]

_REPR = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\(")
_INNER = re.compile(r"Retry\(Retry\(\.\.\.\), (?=[A-Za-z_])")
"""In a pool without child processes the reason of a retry stands inside a `Retry` that quotes itself."""
_LAST_LINE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::\s*(.*))?", re.DOTALL)
_FRAME = '  File "'
_WRAPPER = "ExceptionWithTraceback"
_TAIL = 64 * 1024
"""Characters of a traceback's end that are looked at."""


def error_of(shown: Any, traceback: Any) -> Error:
    """What an event says in `exception` and `traceback`: the repr's class, else the traceback's."""
    text = shown if isinstance(shown, str) else ""
    inner = _INNER.match(text)
    if inner is not None:
        text = text[inner.end() :]
    found = _REPR.match(text)
    if found is not None and found[1] not in (_WRAPPER, "None"):
        return _class(found[1]), _message(_argument(text, found.end()))
    told = of_traceback(traceback) if isinstance(traceback, str) else (None, None)
    return told if told[0] else (None, _message(text) if text != "None" else None)


def of_traceback(traceback: str) -> Error:
    """The first unindented line behind the last frame: the last line of all may be text of the message."""
    lines = traceback[-_TAIL:].splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    start = frames[-1] + 1 if frames else 0
    ending = next((number for number in range(start, len(lines)) if lines[number][:1].strip()), None)
    if ending is None:
        return None, None
    found = _LAST_LINE.fullmatch("\n".join(lines[ending:]))
    return (_class(found[1]), _message(found[2] or "")) if found else (None, None)


def of_result(result: Any) -> Error:
    """What the result backend stores of an exception: `{exc_type, exc_message, exc_module}`."""
    if not isinstance(result, dict):
        return None, None
    kind, said = result.get("exc_type"), result.get("exc_message")
    parts = said if isinstance(said, list) else [said]
    message = ", ".join(str(part) for part in parts if isinstance(part, str | int | float))
    return _class(kind) if isinstance(kind, str) else None, _message(message)


def _class(name: str) -> str | None:
    return name.rpartition(".")[2][:LONGEST_TEXT] or None


def _message(text: str) -> str | None:
    return text.strip()[:LONGEST_TEXT] or None


def _argument(text: str, start: int) -> str:
    """What stands between the brackets of a repr, without the quotes of a single text."""
    inside = text[start:].removesuffix(")")
    if len(inside) > 1 and inside[0] in "'\"" and inside[-1] == inside[0]:
        return inside[1:-1]
    return inside
