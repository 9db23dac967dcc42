"""Celery's worker events as events of ours: what every type means, as one table, and the loop over it.

Takes decoded events (`Told`), gives them as events, or None for what is no lifecycle fact. What only one event of a
task says and another needs (the name and the queue of `task-sent`, when a retry is due, what its message said) is in
the source's `Memory`. Part of the compiled core, like `trail/flat.py`: the types are in `celery_events.pxd`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from collector.formats.celery_errors import error_of, requeue_of
from collector.formats.celery_memory import Memory
from collector.formats.celery_wire import Told, text
from collector.formats.decoded import Decoded, MalformedError, Reject
from collector.model.event import EARLIEST, LATEST, Event, Kind

_RAREST = 3_600.0
"""Seconds between two heartbeats that are believed at most."""


def moment(value: Any) -> float | None:
    """Unix seconds of ISO text, of UTC where it says no offset; None for anything else: it must not cost the fact."""
    if value.__class__ is not str:
        return None
    try:
        at = datetime.fromisoformat(value)
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if EARLIEST <= seconds < LATEST else None


def attempt_of(retries: Any) -> int | None:
    """Attempts count from 1, retries from 0."""
    return retries + 1 if retries.__class__ is int and 0 <= retries < 1_000_000 else None


def other(value: Any, task_id: str) -> str | None:
    """Another task's id: a retry, and a task that was replaced, name themselves as their parent."""
    found = text(value)
    return None if found == task_id else found


def _sent(event: Told, memory: Memory) -> Event | None:
    task_id = event.task_id
    if event.retries or event.parent_id == task_id:
        # The framework published it again, for a retry or a replacement: nobody asked for more work.
        memory.due.put(task_id, moment(event.eta) or event.time or 0.0)
        return None
    memory.name(task_id, event.task, event.queue)
    event.caller, event.worker = event.worker, None
    if event.root_id == task_id:
        event.root_id = None
    if event.eta is not None or event.expires is not None:
        event.eta, event.expires = moment(event.eta), moment(event.expires)
    return event


def _received(event: Told, memory: Memory) -> Event:
    task_id = event.task_id
    names = memory.sent.young.get(task_id) or memory.sent.get(task_id)
    if names is not None:
        event.task, event.queue = names  # what the worker calls it may be a shadow
    if event.root_id == task_id:
        event.root_id = None
    if event.parent_id == task_id:  # a retry, and a task that was replaced, name themselves as their parent
        event.parent_id = None
    if event.eta is not None or event.expires is not None:
        event.eta, event.expires = moment(event.eta), moment(event.expires)
    if event.retries:
        event.attempt = attempt_of(event.retries)
        if event.eta is not None and memory.due.get(task_id) is None:
            memory.due.put(task_id, event.eta)
    return event


def _failed(event: Told, memory: Memory) -> Event:
    requeue = requeue_of(event.exception, event.traceback)
    if requeue is not None:
        # Celery from 5.5 on tells of a rejected task as failed, too: it is the same end.
        event.requeue = requeue
        return _rejected(event, memory)
    event.error, event.error_message = error_of(event.exception, event.traceback)
    return event


def _retried(event: Told, memory: Memory) -> Event:
    event.error, event.error_message = error_of(event.exception, event.traceback)
    event.eta = memory.due.pop(event.task_id) or None
    return event


def _rejected(event: Told, memory: Memory) -> Event:
    del memory
    event.kind = "requeued" if event.requeue else "rejected"
    return event


def _revoked(event: Told, memory: Memory) -> Event:
    del memory
    event.kind = "expired" if event.expired else "revoked"
    return event


def _of_worker(event: Told, memory: Memory) -> Event:
    del memory
    if event.worker is None:
        raise MalformedError("bad_field", "a worker's event without a hostname")
    event.task_id = ""
    labels = {
        name: f"{count}" for name, count in (("active", event.active), ("begun", event.processed)) if count is not None
    }
    if type(event.freq) in {int, float} and 0 < event.freq <= _RAREST:
        labels["every"] = f"{event.freq:g}"
    event.labels = labels or None
    return event


def _nothing(event: Told, memory: Memory) -> None:
    """An execution that was given up: requeued if not acknowledged, lost if it was, and both look the same."""
    del event, memory


Finish: TypeAlias = Callable[[Told, Memory], Event | None]

FINISH: dict[str, tuple[Kind, Finish | None]] = {
    "task-sent": ("sent", _sent),
    "task-received": ("received", _received),
    "task-started": ("started", None),
    "task-succeeded": ("succeeded", None),
    "task-failed": ("failed", _failed),
    "task-retried": ("retried", _retried),
    "task-rejected": ("rejected", _rejected),
    "task-revoked": ("revoked", _revoked),
    "task-cancelled": ("requeued", _nothing),
    "worker-online": ("online", _of_worker),
    "worker-heartbeat": ("heartbeat", _of_worker),
    "worker-offline": ("offline", _of_worker),
}
"""By the type of the event: its kind, and what there is to do beside; every other type is the user's own."""


def finished(event: Told, finish: Finish | None, memory: Memory) -> Event | None:
    """What an event tells whose kind is ours already; None for what is no lifecycle fact. Raises MalformedError."""
    if not event.task_id and finish is not _of_worker:
        raise MalformedError("missing_id", "there is no task id")
    return event if finish is None else finish(event, memory)


def completed(events: list[Event], memory: Memory) -> None:
    """Add to events what the messages of their tasks said, where any was seen."""
    if not memory.messages:
        return
    for event in events:
        message = memory.messages.get(event.task_id)
        if message is not None and event.kind != "sent":
            event.queue = event.queue or message.queue
            event.labels = event.labels or message.labels
            if event.trace_id is None:
                event.trace_id, event.span_id = message.trace_id, message.span_id


def take(listed: Iterable[list[Told] | Told], start: int, out: Decoded, sources: list[int], memory: Memory) -> None:
    """Add what regular bodies tell to `out` and `sources`, the first one being body `start`.

    What has nothing to be finished costs two look-ups.
    """
    entries, events = FINISH, out.events
    index = start
    for item in listed:
        for event in item if isinstance(item, list) else (item,):
            entry = entries.get(event.kind)
            if entry is None:
                out.ignored += 1
                continue
            event.kind, finish = entry
            if finish is None and event.task_id:
                events.append(event)
                sources.append(index)
                continue
            try:
                found = finished(event, finish, memory)
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            if found is None:
                out.ignored += 1
            else:
                events.append(found)
                sources.append(index)
        index += 1
