"""Consumer groups of Redis streams: how much a group has not been given yet, and what it was given and holds.

A stream keeps what was done, so that its length is no depth. Where the server cannot tell a group's lag (entries were
deleted in the middle, or it is older than version 7) what waits is unknown. taskiq and streaQ are such streams, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from collector.probes.reading import DELIVERIES, LAG, LAG_SECONDS, PENDING_IDLE, Reading, State
from collector.probes.redis import PAUSE, PER_PAUSE, Command, Finder, Steps, ask_each, chosen, number

MOST_GROUPS = 20
"""Groups of one stream."""
PENDING = 100
"""Pending entries of a group that are looked at, oldest first."""
_EMPTY = b"0-0"
_FIRST_TIME = 1e9
"""Seconds; an id that is less was given by the sender, and is no time."""


class Group(msgspec.Struct, frozen=True):
    """One group of one stream, as XINFO GROUPS has it."""

    stream: str
    name: str
    pending: int
    lag: int | None
    delivered: bytes
    """The id of the last entry that it was given."""


class Streams:
    """`Kind`."""

    def __init__(
        self,
        streams: Collection[str] = (),
        *,
        finder: Finder | None = None,
        queue: Callable[[str], str] = str,
        delayed: str = "",
        is_emptied: bool = False,
    ) -> None:
        """`finder`: finds streams where none is named. `queue`: what a stream's queue is called, "" for none.

        `delayed`: in a stream's name, what stands before its priority; there is a sorted set of delayed tasks for each.
        `is_emptied`: whether entries are deleted when they are done, so that the length less what is held waits.
        """
        self._streams = streams
        self._finder = finder
        self._queue = queue
        self._delayed = delayed
        self._is_emptied = is_emptied

    def look(self, known: Collection[str], now: float) -> Steps:  # noqa: ARG002 streams are named, or found
        """Groups; then what each of them holds, and the first entry that it was not given."""
        if self._finder is not None and not self._streams:
            yield from self._finder.go_on(now)
        keys = [] if self._finder is None else [key.decode("utf-8", "replace") for key in self._finder.found]
        names = chosen(self._streams, [name for name in keys if self._queue(name)], ())
        (told,) = (yield [("TIME",)]) if names else (None,)
        clock = _seconds(told, now)
        rows = dict(zip(names, (yield from ask_each(names, self._questions)), strict=True))
        of_stream = {name: self._groups(name, row) for name, row in rows.items()}
        groups = [group for found in of_stream.values() for group in found]
        replies = yield from ask_each(groups, _about)
        reading = Reading()
        ages: dict[str, list[float | None]] = {}
        for at, (group, row) in enumerate(zip(groups, replies, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            seconds = _waited(group, row[0], clock)
            ages.setdefault(group.stream, []).append(seconds)
            self._say_group(reading, group, seconds, row)
        depths: dict[str, list[tuple[dict[State, int | None], float | None]]] = {}
        for name, row in rows.items():
            if (queue := self._queue(name)) and (lengths := self._lengths(row, of_stream[name])):
                depths.setdefault(queue, []).append((lengths, _oldest(ages.get(name, []), lengths["ready"])))
        for at, (queue, parts) in enumerate(depths.items()):
            if at % PER_PAUSE == 0:
                yield PAUSE
            sums: dict[State, int | None] = {state: _sum([one[state] for one, _ in parts]) for state in parts[0][0]}
            reading.depth(queue, sums, oldest=_oldest([age for _, age in parts], sums["ready"]))
        return reading

    def _questions(self, name: str) -> list[Command]:
        beside = [("ZCARD", name.replace(self._delayed, f"{self._delayed}delayed:"))] if self._delayed else []
        return [("XINFO", "GROUPS", name), ("XLEN", name), *beside]

    def _groups(self, name: str, row: Sequence[Any]) -> list[Group]:
        infos = map(_pairs, row[0][:MOST_GROUPS]) if isinstance(row[0], list) else ()
        length = number(row[1])
        return [self._group(name, info, length) for info in infos]

    def _group(self, name: str, info: Mapping[str, Any], length: int | None) -> Group:
        pending, lag = int(info["pending"]), number(info.get("lag"))
        if self._is_emptied:
            lag = None if length is None else max(0, length - pending)
        elif info["last-delivered-id"] == _EMPTY and lag is None:
            lag = length  # it was given nothing yet, and all is to come
        return Group(name, info["name"].decode("utf-8", "replace"), pending, lag, info["last-delivered-id"])

    def _lengths(self, row: Sequence[Any], mine: Sequence[Group]) -> dict[State, int | None]:
        """By state: what the group waits for that has most before it. Nothing for a stream that nobody reads."""
        if not mine and not self._is_emptied:
            return {}
        lags = [group.lag for group in mine if group.lag is not None]
        ready = None if len(lags) < len(mine) else max(lags, default=number(row[1]))
        lengths: dict[State, int | None] = {"ready": ready, "unacked": sum(group.pending for group in mine)}
        return {**lengths, "delayed": number(row[2])} if self._delayed else lengths

    def _say_group(self, reading: Reading, group: Group, seconds: float | None, row: Sequence[Any]) -> None:
        labels = {"group": group.name, "topic": group.stream, "queue": self._queue(group.stream)}
        if group.lag is None:
            reading.unknown.add(labels["queue"])
        else:
            reading.put(LAG, group.lag, **labels)
        if seconds is not None:
            reading.put(LAG_SECONDS, seconds, **labels)
        consumers = list(map(_pairs, row[1])) if isinstance(row[1], list) else []
        holding = [number(one.get("idle")) or 0 for one in consumers if number(one.get("pending"))]
        reading.put(PENDING_IDLE, max(holding, default=0) / 1000, **labels)
        rows = row[2] if isinstance(row[2], list) else []
        reading.put(DELIVERIES, max((entry[3] for entry in rows), default=0), **labels)


def _about(group: Group) -> list[Command]:
    """The first entry that a group was not given, its consumers, and what it holds longest."""
    return [
        ("XRANGE", group.stream, b"(" + group.delivered, "+", "COUNT", "1"),
        ("XINFO", "CONSUMERS", group.stream, group.name),
        ("XPENDING", group.stream, group.name, "-", "+", str(PENDING)),
    ]


def _waited(group: Group, first: Any, clock: float) -> float | None:
    """Seconds since the first entry that a group was not given; None where it is not known."""
    if group.lag == 0:
        return 0.0
    if not isinstance(first, list) or not first:
        return None
    at = int(first[0][0].partition(b"-")[0]) / 1000
    return max(0.0, clock - at) if at >= _FIRST_TIME else None


def _oldest(ages: Sequence[float | None], ready: int | None) -> float | None:
    """The longest wait of several; it is not known where one is not, but where nothing waits."""
    if ready == 0:
        return 0.0
    known = [age for age in ages if age is not None]
    return max(known) if ages and len(known) == len(ages) else None


def _sum(lengths: Sequence[int | None]) -> int | None:
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


def _pairs(flat: Sequence[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _seconds(reply: Any, otherwise: float) -> float:
    """The server's clock, which ids of entries follow; ours where it does not say."""
    try:
        return int(reply[0]) + int(reply[1]) / 1e6
    except (TypeError, ValueError, IndexError):
        return otherwise


def streaq() -> Streams:
    """All of streaQ's queues, each a stream per priority."""

    def queue(stream: str) -> str:
        begins, _, priority = stream.removeprefix("streaq:").partition(_STREAQ)
        return begins if priority and ":" not in priority else ""

    return Streams(finder=Finder(f"streaq:*{_STREAQ}*"), queue=queue, delayed=_STREAQ, is_emptied=True)


_STREAQ = ":queues:"
