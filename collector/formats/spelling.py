"""An event of its fields in any spelling: times as text, `traceparent`, empty strings, numbers as text.

Takes a dict of fields, gives an `Event` or the reason why there is none. This is the long way: a regular event is
decoded without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from collector.formats.decoded import MalformedError
from collector.model.event import KINDS, LONGEST_TEXT, TASK_KINDS, Event, trace_context, unix_seconds

_FIELDS = frozenset(Event.__struct_fields__)
WHEN = "neither Unix seconds in the years 2000 to 2099 nor RFC 3339 with an offset"
_WHOLE = frozenset(["task_id", "idempotency_key"])  # cut, it would be another one; the type refuses it
_TEXT = _FIELDS - {"time", "eta", "expires", "attempt", "run_seconds", "labels"}  # right as the text that it is
_NOBODY = "-"  # stands in for the id of a worker's event while its types are checked

# `$.time` in a ValidationError's message: the field that is wrong. msgspec has no attribute for it.
_PLACE = re.compile(r"`\$(?:\.(\w+)|\[)")
_REASON_AT = {
    "kind": "unknown_kind",
    "task_id": "bad_id",
    "time": "bad_time",
    "eta": "bad_time",
    "expires": "bad_time",
}


def event_of(spelled: dict[str, Any]) -> Event:
    """The event that fields in any spelling make. Raises MalformedError."""
    fields = _respelled(spelled)
    kind = fields.get("kind")
    if kind is None:
        raise MalformedError("missing_kind", "there is no field `kind`")
    if kind not in KINDS:
        raise MalformedError("unknown_kind", _unknown(kind))
    task_id = fields.setdefault("task_id", _NOBODY)
    if task_id is _NOBODY and kind in TASK_KINDS:
        raise MalformedError("missing_id", f"{kind} without a `task_id`")
    try:
        event = msgspec.convert(fields, Event)
    except (ValueError, OverflowError) as error:
        raise misfit(error) from error
    if task_id is _NOBODY:
        event.task_id = ""
    return event


def is_filled(event: Event, given: dict[str, Any]) -> bool:
    """Complete a regular event by what its record says; False (and untouched) where that has to be checked first."""
    if not given:
        return True
    if not given.keys() <= _TEXT:
        return False
    for name, value in _respelled(given).items():
        if getattr(event, name) is None:
            setattr(event, name, value)
    return True


def _respelled(spelled: dict[str, Any]) -> dict[str, Any]:
    """The same fields in their regular spelling, without those that say nothing. Raises MalformedError for a time."""
    fields: dict[str, Any] = {}
    for name, value in spelled.items():
        if value is None or value == "":
            continue
        read = _SPELLINGS.get(name)
        if read is not None:
            fields[name] = read(value)
        elif value.__class__ is str and len(value) > LONGEST_TEXT and name not in _WHOLE:
            fields[name] = value[:LONGEST_TEXT]
        else:
            fields[name] = value
    context = fields.pop("traceparent", None)
    if context is not None:
        fields["trace_id"] = fields.get("trace_id") or context[0]
        fields["span_id"] = fields.get("span_id") or context[1]
    return fields


def _unknown(kind: Any) -> str:
    """The kind, where it is a word: anything else may be anything, also a secret."""
    return f"`{kind}`" if isinstance(kind, str) and len(kind) <= 40 and kind.isidentifier() else "not a word"


def misfit(error: Exception) -> MalformedError:
    """The reason behind a decoder's word that a value is not of the type it should be."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:
        return MalformedError("not_an_object", message)
    return MalformedError(_REASON_AT.get(place[1], "bad_field"), message)


def _time(value: Any) -> float:
    """Unix seconds of a number, of RFC 3339 text, or of a msgpack timestamp. Raises MalformedError."""
    if isinstance(value, datetime):
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MalformedError("bad_time", f"a time cannot be of type {type(value).__name__}")
    try:
        return float(unix_seconds(value))
    except (ValueError, OverflowError) as error:
        raise MalformedError("bad_time", WHEN) from error


def _hex_id(digits: int) -> Callable[[Any], str | None]:
    """An id of W3C trace context; None for what is not one: a trace that cannot be joined must not cost the fact."""
    pattern = re.compile(rf"(?!0+$)[0-9a-f]{{{digits}}}")

    def hex_id(value: Any) -> str | None:
        # UUIDs are written with dashes, 64-bit trace ids are the lower half of the long ones
        text = value.lower().replace("-", "") if isinstance(value, str) else ""
        text = text.zfill(digits) if len(text) == 16 else text
        return text if pattern.fullmatch(text) else None

    return hex_id


def _context(value: Any) -> tuple[str, str] | None:
    return trace_context(value) if isinstance(value, str) else None


# How each field's other spellings are read; what has no line here has one spelling only.
_SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "time": _time,
    "eta": _time,
    "expires": _time,
    "traceparent": _context,
    "trace_id": _hex_id(32),
    "span_id": _hex_id(16),
}
_LABELS = msgspec.json.Decoder(dict[str, str])
# Fields of a record are text; these are not text in an event.
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "time": float,
    "eta": float,
    "expires": float,
    "attempt": int,
    "run_seconds": float,
    "labels": _LABELS.decode,
}


def readable(text: str) -> str:
    """Text without the surrogates that stand for bytes which are no UTF-8: nothing that is printed may hold them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def fields_of(record: Mapping[str, str]) -> dict[str, Any]:
    """What a record's headers or entry fields say of an event. Text that is no number stays text, for its reason."""
    fields: dict[str, Any] = {}
    for name in _FIELDS.intersection(record):
        fields[name] = readable(record[name])
        if name in _FROM_TEXT:
            with suppress(ValueError, RecursionError):
                fields[name] = _FROM_TEXT[name](record[name])
    return fields
