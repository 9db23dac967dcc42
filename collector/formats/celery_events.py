"""Celery's worker events as events of ours: what every type means, as one table.

Takes decoded events (`Wire`), gives an `Event`, or None for what is no lifecycle fact. Remembers, within bounds, what
only one event of a task says and another needs: the name and the queue (`task-sent`), when a retry is due, and what
its message said where that was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from collector.formats.celery_errors import error_of
from collector.formats.decoded import MalformedError
from collector.formats.spelling import WHEN
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event, Kind

REMEMBERED = 50_000
"""Tasks of which something is remembered, twice over: the younger and the older half."""
MESSAGES = 20_000
"""Waiting messages that are remembered, twice over."""

V = TypeVar("V")


class Recent(Generic[V]):
    """The last so many things by their id: between `limit` and twice as many."""

    __slots__ = ("_limit", "_older", "young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.young: dict[str, V] = {}
        self._older: dict[str, V] = {}

    def __bool__(self) -> bool:
        return bool(self.young or self._older)

    def put(self, key: str, value: V) -> None:
        """Remember a thing."""
        young = self.young
        young[key] = value
        if len(young) >= self._limit:
            self._older, self.young = young, {}

    def get(self, key: str) -> V | None:
        """The thing, where it is remembered."""
        found = self.young.get(key)
        return self._older.get(key) if found is None else found

    def pop(self, key: str) -> V | None:
        """The thing, which is not remembered any longer."""
        found = self.young.pop(key, None)
        older = self._older.pop(key, None)
        return older if found is None else found


class Message(msgspec.Struct, frozen=True):
    """What the message of a task says that its events do not."""

    queue: str | None
    trace_id: str | None
    span_id: str | None
    labels: dict[str, str] | None


class Memory:
    """What one source's events have said so far."""

    def __init__(self) -> None:
        self.sent: Recent[tuple[str | None, str | None]] = Recent(REMEMBERED)
        """Task id → its name and queue, of `task-sent`: the name of `task-received` may be a shadow."""
        self.due: Recent[float] = Recent(REMEMBERED)
        """Task id → when its announced retry is due."""
        self.messages: Recent[Message] = Recent(MESSAGES)
        """Task id → what its message said."""
        self.tags: Recent[bool] = Recent(MESSAGES)
        """Delivery tags that have been read: Sentinel's compatibility mode publishes everything twice."""
        self._names: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}

    def name(self, task_id: str, task: str | None, queue: str | None) -> None:
        """Remember what a task and its queue are called: one object per pair of names."""
        key = (task, queue)
        names = self._names.get(key)
        if names is None:
            if len(self._names) >= MESSAGES:
                self._names.clear()
            names = self._names[key] = key
        self.sent.put(task_id, names)


class Wire(msgspec.Struct, gc=False):
    """The fields of a worker event that say something; arguments and results are skipped without being built."""

    type: str
    uuid: Any = None
    hostname: Any = None
    timestamp: Any = None
    name: Any = None
    queue: Any = None
    retries: Any = None
    parent_id: Any = None
    root_id: Any = None
    eta: Any = None
    expires: Any = None
    runtime: Any = None
    exception: Any = None
    traceback: Any = None
    requeue: Any = None
    expired: Any = None


def text(value: Any) -> str | None:
    """A name as an event may hold it: cut where it is long, None where it is empty or no text."""
    if value.__class__ is not str or not value:
        return None
    name: str = value
    return name if len(name) <= LONGEST_TEXT else name[:LONGEST_TEXT]


def task_id_of(value: Any) -> str:
    """The id of a task. Raises MalformedError."""
    if value.__class__ is str and 0 < len(value) <= LONGEST_TEXT:
        task_id: str = value
        return task_id
    if value is None or value == "":
        raise MalformedError("missing_id", "there is no task id")
    raise MalformedError("bad_id", f"a task id is text of at most {LONGEST_TEXT} characters")


def seconds_of(value: Any) -> float | None:
    """Unix seconds of a sender's number. Raises MalformedError for what cannot be a time."""
    if value is None:
        return None
    if value.__class__ in (float, int) and EARLIEST <= value < LATEST:
        return float(value)
    raise MalformedError("bad_time", WHEN)


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


def _sent(wire: Wire, memory: Memory) -> Event | None:
    task_id = task_id_of(wire.uuid)
    if wire.retries or wire.parent_id == task_id:
        # The framework published it again, for a retry or a replacement: nobody asked for more work.
        memory.due.put(task_id, moment(wire.eta) or seconds_of(wire.timestamp) or 0.0)
        return None
    task, queue = text(wire.name), text(wire.queue)
    memory.name(task_id, task, queue)
    return Event(
        kind="sent",
        task_id=task_id,
        time=seconds_of(wire.timestamp),
        task=task,
        queue=queue,
        caller=text(wire.hostname),
        parent_id=text(wire.parent_id),
        root_id=other(wire.root_id, task_id),
        attempt=1,
        eta=None if wire.eta is None else moment(wire.eta),
        expires=None if wire.expires is None else moment(wire.expires),
    )


