"""What a Python traceback says of its exception: the class and the message. Pure text; nothing is executed."""

from __future__ import annotations

import re

LONGEST_TRACEBACK = 256 * 1024
"""Characters that are looked at, from the end: what matters stands there."""

_CLASS = re.compile(r"[^\W\d][\w.<>]*")


def exception_of(traceback: str) -> tuple[str, str] | None:
    """Class name (without its module) and message, or None where there is no such line.

    The class stands on the first line without indent after the last frame: messages may have several lines, so the
    last line of a traceback may be any text.
    """
    lines = traceback[-LONGEST_TRACEBACK:].splitlines()
    frame = next((number for number in reversed(range(len(lines))) if lines[number].startswith('  File "')), None)
    if frame is None:
        return None
    for number in range(frame + 1, len(lines)):
        if lines[number][:1].strip():
            name, _, message = lines[number].partition(": ")
            match = _CLASS.fullmatch(name.rstrip(":"))
            if match is None:
                return None
            return match[0].rpartition(".")[2], "\n".join([message, *lines[number + 1 :]]).strip()
    return None
