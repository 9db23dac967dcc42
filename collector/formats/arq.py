"""arq from outside: its keys in Redis, and what the server notifies of them. See `FORMAT.facts`.

A result tells of its job's last try with all times. Earlier tries are known by the counter, and where the server
notifies of keys, each by itself. Nobody says which worker it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collector.formats import key_values as values
from collector.formats.decoded import Format
from collector.formats.remembered import Remembered
from collector.formats.tries import JOBS, Job, Tries
from collector.model.event import EARLIEST, LATEST

_KEY = re.compile(r"arq:(?P<kind>job|in-progress|retry|result):(?P<id>.+)", re.DOTALL)
_HEALTH = re.compile(rb'"[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8} j_complete=[0-9]+ j_failed=')
_GIVEN_UP = "arq.worker.JobExecutionFailed"
"""What arq itself says of a job that it does not run (again): too many tries, unknown function, expired."""
_ABORTED_SECONDS = 0.005
"""What was aborted later than that was running."""
_LONGEST_MILLIS = 10_000_000_000
_EXPIRY_SECONDS = 0.1
"""How exactly the moment is known at which a key goes by itself."""


class Decoder(values.Telling):
    """Reads records in their order, and remembers jobs."""

    def __init__(self) -> None:
        super().__init__()
        self._tries = Tries(self.tell)
        self._waits: Remembered[tuple[str, float]] = Remembered(JOBS)
        """Where and until when jobs wait."""

    def release(self, at: float) -> None:
        """Tell what waited until now."""
        self._tries.release(at)

    def read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:
        """One record."""
        place = values.place_of(tap, about)
        key = values.noted(place) if tap == "redis-pubsub" else place
        match = _KEY.fullmatch(key)
        if match is None:
            if about.get("type") == "zset":
                self._queue(key, body)
        elif tap == "redis-pubsub":
            self._note(match["kind"], self._job(match["id"]), body, at)
        elif about.get("type") == "none":
            self._gone(match["kind"], match["id"], at)
        elif about.get("type") == "string":
            self._looks[match["kind"]](self, self._job(match["id"]), body, about, at)

    def _job(self, job_id: str) -> Job:
        job = self._tries.job(job_id)
        if job.queue is None and (waits := self._waits.get(job_id)) is not None:
            job.queue = waits[0]
        return job

    def _queue(self, key: str, body: bytes) -> None:
        """The queue: ids, and when they are due."""
        if key == "arq:abort":
            return
        for job_id, due in values.names_of(body):
            self._waits.put(job_id, (key, due / 1000))

    # Notifications

    def _note(self, kind: str, job: Job, body: bytes, at: float) -> None:
        """The server says what was done to a key."""
        match kind, body:
            case "job", b"set":
                self._tries.heard(job, at)
            case "in-progress", b"set":
                if self._tries.noted(job, at):
                    self._tries.begin(job, at, at)
            case "in-progress", b"del":
                job.is_unheard = False  # notifications keep their order: that of its start was before our time
                self._tries.stop(job, at, at, self._due(job))
            case "in-progress", b"expired":
                self._tries.lose(job, at)
            case "retry", b"del":
                if job.is_running:
                    self._tries.void(job)
                elif job.owes and not job.is_over and job.expires >= 0:
                    self._tries.vanish(job)
            case "result", b"set":
                job.expires = -1.0  # what ended has a result
            case _:
                pass

    def _due(self, job: Job) -> float | None:
        waits = self._waits.get(job.task_id)
        return waits[1] if waits is not None and EARLIEST <= waits[1] < LATEST else None

    # Looks

    def _gone(self, kind: str, job_id: str, at: float) -> None:
        """A key that was there is not there any more."""
        job = self._tries.known(job_id)
        if job is None or kind != "in-progress" or job.is_noted or not job.is_running:
            return
        if not self._lost(job, at):
            self._tries.stop(job, at, at, self._due(job))

    def _sent(self, job: Job, body: bytes, _about: Mapping[str, Any], _at: float) -> None:
        """The job itself."""
        told = values.fields_of(values.raw_of(values.value_of(body)), needs=("f", "et"))
        born = values.millis(told["et"])
        if self._tries.named(job, told["f"], born):
            self._tries.sent(job, time=born, eta=self._due(job) if not job.tries else None)

    def _running(self, job: Job, _body: bytes, about: Mapping[str, Any], at: float) -> None:
        """The sign that a worker has it."""
        pttl = about.get("pttl")
        if not job.is_noted:
            if not job.is_running and not job.is_over:
                self._tries.begin(job, None, at)
            if isinstance(pttl, int) and 0 < pttl < _LONGEST_MILLIS:
                job.expires = at + pttl / 1000
                job.lasts = max(job.lasts, pttl / 1000)
        self._tries.held(job, at)

    def _counted(self, job: Job, body: bytes, _about: Mapping[str, Any], at: float) -> None:
        """The counter of tries."""
        count = values.count_of(values.value_of(body))
        if not job.is_noted and not job.is_over:
            if count == job.tries + 1:
                self._lost(job, at)
            if count > job.tries:
                job.expires = at + job.lasts if job.lasts else 0.0
            self._tries.counted(job, count, at)

    def _lost(self, job: Job, at: float) -> bool:
        """Whether the sign that it runs went by itself: its worker fell silent."""
        is_lost = job.is_running and 0 < job.expires <= at + _EXPIRY_SECONDS
        if is_lost:
            self._tries.lose(job, job.expires)
        return is_lost

    def _result(self, job: Job, body: bytes, _about: Mapping[str, Any], _at: float) -> None:
        """How it ended."""
        told = values.fields_of(values.raw_of(values.value_of(body)), needs=("t", "f", "et", "s", "st", "ft"))
        began, ended = values.span_of(told)
        count = values.count_of(told["t"])
        if not self._tries.named(job, told["f"], values.millis(told["et"]), values.text_of(told.get("q"))):
            return
        if job.is_over and job.expires == ended:
            return  # it was read before
        raised = told.get("r") if told["s"] is not True else None
        error, message = values.exception_of(raised)
        ran = not values.is_made(raised, _GIVEN_UP)
        ran = ran and not (error == "CancelledError" and ended - began < _ABORTED_SECONDS)
        kind = "succeeded" if told["s"] is True else "revoked" if error == "CancelledError" else "failed"
        self._tries.end(
            job,
            kind,
            max(1, count),
            ran=ran,
            began=began,
            time=ended,
            run_seconds=ended - began if ran and ended >= began else None,
            error=error,
            error_message=message,
        )
        job.expires = ended

    _looks = {"job": _sent, "in-progress": _running, "retry": _counted, "result": _result}  # noqa: RUF012 - never changed


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """Everything under `arq:`, and health checks under any name."""
    place = values.place_of(tap, about)
    if tap == "redis-pubsub":
        return values.noted(place).startswith("arq:")
    return tap == "redis-key" and (place.startswith("arq:") or _HEALTH.match(body) is not None)


FACTS = {
    "sent": "yes",
    "started": "yes",
    "succeeded": "yes (not with keep_result 0)",
    "failed": "yes (not with keep_result 0)",
    "retried": "yes",
    "revoked": "yes (aborted)",
    "redelivered": "yes (requeued)",
    "task": "yes",
    "queue": "yes",
    "worker": "hook",
    "attempt": "yes",
    "error": "of the last attempt (of others: hook)",
    "wait": "yes",
    "run": "yes",
}
FORMAT = Format(new=Decoder, is_mine=_is_mine, facts=FACTS)
