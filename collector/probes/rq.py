"""RQ's queues: a list of job ids, a registry of those that run, and those that wait for a time or another job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime

from collector.probes.reading import Reading, waited
from collector.probes.redis import PAUSE, PER_PAUSE, Command, Steps, ask_each, chosen, number, texts

MOST_WORKERS = 5_000
_WORKER = 2


class RqQueues:
    """`Kind`."""

    def __init__(self, prefix: str = "rq", queues: Collection[str] = ()) -> None:
        self._prefix = prefix or "rq"
        self._queues = queues

    def look(self, known: Collection[str], now: float) -> Steps:
        """Registries, lengths and the first of each queue, when those were enqueued."""
        p = self._prefix
        found, workers = yield [("SMEMBERS", f"{p}:queues"), ("SMEMBERS", f"{p}:workers")]
        heads = [name.removeprefix(f"{p}:queue:") for name in texts(found)]
        names = chosen(self._queues, sorted(heads), known)
        alive = sorted(texts(workers))[:MOST_WORKERS]
        fields = yield from ask_each(alive, lambda name: [("HMGET", name, "queues", "death")])
        consumers: Counter[str] = Counter()
        for (told,) in fields:
            if isinstance(told, list) and len(told) == _WORKER and told[0] is not None and told[1] is None:
                consumers.update(told[0].decode("utf-8", "replace").split(","))
        rows = yield from ask_each(names, self._questions)
        jobs = [row[4] for row in rows if isinstance(row[4], bytes)]
        times = yield from ask_each(jobs, lambda job: [("HGET", f"{p}:job:".encode() + job, "enqueued_at")])
        since = {job: _time(text) for job, (text,) in zip(jobs, times, strict=True)}
        reading = Reading()
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            ready, unacked, scheduled, deferred = map(number, row[:4])
            began = since.get(row[4]) if isinstance(row[4], bytes) else None
            reading.depth(
                name,
                {"ready": ready, "unacked": unacked, "scheduled": scheduled, "delayed": deferred},
                oldest=waited(ready, began, now),
                consumers=consumers[name],
            )
        return reading

    def _questions(self, name: str) -> list[Command]:
        p = self._prefix
        return [
            ("LLEN", f"{p}:queue:{name}"),
            ("ZCARD", f"{p}:wip:{name}"),
            ("ZCARD", f"{p}:scheduled:{name}"),
            ("ZCARD", f"{p}:deferred:{name}"),
            ("LINDEX", f"{p}:queue:{name}", "0"),
        ]


def _time(text: object) -> float | None:
    """Unix seconds of a time as RQ writes it: UTC, with or without a mark of that."""
    if not isinstance(text, bytes):
        return None
    try:
        at = datetime.fromisoformat(text.decode("ascii", "replace"))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
