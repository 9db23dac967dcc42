"""The native format: one JSON object, one msgpack map, or a list of either, per body.

Regular events are decoded straight into the strict `Event`, in one C loop over the whole batch. Whatever does not
decode so is read a second time, the long way, which knows the other spellings and finds the reason where there is
no event in it. Nothing escapes: every exception that the decoders raise becomes a `Reject`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

import msgspec

from collector.formats.decoded import (
    LONGEST_BODY,
    MOST_ELEMENTS,
    Decoded,
    Format,
    MalformedError,
    Reject,
    check_length,
    check_list,
    few,
    too_long,
)
from collector.formats.spelling import WHEN, event_of, fields_of, is_filled, misfit
from collector.model.event import Event
from collector.model.record import Batch

LONGEST_PACKED = 256 * 1024
"""Bytes of a msgpack map that is no regular event: what it is made of cannot be told without building it."""

# Every exception type of msgspec's decoders: its own errors and UnicodeDecodeError are ValueErrors.
_ERRORS = (ValueError, RecursionError, OverflowError)

# The fields of an event with anything in them. What is not a field is skipped without being built.
_Spelled = TypedDict("_Spelled", dict.fromkeys(Event.__struct_fields__, Any), total=False)  # type: ignore[misc]


class _Wire(msgspec.Struct, frozen=True):
    """One encoding: its decoders, built once, and what to call a body that is not in it."""

    event: Callable[[bytes | msgspec.Raw], Event]
    spelled: Callable[[bytes | msgspec.Raw], dict[str, Any]]
    elements: Callable[[bytes], list[msgspec.Raw]]
    malformed: str


def _wire(decoder: Any, malformed: str) -> _Wire:
    return _Wire(
        event=decoder(Event).decode,
        spelled=decoder(_Spelled).decode,
        elements=decoder(list[msgspec.Raw]).decode,
        malformed=malformed,
    )


_JSON = _wire(msgspec.json.Decoder, "not_json")
_MSGPACK = _wire(msgspec.msgpack.Decoder, "not_msgpack")
# Bytes that open a msgpack map or list. None of them can open JSON, nor any UTF-8 text.
_MSGPACK_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_MSGPACK_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_BOM = b"\xef\xbb\xbf"

# What Python's json writes for such a time; it is not JSON, and "not JSON" would hide what is wrong.
_NOT_A_TIME = re.compile(rb'"(?:time|eta|expires)"\s*:\s*-?(?:NaN|Infinity)\b')


def decode(batch: Batch, longest: int = LONGEST_BODY) -> Decoded:
    """The events of a batch, in its order. `longest`: bytes; longer bodies are rejected unread."""
    bodies = batch.bodies
    if batch.fields is None and bodies and max(map(len, bodies)) <= longest:
        return _decode_regular(bodies)
    out = Decoded([], [], [])
    for index, body in enumerate(bodies):
        fields = batch.fields[index] if batch.fields is not None else None
        if len(body) > longest:
            out.rejects.append(Reject(index, "too_large", f"{len(body)} bytes, at most {longest} are read"))
        else:
            given = fields_of(fields) if fields else {}
            event = _regular(_recognised(body)[0], body)
            if event is not None and is_filled(event, given):
                _keep(out, index, event)
            else:
                _read(out, index, body, None if fields is None else given)
    return out


def _is_mine(tap: str, about: Mapping[str, Any], _body: bytes) -> bool:
    """Whatever a broker or a sender hands over as an event of ours; what was asked of keys or an API is none.

    Nor is what Redis says of its own keys (keyspace and keyevent notifications).
    """
    return tap in _TAPS and not str(about.get("channel")).startswith(("__keyspace@", "__keyevent@"))


_TAPS = frozenset(["native", "kafka", "redis-stream", "redis-pubsub", "amqp"])
FORMAT = Format(new=lambda: decode, is_mine=_is_mine)


def _decode_regular(bodies: list[bytes]) -> Decoded:
    """All bodies in runs: the C loop stops at a body that is not regular, and goes on behind it."""
    out = Decoded([], None, [])
    regular = _recognised(bodies[0])[0].event
    ahead = iter(bodies)
    start = 0
    while not _run(regular, ahead, out.events):
        sources = out.sources if out.sources is not None else []
        # What this run gave stands one to one on the bodies from `start` on.
        index = start + len(out.events) - len(sources)
        sources.extend(range(start, index))
        out.sources = sources
        _read(out, index, bodies[index], None)
        start = index + 1
    if out.sources is not None:
        out.sources.extend(range(start, len(bodies)))
    return out


def _regular(wire: _Wire, raw: bytes | msgspec.Raw) -> Event | None:
    try:
        return wire.event(raw)
    except _ERRORS:
        return None


def _run(regular: Callable[[bytes], Event], ahead: Iterator[bytes], events: list[Event]) -> bool:
    """Decode up to the first body that is not regular: those before it are in `events`, `ahead` stands behind it."""
    try:
        events.extend(map(regular, ahead))
    except _ERRORS:
        return False
    return True


def _read(out: Decoded, index: int, body: bytes, given: dict[str, Any] | None) -> None:
    """One body that is not a regular event, into `out`. `given`: what its record says, None without one."""
    try:
        _read_body(out, index, body, given)
    except MalformedError as error:
        out.rejects.append(Reject(index, error.reason, error.detail))


def _read_body(out: Decoded, index: int, body: bytes, given: dict[str, Any] | None) -> None:
    """One body's events into `out`. Raises MalformedError where the whole body is nothing."""
    wire, is_list, text = _recognised(body)
    if is_list:
        _read_list(out, index, wire, text, given or {})
    elif text:
        if wire is _JSON:
            check_length(text)
        _keep(out, index, _element(wire, text, given or {}))
    elif given is not None:
        _keep(out, index, event_of(given))
    else:
        raise MalformedError("empty", "a body without content")


