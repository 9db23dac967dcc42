"""SAQ's queues on Redis: lists of waiting and running jobs, and a sorted set of all that have not ended."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from collector.probes.reading import Reading, waited
from collector.probes.redis import PAUSE, PER_PAUSE, Finder, Steps, ask_each, chosen, decoded, number

_INCOMPLETE = ":incomplete"


class _Job(msgspec.Struct):
    queued: float = 0.0
    """Milliseconds."""


_decoder = msgspec.json.Decoder(_Job)


class SaqQueues:
    """`Kind`."""

    def __init__(self, queues: Collection[str] = ()) -> None:
        self._queues = queues
        self._finder = Finder(f"saq:*{_INCOMPLETE}")

    def look(self, known: Collection[str], now: float) -> Steps:
        """Lengths, workers and the first of each queue; then since when those wait."""
        yield from self._finder.go_on(now)
        keys = [key.decode("utf-8", "replace") for key in self._finder.found]
        found = [key.removeprefix("saq:").removesuffix(_INCOMPLETE) for key in keys if not key.startswith("saq:job:")]
        names = chosen(self._queues, found, known)
        seconds, millis = f"({now:.3f}", f"({int(now * 1000)}"
        rows = yield from ask_each(
            names,
            lambda name: [
                ("LLEN", f"saq:{name}:queued"),
                ("LLEN", f"saq:{name}:active"),
                ("ZCOUNT", f"saq:{name}{_INCOMPLETE}", seconds, "+inf"),
                ("ZCOUNT", f"saq:{name}:stats", millis, "+inf"),
                ("LINDEX", f"saq:{name}:queued", "0"),
            ],
        )
        heads = [row[4] for row in rows if isinstance(row[4], bytes)]
        jobs = yield from ask_each(heads, lambda head: [("GET", head)])
        since = {head: _queued(job) for head, (job,) in zip(heads, jobs, strict=True)}
        reading = Reading()
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            ready, unacked, scheduled, workers = map(number, row[:4])
            began = since.get(row[4]) if isinstance(row[4], bytes) else None
            lengths: dict[Any, int | None] = {"ready": ready, "unacked": unacked, "scheduled": scheduled}
            reading.depth(name, lengths, oldest=waited(ready, began, now), consumers=workers)
        return reading


def _queued(value: Any) -> float | None:
    """Unix seconds."""
    job = decoded(_decoder, value)
    return job.queued / 1000 if job is not None and job.queued else None
