"""Huey's queues on Redis: a list (or, with priorities, a sorted set) and a schedule.

What a consumer has taken is kept nowhere, nor when a task was enqueued.
"""

from __future__ import annotations

from collections.abc import Collection

from collector.probes.reading import Reading
from collector.probes.redis import PAUSE, PER_PAUSE, Finder, Steps, ask_each, chosen, number

_KINDS = ("huey.redis.", "huey.schedule.", "huey.results.")


class HueyQueues:
    """`Kind`."""

    def __init__(self, queues: Collection[str] = ()) -> None:
        self._queues = queues
        self._finder = Finder("huey.*")

    def look(self, known: Collection[str], now: float) -> Steps:
        """Lengths: one of the two ways to ask is refused, as the key is of the other type."""
        yield from self._finder.go_on(now)
        keys = [key.decode("utf-8", "replace") for key in self._finder.found]
        found = dict.fromkeys(key.removeprefix(kind) for key in keys for kind in _KINDS if key.startswith(kind))
        names = chosen(self._queues, list(found), known)
        rows = yield from ask_each(
            names,
            lambda name: [
                ("LLEN", f"huey.redis.{name}"),
                ("ZCARD", f"huey.redis.{name}"),
                ("ZCARD", f"huey.schedule.{name}"),
            ],
        )
        reading = Reading()
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            listed, ranked = number(row[0]), number(row[1])
            ready = listed if ranked is None else ranked if listed is None else listed + ranked
            reading.depth(name, {"ready": ready, "scheduled": number(row[2])})
        return reading
