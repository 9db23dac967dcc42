"""Keys read as a capture holds them: commands for each kind of key, and the JSON text of what they answer.

Everything is bounded: collections by members, strings and fields by bytes. What was left out is said by `is_cut`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from collector.model.event import EARLIEST, LATEST
from collector.sources.redis_watch import VALUE_BYTES, Keys
from collector.sources.redis_wire import Command

MOST_BYTES = 16 * VALUE_BYTES
"""How much of one collection is handed over."""
PENDING = 50
"""How many pending entries of a stream's group are listed, as captures list them."""
GROUPS = 20
"""How many groups of a stream are listed."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Value(msgspec.Struct, frozen=True):
    """What a key held when it was read."""

    body: bytes
    """JSON text; `null` where there is no such key."""
    still: bytes
    """The body without what changes by itself (idle times): by it a change is noticed."""
    members: frozenset[tuple[str, float]] = frozenset()
    """Of a collection the members that were read, with their scores (0.0: none)."""
    time: float | None = None
    """The newest moment that the row's fields name."""
    is_cut: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether there was no such key."""
        return self.body == _GONE.body


_GONE = Value(b"null", b"null")


def commands(name: str, row: Keys) -> list[Command]:
    """What is asked about a key: its value in one or two commands, then its time to live."""
    key = raw_name(name)
    words: list[Command] = []
    match row.kind:
        case "string":
            words = [("GETRANGE", key, "0", str(VALUE_BYTES - 1))]
        case "hash":
            words = [("HMGET", key, *row.fields)] if row.fields else [("HGETALL", key)]
        case "set":
            words = [("SSCAN", key, "0", "COUNT", str(row.last))]
        case "stream":
            words = [("XLEN", key), ("XINFO", "GROUPS", key)]
        case kind:
            words = [_slice(kind, key, start, end) for start, end in _ends(row)]
    return [*words, ("PTTL", key)]


def _ends(row: Keys) -> list[tuple[int, int]]:
    return [(0, row.first - 1)] * bool(row.first) + [(-row.last, -1)] * bool(row.last)


def _slice(kind: str, key: bytes, start: int, end: int) -> Command:
    name, more = ("ZRANGE", ("WITHSCORES",)) if kind == "zset" else ("LRANGE", ())
    return (name, key, str(start), str(end), *more)


def more_commands(name: str, row: Keys, replies: Sequence[Any]) -> list[Command]:
    """What has to be asked once the first answers are there: of a stream, who holds which entries of each group."""
    if row.kind != "stream" or not isinstance(replies[1], list):
        return []
    key = raw_name(name)
    groups = [_paired(flat)["name"] for flat in replies[1][:GROUPS]]
    return [
        words
        for group in groups
        for words in (
            ("XINFO", "CONSUMERS", key, _raw(group)),
            ("XPENDING", key, _raw(group), "-", "+", str(min(PENDING, row.last))),
        )
    ]


def value(row: Keys, replies: Sequence[Any], more: Sequence[Any]) -> Value:
    """What the answers to `commands` (without PTTL) and `more_commands` say. ValueError: the key is of another kind."""
    if any(isinstance(reply, Exception) for reply in replies):
        if row.kind == "stream" and "no such key" in str(replies[1]):
            return _GONE
        raise ValueError(str(next(reply for reply in replies if isinstance(reply, Exception))))
    if row.kind == "stream":
        return _stream(replies, more)
    return _READ[row.kind](row, replies)


def _string(row: Keys, replies: Sequence[Any]) -> Value:
    raw: bytes = replies[0]
    if not raw:
        return _GONE
    body = _encode(shown(raw))
    return Value(body, body, time=_newest(row, _object(raw)), is_cut=len(raw) >= VALUE_BYTES)


def _hash(row: Keys, replies: Sequence[Any]) -> Value:
    flat = replies[0]
    names = row.fields or map(text_name, flat[::2])
    pairs = zip(names, flat if row.fields else flat[1::2], strict=True)
    found = {name: raw for name, raw in pairs if raw is not None}
    if not found:
        return _GONE
    body = _encode({name: shown(raw) for name, raw in found.items()})
    is_cut = any(len(raw) > VALUE_BYTES for raw in found.values())
    return Value(body, body, time=_newest(row, found), is_cut=is_cut)


def _set(row: Keys, replies: Sequence[Any]) -> Value:
    cursor, found = replies[0]
    members = [(raw, 0.0) for raw in sorted(set(found))]
    return _collection(members[: row.last], is_cut=cursor != b"0" or len(members) > row.last, scored=False)


def _list(row: Keys, replies: Sequence[Any]) -> Value:
    members = [(raw, 0.0) for raw in _joined(replies)]
    return _collection(members, is_cut=len(members) >= row.first + row.last, scored=False)


def _zset(row: Keys, replies: Sequence[Any]) -> Value:
    pairs = [list(zip(flat[::2], map(float, flat[1::2]), strict=True)) for flat in replies]
    members = _joined(pairs)
    return _collection(members, is_cut=len(members) >= row.first + row.last, scored=True)


def _joined(parts: Sequence[list[Any]]) -> list[Any]:
    """Front and end of a collection without what is in both: the end's part of a short one is all of it."""
    if len(parts) == 1:
        return parts[0]
    front, end = parts
    seen = set(front)
    return front + [one for one in end if one not in seen]


