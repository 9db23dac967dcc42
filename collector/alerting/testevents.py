"""Events of rule tests: native events at times after a test's start, repeated, or made by the share that goes wrong.

Takes what the file says; gives events in the order of their times. No chance in it: every third of three tasks with
`retried: 0.33...` is the same one in each run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from collector.documents import Duration, Place
from collector.model.errors import Problem
from collector.model.event import WORKER_KINDS, Event, Kind

MOST_EVENTS = 1_000_000
"""Events of one test."""
BACK_OFF = 1.0
"""Seconds between a generated task's first try and its second."""

_FIELD = re.compile(r" - at `\$\.(\w+)")
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EventDocument(msgspec.Struct, kw_only=True):
    """One native event, `times` times; `{n}` in its ids is the number of the repetition, from 0."""

    place: Place
    at: Duration
    every: Duration = Duration(0)
    times: Annotated[int, msgspec.Meta(ge=1, le=MOST_EVENTS)] = 1
    kind: Kind
    task_id: str = ""
    task: str | None = None
    queue: str | None = None
    worker: str | None = None
    caller: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_id: str | None = None
    root_id: str | None = None
    attempt: int | None = None
    error: str | None = None
    error_message: str | None = None
    run_seconds: float | None = None
    eta: Duration | None = None
    expires: Duration | None = None
    idempotency_key: str | None = None
    labels: dict[str, str] | None = None


class TasksDocument(msgspec.Struct, kw_only=True):
    """Whole lives of a task, evenly spread, of which a share is retried, fails, or ends in the dead letters."""

    place: Place
    task: str
    queue: str = "default"
    worker: str = "w1"
    at: Duration = Duration(0)
    during: Duration
    per_second: Annotated[float, msgspec.Meta(gt=0)]
    wait_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    run_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    retried: _Share = 0.0
    failed: _Share = 0.0
    dead_lettered: _Share = 0.0
    error: str = "Error"


class TimedEvent(msgspec.Struct, frozen=True):
    """An event, and when it happens: seconds after the test's start."""

    at: float
    event: Event
    """Without `time`; `eta` and `expires` count from the test's start, too."""


def events_of(
    events: Sequence[EventDocument], tasks: Sequence[TasksDocument], problems: list[Problem]
) -> tuple[TimedEvent, ...]:
    """All events of a test by time, those of one instant as written; what is wrong with them goes to `problems`."""
    found: list[TimedEvent] = []
    for document in events:
        found += _repeated(document, problems)
    for number, generator in enumerate(tasks):
        lives = generator.during * generator.per_second
        if lives > MOST_EVENTS:
            message = f"{lives:.0f} tasks are more than a test can have: at most {MOST_EVENTS}"
            problems.append(generator.place.problem(message))
        else:
            found += _lives(generator, number)
    return tuple(sorted(found, key=lambda one: one.at))


def _repeated(document: EventDocument, problems: list[Problem]) -> Iterator[TimedEvent]:
    if not document.task_id and document.kind not in WORKER_KINDS:
        problems.append(document.place.problem("the event names no task: add `task_id: ...`"))
        return
    named = {name: value for name in Event.__struct_fields__ if (value := getattr(document, name, None)) is not None}
    times = {name: named.pop(name) for name in ("eta", "expires") if name in named}
    try:
        event = msgspec.convert({**named, "task_id": document.task_id or document.kind}, Event)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        place = document.place.at(field[1]) if field else document.place
        expected = str(error).partition(" - at")[0]
        problems.append(place.problem(f"no event has this: {expected[:1].lower()}{expected[1:]}"))
        return
    event = msgspec.structs.replace(event, task_id=document.task_id, **times)
    for number in range(document.times):
        own = {
            name: text.replace("{n}", str(number))
            for name in ("task_id", "idempotency_key")
            if (text := getattr(event, name)) and "{n}" in text
        }
        yield TimedEvent(document.at + number * document.every, msgspec.structs.replace(event, **own))


def _lives(document: TasksDocument, number: int) -> Iterator[TimedEvent]:
    for life in range(math.floor(document.during * document.per_second + 1e-9)):
        at = document.at + life / document.per_second
        task_id = f"{document.task}/{number}/{life}"
        for offset, facts in _life(document, life):
            yield TimedEvent(
                round(at + offset, 3),
                Event(task_id=task_id, task=document.task, queue=document.queue, **facts),
            )


def _life(document: TasksDocument, life: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """Seconds after it was sent, and the facts, of one task."""
    at, attempt = 0.0, 1
    bad = {"error": document.error}
    yield at, {"kind": "sent"}
    if _is_chosen(life, document.retried):
        yield at + document.wait_seconds, _try("started", document, attempt)
        at += document.wait_seconds + document.run_seconds
        yield at, _try("retried", document, attempt) | bad
        at, attempt = at + BACK_OFF, 2
    yield at + document.wait_seconds, _try("started", document, attempt)
    at += document.wait_seconds + document.run_seconds
    is_dead = _is_chosen(life, document.dead_lettered)
    if not is_dead and not _is_chosen(life, document.failed):
        yield at, _try("succeeded", document, attempt)
        return
    yield at, _try("failed", document, attempt) | bad
    if is_dead:
        yield at, _try("dead_lettered", document, attempt) | bad


def _try(kind: Kind, document: TasksDocument, attempt: int) -> dict[str, Any]:
    return {"kind": kind, "worker": document.worker, "attempt": attempt}


def _is_chosen(life: int, share: float) -> bool:
    """Whether this one of many is of a share of them: spread evenly, the last of each round."""
    return math.floor((life + 1) * share + 1e-9) > math.floor(life * share + 1e-9)
