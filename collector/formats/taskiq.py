"""taskiq on Redis streams, from outside: entries, what the group was given, and stored results. See `FORMAT.facts`.

Every try has an entry of its own, whose label says which it is. That one was started says the group; what came of it
says only the result, which is stored for the last try.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.formats import key_values as values
from collector.formats.decoded import NOT_JSON, Format, MalformedError, not_json
from collector.formats.groups import RedisGroups
from collector.formats.remembered import Remembered
from collector.model.event import LONGEST_TEXT, trace_context

TASKS = 50_000
"""Tasks that are remembered."""
HELD = 10_000
"""Results that wait for their entry."""
HOLD_SECONDS = 2.0
"""How long a result waits for the entry that names its task."""
TRIES = 1000
"""Tries of one task that are told apart."""
_HEAD = 64
"""How much of a pickled result is looked at to know it; in base64."""
_FIELDS = ("is_err", "return_value")


class _Message(msgspec.Struct):
    """The JSON of an entry. Arguments are not among what is read."""

    task_id: str
    task_name: str
    labels: dict[str, Any] = {}


class _Task(msgspec.Struct):
    """What is remembered of a task."""

    task: str | None = None
    queue: str | None = None
    tries: int = 0
    started: int = 0
    """The newest try whose start was told."""
    result: int = 0
    """By what the result that was told is known again."""


_decode = msgspec.json.Decoder(_Message).decode


class Decoder(values.Telling):
    """Reads records in their order, and remembers tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: Remembered[_Task] = Remembered(TASKS)
        self._groups = RedisGroups()
        self._said: dict[str, tuple[Any, float]] = {}
        """What each stream's groups said last."""
        self._written: dict[str, None] = {}
        """Streams with entries that are newer than that."""
        self._held: dict[str, tuple[float, int, dict[str, Any]]] = {}

    def read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:
        """One record."""
        if tap == "redis-stream":
            self._entry(values.place_of(tap, about), str(about.get("id")), about.get("fields"), at)
        elif tap == "redis-key" and about.get("type") == "stream":
            stream = values.place_of(tap, about)
            self._said[stream] = values.value_of(body), at
            self._poll(stream)
        elif tap == "redis-key" and about.get("type") == "string":
            self._stored(self._named(values.place_of(tap, about)), body, at)

    def _named(self, key: str) -> str:
        """The task id that a result's key ends with: a known one, else what stands behind the last colon."""
        rest = key
        while self._tasks.get(rest[:LONGEST_TEXT]) is None and ":" in rest:
            rest = rest.partition(":")[2]
        return rest[:LONGEST_TEXT]

    def close(self) -> None:
        """What a group was given may have been asked before the entries were read."""
        for stream in self._written:
            self._poll(stream)
        self._written.clear()

    def release(self, at: float) -> None:
        """Tell results whose entry did not come."""
        for task_id, (due, digest, told) in list(self._held.items()) if self._held else ():
            if due > at:
                break
            self._result(task_id, digest, told)

    # Entries

    def _entry(self, stream: str, entry_id: str, fields: Any, at: float) -> None:
        """A try was written to the stream."""
        data = fields.get("data") if isinstance(fields, Mapping) else None
        message = _message(values.raw_of(data))
        labels, task_id = message.labels, message.task_id[:LONGEST_TEXT]
        try_number = min(values.count_of(labels.get("_retries", 0)), TRIES) + 1
        task = self._task(task_id)
        task.task, task.queue = sys.intern(message.task_name[:LONGEST_TEXT]), stream[:LONGEST_TEXT] or None
        if try_number == 1 and task.tries:  # the id is used again
            task.started = task.result = 0
        task.tries = try_number
        trace = trace_context(told) if isinstance(told := labels.get("traceparent"), str) else None
        trace_id, span_id = trace or (None, None)
        if try_number == 1:
            self._tell("sent", task_id, task, time=at, trace_id=trace_id, span_id=span_id)
        else:
            before = try_number - 1
            if task.started < before:
                self._start(task_id, task, before)
            self._tell("retried", task_id, task, attempt=before, time=at, trace_id=trace_id)
        self._groups.sent(stream, entry_id, f"{try_number}:{task_id}")
        self._written[stream] = None
        if (held := self._held.get(task_id)) is not None and _tries(held[2]) <= try_number:
            self._result(task_id, *held[1:])

    def _poll(self, stream: str) -> None:
        """What the groups were given, by what they said last."""
        said, at = self._said.get(stream, (None, 0.0))
        for moved in self._groups.polled(stream, said, at):
            number, _, task_id = moved.task_id.partition(":")
            task = self._task(task_id)
            if moved.kind != "started" or (task.started >= int(number) and not moved.worker):
                continue  # that one was acknowledged says nothing of how it went
            time = moved.at if moved.worker else None
            self._start(task_id, task, int(number), time=time, worker=moved.worker)

    # Results

    def _stored(self, task_id: str, body: bytes, at: float) -> None:
        """What came of a task's last try."""
        if not task_id:
            raise MalformedError("missing_id", "a result's key without an id")
        told = _result_of(values.raw_of(values.value_of(body)))
        _tries(told)
        task, digest = self._tasks.get(task_id), hash(body) or 1
        if task is not None and task.tries >= _tries(told):
            self._result(task_id, digest, told)
            return
        self._held[task_id] = at + HOLD_SECONDS, digest, told
        if len(self._held) > HELD:
            first = next(iter(self._held))
            self._result(first, *self._held[first][1:])

    def _result(self, task_id: str, digest: int, told: dict[str, Any]) -> None:
        self._held.pop(task_id, None)
        task = self._task(task_id)
        if task.result == digest:
            return
        task.result = digest
        attempt = _tries(told)
        if task.started < attempt:
            self._start(task_id, task, attempt)
        took = told.get("execution_time")
        is_error = told["is_err"] is True
        error, message = _failure(told.get("error")) if is_error else (None, None)
        self._tell(
            "failed" if is_error else "succeeded",
            task_id,
            task,
            attempt=attempt,
            run_seconds=float(took) if isinstance(took, int | float) and 0 < took < 1e9 else None,
            error=error,
            error_message=message,
        )

    # Telling

    def _task(self, task_id: str) -> _Task:
        task = self._tasks.get(task_id)
        if task is None:
            task = _Task()
            self._tasks.put(task_id, task)
        return task

    def _start(self, task_id: str, task: _Task, attempt: int, **fields: Any) -> None:
        task.started = max(task.started, attempt)
        self._tell("started", task_id, task, attempt=attempt, **fields)

    def _tell(self, kind: str, task_id: str, task: _Task, **fields: Any) -> None:
        self.tell(kind, task_id, task=task.task, queue=task.queue, **fields)


