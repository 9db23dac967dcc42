"""RQ, 2 and 3, from outside: job hashes, executions, result streams and workers in Redis. See `FORMAT.facts`.

What ended for good stands in `results:<job>` with its times, worker and traceback. An attempt that will be tried again
leaves only its job's hash: `retries_left` one less, and the attempt's times until the next one overwrites them; where
the server notifies of keys, its execution is seen to begin. RQ counts down from a number that it does not keep:
attempts are those that were seen.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.formats import rq_values as values
from collector.formats.decoded import Decoded, Format, MalformedError, Reject, check_length
from collector.formats.key_values import names_of
from collector.formats.remembered import Remembered
from collector.formats.rq_keys import KEYS, NOTE, RESULTS, is_mine, told
from collector.model.event import LONGEST_TEXT, Event
from collector.model.record import Batch
from collector.model.redrive import HEADER

JOBS = 50_000
"""Jobs that are remembered; one that left is told of again, which the trails know as the same facts."""
EXECUTIONS = 50
"""Executions remembered of each job."""
WORKERS = 10_000
"""Workers that are remembered."""
RETRIES = 100
"""Attempts that are believed to have passed between two looks at a job."""
DUE = 50_000
"""Scheduled jobs whose due time is remembered."""
HOLD_SECONDS = 2.0
"""How long a hash that says the end waits for the result entry, which says why."""
_WAITING = ("queued", "scheduled")
NEVER = 4_102_358_400.0
"""2099-12-31: not before another job has succeeded, whenever that may be."""
MOMENT = 1e-6
"""So long after a run's end its repetition is sent, as the hook has it."""
LATER_SECONDS = 1.0
"""A job that was enqueued so long after it was made had been scheduled or deferred."""

_ENDS = {"1": "succeeded", "2": "failed", "3": "revoked", "4": "retried", "5": "failed"}
"""Types of result entries."""
_FINAL = {"finished": "succeeded", "failed": "failed", "stopped": "revoked"}
"""Final statuses of a hash that have a result entry."""


class _Run(msgspec.Struct, gc=False):
    """One execution of a job."""

    key: int
    """Stands for its id."""
    noted: float
    """When it was heard of."""
    is_told: bool = False
    """Whether its start was told."""
    is_over: bool = False


class _Job(msgspec.Struct):
    """What was told of a job. There may be many, so all that is not there costs nothing."""

    created: float | None = None
    task: str | None = None
    queue: str | None = None
    parent: str | None = None
    left: int | None = None
    """Its `retries_left`."""
    retries: int = 0
    """How many attempts were told to be retried."""
    runs: tuple[_Run, ...] = ()
    ends: tuple[float, ...] = ()
    """When the newest few executions ended whose end was told."""
    held: Event | None = None
    """An end whose reason has not come yet."""
    due: float = 0.0
    """When what is held is told as it is."""
    repeats: int | None = None
    """Its `repeats_left`."""
    succeeded: float | None = None
    """When its newest run succeeded, while no other has begun."""
    is_canceled: bool = False
    redriven: str = ""
    """The mark of its newest redrive."""

    @property
    def waits(self) -> bool:
        """Whether something about it is held back."""
        return self.held is not None or any(not run.is_told for run in self.runs)


