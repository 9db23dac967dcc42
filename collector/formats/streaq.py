"""streaq from outside: the result that it publishes, its streams, keys and notifications. See `FORMAT.facts`.

The message at a task's end holds name, times, tries and worker of the last try. Earlier ones are known by the counter,
and by the set of delayed tasks: one that was not there in between was given to another worker, and not retried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collector.formats import key_values as values
from collector.formats.decoded import Format, MalformedError
from collector.formats.remembered import Remembered
from collector.formats.tries import Job, Tries
from collector.model.event import LONGEST_TEXT

WORKERS = 10_000
"""Workers that are remembered."""
SAME_SECONDS = 0.1
"""How far apart notes of one transaction may be heard."""
_KEY = re.compile(
    r"streaq:(?P<queue>.+?):(?:"
    r"(?P<kind>channels|task:data|task:retry|task:results|health):(?P<id>.+)"
    r"|(?P<delayed>queues:delayed):.+"
    r"|(?P<stream>queues):[^:]+"
    r"|index:(?P<index>running))",
    re.DOTALL,
)
_GIVEN_UP = "streaq.types.StreaqError"
"""What streaq itself says of a task that it does not run again."""
_ABORTED = frozenset(["CancelledError", "StreaqCancelled"])


class Decoder(values.Telling):
    """Reads records in their order, and remembers tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._tries = Tries(self.tell)
        self._workers: Remembered[bool] = Remembered(WORKERS)
        self._again: tuple[Job, float] | None = None
        """A task whose next try was counted just now, and when."""

    def release(self, at: float) -> None:
        """Tell what waited until now."""
        if self._again is not None and at > self._again[1] + SAME_SECONDS:
            self._count(is_added=False)
        self._tries.release(at)

    def read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:
        """One record."""
        place = values.place_of(tap, about)
        note = values.noted(place) if tap == "redis-pubsub" else ""
        match = _KEY.fullmatch(note or place)
        if match is None:
            return
        kind = match["kind"] or ""
        if note:
            self._count(is_added=match["index"] is not None and body == b"sadd")
            if kind.startswith("task:"):
                self._note(kind, self._job(match), body, at)
        elif tap == "redis-stream":
            self._entry(match, about.get("fields"), at)
        elif kind == "channels":
            if tap == "redis-pubsub":
                self._result(self._job(match), body)
        elif kind == "health":
            self._health(match["id"][:LONGEST_TEXT], is_gone=about.get("type") == "none")
        elif about.get("type") != "none":
            self._look(match, kind, body, at)

    def _look(self, match: re.Match[str], kind: str, body: bytes, at: float) -> None:
        """A key that is there."""
        if kind == "task:results":
            self._result(self._job(match), values.raw_of(values.value_of(body)))
        elif kind == "task:data":
            self._data(self._job(match), values.raw_of(values.value_of(body)))
        elif kind == "task:retry":
            job, count = self._job(match), values.count_of(values.value_of(body))
            if not job.is_noted:
                if job.is_running and count == job.tries + 1:  # it was not seen to be delayed in between
                    self._tries.lose(job, None)
                self._tries.counted(job, count, at)
        elif match["delayed"]:
            for task_id, due in values.names_of(body):
                self._delayed(task_id, due / 1000, at)
        elif match["index"]:
            self._index(values.value_of(body), at)

    def _job(self, match: re.Match[str]) -> Job:
        job = self._tries.job(match["id"])
        job.queue = job.queue or match["queue"][:LONGEST_TEXT]
        return job

    def _note(self, kind: str, job: Job, body: bytes, at: float) -> None:
        """The server says what was done to a key."""
        match kind, body:
            case "task:data", b"set":
                self._tries.heard(job, at)
            case "task:retry", b"incrby":
                if self._tries.noted(job, at):
                    self._again = job, at
            case _:
                pass

    def _count(self, *, is_added: bool) -> None:
        """The try begins whose number was counted by the note before this one.

        A task that stopped was taken from those that run, and is added again, in one transaction with its counter; one
        that another worker gave up by dying was never taken away.
        """
        if self._again is None:
            return
        (job, at), self._again = self._again, None
        if job.is_running and not is_added:
            self._tries.lose(job, None)
        self._tries.begin(job, at, at)

    def _entry(self, match: re.Match[str], fields: Any, at: float) -> None:
        """A task is in its queue."""
        task_id = fields.get("task_id") if isinstance(fields, Mapping) else None
        if not isinstance(task_id, str) or not task_id:
            raise MalformedError("missing_id", "an entry without `task_id`")
        job = self._tries.job(task_id)
        job.queue = job.queue or match["queue"][:LONGEST_TEXT]
        if not job.is_over:
            self._tries.heard(job, at)

    def _delayed(self, task_id: str, due: float, at: float) -> None:
        """A task waits until then: it was sent so, or is to be tried again."""
        job = self._tries.known(task_id)
        if job is None or job.is_over:
            return
        if not job.tries and not job.is_sent:
            job.expires = due
        elif job.is_running and due != job.expires:
            job.expires = due
            self._tries.stop(job, None, at, due)

    def _index(self, running: Any, at: float) -> None:
        """Those that have a worker."""
        for task_id in running if isinstance(running, list) else ():
            job = self._tries.known(task_id) if isinstance(task_id, str) else None
            if job is not None and not job.is_over:
                self._tries.held(job, at)

    def _data(self, job: Job, raw: bytes) -> None:
        """The task itself."""
        told = values.fields_of(raw, needs=("f", "t"))
        born = values.millis(told["t"])
        if self._tries.named(job, told["f"], born):
            self._tries.sent(job, time=born, eta=job.expires or None if not job.tries else None)

    def _result(self, job: Job, raw: bytes) -> None:
        """How it ended."""
        told = values.fields_of(raw, needs=("f", "s", "st", "ft", "t"))
        began, ended = values.span_of(told)
        count = values.count_of(told["t"])
        if not self._tries.named(job, told["f"], values.millis(told.get("ct"))) or job.stopped == ended:
            return
        raised = told.get("r") if told["s"] is not True else None
        error, message = values.exception_of(raised)
        is_done, is_aborted = told["s"] is True, error in _ABORTED
        ran = is_done or not (values.is_made(raised, _GIVEN_UP) or (is_aborted and began == ended))
        worker = values.text_of(told.get("w"))
        kind = "succeeded" if is_done else "revoked" if is_aborted else "failed"
        self._tries.end(
            job,
            kind,
            max(1, count),
            ran=ran,
            began=began,
            is_moved=told.get("et") != told.get("ct"),
            time=ended,
            worker=worker,
            run_seconds=ended - began if ran and ended >= began else None,
            error=error,
            error_message=message,
        )
        job.stopped = ended

    def _health(self, worker: str, *, is_gone: bool) -> None:
        if (sign := values.sign_of_life(self._workers, worker, is_gone=is_gone)) is not None:
            self.keep(sign)


def _is_mine(tap: str, about: Mapping[str, Any], _body: bytes) -> bool:
    """Everything under `streaq:`."""
    place = values.place_of(tap, about)
    return (values.noted(place) or place).startswith("streaq:")


FACTS = {
    "sent": "yes",
    "started": "yes",
    "succeeded": "yes",
    "failed": "yes",
    "retried": "yes",
    "revoked": "yes (aborted)",
    "task": "yes",
    "queue": "yes",
    "worker": "of the last attempt",
    "attempt": "yes",
    "error": "of the last attempt",
    "wait": "yes",
    "run": "yes",
    "heartbeat": "yes",
}
FORMAT = Format(new=Decoder, is_mine=_is_mine, facts=FACTS)