def _received(wire: Wire, memory: Memory) -> Event:
    task_id = task_id_of(wire.uuid)
    names = memory.sent.get(task_id)
    eta = None if wire.eta is None else moment(wire.eta)
    if eta is not None and wire.retries and memory.due.get(task_id) is None:
        memory.due.put(task_id, eta)
    event = Event(
        kind="received",
        task_id=task_id,
        time=seconds_of(wire.timestamp),
        task=text(wire.name) if names is None else names[0],
        queue=None if names is None else names[1],
        worker=text(wire.hostname),
        parent_id=None if wire.parent_id is None else other(wire.parent_id, task_id),
        root_id=other(wire.root_id, task_id),
        attempt=attempt_of(wire.retries),
        eta=eta,
        expires=None if wire.expires is None else moment(wire.expires),
    )
    return _completed(event, memory) if memory.messages else event


def _completed(event: Event, memory: Memory) -> Event:
    """An event with what its task's message said."""
    message = memory.messages.get(event.task_id)
    if message is not None:
        event.queue = event.queue or message.queue
        event.trace_id, event.span_id, event.labels = message.trace_id, message.span_id, message.labels
    return event


def _plain(kind: Kind) -> Callable[[Wire, Memory], Event]:
    """A fact that says no more than that it happened, and where."""

    def read(wire: Wire, memory: Memory) -> Event:
        event = Event(
            kind=kind,
            task_id=task_id_of(wire.uuid),
            time=seconds_of(wire.timestamp),
            worker=text(wire.hostname),
        )
        return _completed(event, memory) if memory.messages else event

    return read


def _succeeded(wire: Wire, memory: Memory) -> Event:
    event = Event(
        kind="succeeded",
        task_id=task_id_of(wire.uuid),
        time=seconds_of(wire.timestamp),
        worker=text(wire.hostname),
        run_seconds=_run(wire.runtime),
    )
    return _completed(event, memory) if memory.messages else event


def _run(value: Any) -> float | None:
    return float(value) if value.__class__ in (float, int) and 0 <= value < 1e9 else None


def _failed(wire: Wire, memory: Memory) -> Event:
    said = wire.exception
    if said.__class__ is str and said.startswith("reject requeue="):
        # Celery from 5.5 on tells of a rejected task as failed, too: it is the same end.
        return (_REQUEUED if said.startswith("reject requeue=True") else _REJECTED)(wire, memory)
    event = _plain("failed")(wire, memory)
    event.error, event.error_message = error_of(said, wire.traceback)
    return event


def _retried(wire: Wire, memory: Memory) -> Event:
    event = _plain("retried")(wire, memory)
    event.error, event.error_message = error_of(wire.exception, wire.traceback)
    event.eta = memory.due.pop(event.task_id) or None
    return event


def _rejected(wire: Wire, memory: Memory) -> Event:
    return (_REQUEUED if wire.requeue else _REJECTED)(wire, memory)


def _revoked(wire: Wire, memory: Memory) -> Event:
    return (_EXPIRED if wire.expired else _REVOKED)(wire, memory)


def _worker(kind: Kind) -> Callable[[Wire, Memory], Event]:
    def read(wire: Wire, memory: Memory) -> Event:
        del memory
        worker = text(wire.hostname)
        if worker is None:
            raise MalformedError("bad_field", "a worker's event without a hostname")
        return Event(kind=kind, task_id="", time=seconds_of(wire.timestamp), worker=worker)

    return read


def _nothing(wire: Wire, memory: Memory) -> None:
    """An execution that was given up: requeued if not acknowledged, lost if it was, and both look the same."""
    del wire, memory


_REJECTED, _REQUEUED = _plain("rejected"), _plain("requeued")
_REVOKED, _EXPIRED = _plain("revoked"), _plain("expired")

TYPES: dict[str, Callable[[Wire, Memory], Event | None]] = {
    "task-sent": _sent,
    "task-received": _received,
    "task-started": _plain("started"),
    "task-succeeded": _succeeded,
    "task-failed": _failed,
    "task-retried": _retried,
    "task-rejected": _rejected,
    "task-revoked": _revoked,
    "task-cancelled": _nothing,
    "worker-online": _worker("online"),
    "worker-heartbeat": _worker("heartbeat"),
    "worker-offline": _worker("offline"),
}
"""By the type of the event; every other type is the user's own."""