class Decoder:
    """Reads records in their order, and remembers jobs."""

    def __init__(self) -> None:
        self._jobs: Remembered[_Job] = Remembered(JOBS)
        self._held: dict[str, None] = {}
        self._due_at: Remembered[float] = Remembered(DUE)
        self._workers: Remembered[str] = Remembered(WORKERS)
        self._out = Decoded([], [], [])
        self._index = 0
        self._at = 0.0

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch; of an empty one what was held and is due."""
        out = self._out = Decoded([], [], [])
        self._index = 0
        times = batch.times or [batch.received_at] * (len(batch.bodies) or 1)
        self._release(times[0])
        for index, body in enumerate(batch.bodies):
            self._index = index
            self._release(times[index])
            about = batch.about[index] if batch.about else {}
            before = len(out.events)
            try:
                check_length(body)
                self._read(batch.tap, about, body, times[index])
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            out.ignored += len(out.events) == before
        return out

    def _read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:
        """One record."""
        if tap == "redis-stream":
            if match := RESULTS.fullmatch(told(about, "stream")):
                self._result(match["id"], about.get("fields"))
        elif tap == "redis-pubsub":
            self._note(told(about, "channel"), body)
        elif tap == "redis-key":
            key, kind = told(about, "key"), about.get("type")
            for name, expression in KEYS.items():
                if match := expression.fullmatch(key):
                    self._key(name, match, kind, body, at)
                    return

    def _key(self, name: str, match: re.Match[str], kind: Any, body: bytes, at: float) -> None:
        if name == "worker" and kind in ("hash", "none"):
            self._worker(match["worker"], values.hash_of(body) if kind == "hash" else None)
        elif name == "scheduled" and kind == "zset":
            for job_id, score in names_of(body or b"[]"):
                self._due_at.put(job_id, score)
        elif kind == "hash" and name == "execution":
            fields = values.hash_of(body)
            self._start(match["id"], match["execution"], values.time(fields, "created_at"), _worker(fields))
        elif kind == "hash" and name == "job":
            self._hash(match["id"], values.hash_of(body), at)

    # Facts

    def _tell(self, kind: str, job_id: str, **more: Any) -> None:
        job, time = self._job(job_id), more.get("time")
        if kind == "started" and time is not None:
            self._sent_anew(job_id, job, time)
        elif kind == "succeeded":
            job.succeeded = time
        self._keep(_event(kind, job_id, job, **more))

    def _sent_anew(self, job_id: str, job: _Job, began: float) -> None:
        """A run after a success is no second delivery: the job was sent anew, repeated (maybe for later) or by hand."""
        sent = job.succeeded
        if sent is not None and began > sent:
            due = self._due_at.get(job_id) or 0.0
            self._keep(_event("sent", job_id, job, time=sent + MOMENT, eta=due if sent < due <= began else None))
            job.succeeded = None

    def _keep(self, event: Event) -> None:
        self._out.events.append(event)
        assert self._out.sources is not None  # noqa: S101 it is ours
        self._out.sources.append(self._index)

    def _job(self, job_id: str) -> _Job:
        job = self._jobs.get(job_id)
        if job is None:
            job = _Job()
            for gone_id, gone in self._jobs.put(job_id, job).items():
                if gone_id in self._held:
                    self._let_go(gone_id, gone)
        return job

    def _start(self, job_id: str, execution: str, time: float | None, worker: str | None) -> _Run:
        """An execution began; told once it is known when, or it turns out that nobody will say so."""
        job = self._job(job_id)
        key = hash(execution)
        run = next((one for one in job.runs if one.key == key), None)
        if run is None:
            run = _Run(key, self._at)
            job.runs = (*job.runs[1 - EXECUTIONS :], run)
        if run.is_told:
            return run
        if time is None:
            job.due = self._at + HOLD_SECONDS
            self._held[job_id] = None
        else:
            run.is_told = True
            self._tell("started", job_id, time=time, worker=worker)
        return run

    def _note(self, channel: str, body: bytes) -> None:
        """A notification: an execution's hash was made."""
        note = NOTE.fullmatch(channel)
        if note and body == b"hset" and (match := KEYS["execution"].fullmatch(note["key"])):
            self._start(match["id"], match["execution"], None, None)

    def _result(self, job_id: str, entry: Any) -> None:
        """A result entry: an execution's whole story."""
        if not isinstance(entry, dict):
            raise MalformedError("not_an_object", "an entry without fields")
        kind = _ENDS.get(values.text(entry, "type"))
        if kind is None:
            raise MalformedError("unknown_kind", "the `type` of a result is none that RQ writes")
        job, worker = self._job(job_id), _worker(entry)
        began, ended = values.time(entry, "execution_started_at"), values.time(entry, "execution_ended_at")
        if execution := values.text(entry, "execution_id"):
            self._start(job_id, execution, began, worker).is_over = True
        error, message = values.failure(entry) if kind == "failed" else (None, None)
        run = None if began is None or ended is None or ended < began else ended - began
        job.held = None
        if ended is not None:
            _end(job, ended)
        job.retries += kind == "retried"
        self._tell(kind, job_id, time=ended, worker=worker, error=error, error_message=message, run_seconds=run)

    def _hash(self, job_id: str, fields: dict[str, Any], at: float) -> None:
        """A job's hash: what it says now and did not say before."""
        if not (values.text(fields, "created_at") and values.text(fields, "status")):
            return  # a hash that is being made, or is not a job's
        created, left = values.time(fields, "created_at"), values.number(fields, "retries_left")
        began, ended = values.time(fields, "started_at"), values.time(fields, "ended_at")
        enqueued, status = values.time(fields, "enqueued_at"), values.text(fields, "status")
        job = self._job(job_id)
        if job.created is not None and job.created != created:  # the id is used again
            self._jobs.forget(job_id)
            job = self._job(job_id)
        mark = values.text(fields, HEADER) or ""
        is_sent_anew, job.redriven = job.created is not None and mark not in ("", job.redriven), mark
        job.task, job.queue = _shared(values.task_of(fields)), _shared(values.text(fields, "origin"))
        job.parent = values.text(fields, "dependency_id") or None
        if job.created is None:
            job.created = created
            self._tell("sent", job_id, time=created, eta=self._eta(job_id, status, created, enqueued, began))
            if left is not None and "repeats_left" not in fields:
                job.left = left + _retried_before(job, status, ended)
        if is_sent_anew:
            self._tell("sent", job_id, time=enqueued)
        if job.left is not None and left is not None and left < job.left:
            self._retried(job_id, job, job.left - left, fields)
        job.left = left
        if status == "canceled" and not job.is_canceled:
            self._tell("revoked", job_id)
        job.is_canceled = status == "canceled"
        before, job.repeats = job.repeats, values.number(fields, "repeats_left")
        is_repeated = before is not None and job.repeats is not None and job.repeats < before
        kind = "succeeded" if is_repeated else _FINAL.get(status)
        if kind is not None and ended is not None and ended not in job.ends:
            job.held = _event(kind, job_id, job, time=ended, worker=_worker(fields))
            job.due = at + HOLD_SECONDS
            self._held[job_id] = None

    def _eta(
        self, job_id: str, status: str, created: float | None, enqueued: float | None, began: float | None
    ) -> float | None:
        """When the first attempt may start, where that is not at once."""
        if status == "deferred":
            return NEVER
        if status == "scheduled" and began is None:
            return self._due_at.get(job_id)
        if created is not None and enqueued is not None and enqueued - created >= LATER_SECONDS:
            return enqueued if began is None or began >= enqueued else None
        return None

    def _retried(self, job_id: str, job: _Job, times: int, fields: dict[str, Any]) -> None:
        """So many attempts were given back since the last look.

        Of the newest the times stand in the hash, unless the next one has begun: then only when that was enqueued,
        and that is after all of them.
        """
        status = values.text(fields, "status")
        began, ended = values.time(fields, "started_at"), values.time(fields, "ended_at")
        for back in range(min(times, RETRIES) - 1, -1, -1):
            run = next((one for one in job.runs if not one.is_over), None)
            if back == 0 and status in _WAITING and ended is not None:
                more: dict[str, Any] = {"worker": _worker(fields)}
                due = self._due_at.get(job_id) if status == "scheduled" else None
                took = None if began is None or ended < began else ended - began
                end = {**more, "time": ended, "run_seconds": took, "eta": due}
                start = {**more, "time": began}
            else:
                more = {"attempt": job.retries + 1}
                end = {**more, "time": values.time(fields, "enqueued_at")}
                start = {**more, "time": run.noted if run else None}
            if run is None or not run.is_told:
                self._tell("started", job_id, **start)
            if run is not None:
                run.is_told = run.is_over = True
            job.retries += 1
            self._tell("retried", job_id, **end)

    def _release(self, at: float) -> None:
        """Tell what was held back and nothing more came for."""
        self._at = at
        for job_id in list(self._held) if self._held else ():
            job = self._jobs.get(job_id)
            if job is None or not job.waits:
                del self._held[job_id]
            elif at >= job.due:
                self._let_go(job_id, job)

    def _let_go(self, job_id: str, job: _Job) -> None:
        del self._held[job_id]
        for run in job.runs:
            if not run.is_told:
                run.is_told = True
                self._tell("started", job_id, time=run.noted)
        if (held := job.held) is not None:
            job.held = None
            _end(job, held.time or 0.0)
            job.succeeded = held.time if held.kind == "succeeded" else job.succeeded
            self._keep(held)

    def _worker(self, worker: str, fields: dict[str, Any] | None) -> None:
        """A worker's hash: it came, it lives, it went."""
        before = self._workers.get(worker)
        if fields is None or values.text(fields, "death"):
            if before != "gone":
                death = values.time(fields, "death") if fields else None
                self._keep(Event(kind="offline", task_id="", worker=worker[:LONGEST_TEXT], time=death))
                self._workers.put(worker, "gone")
            return
        birth = values.text(fields, "birth")
        if before != birth:
            time = values.time(fields, "birth")
            self._keep(Event(kind="online", task_id="", worker=worker[:LONGEST_TEXT], time=time))
            self._workers.put(worker, birth)
        time = values.time(fields, "last_heartbeat")
        self._keep(Event(kind="heartbeat", task_id="", worker=worker[:LONGEST_TEXT], time=time))


