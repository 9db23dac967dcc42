"""The decoder of BullMQ: batches of stream entries and of job hashes.

Remembers jobs (bounded), the hashes that came before the entries that they complete, and at the end of a batch one
entry per queue: `waiting` after `active` means a retry, unless the next entry says `stalled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from collector.formats.bullmq.job import EntryId, Job, read_job
from collector.formats.bullmq.keys import EVENTS, split, task_id
from collector.formats.bullmq.life import Life
from collector.formats.bullmq.steps import QUEUE_WORDS, SAY_NOTHING, STEPS, Step, Steps
from collector.formats.decoded import Decoded, MalformedError, Reject
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT
from collector.model.record import Batch

_MOST_HASHES = 5_000
"""That may wait for their entries when another batch of them comes: those of one batch are used at once."""
_MOST_QUEUES = 10_000
_NOTHING: Mapping[str, Any] = {}
_EARLIEST_MS, _LATEST_MS = int(EARLIEST * 1000), int(LATEST * 1000)
_LONGEST_ID = 41
"""Two numbers of 64 bits and a dash."""


class _Queue(msgspec.Struct):
    """One events stream."""

    base: str
    """Its key without `:events`: what every key of the queue begins with."""
    name: str
    pending: _Pending | None = None


class _Pending(msgspec.Struct):
    """A `waiting` after `active` whose next entry is not read yet."""

    life: Life
    time: float
    info: Job | None


class Decoder:
    """Decodes batches of one source; raises nothing. `prefix`: the queues', where it is known ("": told by the keys).

    `failed_is_dead_letter`: BullMQ's failed jobs stay in a set of their own, which some use as their dead letters.
    """

    def __init__(self, prefix: str = "", *, failed_is_dead_letter: bool = False) -> None:
        self._prefix = prefix
        self._steps = Steps(partial(task_id, prefix=prefix), failed_is_dead_letter=failed_is_dead_letter)
        self._queues: dict[str, _Queue] = {}
        self._ahead: dict[str, Job] = {}
        """Hashes that were read after certain entries, and are handed over before them."""
        self._polled: dict[str, Job] = {}
        """Hashes that were seen at some time, of jobs that the stream has not said so much of yet."""

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch."""
        steps = self._steps
        steps.events, steps.sources = [], []
        rejects: list[Reject] = []
        ignored = (self._hashes if batch.tap == "redis-key" else self._entries)(batch, rejects)
        if steps.held and batch.bodies:
            steps.index = len(batch.bodies) - 1
            steps.release(batch.times[-1] if batch.times else batch.received_at)
        return Decoded(steps.events, steps.sources, rejects, ignored=ignored)

    # Stream entries

    def _entries(self, batch: Batch, rejects: list[Reject]) -> int:
        """The entries of a batch; gives how many say nothing."""
        about = batch.about
        fields = batch.fields or [None] * len(batch.bodies)
        births = _births(fields) if self._ahead else {}
        stream, queue = "", None
        ignored = 0
        for index, said in enumerate(fields):
            entry: Any
            if about is None:
                place, entry_id = batch.place, str(batch.receipts[index])
                entry = said if said is not None else _only(batch.bodies[index])
            else:
                place, entry_id = str(about[index].get("stream")), str(about[index].get("id"))
                entry = about[index].get("fields")
            if place != stream or queue is None:
                stream, queue = place, self._queue(place)
            self._steps.index = index
            try:
                ignored += self._entry(queue, entry_id, entry, births)
            except MalformedError as error:
                rejects.append(Reject(index, error.reason, error.detail))
        if batch.is_head and queue is not None and queue.pending is not None:
            ignored += self._decide(queue, "")  # a stall's two entries are written together
        return ignored

    def _queue(self, stream: str) -> _Queue:
        queue = self._queues.get(stream)
        if queue is None:
            base = stream.removesuffix(EVENTS)
            queue = _Queue(base, split(base, self._prefix)[1])
            if len(self._queues) < _MOST_QUEUES:
                self._queues[stream] = queue
        return queue

    def _entry(self, queue: _Queue, entry_id: str, entry: Any, births: Mapping[str, int]) -> int:
        """One entry; gives how many say nothing. Raises MalformedError."""
        if not isinstance(entry, Mapping):
            raise MalformedError("missing_kind", "an entry without fields")
        word, job_id = entry.get("event"), entry.get("jobId")
        step = STEPS.get(word) if isinstance(word, str) else None
        if step is None and word != "added":
            _check_other(word, job_id)
            return 1 + self._decide(queue, "")
        if not isinstance(job_id, str) or not job_id:
            raise MalformedError("missing_id", f"`{word}` without a `jobId`")
        if len(queue.name) + len(job_id) >= LONGEST_TEXT:
            raise MalformedError("bad_id", f"a job id of {len(job_id)} characters")
        return self._move(queue, step, job_id, entry_place(entry_id), entry, births)

    def _move(  # noqa: PLR0913, PLR0917 - an entry, taken apart
        self,
        queue: _Queue,
        step: Step | None,
        job_id: str,
        place: EntryId,
        entry: Mapping[str, Any],
        births: Mapping[str, int],
    ) -> int:
        """One job's next step; None: it begins. Gives how many entries say nothing. Raises MalformedError."""
        steps = self._steps
        key = f"{queue.base}:{job_id}"
        ignored = self._decide(queue, key if step is Steps.stalled else "") if queue.pending is not None else 0
        steps.time = place[0] / 1000 + min(place[1], 999) / 1e6  # what happened within a millisecond stays in order
        steps.info = self._info(key, place, births.get(job_id, 0)) if self._ahead else None
        if step is None:
            return ignored + steps.added(key, f"{queue.name}:{job_id}", queue.name, entry)
        life = steps.memory.find(key) or steps.memory.keep(Life(key, f"{queue.name}:{job_id}", queue.name))
        if steps.info is not None:
            steps.learn(life, steps.info)
        if step is Steps.waiting and entry.get("prev") == "active":
            queue.pending = _Pending(life, steps.time, steps.info)
            return ignored
        try:
            ignored += step(steps, life, entry)
        except (ValueError, TypeError, OverflowError) as error:
            raise MalformedError("bad_time", "`delayed` with a `delay` that is no time") from error
        if self._polled and (job := self._polled.get(key)) is not None and steps.polled(life, job):
            del self._polled[key]
        return ignored

    def _info(self, key: str, place: EntryId, born: int) -> Job | None:
        """The job's hash, if it was read after this entry, and is about the life that the entry is of."""
        info = self._ahead.get(key)
        is_later = info is not None and info.after is not None and info.after >= place
        return info if is_later and self._steps.index >= born else None

    def _decide(self, queue: _Queue, stalled: str) -> int:
        """The entry after a `waiting` is here: with it that was a stall (of the job `stalled`), without it a retry."""
        pending = queue.pending
        if pending is None:
            return 0
        queue.pending = None
        if pending.life.key == stalled:
            return 1
        steps = self._steps
        steps.time, steps.info = pending.time, pending.info
        return steps.given_back(pending.life, pending.time)

    # Hashes

    def _hashes(self, batch: Batch, rejects: list[Reject]) -> int:
        """The hashes of a batch; gives how many say nothing (yet)."""
        ignored = 0
        for hashes in (self._ahead, self._polled):
            if len(hashes) > _MOST_HASHES:
                hashes.clear()
        for index in range(len(batch.bodies)):
            try:
                ignored += self._hash(batch, index)
            except MalformedError as error:
                rejects.append(Reject(index, error.reason, error.detail))
        return ignored

    def _hash(self, batch: Batch, index: int) -> int:
        """A job's hash; gives how many say nothing (yet). Raises MalformedError."""
        about = batch.about[index] if batch.about is not None else _NOTHING
        key = about.get("key")
        if not isinstance(key, str) or about.get("type") != "hash":
            return 1
        job = read_job(batch.bodies[index])
        steps = self._steps
        steps.index, before = index, len(steps.events)
        after = about.get("after")
        if isinstance(after, str):
            job.after = entry_place(after)
            self._ahead[key] = job
        else:
            steps.info = None
            life = steps.memory.find(key)
            if life is None or not steps.polled(life, job):
                self._polled[key] = job
        if not job.is_whole:
            raise MalformedError("bad_field", "a field of the job is not what it should be; the others are used")
        return int(len(steps.events) == before)


