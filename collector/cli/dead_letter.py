"""One dead letter as a person reads it: what died, of what, where it lies, until when, and what was decided of it.

Takes a record as `/api/dead-letters/ID` has it; gives lines. What senders wrote is never taken for control characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from collector.cli import report
from collector.model.shown import shown

Row: TypeAlias = dict[str, Any]


def lines(one: Row) -> Iterator[str]:
    """Its state, a line for each thing that is known of it, and its history."""
    yield f"dead letter {shown(one['id'])} is {one['state']}"
    for word, tell in _WORDS:
        if said := tell(one):
            yield f"  {word:12} {said}"
    yield "history"
    for entry in one["history"]:
        why = " ".join(filter(None, (entry["reason"], entry["ticket"] and f"({entry['ticket']})")))
        yield f"  {report.clock(entry['at'])}  {entry['state']:12} {shown(entry['actor'])}  {shown(why)}".rstrip()


def _with(one: Row, *pairs: tuple[str, str], joined: str = ", ") -> str:
    """Each pair is a field and what introduces it; those that say nothing are left out."""
    said = ((before, _value(one[name])) for before, name in pairs)
    return joined.join(f"{before} {value}".strip() for before, value in said if value)


def _value(value: Any) -> str:
    """Numbers that are no whole ones are times."""
    if value is None:
        return ""
    return report.clock(value) if isinstance(value, float) else shown(str(value))


def _lies(one: Row) -> str:
    if not one["place"]:
        return "nowhere: nothing keeps its message" if one["is_virtual"] else ""
    return _with(one, ("", "place"), ("at", "receipt"), joined=" ")


def _error(one: Row) -> str:
    """Class and message; the class once, where the message begins with it."""
    is_said = f"{one['message']}:".startswith(f"{one['error']}:")
    return _with(one, *(() if is_said else (("", "error"),)), ("", "message"), joined=": ")


def _came_from(one: Row) -> str:
    return ", ".join(f"{name} {shown(str(value))}" for name, value in one["origin"].items())


def _deleted(one: Row) -> str:
    return _with(one, ("", "expires_at"), ("by", "expires_by")) if one["expires_at"] else shown(one["expires_by"])


def _begins(one: Row) -> str:
    size = "" if one["size"] is None else f"{one['size']} bytes: "
    return f"{size}{shown(one['preview'])}" if size or one["preview"] else ""


_WORDS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("task", lambda one: _with(one, ("", "task"), ("in queue", "queue"), ("from", "source"))),
    ("task id", lambda one: _with(one, ("", "task_id"))),
    ("error", _error),
    ("raised in", lambda one: _with(one, ("", "frame"))),
    ("cause", lambda one: _with(one, ("fingerprint", "fingerprint"))),
    ("attempts", lambda one: _with(one, ("", "attempts"), ("the last on", "worker"))),
    ("failed", lambda one: _with(one, ("first", "first_failed_at"), ("last", "last_failed_at"))),
    ("died", lambda one: _with(one, ("", "at"), ("sent", "sent_at"))),
    ("trace", lambda one: _with(one, ("", "trace_id"))),
    ("owner", lambda one: _with(one, ("", "owner"), ("to be reviewed by", "review_by"))),
    ("came from", _came_from),
    ("lies in", lambda one: "" if one["state"] == "redriven" else _lies(one)),
    ("lay in", lambda one: _lies(one) if one["state"] == "redriven" else ""),
    ("deleted", _deleted),
    ("message", _begins),
)