def _end(job: _Job, ended: float) -> None:
    job.ends = (*job.ends[1 - EXECUTIONS :], ended)


def _retried_before(job: _Job, status: str, ended: float | None) -> int:
    """How many attempts had been given back when a job was first seen: those heard of that were over.

    One that has begun while the hash still waits says nothing of itself in it.
    """
    if status in _WAITING:
        return 0 if ended is None else max(1, sum(run.noted <= ended for run in job.runs))
    return max(0, len(job.runs) - 1)


def _worker(fields: Mapping[str, Any]) -> str | None:
    return values.text(fields, "worker_name") or None


def _shared(text: str | None) -> str | None:
    """A name that many jobs have: kept once."""
    return sys.intern(text) if text else None


def _event(kind: str, job_id: str, job: _Job, **more: Any) -> Event:
    return Event(
        kind=kind,  # type: ignore[arg-type]
        task_id=job_id[:LONGEST_TEXT],
        task=job.task,
        queue=job.queue,
        parent_id=job.parent,
        **more,
    )


FACTS = {
    "sent": "yes",
    "started": "yes",
    "succeeded": "yes (not with result_ttl 0)",
    "failed": "yes",
    "retried": "yes",
    "revoked": "yes (canceled, stopped)",
    "task": "yes",
    "queue": "yes",
    "worker": "yes (of a retried attempt that is quicker than a poll: hook)",
    "attempt": "counted from the first one that was seen",
    "error": "of the last attempt (of others: hook)",
    "wait": "yes",
    "run": "yes",
    "heartbeat": "yes",
}
FORMAT = Format(new=Decoder, is_mine=is_mine, facts=FACTS)
