"""Entries of Redis streams as they come over the wire: ids, their times, and where in an entry the event stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from collector.model.event import EARLIEST
from collector.model.record import BODY_FIELDS

EntryId: TypeAlias = tuple[int, int]

_BODY_NAMES = frozenset(name.encode() for name in BODY_FIELDS)
_OPENINGS = frozenset(b'{["') | frozenset(range(0x80, 0xA0)) | frozenset({0xDC, 0xDD, 0xDE, 0xDF})
"""First bytes of JSON objects, lists and strings, and of msgpack maps and arrays."""


def times_of(ids: Sequence[bytes], now: float) -> list[float]:
    """The times in entry ids; arrival for ids that somebody made up; never ahead of now."""
    times = [int(entry_id.partition(b"-")[0]) / 1000 for entry_id in ids]
    if times and (times[0] < EARLIEST or times[-1] > now):
        times = [now if at < EARLIEST else min(at, now) for at in times]
    return times


def body_of(flat: Sequence[bytes]) -> tuple[bytes, dict[str, str] | None]:
    """An entry of several fields: the one that holds an event, with the others beside it; else all as fields."""
    names = flat[::2]
    for name, value in zip(names, flat[1::2], strict=False):
        if name in _BODY_NAMES and value and value[0] in _OPENINGS:
            return value, _decoded(pair for pair in zip(names, flat[1::2], strict=False) if pair[0] != name)
    return b"", _decoded(zip(names, flat[1::2], strict=False))


def _decoded(pairs: Any) -> dict[str, str]:
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs}


def entry_id(text: bytes) -> EntryId:
    """Milliseconds and number of an id."""
    millis, _, number = text.partition(b"-")
    return int(millis), int(number or 0)


def text_of(wanted: EntryId) -> str:
    """An id as the server writes it."""
    return f"{wanted[0]}-{wanted[1]}"


class StreamState(msgspec.Struct, frozen=True):
    """What XINFO STREAM says."""

    length: int
    last: EntryId
    first: EntryId | None
    added: int | None
    """Entries ever added; None before Redis 7."""


def state_of(flat: Sequence[Any]) -> StreamState:
    """The answer to XINFO STREAM: names and values by turns."""
    said = dict(zip(flat[::2], flat[1::2], strict=False))
    first = said[b"first-entry"]
    return StreamState(
        length=said[b"length"],
        last=entry_id(said[b"last-generated-id"]),
        first=entry_id(first[0]) if first else None,
        added=said.get(b"entries-added"),
    )


def is_older(state: StreamState, index: int | None) -> bool:
    """Whether a stream that ends before our position is an older state of the one that was read: all of it was seen.

    So it is after a failover to a replica that was behind, or a restart from an older snapshot. A stream that was made
    since has later ids, as long as the server gives them; those that somebody made up say nothing. `index`: entries
    ever added up to the position.
    """
    is_dated = state.last[0] / 1000 >= EARLIEST
    return is_dated and (index is None or state.added is None or state.added <= index)
