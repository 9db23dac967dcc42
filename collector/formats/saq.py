"""SAQ from outside: the status words that it publishes under each job's key, and the JSON at that key.

A word says that something happened to a job; which attempt it was, when, by whom and why stands in the JSON, which
holds the newest attempt only. So words wait for the JSON that is read because of them, and are told together with it;
earlier attempts of a job that was retried quicker than it was read are told by their words alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.formats.decoded import Decoded, Format, MalformedError, Reject, check_length
from collector.formats.key_values import names_of, sign_of_life
from collector.formats.remembered import Remembered
from collector.formats.saq_values import ATTEMPTS, Seen, millis, seconds, seen_of, stored_of
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event
from collector.model.record import Batch

JOBS = 50_000
"""Jobs that are remembered; what waits for one that leaves is told as it is."""
WORKERS = 10_000
"""Workers that are remembered."""
WORDS = 200
"""Words of one job that wait; more are told at once."""
HOLD_SECONDS = 2.0
"""How long words wait for their job's JSON."""
EARLY_SECONDS = 1.0
"""By how much a producer's clock may be behind ours, and a message behind the state that it tells of."""

_JOB = re.compile(r"saq:job:(?P<queue>[^:]+):(?P<key>.+)", re.DOTALL)
_WORKER = re.compile(r"saq:(?P<queue>.+):worker_info:(?P<worker>[^:]+)", re.DOTALL)
_INCOMPLETE = re.compile(r"saq:(?!job:).+:incomplete", re.DOTALL)
_NOTE = re.compile(r"__keyspace@[0-9]+__:saq:.+", re.DOTALL)
_FINAL = {"complete": "succeeded", "failed": "failed", "aborted": "revoked"}
_WORDS = frozenset([*_FINAL, "new", "queued", "active", "aborting"])


class _Job(msgspec.Struct):
    """What was told of a job in its newest life. Attempts are bits of a number."""

    channel: str
    key: str = ""
    """Where it is not what the channel ends with."""
    task: str | None = None
    queue: str | None = None
    words: tuple[tuple[str, float], ...] = ()
    """Held back, each with its time."""
    due: float = 0.0
    seen: Seen | None = None
    queued: float | None = None
    attempt: int = 0
    """The one that the words speak of."""
    started: int = 0
    ended: int = 0
    is_known: bool = False
    """Whether its JSON was read."""
    is_running: bool = False
    is_aborting: bool = False
    is_bare: bool = False
    """Whether it was told to have failed, and not yet of what: its JSON is late."""
    final_at: float | None = None
    """When its end was told."""

    def begin(self) -> None:
        """A new life."""
        self.queued = None
        self.attempt = self.started = self.ended = 0
        self.is_known = self.is_running = self.is_aborting = self.is_bare = False
        self.final_at = None

    @property
    def task_id(self) -> str:
        """The job's key, as the JSON or else the channel has it."""
        match = _JOB.fullmatch(self.channel)
        return (self.key or (match["key"] if match else ""))[:LONGEST_TEXT]