def _message(data: bytes) -> _Message:
    """The JSON of an entry. Raises MalformedError."""
    try:
        message = _decode(data)
    except NOT_JSON as error:
        raise not_json(error) from error
    if not message.task_id or not message.task_name:
        raise MalformedError("missing_id", "a message without id or name")
    return message


def _result_of(raw: bytes) -> dict[str, Any]:
    """A stored result: JSON or a pickle. Raises MalformedError."""
    if raw[:1] != b"{":
        return values.fields_of(raw, needs=_FIELDS)
    told = values.value_of(raw)
    if not isinstance(told, dict) or any(name not in told for name in _FIELDS):
        raise MalformedError("bad_field", "not a result")
    return told


def _tries(told: Mapping[str, Any]) -> int:
    """Which try a result is of. Raises MalformedError."""
    labels = told.get("labels")
    return min(values.count_of(labels.get("_retries", 0)) if isinstance(labels, dict) else 0, TRIES) + 1


def _failure(error: Any) -> tuple[str | None, str | None]:
    """Class and message: as taskiq writes exceptions, or a pickled one."""
    if not isinstance(error, dict):
        return values.exception_of(error)
    parts = error.get("exc_message")
    parts = parts if isinstance(parts, list | tuple) else [parts]
    said = ", ".join(one for one in parts if isinstance(one, str))
    return values.text_of(error.get("exc_type")), values.text_of(said)


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """Entries that hold a message, streams that its group reads, and results under any key."""
    if tap == "redis-stream":
        fields = about.get("fields")
        data = fields.get("data") if isinstance(fields, Mapping) else None
        return isinstance(data, str) and '"task_id"' in data and '"task_name"' in data and '"labels"' in data
    if tap != "redis-key":
        return False
    if about.get("type") == "stream":
        return b'"name":"taskiq"' in body or b'"name": "taskiq"' in body
    return about.get("type") == "string" and _is_result(body)


def _is_result(body: bytes) -> bool:
    if body.startswith(b'"{'):
        return all(f'\\"{name}\\"'.encode() in body for name in _FIELDS)
    if not body.startswith(b'{"b64"'):
        return False
    head = body[6:].lstrip(b': "')[:_HEAD]
    try:
        return b"is_err" in base64.b64decode(head[: len(head) // 4 * 4])
    except binascii.Error:
        return False


FACTS = {
    "sent": "yes",
    "started": "yes (not of a second delivery that is quicker than a poll: hook)",
    "succeeded": "with a result backend in the same Redis",
    "failed": "with a result backend in the same Redis",
    "retried": "yes",
    "redelivered": "yes (not one that is quicker than a poll)",
    "task": "yes",
    "queue": "yes",
    "worker": "of what is running at a poll",
    "attempt": "yes",
    "error": "of the last attempt (of others: hook)",
    "wait": "of what is running at a poll",
    "run": "with a result backend in the same Redis",
    "trace": "label traceparent",
}
FORMAT = Format(new=Decoder, is_mine=_is_mine, facts=FACTS)
