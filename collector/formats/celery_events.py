"""Celery's worker events as events of ours: what every type means, as one table.

Takes decoded events (`Told`), gives them as events, or None for what is no lifecycle fact. Remembers, within bounds,
what only one event of a task says and another needs: the name and the queue (`task-sent`), when a retry is due, and
what its message said where that was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec

from collector.formats.celery_errors import error_of
from collector.formats.decoded import MalformedError
from collector.formats.spelling import WHEN
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event, Kind, Text, Time

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
        self.young[key] = value
        self.turn()

    def turn(self) -> None:
        """Let the older half go where the younger is full: once per batch for who writes into `young` by himself."""
        if len(self.young) >= self._limit:
            self._older, self.young = self.young, {}

    def get(self, key: str) -> V | None:
        """The thing, where it is remembered."""
        found = self.young.get(key)
        return self._older.get(key) if found is None else found

    def pop(self, key: str) -> V | None:
        """The thing, which is not remembered any longer."""
        found = self.young.pop(key, None)
        older = self._older.pop(key, None)
        return older if found is None else found


class Tags:
    """The last so many delivery tags: between `limit` and twice as many, and what one batch may have besides."""

    __slots__ = ("_limit", "_older", "_young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: set[str] = set()
        self._older: set[str] = set()

    def add(self, tags: list[str]) -> bool:
        """Remember tags, where all are new; else False, and nothing is remembered. An empty one is none."""
        fresh = set(tags)
        fresh.discard("")
        if len(fresh) + tags.count("") < len(tags):
            return False
        if not (self._young.isdisjoint(fresh) and self._older.isdisjoint(fresh)):
            return False
        self._young |= fresh
        if len(self._young) >= self._limit:
            self._older, self._young = self._young, set()
        return True


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
        self.tags = Tags(MESSAGES)
        """Delivery tags that have been read: Sentinel's compatibility mode publishes everything twice."""
        self._names: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
        """One object per pair of names."""

    def name(self, task_id: str, task: str | None, queue: str | None) -> None:
        """Remember what a task and its queue are called, until `turn` as long as there is room."""
        key = (task, queue)
        self.sent.young[task_id] = self._names.get(key) or self._names.setdefault(key, key)

    def turn(self) -> None:
        """Let the oldest go: once per batch."""
        self.sent.turn()
        if len(self._names) >= MESSAGES:
            self._names.clear()


_RAREST = 3_600.0
"""Seconds between two heartbeats that are believed at most."""


class Told(Event, gc=False, kw_only=True, omit_defaults=True):
    """A worker event that is an event of ours already, but for what `FINISH` does: the names on the wire are others.

    A body that decodes as one is right as it stands and costs nothing more; any other is read as a `Wire`, field by
    field.
    """

    kind: str = msgspec.field(name="type")  # type: ignore[assignment]  # the wire's word, until it is finished
    task_id: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)] = msgspec.field(name="uuid", default="")
    time: Time = msgspec.field(name="timestamp", default=None)
    task: Text | None = msgspec.field(name="name", default=None)
    worker: Text | None = msgspec.field(name="hostname", default=None)
    run_seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e9)] | None = msgspec.field(name="runtime", default=None)
    eta: Any = None
    expires: Any = None
    retries: int | None = None
    requeue: Any = None
    expired: Any = None
    exception: Any = None
    traceback: Any = None
    active: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    """Of a worker: how many tasks it has in hand."""
    freq: Any = None
    """Of a worker: seconds from one heartbeat to the next."""


class Wire(msgspec.Struct, gc=False):
    """The same fields, whatever is in them; arguments and results are skipped without being built."""

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

    def told(self) -> Told:
        """The event with what is no text left out and what is long cut. Raises MalformedError."""
        return Told(
            kind=self.type,
            task_id=task_id_of(self.uuid) if self.uuid is not None else "",
            time=seconds_of(self.timestamp),
            task=text(self.name),
            queue=text(self.queue),
            worker=text(self.hostname),
            parent_id=text(self.parent_id),
            root_id=text(self.root_id),
            eta=self.eta,
            expires=self.expires,
            run_seconds=_run(self.runtime),
            retries=self.retries if self.retries.__class__ is int else None,
            exception=self.exception,
            traceback=self.traceback,
            requeue=self.requeue,
            expired=self.expired,
        )


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


def _run(value: Any) -> float | None:
    return float(value) if value.__class__ in (float, int) and 0 <= value < 1e9 else None


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
    said = event.exception
    if said.__class__ is str and said.startswith("reject requeue="):
        # Celery from 5.5 on tells of a rejected task as failed, too: it is the same end.
        event.requeue = said.startswith("reject requeue=True")
        return _rejected(event, memory)
    event.error, event.error_message = error_of(said, event.traceback)
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
    if event.active is not None:
        event.labels = {"active": f"{event.active}"}
    if type(event.freq) in {int, float} and 0 < event.freq <= _RAREST:
        event.labels = {**(event.labels or {}), "every": f"{event.freq:g}"}
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
