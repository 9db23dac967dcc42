"""A Redis that holds given keys and answers what probes ask: lists, sets, hashes, sorted sets, strings, streams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from collector.model.errors import SourceError

READS = {
    *(
        "CLIENT",
        "EXISTS",
        "GET",
        "HEXISTS",
        "HGET",
        "HLEN",
        "HMGET",
        "HSTRLEN",
        "HVALS",
        "LINDEX",
        "LLEN",
        "SCAN",
        "SMEMBERS",
    ),
    *("TIME", "XINFO", "XLEN", "XPENDING", "XRANGE", "ZCARD", "ZCOUNT", "ZRANGE"),
}


class Ranked(dict):
    """A sorted set: member → score."""


class Stream:
    """Prepared replies of one stream."""

    def __init__(self, groups: Sequence[dict[str, Any]] = (), entries: Sequence[str] = ()) -> None:
        self.groups = groups
        """As XINFO GROUPS has them, and besides `consumers` and `entries` (pending) of each."""
        self.entries = entries


def raw(value: Any) -> Any:
    """As it comes over the wire."""
    if isinstance(value, str):
        return value.encode()
    return [raw(part) for pair in value.items() for part in pair] if isinstance(value, dict) else value


class RedisKeys:
    """The server, and a connection to it. Told `broken`, it answers nothing; `refuse` is what it says to everything."""

    def __init__(self, keys: dict[str, Any] | None = None, clients: str = "") -> None:
        self.keys: dict[str, Any] = keys or {}
        self.clients = clients
        self.asked: list[tuple[str, ...]] = []
        self.trips = 0
        self.connections = 0
        self.is_broken = False
        self.refuse = ""
        self.now = 1_750_000_000.0

    async def connect(self) -> RedisKeys:
        """A connection."""
        self.connections += 1
        return self

    def close(self) -> None:
        """Nothing to close."""

    async def ask_many(self, commands: Sequence[Sequence[str | bytes]], seconds: float = 5.0) -> list[Any]:  # noqa: ARG002
        """Replies in order."""
        if self.is_broken:
            raise SourceError("gone")
        self.trips += 1
        return [self._answer(*(w.decode() if isinstance(w, bytes) else w for w in words)) for words in commands]

    def _answer(self, *words: str) -> Any:
        self.asked.append(words)
        assert words[0] in READS
        if self.refuse:
            return ValueError(self.refuse)
        name, *rest = words
        if name == "SCAN":
            return self._scan(rest)
        if name == "CLIENT":
            return self.clients.encode()
        if name == "TIME":
            return [str(int(self.now)).encode(), b"0"]
        key = rest.pop(1) if name == "XINFO" else rest.pop(0)
        value = self.keys.get(key)
        wanted = {"X": Stream, "Z": Ranked, "H": dict, "L": list, "S": set}.get(name[0])
        if value is not None and wanted and type(value) is not wanted and name != "SCAN":
            return ValueError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return getattr(self, f"_{name.lower()}")(value, *rest)

    def _scan(self, rest: Sequence[str]) -> list[Any]:
        cursor, pattern, count = int(rest[0]), rest[2], int(rest[4])
        names = list(self.keys)
        part = names[cursor : cursor + count]
        escaped = re.escape(pattern).replace(r"\*", ".*")
        after = cursor + count if cursor + count < len(names) else 0
        return [str(after).encode(), [name.encode() for name in part if re.fullmatch(escaped, name, re.DOTALL)]]

    def _llen(self, value: Any) -> int:
        return len(value or ())

    _zcard = _hlen = _llen

    def _lindex(self, value: Any, index: str) -> Any:
        at = int(index)
        return raw(value[at]) if value and -len(value) <= at < len(value) else None

    def _smembers(self, value: Any) -> list[bytes]:
        return [raw(one) for one in sorted(value or ())]

    def _get(self, value: Any) -> Any:
        return raw(value)

    def _exists(self, value: Any) -> int:
        return int(value is not None)

    def _hexists(self, value: Any, field: str) -> int:
        return int(field in (value or {}))

    def _hget(self, value: Any, field: str) -> Any:
        return raw((value or {}).get(field))

    def _hstrlen(self, value: Any, field: str) -> int:
        return len((value or {}).get(field, ""))

    def _hmget(self, value: Any, *fields: str) -> list[Any]:
        return [raw((value or {}).get(field)) for field in fields]

    def _hvals(self, value: Any) -> list[Any]:
        return [raw(one) for one in (value or {}).values()]

    def _zcount(self, value: Any, low: str, high: str) -> int:
        return sum(_within(score, low, high) for score in (value or {}).values())

    def _zrange(self, value: Any, low: str, high: str, *more: str) -> list[Any]:
        ranked = sorted((value or {}).items(), key=lambda pair: (pair[1], pair[0]))
        if "BYSCORE" not in more:
            return [raw(member) for member, _ in ranked[int(low) : int(high) + 1]]
        found = [pair for pair in ranked if _within(pair[1], low, high)][: int(more[3])]
        return [part for member, score in found for part in (raw(member), str(score).encode())]

    def _xlen(self, value: Any) -> int:
        return len(value.entries) if value else 0

    def _xrange(self, value: Any, start: str, *_: str) -> list[Any]:
        later = [entry for entry in value.entries if _id(entry) > _id(start.removeprefix("("))]
        return [[raw(entry), [b"data", b"{}"]] for entry in later[:1]]

    def _xinfo(self, value: Any, what: str, group: str = "") -> Any:
        if value is None:
            return ValueError("ERR no such key")
        if what == "CONSUMERS":
            return [raw(one) for one in self._group(value, group)["consumers"]]
        return [raw({k: v for k, v in one.items() if k not in {"consumers", "entries"}}) for one in value.groups]

    def _xpending(self, value: Any, group: str, *_: str) -> list[Any]:
        return [[raw(entry), b"c", idle, count] for entry, idle, count in self._group(value, group)["entries"]]

    def _group(self, value: Any, name: str) -> dict[str, Any]:
        return next(group for group in value.groups if group["name"] == name)


def _within(score: float, low: str, high: str) -> bool:
    above = score > float(low[1:]) if low.startswith("(") else score >= float(low)
    return above and score <= float(high)


def _id(entry: str) -> tuple[int, int]:
    millis, _, number = entry.partition("-")
    return int(millis), int(number or 0)
