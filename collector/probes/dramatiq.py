"""Dramatiq's queues on Redis: a list of ids beside a hash of messages, from which one goes when it is acknowledged.

Which queues a worker consumes is kept nowhere, so consumers are not seen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from collector.probes.reading import Reading
from collector.probes.redis import PAUSE, PER_PAUSE, Finder, Steps, ask_each, chosen, decoded, number

_MESSAGES = ".msgs"
_DEAD, _DELAYED = ".XQ", ".DQ"
MOST_DELAYED = 500
"""Delayed messages that are read, to tell retries from others; with more in a queue all count as delayed."""


class _Options(msgspec.Struct):
    retries: int = 0


class _Message(msgspec.Struct):
    message_timestamp: float = 0.0
    options: _Options = msgspec.field(default_factory=_Options)


_decoder = msgspec.json.Decoder(_Message)


class DramatiqQueues:
    """`Kind`."""

    def __init__(self, prefix: str = "dramatiq", queues: Collection[str] = ()) -> None:
        self._prefix = prefix or "dramatiq"
        self._queues = queues
        self._finder = Finder(f"{self._prefix}:*")

    def look(self, known: Collection[str], now: float) -> Steps:
        """Lengths and the first of each queue; then when those were sent, and which are tried again."""
        yield from self._finder.go_on(now)
        known = [queue for queue in known if not queue.endswith((_DELAYED, _DEAD))]
        names = chosen(self._queues, self._found(), known)
        p = self._prefix
        rows = yield from ask_each(
            names,
            lambda name: [
                ("LLEN", f"{p}:{name}"),
                ("HLEN", f"{p}:{name}{_MESSAGES}"),
                ("HLEN", f"{p}:{name}{_DELAYED}{_MESSAGES}"),
                ("LINDEX", f"{p}:{name}", "0"),
            ],
        )
        heads = [(name, row[3]) for name, row in zip(names, rows, strict=True) if isinstance(row[3], bytes)]
        small = [
            n for n, row in zip(names, rows, strict=True) if isinstance(row[2], int) and 0 < row[2] <= MOST_DELAYED
        ]
        first = yield from ask_each(heads, lambda head: [("HGET", f"{p}:{head[0]}{_MESSAGES}", head[1])])
        put_off = yield from ask_each(small, lambda name: [("HVALS", f"{p}:{name}{_DELAYED}{_MESSAGES}")])
        waits = {name: decoded(_decoder, value) for (name, _), (value,) in zip(heads, first, strict=True)}
        retrying = {name: _retries(values) for name, (values,) in zip(small, put_off, strict=True)}
        reading = Reading()
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            ready, all_here, later = map(number, row[:3])
            unacked = None if ready is None or all_here is None else max(0, all_here - ready)
            again = retrying.get(name, 0)
            head = waits.get(name)
            oldest = (
                0.0
                if ready == 0
                else now - head.message_timestamp / 1000
                if head and head.message_timestamp > 0
                else None
            )
            delayed = None if later is None else max(0, later - again)
            lengths: dict[Any, int | None] = {"ready": ready, "unacked": unacked, "delayed": delayed}
            reading.depth(name, {**lengths, "retrying": again}, oldest=oldest)
        return reading

    def _found(self) -> list[str]:
        """The queues that the names of keys tell of."""
        names = dict.fromkeys(
            name.removesuffix(_MESSAGES).removesuffix(_DELAYED)
            for key in self._finder.found
            if not (name := key.decode("utf-8", "replace").removeprefix(f"{self._prefix}:")).startswith("__")
        )
        return [name for name in names if not name.endswith(_DEAD)]


def _retries(values: Any) -> int:
    messages = (decoded(_decoder, value) for value in (values if isinstance(values, list) else ()))
    return sum(message is not None and message.options.retries > 0 for message in messages)
