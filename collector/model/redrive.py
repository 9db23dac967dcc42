"""The mark on a message that was redriven: the one header (or field of a stream's entry) that is added to it.

It says of which dead letter it is, of which task, and how often that has been done: so a second round is known as one,
also by who has forgotten the first.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

import msgspec

HEADER = "tasktrail-redrive"
_MOST = 1_000_000


class Mark(msgspec.Struct, frozen=True):
    """What the mark says."""

    id: str
    """Of the dead letter's record."""
    number: int
    """How often its message has been redriven, this time included."""
    task_id: str

    def __str__(self) -> str:
        return f"id={self.id};n={self.number};task={quote(self.task_id, safe='')}"


def mark_of(text: str) -> Mark | None:
    """The mark that a header's text is; None where it is none."""
    parts = dict(part.partition("=")[::2] for part in text.split(";"))
    number = parts.get("n", "")
    if not parts.get("id") or not parts.get("task") or not (number.isascii() and number.isdecimal()):
        return None
    count = int(number[:7])
    return Mark(parts["id"], min(count, _MOST), unquote(parts["task"])) if count > 0 else None
