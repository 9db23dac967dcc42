"""Celery's own messages and stored results as events: what can be seen beside the worker events.

A message that waits was sent, one in a dead-letter place died, one in the firehose was published or delivered; a
stored result says how a try ended. Headers are read, bodies with the arguments never are.
"""

from __future__ import annotations

from typing import Any

import msgspec

from collector.formats.celery_errors import of_result
from collector.formats.celery_events import attempt_of, moment, other
from collector.formats.celery_memory import Memory, Message
from collector.formats.celery_wire import task_id_of, text
from collector.formats.decoded import MalformedError
from collector.model.event import Event, Kind, trace_context
from collector.model.redrive import HEADER

DELAYED = "celery_delayed_"
"""How the queues and exchanges begin in which Celery lets messages expire that are not due yet."""
_OURS = ("amq.gen-", "tasktrail.")
"""How the queues of listeners begin: a message delivered there reached no worker."""


MOMENT = 0.001
"""Seconds before its next death at which a redriven message was sent at the latest."""


class Headers(msgspec.Struct, gc=False):
    """A task message's headers, as far as they say something."""

    task: Any = None
    id: Any = None
    eta: Any = None
    expires: Any = None
    group: Any = None
    retries: Any = None
    root_id: Any = None
    parent_id: Any = None
    origin: Any = None
    redelivered: Any = None
    traceparent: Any = None
    x_death: Any = msgspec.field(default=None, name="x-death")
    redriven: Any = msgspec.field(default=None, name=HEADER)
    """The mark of a redrive."""


class _Delivery(msgspec.Struct, gc=False):
    routing_key: Any = None


class _Properties(msgspec.Struct, gc=False):
    delivery_info: _Delivery = msgspec.field(default_factory=_Delivery)
    delivery_tag: Any = None


class Queued(msgspec.Struct, gc=False):
    """A message as it lies in a Redis list, or in the hash of those that are not acknowledged."""

    headers: Headers
    properties: _Properties = msgspec.field(default_factory=_Properties)


def message_of(headers: Headers, queue: str | None) -> Message:
    """What a message says that the events of its task do not."""
    context = trace_context(headers.traceparent) if isinstance(headers.traceparent, str) else None
    group = text(headers.group)
    return Message(
        queue,
        context[0] if context else None,
        context[1] if context else None,
        {"group": group} if group else None,
    )


def is_published_again(headers: Headers) -> bool:
    """Whether the framework put it there itself: for a retry, a replacement, or because it was not acknowledged."""
    return bool(headers.retries or headers.redelivered or headers.parent_id == headers.id)


def event_of(kind: Kind, headers: Headers, queue: str | None, memory: Memory) -> Event:
    """A fact that a message is the witness of. Raises MalformedError."""
    task_id = task_id_of(headers.id)
    message = message_of(headers, queue)
    memory.messages.put(task_id, message)
    return Event(
        kind=kind,
        task_id=task_id,
        task=text(headers.task),
        queue=queue,
        caller=text(headers.origin),
        attempt=attempt_of(headers.retries),
        parent_id=other(headers.parent_id, task_id),
        root_id=other(headers.root_id, task_id),
        eta=moment(headers.eta),
        expires=moment(headers.expires),
        trace_id=message.trace_id,
        span_id=message.span_id,
        labels=message.labels,
    )


def waiting(headers: Headers, queue: str | None, memory: Memory) -> Event | None:
    """A message that waits in a queue: it was sent, which is news where no `task-sent` said so."""
    task_id = task_id_of(headers.id)
    if is_published_again(headers) or memory.sent.get(task_id) is not None:
        delivered(headers, queue, memory)
        return None
    memory.name(task_id, text(headers.task), queue)
    return event_of("sent", headers, queue, memory)


def delivered(headers: Headers, queue: str | None, memory: Memory) -> None:
    """A message that a worker holds: no fact, but what it says is remembered for its task's next event."""
    memory.messages.put(task_id_of(headers.id), message_of(headers, queue))


def death_of(headers: Headers) -> tuple[str, str] | None:
    """Queue and reason of a message's latest death; None where it did not die, or was only waiting to become due."""
    deaths = headers.x_death
    if not isinstance(deaths, list) or not deaths or not isinstance(deaths[0], dict):
        return None
    queue, reason = deaths[0].get("queue"), deaths[0].get("reason")
    if not isinstance(queue, str) or (reason == "expired" and queue.startswith(DELAYED)):
        return None
    return queue, reason if isinstance(reason, str) else ""