def _read_list(out: Decoded, index: int, wire: _Wire, text: bytes, given: dict[str, Any]) -> None:
    """A list: each element counts by itself. Raises MalformedError where it is not even a list."""
    if wire is _JSON:
        check_list(text)
        check_length(text)
    elif _said_elements(text) > MOST_ELEMENTS:
        raise too_long()
    try:
        elements = wire.elements(text)
    except _ERRORS as error:
        raise _malformed(error, wire, text) from error
    for number, element in enumerate(few(elements)):
        try:
            event = None if given else _regular(wire, element)
            _keep(out, index, event or _element(wire, element, given))
        except MalformedError as error:
            out.rejects.append(Reject(index, error.reason, f"element {number}: {error.detail}"))


def _said_elements(text: bytes) -> int:
    """How many elements a msgpack list says it has."""
    size = {0xDC: 2, 0xDD: 4}.get(text[0], 0)
    said = int.from_bytes(text[1 : 1 + size], "big")
    return said if said < len(text) else 0  # else it is cut off, and the decoder says so


def _keep(out: Decoded, index: int, event: Event) -> None:
    out.events.append(event)
    if out.sources is not None:
        out.sources.append(index)


def _recognised(body: bytes) -> tuple[_Wire, bool, bytes]:
    """A body's encoding by its first byte, whether it is a list, and the body without white space around JSON."""
    first = body[0] if body else 0
    if first in _MSGPACK_MAPS or first in _MSGPACK_LISTS:
        return _MSGPACK, first in _MSGPACK_LISTS, body
    text = body.removeprefix(_BOM).strip()
    return _JSON, text.startswith(b"["), text


def _element(wire: _Wire, raw: bytes | msgspec.Raw, given: dict[str, Any]) -> Event:
    """One object, completed by the fields of its record. Raises MalformedError."""
    if wire is _MSGPACK and len(raw) > LONGEST_PACKED:
        raise MalformedError("too_large", f"{len(raw)} bytes, at most {LONGEST_PACKED} of msgpack are read like this")
    try:
        spelled = wire.spelled(raw)
    except _ERRORS as error:
        raise _malformed(error, wire, bytes(raw)) from error
    for name, value in given.items():
        if spelled.get(name) in (None, ""):
            spelled[name] = value
    return event_of(spelled)


def _malformed(error: Exception, wire: _Wire, raw: bytes) -> MalformedError:
    """The reason behind a decoder's exception."""
    message = str(error)
    if isinstance(error, RecursionError):
        return MalformedError("too_deep", "nested deeper than the decoder goes")
    if isinstance(error, msgspec.ValidationError):
        return misfit(error)
    if wire is _JSON and _NOT_A_TIME.search(raw):
        return MalformedError("bad_time", WHEN)
    if "UTF-8" in message or (wire is _JSON and not _is_utf8(raw)):
        return MalformedError("not_utf8", message)
    return MalformedError(wire.malformed, message)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