def _collection(members: Sequence[tuple[bytes, float]], *, is_cut: bool, scored: bool) -> Value:
    if not members:
        return _GONE
    room = MOST_BYTES
    kept: list[tuple[bytes, float]] = []
    for raw, score in members:
        room -= min(len(raw), VALUE_BYTES)
        if room < 0:
            is_cut = True
            break
        kept.append((raw, score))
    body = _encode([[shown(raw), score] if scored else shown(raw) for raw, score in kept])
    names = frozenset((text_name(raw), score) for raw, score in kept)
    return Value(body, body, members=names, is_cut=is_cut)


_READ: dict[str, Callable[[Keys, Sequence[Any]], Value]] = {
    "string": _string,
    "hash": _hash,
    "set": _set,
    "list": _list,
    "zset": _zset,
}


def _stream(replies: Sequence[Any], more: Sequence[Any]) -> Value:
    groups: list[dict[str, Any]] = [
        {"info": _paired(info), "consumers": [_paired(one) for one in _listed(consumers)], "pending": _pending(pending)}
        for info, consumers, pending in zip(replies[1][:GROUPS], more[::2], more[1::2], strict=True)
    ]
    whole = {"len": replies[0], "groups": groups}
    fixed = [[group["info"], [_fixed(one) for one in (*group["consumers"], *group["pending"])]] for group in groups]
    return Value(_encode(whole), _encode([fixed, replies[0]]))


_MOVING = frozenset(["idle", "inactive", "time_since_delivered"])


def _fixed(said: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in said.items() if name not in _MOVING}


def _pending(rows: Any) -> list[dict[str, Any]]:
    names = ("message_id", "consumer", "time_since_delivered", "times_delivered")
    return [dict(zip(names, map(shown, row), strict=True)) for row in _listed(rows)]


def _listed(reply: Any) -> list[Any]:
    """A list; nothing for an error: the group may have gone between two questions."""
    return reply if isinstance(reply, list) else []


def _paired(flat: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(map(text_name, flat[::2]), map(shown, flat[1::2]), strict=True))


def shown(raw: Any) -> Any:
    """A value as JSON can hold it: text, or `{"b64": ...}`; numbers and nothing stay. Cut at `VALUE_BYTES`."""
    if not isinstance(raw, bytes):
        return raw
    part = raw[:VALUE_BYTES]
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if len(part) == VALUE_BYTES and error.start > VALUE_BYTES - 4:  # cut within a character
            return part[: error.start].decode()
        return {"b64": base64.b64encode(part).decode()}


def text_name(raw: bytes) -> str:
    """A key or member as text; bytes that are no UTF-8 keep their value (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")


def raw_name(name: str) -> bytes:
    """The bytes of such a text."""
    return name.encode("utf-8", "surrogateescape")


def _raw(shown_name: Any) -> bytes:
    return shown_name.encode() if isinstance(shown_name, str) else base64.b64decode(shown_name["b64"])


def _object(raw: bytes) -> dict[str, Any]:
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _newest(row: Keys, fields: dict[str, Any]) -> float | None:
    return max(filter(None, (_moment(fields.get(name)) for name in row.times)), default=None)


def _moment(told: Any) -> float | None:
    """Unix seconds of seconds, milliseconds, or RFC 3339; None for what is no time of ours."""
    try:
        if isinstance(told, bytes):
            told = told.decode()
        if isinstance(told, str) and "-" in told:
            told = datetime.fromisoformat(told).timestamp()
        at = float(told or 0)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at / 1000 if at >= LATEST else at
    return at if EARLIEST <= at < LATEST else None
