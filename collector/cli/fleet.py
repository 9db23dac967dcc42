"""A simulated fleet of workers for `demo`: five kinds of task, one bad stretch, and an operator who repairs it.

Takes a seed and a start; gives native events as they would have been sent. From second 4 to 9 the payment provider of
`billing.charge` is down: tries time out and are retried, some end in the dead letters. From second 10 on
the dead ones are sent again and succeed, so that what fired resolves.
"""

from __future__ import annotations

import heapq
import random

import msgspec

OUTAGE = (4.0, 9.0)
REDRIVE_AT = 10.0
MOST_TRIES = 3

# task → (queue, tasks per second, usual run seconds, caller)
TASKS: dict[str, tuple[str, float, float, str]] = {
    "billing.charge": ("payments", 12.0, 0.15, "checkout-web"),
    "mail.send": ("mail", 20.0, 0.08, "checkout-web"),
    "image.resize": ("media", 15.0, 0.25, "upload-api"),
    "report.build": ("reports", 2.0, 0.9, "cron"),
    "search.index": ("search", 10.0, 0.05, "catalog"),
}

_encode = msgspec.json.Encoder().encode


class Fleet:
    """Sends what the simulated workers do. `due(now)` hands over everything up to that instant, in time order."""

    def __init__(self, start: float, seed: int = 7) -> None:
        self._random = random.Random(seed)  # noqa: S311 a simulation
        self._start = start
        self._heap: list[tuple[float, int, bytes]] = []
        self._count = 0
        self._dead: list[tuple[str, str]] = []
        self._is_redriven = False
        self._next_arrival = dict.fromkeys(TASKS, start)

    def due(self, now: float) -> list[bytes]:
        """The events up to `now`, as JSON."""
        for task, (_, rate, _, _) in TASKS.items():
            while self._next_arrival[task] <= now:
                self._life(task, self._hex(16), self._next_arrival[task])
                self._next_arrival[task] += self._random.expovariate(rate)
        if not self._is_redriven and now >= self._start + REDRIVE_AT:
            self._is_redriven = True
            for number, (task, task_id) in enumerate(self._dead):
                self._life(task, task_id, self._start + REDRIVE_AT + number * 0.05, caller="operator")
        events: list[bytes] = []
        while self._heap and self._heap[0][0] <= now:
            events.append(heapq.heappop(self._heap)[2])
        return events

    def _life(self, task: str, task_id: str, at: float, caller: str = "") -> None:
        """All events of one task, from `sent` to its end."""
        queue, _, usual_run, usual_caller = TASKS[task]
        base = {"task_id": task_id, "task": task, "queue": queue, "trace_id": self._hex(32)}
        self._put(at, base, kind="sent", caller=caller or usual_caller)
        at += self._random.uniform(0.002, 0.03)
        for attempt in range(1, MOST_TRIES + 1):
            worker = f"worker-{self._random.randrange(4)}"
            self._put(at, base, kind="started", worker=worker, attempt=attempt)
            seconds = usual_run * self._random.uniform(0.6, 1.6)
            begun, at = at, at + seconds
            if not self._fails(task, begun):
                self._put(at, base, kind="succeeded", worker=worker, attempt=attempt, run_seconds=seconds)
                return
            error = {"error": "ProviderTimeout", "error_message": "payment provider did not answer within 2 s"}
            if attempt < MOST_TRIES:
                self._put(at, base, kind="retried", worker=worker, attempt=attempt, **error)
                at += 0.2 * 2**attempt
        self._put(at, base, kind="failed", worker=worker, attempt=attempt, **error)
        self._put(at + 0.001, base, kind="dead_lettered", attempt=attempt, **error)
        self._dead.append((task, task_id))

    def _fails(self, task: str, at: float) -> bool:
        since = at - self._start
        return task == "billing.charge" and OUTAGE[0] <= since < OUTAGE[1] and self._random.random() < 0.85

    def _put(self, at: float, base: dict[str, str], **fields: str | float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, _encode({**base, "time": at, **fields})))

    def _hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(digits * 4):0{digits}x}"
