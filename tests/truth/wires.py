"""Planned events in the wire forms of two frameworks, and back: what their formats make of it is what is stitched."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec

from collector.formats import FORMATS, native
from collector.model.event import Event
from collector.model.record import Batch

_CELERY = {
    "sent": "task-sent",
    "received": "task-received",
    "started": "task-started",
    "succeeded": "task-succeeded",
    "failed": "task-failed",
    "retried": "task-retried",
    "rejected": "task-rejected",
    "requeued": "task-rejected",
    "revoked": "task-revoked",
    "expired": "task-revoked",
    "heartbeat": "worker-heartbeat",
    "online": "worker-online",
    "offline": "worker-offline",
}


def _as_celery(event: Event) -> bytes:
    """The same as a worker publishes it: the attempt is not said."""
    told: dict[str, Any] = {"type": _CELERY[event.kind], "timestamp": event.time, "hostname": event.worker or "web"}
    if event.task_id:
        told |= {"uuid": event.task_id, "name": event.task, "queue": event.queue}
    told |= {"requeue": True} if event.kind == "requeued" else {}
    told |= {"expired": True} if event.kind == "expired" else {}
    told |= {"exception": f"{event.error}('no')"} if event.error else {}
    body = base64.b64encode(json.dumps(told).encode()).decode()
    return json.dumps({"body": body, "properties": {"body_encoding": "base64"}}).encode()


def _as_native(event: Event) -> bytes:
    return msgspec.json.encode(event)


class Wires:
    """What one collector reads of two sources."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[Callable[[Event], bytes], Callable[[Batch], Any], str, dict[str, str]]] = {
            "celery": (_as_celery, FORMATS["celery"].new(), "redis-pubsub", {"channel": "/0.celeryev/task.multi"}),
            "queue": (_as_native, native.decode, "native", {}),
        }

    def carry(self, source: str, event: Event, at: float) -> list[Event]:
        """What arrives of an event."""
        write, read, tap, about = self._forms[source]
        batch = Batch(
            source=source, place="p", bodies=[write(event)], receipts=[0], received_at=at, tap=tap, about=[about]
        )
        out = read(batch)
        assert not out.rejects, (out.rejects, event)
        return list(out.events)