class Decoder:
    """Reads records in their order, and remembers jobs."""

    def __init__(self) -> None:
        self._jobs: Remembered[_Job] = Remembered(JOBS)
        self._waiting: dict[str, _Job] = {}
        self._due_at: Remembered[float] = Remembered(JOBS)
        self._workers: Remembered[bool] = Remembered(WORKERS)
        self._since: float | None = None
        self._out = Decoded([], [], [])
        self._index = 0
        self._at = 0.0

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch; of an empty one what waited and is due."""
        out = self._out = Decoded([], [], [])
        times = batch.times or [batch.received_at] * len(batch.bodies)
        self._index = 0
        self._release(times[0] if times else batch.received_at)
        for index, body in enumerate(batch.bodies):
            self._index = index
            self._release(times[index])
            before = len(out.events)
            try:
                check_length(body)
                is_told = self._read(batch.tap, batch.about[index] if batch.about else {}, body)
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            out.ignored += len(out.events) == before and not is_told
        return out

    def _read(self, tap: str, about: Mapping[str, Any], body: bytes) -> bool:
        """One record; whether it is to be told of later."""
        place = about.get("channel" if tap == "redis-pubsub" else "key")
        if not isinstance(place, str):
            return False
        if tap == "redis-pubsub":
            return self._word(place, body) if _JOB.fullmatch(place) else False
        kind = about.get("type")
        if kind == "string" and _JOB.fullmatch(place):
            self._stored(place, body)
        elif kind == "zset" and _INCOMPLETE.fullmatch(place):
            for name, score in names_of(body):
                self._due_at.put(name, score)
        elif match := _WORKER.fullmatch(place):
            self._worker(match["worker"][:LONGEST_TEXT], is_gone=kind == "none")
        return False

    # Words

    def _word(self, channel: str, body: bytes) -> bool:
        """A status word: held until the JSON that goes with it is there."""
        word = body.decode("utf-8", "replace")
        if word not in _WORDS:
            raise MalformedError("unknown_kind", "not a status that SAQ publishes")
        job = self._job(channel)
        if not job.words:
            job.due = self._at + HOLD_SECONDS
        job.words = (*job.words, (word, self._at))
        self._waiting[channel] = job
        if _is_explained(job, word) or len(job.words) >= WORDS:
            self._play(job)
        return True

    def _play(self, job: _Job) -> None:
        """Tell what the held words say, in their order."""
        words, job.words = job.words, ()
        self._waiting.pop(job.channel, None)
        for word, at in words:
            if word == "active" and _is_over(job):
                if job.final_at is None or at <= job.final_at + EARLY_SECONDS:
                    continue  # progress that was reported before the end, and heard after its JSON was read
                job.begin()  # the key is used again, and left nothing to read
            if word == "active" and not job.is_running:
                job.attempt = min(job.attempt + 1, ATTEMPTS)
                job.is_running = True
                self._start(job, at)
            elif word == "aborting":
                job.is_aborting = True
            elif word == "queued" and job.attempt:
                self._end(job, self._given_back(job), at)
            elif word in _FINAL:
                self._end(job, _FINAL[word], at)

    def _given_back(self, job: _Job) -> str:
        """Retried, or given back without a verdict: swept from a dead worker, or cancelled with it."""
        seen = job.seen
        if job.is_aborting:
            return "requeued"
        is_shown = seen is not None and job.is_known and job.attempt == seen.failed_attempt() and seen.message
        return "requeued" if is_shown and seen is not None and not seen.has_traceback else "retried"

    def _start(self, job: _Job, at: float | None) -> None:
        if job.started >> job.attempt & 1:
            return
        job.started |= 1 << job.attempt
        seen = _of(job, job.attempt)
        self._tell(job, "started", time=(seen and seen.started) or at, worker=seen and seen.worker)

    def _end(self, job: _Job, kind: str, at: float | None) -> None:
        attempt, is_last = job.attempt, kind in _FINAL.values()
        job.is_running = job.is_aborting = False
        if is_last and job.final_at is None:
            job.final_at = self._at
        is_shown = job.seen is not None and job.is_known and job.seen.failed_attempt() == attempt
        failure = job.seen if is_shown and kind in ("failed", "retried") else None
        if job.ended >> attempt & 1:
            if job.is_bare and kind == "failed" and failure is not None:
                job.is_bare = False
                self._tell(job, kind, error=failure.error, error_message=failure.message)
            return
        job.is_bare = kind == "failed" and failure is None
        if attempt:
            self._start(job, None)
        job.ended |= 1 << attempt
        seen = _of(job, attempt)
        moment = None
        if seen is not None:
            moment = seen.completed if is_last else seen.touched if seen.status == "queued" else None
        run = None
        if seen is not None and seen.started and moment and moment >= seen.started:
            run = moment - seen.started
        due = self._due_at.get(job.channel) if kind == "retried" and seen is not None else None
        self._tell(
            job,
            kind,
            time=moment or at,
            worker=seen and seen.worker,
            error=failure and failure.error,
            error_message=failure and failure.message,
            run_seconds=run,
            eta=due if due and EARLIEST <= due < LATEST and due > (moment or at or due) else None,
        )
        if failure is not None:
            failure.error = failure.message = None  # what users write is not kept longer than it is needed

    # The JSON

    def _stored(self, channel: str, body: bytes) -> None:
        """A job's JSON: the held words by it, and what it says without words."""
        stored = stored_of(body)
        job = self._job(channel)
        queued = millis(stored.queued)
        if job.is_known and queued != job.queued:
            job.begin()  # the key is used again
        match = _JOB.fullmatch(channel)
        job.key = "" if match and match["key"] == stored.key else stored.key[:LONGEST_TEXT]
        job.task, job.queue = _shared(stored.function), _shared(stored.queue)
        job.seen = seen_of(stored)
        if not job.is_known:
            job.is_known = True
            job.queued = queued
            eta = seconds(stored.scheduled)
            due = eta if eta is not None and queued is not None and eta > queued else None
            self._tell(job, "sent", attempt=None, time=queued, eta=due)
            job.attempt = job.attempt or self._first_attempt(job, job.seen)
        self._play(job)
        self._reconcile(job, job.seen)

    def _first_attempt(self, job: _Job, seen: Seen) -> int:
        """The attempt before the first word that was heard: none, if the job was sent while we listened."""
        if self._since is not None and job.queued is not None and job.queued >= self._since - EARLY_SECONDS:
            return 0
        return max(0, seen.attempts - _starts(job))

    def _reconcile(self, job: _Job, seen: Seen) -> None:
        """What the JSON says that no word has said: words are on their way, or were missed."""
        by_words, is_running, is_aborting = job.attempt, job.is_running, job.is_aborting
        job.attempt = seen.attempts
        if seen.attempts and seen.status != "new":
            self._start(job, seen.started)
        if seen.status in _FINAL:
            self._end(job, _FINAL[seen.status], seen.completed)
        elif seen.status == "queued" and seen.attempts:
            job.is_aborting = is_aborting
            self._end(job, self._given_back(job), seen.touched)
        if by_words < seen.attempts:
            job.attempt, job.is_running, job.is_aborting = by_words, is_running, is_aborting
            job.due = self._at + HOLD_SECONDS
            self._waiting[job.channel] = job
        elif seen.status in ("active", "aborting"):
            job.is_running, job.is_aborting = True, seen.status == "aborting"

    def _release(self, at: float) -> None:
        """Tell what waited for words or for a JSON that did not come."""
        self._at = at
        if self._since is None:
            self._since = at
        for job in list(self._waiting.values()) if self._waiting else ():
            if at >= job.due:
                self._settle(job)

    def _settle(self, job: _Job) -> None:
        """No more will come: held words as they are, and attempts that had none by the number that was counted."""
        self._play(job)
        seen = job.seen
        if seen is None or not job.is_known or job.attempt >= seen.attempts:
            return
        last = min(seen.attempts, ATTEMPTS)
        for attempt in range(max(1, job.attempt), last):
            job.attempt = attempt
            if job.started:  # else it was before our time
                self._end(job, self._given_back(job), None)
        job.attempt = last
        job.is_running = seen.status in ("active", "aborting")

    # Telling

    def _tell(self, job: _Job, kind: str, **more: Any) -> None:
        attempt = more.pop("attempt", (job.attempt or None) if job.is_known else None)
        names = {"task_id": job.task_id, "task": job.task, "queue": job.queue}
        self._keep(Event(kind=kind, attempt=attempt, **names, **more))  # type: ignore[arg-type]

    def _keep(self, event: Event) -> None:
        self._out.events.append(event)
        assert self._out.sources is not None  # noqa: S101 it is ours
        self._out.sources.append(self._index)

    def _job(self, channel: str) -> _Job:
        job = self._jobs.get(channel)
        if job is None:
            match = _JOB.fullmatch(channel)
            job = _Job(channel, queue=_shared(match["queue"]) if match else None)
            for gone in self._jobs.put(channel, job).values():
                if gone.channel in self._waiting:
                    self._settle(gone)
                    self._waiting.pop(gone.channel, None)
        return job

    def _worker(self, worker: str, *, is_gone: bool) -> None:
        if (sign := sign_of_life(self._workers, worker, is_gone=is_gone)) is not None:
            self._keep(sign)


