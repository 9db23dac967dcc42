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
_REJECT_REPR, _REJECT_LINE = "reject requeue=", "celery.exceptions.Reject: ("
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


def requeue_of(shown: Any, traceback: Any) -> bool | None:
    """Whether what an event says is a `Reject` that gives the task back; None where it is no `Reject`.

    In a pool without child processes its repr is the wrapper's, and only the traceback names it.
    """
    text = shown if isinstance(shown, str) else ""
    if text.startswith(_REJECT_REPR):
        return text.startswith(f"{_REJECT_REPR}True")
    ending = _ending(traceback) if text.startswith(_WRAPPER) and isinstance(traceback, str) else ""
    return ending.rstrip().endswith(", True)") if ending.startswith(_REJECT_LINE) else None


def of_traceback(traceback: str) -> Error:
    """What a traceback ends with."""
    found = _LAST_LINE.fullmatch(_ending(traceback))
    return (_class(found[1]), _message(found[2] or "")) if found else (None, None)


def _ending(traceback: str) -> str:
    """From the first unindented line behind the last frame on: the last line of all may be text of the message."""
    lines = traceback[-_TAIL:].splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    start = frames[-1] + 1 if frames else 0
    ending = next((number for number in range(start, len(lines)) if lines[number][:1].strip()), len(lines))
    return "\n".join(lines[ending:])


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
