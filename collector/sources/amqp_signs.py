"""What the events of Celery workers show to be switched off, with the way to switch it on.

Takes routing keys as they come, gives sentences. Only what was seen is judged: workers that beat and tell of no task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PATIENCE = 10.0
"""Seconds of heartbeats without a task event before it is said: an idle worker sends none either."""
BATCHES = 20
"""Messages with task events after which one from a publisher would have been there."""

EVENTS_OFF = (
    "workers send heartbeats and no task events: if tasks run, start the workers with -E, or set "
    "worker_send_task_events = True"
)
EVENTS_OFF_AT = (
    "task events are off at {} although workers are busy: start workers with -E, or set worker_send_task_events = True"
)
SENT_OFF = (
    "no task-sent events: set task_send_sent_event = True where tasks are published; until then queues and waiting "
    "times are unknown"
)


class Signs:
    """What was seen on `celeryev`, on whatever connection."""

    def __init__(self) -> None:
        self._beats_since: float | None = None
        self._tasks = 0
        self._has_sent = False

    def note(self, records: Iterable[Mapping[str, Any]], at: float) -> None:
        """A batch of `about`; `at`: any clock that only goes on, seconds."""
        for record in records:
            key = record["routing_key"]
            if key.startswith("task."):
                self._tasks += 1
                self._has_sent |= key == "task.sent"
            elif self._beats_since is None and key == "worker.heartbeat":
                self._beats_since = at

    def missing(self, at: float, mute: Sequence[str] = ()) -> list[str]:
        """What is off, for people. `mute`: workers that work and tell nothing of it."""
        if not self._tasks:
            is_long = self._beats_since is not None and at - self._beats_since >= PATIENCE
            return [EVENTS_OFF] if is_long else []
        if mute:
            return [EVENTS_OFF_AT.format(", ".join(mute[:5]) + (", ..." if mute[5:] else ""))]
        return [SENT_OFF] if self._tasks >= BATCHES and not self._has_sent else []