def _check_other(word: object, job_id: object) -> None:
    """A word that moves no job: about a queue, the users' own, or news of a job. Raises MalformedError."""
    if not isinstance(word, str) or not word:
        raise MalformedError("missing_kind", "there is no field `event`")
    if word in SAY_NOTHING and not job_id:
        raise MalformedError("missing_id", f"`{word}` without a `jobId`")


def _births(fields: Sequence[Mapping[str, str] | None]) -> dict[str, int]:
    """Where in a batch each job's latest life begins: a hash that was read ahead is about that one."""
    return {
        said.get("jobId", ""): index
        for index, said in enumerate(fields)
        if said is not None and said.get("event") == "added"
    }


def _only(body: bytes) -> Mapping[str, Any]:
    """An entry of one field comes as that field's value: some words about a queue have no other."""
    word = body.decode("utf-8", "replace")
    return {"event": word} if word in QUEUE_WORDS else _NOTHING


def entry_place(entry_id: str) -> EntryId:
    """An entry id's numbers. Raises MalformedError."""
    millis, _, number = entry_id[:_LONGEST_ID].partition("-")
    try:
        place = int(millis), int(number or 0)
    except ValueError:
        place = (0, 0)
    if not _EARLIEST_MS <= place[0] < _LATEST_MS or place[1] < 0:
        raise MalformedError("bad_time", "an entry id that is no time")
    return place
