"""What stands in RQ's hashes and result entries: times, call names, tracebacks. Nothing is unpickled or expanded.

A job's call is a zlib-compressed pickle (or JSON) of (function name, instance, args, kwargs): of it the beginning is
looked at, for the first text in it.
"""

from __future__ import annotations

import base64
import binascii
import pickletools
import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from collector.formats.decoded import NOT_JSON, MalformedError, not_json
from collector.formats.tracebacks import exception_of
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT

CALL_BYTES = 64 * 1024
"""How much of a call is decompressed to find the function's name."""
CALL_STEPS = 40
"""How many of its pickle's steps are looked at."""
TRACEBACK_BYTES = 4 * 1024 * 1024
"""How much of a traceback is decompressed; its end is what matters."""
TAIL_BYTES = 64 * 1024
"""How much of that end is kept."""
_TEXT_STEPS = frozenset(["SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"])
_CALL = re.compile(r"([\w.<>]+)\(")
_JSON_CALL = re.compile(rb'\s*\[\s*"([\w.<>]{1,1000})"')
_NO_TRACEBACK = (
    (re.compile(r"Work-horse terminated unexpectedly"), "WorkHorseTerminated"),
    (re.compile(r"Moved to \w+, due to (\w+)"), ""),
)
"""What RQ writes in a traceback's place: of a killed work horse (the name is ours), of a job that was given up."""


def text(fields: Mapping[str, Any], name: str) -> str:
    """A field as text; "" where it is missing or no text."""
    value = fields.get(name)
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def number(fields: Mapping[str, Any], name: str) -> int | None:
    """A field as a small number, or None. Raises MalformedError for anything else that is there."""
    value = text(fields, name)
    if not value:
        return None
    if not re.fullmatch(r"-?[0-9]{1,9}", value):
        raise MalformedError("bad_field", f"`{name}` is not a number")
    return int(value)


def time(fields: Mapping[str, Any], name: str) -> float | None:
    """A field as Unix seconds: RFC 3339 (RQ writes UTC) or seconds. Raises MalformedError for what is neither."""
    value = text(fields, name)
    if not value:
        return None
    try:
        if "-" in value:
            moment = datetime.fromisoformat(value)
            at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        else:
            at = float(value)
    except (ValueError, OverflowError) as error:
        raise MalformedError("bad_time", f"`{name}` is not a time") from error
    if not EARLIEST <= at < LATEST:
        raise MalformedError("bad_time", f"`{name}` is outside the years 2000 to 2099")
    return at


def raw(value: Any) -> bytes | None:
    """The bytes of a field: text, or `{"b64": ...}`. None where it is neither."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            return None
    return None


def task_of(fields: Mapping[str, Any]) -> str | None:
    """The name of the called function: by the call itself, else by the description."""
    call = raw(fields.get("data"))
    name = _called(_beginning(call)) if call else None
    if name is None and (match := _CALL.match(text(fields, "description"))):
        name = match[1]
    return name[:LONGEST_TEXT] if name else None


def _beginning(compressed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(compressed, CALL_BYTES)
    except zlib.error:
        return b""


def _called(call: bytes) -> str | None:
    if match := _JSON_CALL.match(call):
        return match[1].decode("utf-8", "replace")
    try:
        for steps, (step, operand, _) in enumerate(pickletools.genops(call)):
            if step.name in _TEXT_STEPS and isinstance(operand, str) and operand.isprintable():
                return operand or None
            if steps > CALL_STEPS:
                break
    except Exception:  # noqa: BLE001 - genops raises what its readers raise, over bytes that anybody may have written
        return None
    return None


def failure(fields: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Error class and message of a result entry."""
    told = traceback(text_of(fields.get("exc_string")))
    if not told:
        return None, None
    if (found := exception_of(told)) is not None:
        return found[0][:LONGEST_TEXT] or None, found[1][:LONGEST_TEXT] or None
    for expression, name in _NO_TRACEBACK:
        if match := expression.match(told):
            return name or match[1], told[:LONGEST_TEXT]
    return None, told[:LONGEST_TEXT]


def text_of(value: Any) -> str:
    """A field as text, however long."""
    return value if isinstance(value, str) else ""


def traceback(packed: str) -> str:
    """The end of a traceback that was compressed and written as base64; "" where it is not that."""
    try:
        compressed = base64.b64decode(packed, validate=True)
        unpacker = zlib.decompressobj()
        end, room, left = b"", TRACEBACK_BYTES, compressed
        while left and room > 0:
            part = unpacker.decompress(left, TAIL_BYTES)
            end, room, left = (end + part)[-TAIL_BYTES:], room - len(part), unpacker.unconsumed_tail
            if not part:
                break
    except (binascii.Error, ValueError, zlib.error):
        return ""
    return end.decode("utf-8", "replace").strip()


_decode_hash = msgspec.json.Decoder(dict[str, Any]).decode


def hash_of(body: bytes) -> dict[str, Any]:
    """The fields of a hash. Raises MalformedError."""
    try:
        return _decode_hash(body)
    except NOT_JSON as error:
        raise not_json(error, "not_an_object") from error
