"""arq's queues: one sorted set of all jobs by when they are due, also of those that run.

A job runs while its in-progress key is there, which is asked for of those that are due longest. How many workers there
are is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from collector.probes.reading import Reading, waited
from collector.probes.redis import PAUSE, PER_PAUSE, Steps, ask_each, chosen, number

DEFAULT = ("arq:queue",)
MOST_DUE = 1_000
"""Due jobs that are asked whether they run: as many as may run at once."""


class ArqQueues:
    """`Kind`."""

    def __init__(self, queues: Collection[str] = ()) -> None:
        self._queues = queues

    def look(self, known: Collection[str], now: float) -> Steps:
        """How many are due and put off, and which of the due ones run."""
        names = chosen(self._queues, DEFAULT, known)
        millis = str(int(now * 1000))
        share = str(max(10, MOST_DUE // max(1, len(names))))
        rows = yield from ask_each(
            names,
            lambda name: [
                ("ZCOUNT", name, "-inf", millis),
                ("ZCOUNT", name, f"({millis}", "+inf"),
                ("ZRANGE", name, "-inf", millis, "BYSCORE", "LIMIT", "0", share, "WITHSCORES"),
            ],
        )
        due = [_jobs(row[2]) for row in rows]
        asked = list(dict.fromkeys(job for jobs in due for job, _ in jobs))
        running = yield from ask_each(asked, lambda job: [("EXISTS", b"arq:in-progress:" + job)])
        runs = {job for job, (reply,) in zip(asked, running, strict=True) if reply == 1}
        reading = Reading()
        for at, (name, row, jobs) in enumerate(zip(names, rows, due, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            all_due, delayed = number(row[0]), number(row[1])
            unacked = None if all_due is None else sum(job in runs for job, _ in jobs)
            ready = None if all_due is None or unacked is None else max(0, all_due - unacked)
            since = next((score / 1000 for job, score in jobs if job not in runs), None)
            lengths: dict[Any, int | None] = {"ready": ready, "unacked": unacked, "delayed": delayed}
            reading.depth(name, lengths, oldest=waited(ready, since, now))
        return reading


def _jobs(reply: Any) -> list[tuple[bytes, float]]:
    """Jobs and their scores."""
    flat = reply if isinstance(reply, list) else []
    return [(job, float(score)) for job, score in zip(flat[::2], flat[1::2], strict=True)]