def _shared(text: str) -> str | None:
    """A name that many jobs have: kept once."""
    return sys.intern(text[:LONGEST_TEXT]) if text else None


def _is_over(job: _Job) -> bool:
    """Whether the job has ended, and all words up to its end were heard."""
    return job.final_at is not None and (job.seen is None or not job.is_known or job.attempt >= job.seen.attempts)


def _is_explained(job: _Job, word: str) -> bool:
    """Whether the JSON that was read last is that of the newest word: then no other will come for it."""
    seen = job.seen
    if seen is None or not job.is_known or word != seen.status:
        return False
    return job.attempt + _starts(job) == seen.attempts


def _starts(job: _Job) -> int:
    """How many attempts began by the held words."""
    count, is_running = 0, job.is_running
    for word, _ in job.words:
        count += word == "active" and not is_running
        is_running = word == "active" or (is_running and word == "aborting")
    return count


def _of(job: _Job, attempt: int) -> Seen | None:
    """What the JSON says, where it says it of this attempt."""
    return job.seen if job.is_known and job.seen is not None and job.seen.attempts == attempt else None


def _is_mine(tap: str, about: Mapping[str, Any], _body: bytes) -> bool:
    """Everything under `saq:`."""
    place = about.get("channel" if tap == "redis-pubsub" else "key")
    if tap not in ("redis-pubsub", "redis-key") or not isinstance(place, str):
        return False
    return place.startswith("saq:") or _NOTE.fullmatch(place) is not None


FACTS = {
    "sent": "yes",
    "started": "yes",
    "succeeded": "yes",
    "failed": "yes",
    "retried": "yes",
    "revoked": "yes (aborted)",
    "redelivered": "yes (swept: requeued)",
    "task": "yes (with ttl -1: before its end)",
    "queue": "yes",
    "worker": "yes",
    "attempt": "yes",
    "error": "yes",
    "wait": "yes",
    "run": "yes",
    "heartbeat": "yes",
}
FORMAT = Format(new=Decoder, is_mine=_is_mine, facts=FACTS)
