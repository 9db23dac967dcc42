"""Huey in Redis, from outside: its queue, its schedule and its results, as polls find them. See `FORMAT.facts`.

A consumer pops a message before it runs it, and a result of None is not stored: what is quick leaves nothing. A failed
try stores its error, which the next one's replaces; Huey counts down from a number that it does not keep, so tries are
those that were seen.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from collector.formats import key_values as values
from collector.formats.decoded import Format, MalformedError
from collector.formats.pickled import Made
from collector.formats.remembered import Remembered
from collector.formats.tracebacks import exception_of
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT

TASKS = 50_000
"""Tasks that are remembered; one that left is told of again, which the trails know as the same facts."""
TRIES = 1000
"""Tries of one task that are told apart."""
HOLD_SECONDS = 1.0
"""How long a scheduled message waits for an error that says that it is another try."""
_KEY = re.compile(r"huey\.(?P<kind>redis|schedule|results)\.(?P<queue>[A-Za-z0-9_.]+)")
_MESSAGE = "huey.registry.Message"
_ERROR = "huey.utils.Error"
_DATETIME = "datetime.datetime"
_CLASS = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_FEWEST_FIELDS = 4


class _Task(msgspec.Struct):
    """What was told of a task."""

    task: str | None = None
    queue: str | None = None
    is_sent: bool = False
    first: int = 0
    """The most retries that it was seen to have left."""
    failed: int | None = None
    """With how many left the newest try failed that was told of."""
    stored: int = 0
    """By what the result that was told is known again."""
    is_revoked: bool = False
    eta: float | None = None
    due: float = 0.0
    """When what waits is told as it is."""


class Decoder(values.Telling):
    """Reads records in their order, and remembers tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: Remembered[_Task] = Remembered(TASKS)
        self._waiting: dict[str, _Task] = {}
        self._known_hashes: set[str] = set()

    def read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:  # noqa: ARG002 - see Telling
        """One record."""
        key = values.place_of(tap, about)
        match = _KEY.fullmatch(key) if tap == "redis-key" else None
        if match is None or about.get("type") == "none":
            return
        queue = match["queue"][:LONGEST_TEXT]
        if match["kind"] == "results":
            is_old = about.get("before") is True and key not in self._known_hashes
            if len(self._known_hashes) < TASKS:
                self._known_hashes.add(key)
            self._results(queue, values.value_of(body), is_old=is_old)
        elif about.get("type") == "zset":
            for member, _ in values.scores_of(body):
                self._try(self._message, member, queue, is_scheduled=match["kind"] == "schedule")
        elif about.get("type") == "list":
            members = values.value_of(body)
            for member in members if isinstance(members, list) else ():
                self._try(self._message, member, queue, is_scheduled=False)

    def _try(self, take: Any, *arguments: Any, **more: Any) -> None:
        """One member of a collection: others go on where it is none that Huey writes."""
        try:
            take(*arguments, **more)
        except MalformedError as error:
            self.reject(error)

    # Messages

    def _message(self, member: Any, queue: str, *, is_scheduled: bool) -> None:
        """A message that waits."""
        made = values.unpickled(values.raw_of(member))
        if not isinstance(made, Made) or made.name != _MESSAGE or len(made.arguments) < _FEWEST_FIELDS:
            raise MalformedError("bad_field", "not a message of Huey's")
        task_id, name, eta, left = made.arguments[:_FEWEST_FIELDS]
        if not isinstance(task_id, str) or not task_id or not isinstance(name, str):
            raise MalformedError("missing_id", "a message without id or name")
        left = min(values.count_of(left), TRIES)
        task = self._task(task_id, queue)
        task.task = sys.intern(name[:LONGEST_TEXT]) if name else None
        if is_scheduled and not task.is_sent and task.failed is None and task.eta is None:
            task.eta, task.due, task.first = _moment(eta), self.at + HOLD_SECONDS, left
            self._waiting[task_id] = task
            return
        if task_id not in self._waiting:
            self._sent(task_id, task)
        task.first = max(task.first, left)
        if left < task.first:
            self._failed(task_id, task, left + 1, due=_moment(eta) if is_scheduled else None)

    def _sent(self, task_id: str, task: _Task, eta: float | None = None) -> None:
        self._waiting.pop(task_id, None)
        if not task.is_sent:
            task.is_sent = True
            self._tell("sent", task_id, task, eta=eta)

    def release(self, at: float) -> None:
        """Tell of scheduled tasks that were so from the start."""
        for task_id, task in list(self._waiting.items()) if self._waiting else ():
            if task.due <= at:
                self._sent(task_id, task, task.eta)

    # Results

    def _results(self, queue: str, stored: Any, *, is_old: bool) -> None:
        """Values and errors by task id, and revocations."""
        if not isinstance(stored, dict):
            raise MalformedError("not_an_object", "not a hash")
        for name, value in stored.items():
            self._try(self._stored, name, value, queue, is_old=is_old)

    def _stored(self, name: str, value: Any, queue: str, *, is_old: bool) -> None:
        """One field. What was there before anybody looked is of no known time, and not told."""
        task_id, is_revoked = (name[2:], True) if name.startswith("r:") else (name, False)
        if not task_id or name.startswith("rt:"):
            return
        raw = values.raw_of(value)
        digest = hash(raw) or 1
        known = self._tasks.get(task_id)
        if known is not None and (known.is_revoked if is_revoked else known.stored == digest):
            return
        task = known or self._task(task_id, queue)
        if is_revoked:
            task.is_revoked = True
        else:
            task.stored = digest
        if is_old:
            task.is_sent = True
        elif is_revoked:
            self._sent(task_id, task, task.eta)
            self._tell("revoked", task_id, task)
        else:
            self._ended(task_id, task, values.unpickled(raw))

    def _ended(self, task_id: str, task: _Task, value: Any) -> None:
        """A value, or an error."""
        self._sent(task_id, task)
        if not values.is_made(value, _ERROR):
            attempt = 1 if task.failed is None else task.first - task.failed + 2
            self._tell("started", task_id, task, attempt=attempt)
            self._tell("succeeded", task_id, task, attempt=attempt)
            return
        told = value.arguments[0] if value.arguments and isinstance(value.arguments[0], dict) else {}
        left = min(values.count_of(told.get("retries", 0)), TRIES)
        error, message = _failure(told)
        task.first = max(task.first, left)
        self._failed(task_id, task, left, error=error, message=message)

    def _failed(  # noqa: PLR0913 - what is known of the newest one
        self,
        task_id: str,
        task: _Task,
        left: int,
        *,
        error: str | None = None,
        message: str | None = None,
        due: float | None = None,
    ) -> None:
        """All tries down to the one with so many retries left have failed."""
        before = task.first + 1 if task.failed is None else task.failed
        for number in range(before - 1, left - 1, -1):
            is_newest = number == left
            attempt = task.first - number + 1
            task.failed = number
            self._tell("started", task_id, task, attempt=attempt)
            self._tell(
                "retried" if number else "failed",
                task_id,
                task,
                attempt=attempt,
                error=error if is_newest else None,
                error_message=message if is_newest else None,
                eta=due if is_newest else None,
            )

    def _task(self, task_id: str, queue: str) -> _Task:
        task = self._tasks.get(task_id)
        if task is None:
            task = _Task(queue=sys.intern(queue))
            for gone in self._tasks.put(task_id, task):
                self._waiting.pop(gone, None)
        return task

    def _tell(self, kind: str, task_id: str, task: _Task, **fields: Any) -> None:
        self.tell(kind, task_id, task=task.task, queue=task.queue, **fields)