def dead(headers: Headers, death: tuple[str, str], memory: Memory) -> Event:
    """A message in a dead-letter place, with the reason as a label."""
    event = event_of("dead_lettered", headers, text(death[0]), memory)
    reason = text(death[1])
    if reason:
        event.labels = {**(event.labels or {}), "reason": reason}
    return event


def sent_again(headers: Headers, death: tuple[str, str], at: float, memory: Memory) -> Event:
    """That a redriven message was sent again before the death seen at `at`: no copy of that came by."""
    event = event_of("sent", headers, text(death[0]), memory)
    event.time = at - MOMENT
    return event


def traced(headers: Headers, routing_key: str, queues: Any, at: float, memory: Memory) -> tuple[Event | None, bool]:
    """A message in RabbitMQ's firehose, under `publish.EXCHANGE` or `deliver.QUEUE`; and whether it is a dead letter.

    `queues`: where it was routed to. `at`: when it was seen, Unix seconds: deliveries have no time of their own.
    """
    what, _, place = routing_key.partition(".")
    death = death_of(headers)
    if what == "publish":
        queue = text(queues[0]) if isinstance(queues, list) and queues else None
        if is_published_again(headers) or death is not None:
            delivered(headers, queue, memory)
            return None, False
        return event_of("sent", headers, queue, memory), False
    if death is not None and death[0] != place:
        return dead(headers, death, memory), True
    if place.startswith(_OURS):
        return None, False
    event = event_of("received", headers, text(place), memory)
    event.caller, event.time = None, at
    return event, False


class Result(msgspec.Struct, gc=False):
    """What the result backend stores of a task."""

    status: str
    task_id: Any = None
    result: Any = None
    date_done: Any = None
    name: Any = None
    worker: Any = None
    queue: Any = None
    retries: Any = None
    parent_id: Any = None
    group_id: Any = None


_CANCELLED = "Retry(Retry(...), None, None)"
"""What a worker stores of a task that it gave up at a cold shutdown: no try failed, and none has to come."""

_ENDS: dict[str, Kind] = {
    "SUCCESS": "succeeded",
    "FAILURE": "failed",
    "RETRY": "retried",
    "REVOKED": "revoked",
    "STARTED": "started",
}


def stored(result: Result, task_id: str | None, seen_at: float | None) -> Event | None:
    """What a stored result tells; None for what is no fact.

    `task_id`: by the place of the result. `seen_at`: when it was published, None where it was only found. Raises
    MalformedError.
    """
    kind = _ENDS.get(result.status)
    if kind is None:
        return None
    error, message = of_result(result.result) if kind in ("failed", "retried", "revoked") else (None, None)
    time, worker = moment(result.date_done), text(result.worker)
    if kind == "failed":
        if error == "ChordError" and worker is None:
            return None  # the body of a chord whose header failed: it was never published, so there was no try
        if error == "Reject":
            if message and message.endswith("True"):
                return None  # it was given back, and will run again
            kind = "rejected"
    elif kind == "revoked":
        # Stored when it is asked for and again when the worker takes it up: one fact, without a time that differs.
        kind, time = ("expired" if message == "expired" else "revoked"), None
    elif kind == "retried":
        if seen_at is None or message == _CANCELLED:
            return None  # found later than published: not to be told from the one that was
        time = time or seen_at
    elif kind == "started" and isinstance(result.result, dict):
        worker = worker or text(result.result.get("hostname"))
    found = task_id_of(result.task_id if result.task_id is not None else task_id)
    group = text(result.group_id)
    return Event(
        kind=kind,
        task_id=found,
        time=time,
        task=text(result.name),
        queue=text(result.queue),
        worker=worker,
        attempt=attempt_of(result.retries),
        parent_id=other(result.parent_id, found),
        error=error if kind in ("failed", "retried") else None,
        error_message=message if kind in ("failed", "retried") else None,
        labels={"group": group} if group else None,
    )


def no_message(error: Exception) -> MalformedError:
    """The reason behind a message that could not be read."""
    return MalformedError("not_an_object", f"not a message of Celery's: {error}")