def _failure(told: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Class and message: of the traceback, else of the text of the exception."""
    traceback, said = told.get("traceback"), told.get("error")
    if isinstance(traceback, str) and (found := exception_of(traceback)) is not None:
        return values.text_of(found[0]), values.text_of(found[1])
    said = said[: values.LONGEST_REPR] if isinstance(said, str) else ""
    match = _CLASS.match(said)
    return values.text_of(match[0].rpartition(".")[2]) if match else None, values.text_of(said)


def _moment(eta: Any) -> float | None:
    """Unix seconds of a pickled `datetime`: UTC, as Huey keeps it where nothing else is configured."""
    if not values.is_made(eta, _DATETIME) or not eta.arguments or not isinstance(eta.arguments[0], bytes):
        return None
    try:
        year, month, day, hour, minute, second, high, low = struct.unpack(">HBBBBBBH", eta.arguments[0])
        at = datetime(year, month, day, hour, minute, second, (high << 16) + low, UTC).timestamp()
    except (struct.error, ValueError, OverflowError):
        return None
    return at if EARLIEST <= at < LATEST else None


def _is_mine(tap: str, about: Mapping[str, Any], _body: bytes) -> bool:
    """Everything under `huey.`."""
    place = values.place_of(tap, about)
    return tap in ("redis-key", "redis-pubsub") and _KEY.fullmatch(values.noted(place) or place) is not None


FACTS = {
    "sent": "what waits at a poll, or leaves a result; else hook",
    "started": "of what leaves a result; else hook",
    "succeeded": "of what returns a value; else hook",
    "failed": "yes",
    "retried": "yes",
    "revoked": "yes",
    "task": "of what waits at a poll; else hook",
    "queue": "yes",
    "worker": "hook",
    "attempt": "counted from the first one that was seen",
    "error": "yes (but of one that is replaced between two polls)",
    "wait": "hook",
    "run": "hook",
}
FORMAT = Format(new=Decoder, is_mine=_is_mine, facts=FACTS)
