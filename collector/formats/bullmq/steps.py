"""What the words of an events stream mean for a job, as a table: entries in, events out.

All of a queue's writes are atomic, so that its order is exact. Attempts are named only where a job was seen from its
beginning, or where its hash says how many there were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from collector.formats.bullmq.job import Job, text_of
from collector.formats.bullmq.life import ACTIVE, ADDED, OVER, UNKNOWN, WAITING, Life, Memory, Told
from collector.model.event import EARLIEST, LATEST, Event, Kind

HELD_SECONDS = 2.0
"""How long a start may wait for word whether it runs: one that does not ends within milliseconds."""
_UNTOLD = 20
"""Failures without their error that a later hash may still name."""
_HOPS = 20
"""How far up a flow its head is looked for."""
_UNRUN = re.compile(r"job stalled more than allowable limit|child \S+ failed")
"""Reasons with which BullMQ fails a job that it does not run."""
_NO_ERROR = (None, None)


class Steps:
    """The moves of all jobs of a source. Which entry it is about is set from outside: `index`, `time`, `info`."""

    def __init__(self, task_id: Callable[[str], str], *, failed_is_dead_letter: bool) -> None:
        self._task_id = task_id
        self._failed_is_dead_letter = failed_is_dead_letter
        self.memory = Memory()
        self.held: dict[str, Life] = {}
        """Starts that wait for word whether they run."""
        self.events: list[Event] = []
        self.sources: list[int] = []
        self.index = 0
        self.time = 0.0
        self.info: Job | None = None
        """The job's hash, where it was read after this entry."""

    # Every step gives how many entries said nothing: 1, or 0 where something is or will be told.

    def added(self, key: str, task_id: str, queue: str, fields: Mapping[str, str]) -> int:
        """A new life; how it waits is the next entry."""
        life = self.memory.keep(Life(key, task_id, queue, text_of(fields.get("name")), is_whole=True))
        if self.info is not None:
            self.learn(life, self.info)
        return 1

    def waiting(self, life: Life, fields: Mapping[str, str]) -> int:
        """Queued, or ready again after a delay, its children, or because somebody wished so."""
        before = fields.get("prev")
        if not before and life.phase in (ADDED, UNKNOWN):
            return self._sent(life)
        life.is_suspect |= before == "waiting-children"
        life.phase = WAITING
        return 1

    def delayed(self, life: Life, fields: Mapping[str, str]) -> int:
        """Queued for later, or (after a start) to be tried again later. Raises ValueError for a wrong time."""
        eta = int(fields.get("delay", "")) / 1000
        if not EARLIEST <= eta < LATEST:
            raise ValueError(eta)
        if life.phase == ADDED:
            return self._sent(life, eta)
        info = self.info
        if life.phase in (WAITING, OVER) or (life.phase == UNKNOWN and info is not None and not info.has_run):
            return 1  # somebody changed the delay, or a parent with a delay has its children
        return self.given_back(life, eta)

    def waiting_children(self, life: Life, fields: Mapping[str, str]) -> int:
        """A parent is queued behind its children, or steps back for new ones in the middle of its run."""
        if fields.get("prev") == "active":
            self._has_run(life)
            return self._requeued(life, None)
        return self._sent(life) if life.phase in (ADDED, UNKNOWN) else 1

    def given_back(self, life: Life, eta: float) -> int:
        """A start ended without a verdict on the job: a failure to be tried again, unless the hash counted none."""
        self._has_run(life)
        info = self.info
        if info is not None and info.failures <= max(life.made, 0):
            return self._requeued(life, eta)
        attempt = None
        if life.made >= 0:
            life.made = attempt = life.made + 1
        self._failure("retried", life, attempt, eta=eta)
        life.phase = WAITING
        return 0

    def stalled(self, life: Life, _fields: Mapping[str, str]) -> int:
        """Its worker died, or blocks: it waits again, for another start of the same attempt."""
        self._has_run(life)
        life.is_suspect = True
        life.phase = WAITING
        return 1

    def active(self, life: Life, _fields: Mapping[str, str]) -> int:
        """Started; unless it is one of those that may fail without running, and nothing says that it runs."""
        is_suspect = life.is_suspect
        self._has_run(life)
        info = self.info
        if info is not None and life.made < 0:
            life.made, life.starts = info.failures, max(0, info.starts - 1)
        life.phase = ACTIVE
        life.starts += 1
        life.attempt = life.made + 1 if life.made >= 0 else None
        life.start, life.end, life.worker = self.time, None, None
        is_running = False
        if info is not None and info.starts in (0, life.starts):
            life.worker = info.worker
            is_running = not info.is_doomed and not info.is_finished
        if is_suspect and not is_running:
            life.held = self.time
            self.held[life.key] = life
        else:
            self._tell("started", life, life.attempt, worker=life.worker)
        return 0

    def completed(self, life: Life, _fields: Mapping[str, str]) -> int:
        """Succeeded."""
        self._has_run(life)
        run = self._measured(life)
        attempt = self._ended(life)
        life.end = ("succeeded", attempt, self.time)
        self._tell("succeeded", life, attempt, worker=life.worker, run=run)
        return self._over(life)

    def failed(self, life: Life, fields: Mapping[str, str]) -> int:
        """Failed for good, with or without having run."""
        reason = text_of(fields.get("failedReason"))
        run = None
        is_unrun = life.held is not None and reason is not None and _UNRUN.fullmatch(reason) is not None
        if is_unrun:
            self._let_go(life)
            life.start = None
        else:
            self._has_run(life)
            run = self._measured(life)
        attempt = self._ended(life)
        self._failure("failed", life, attempt, reason=reason, run=run)
        if self._failed_is_dead_letter:
            last = self.events[-1]
            self._tell("dead_lettered", life, attempt, error=(last.error, last.error_message))
        return self._over(life) + is_unrun

    def removed(self, life: Life, fields: Mapping[str, str]) -> int:
        """Taken out by somebody: the end of a job that was not over."""
        self._has_run(life)
        self.memory.forget(life)
        before = fields.get("prev")
        if life.phase == OVER or before in ("completed", "failed") or (life.phase == UNKNOWN and not before):
            return 1
        self._tell("revoked", life, None)
        return 0

    # What the steps are made of

    def _tell(  # noqa: PLR0913 - what an event may hold
        self,
        kind: Kind,
        life: Life,
        attempt: int | None,
        *,
        time: float | None = None,
        worker: str | None = None,
        error: tuple[str | None, str | None] = _NO_ERROR,
        run: float | None = None,
        eta: float | None = None,
    ) -> None:
        trace_id, span_id = life.trace or (None, None)
        self.sources.append(self.index)
        self.events.append(
            Event(
                kind=kind,
                task_id=life.task_id,
                time=self.time if time is None else time,
                task=life.name,
                queue=life.queue or None,
                worker=worker,
                trace_id=trace_id,
                span_id=span_id,
                parent_id=life.parent_id,
                root_id=self._root(life) if life.parent_id else None,
                attempt=attempt,
                error=error[0],
                error_message=error[1],
                run_seconds=run,
                eta=eta,
            )
        )

    def _root(self, life: Life) -> str | None:
        """The job at the head of a flow, where all jobs on the way to it are known."""
        for _ in range(_HOPS):
            parent = self.memory.find(life.parent_key)
            if parent is None or not parent.is_known:
                return None
            if not parent.parent_key:
                return parent.task_id
            life = parent
        return None

    def _sent(self, life: Life, eta: float | None = None) -> int:
        life.phase = WAITING
        life.sent = self.time
        self._tell("sent", life, 1, eta=eta)
        return 0

    def _requeued(self, life: Life, eta: float | None) -> int:
        attempt = life.made + 1 if life.made >= 0 else None
        life.end = ("requeued", attempt, self.time)
        self._tell("requeued", life, attempt, worker=life.worker, eta=eta)
        life.phase = WAITING
        return 0

    def _failure(  # noqa: PLR0913 - what an event may hold
        self,
        kind: Kind,
        life: Life,
        attempt: int | None,
        *,
        reason: str | None = None,
        eta: float | None = None,
        run: float | None = None,
    ) -> None:
        """A failed try, with its error as far as the hash has it; what is missing a later one may tell."""
        error, message = self.info.error(attempt) if self.info is not None else _NO_ERROR
        life.end = told = (kind, attempt, self.time)
        if error is None:
            life.untold = [*life.untold[1 - _UNTOLD :], told]
        self._tell(kind, life, attempt, worker=life.worker, error=(error, reason or message), eta=eta, run=run)

    def _has_run(self, life: Life) -> None:
        """A start that was held has run; what comes next is not suspected of anything."""
        if life.held is not None:
            self._tell("started", life, life.attempt, time=life.held, worker=life.worker)
            self._let_go(life)
        life.is_suspect = False

    def _let_go(self, life: Life) -> None:
        life.held = None
        self.held.pop(life.key, None)

    def _ended(self, life: Life) -> int | None:
        """The attempt that ended for good."""
        info = self.info
        if life.made < 0 and life.start is None and info is not None and info.is_finished:
            life.made = max(0, info.made - 1)
        if life.made < 0:
            return None
        life.made += 1
        return life.made

    def _measured(self, life: Life) -> float | None:
        """How long the worker says that the last run took."""
        info = self.info
        if info is None or not info.is_finished or (life.made >= 0 and info.made not in (0, life.made + 1)):
            return None
        return info.run_seconds

    def _over(self, life: Life) -> int:
        life.phase = OVER
        if self.info is not None:
            self.memory.forget(life)  # what there was to say of it is said
        return 0

    # What is said from outside of the stream

    def release(self, now: float) -> None:
        """Starts that were held long enough have run, since nothing ended them."""
        for life in [one for one in self.held.values() if one.held is not None and now - one.held >= HELD_SECONDS]:
            self._has_run(life)

    def learn(self, life: Life, job: Job) -> bool:
        """Take from a hash what is not known yet of names; whether there was anything that an event tells."""
        before = (life.name, life.trace, life.parent_id)
        life.name = life.name or job.name
        life.trace = life.trace or job.trace
        life.is_known = True
        if job.parent_key and not life.parent_key:
            life.parent_key = job.parent_key
            life.parent_id = text_of(self._task_id(job.parent_key))
        return before != (life.name, life.trace, life.parent_id)

    def polled(self, life: Life, job: Job) -> bool:
        """Complete by a hash what was told without it; False where the hash is ahead of the stream.

        The same facts are told once more, with what they lacked.
        """
        if (job.is_finished and life.phase not in (OVER, UNKNOWN)) or (life.made >= 0 and job.starts > life.starts):
            return False
        before = len(self.events)
        has_news = self.learn(life, job)
        if job.starts == life.starts if life.made >= 0 else life.start is not None:
            self._complete_start(life, job)
            life.worker = life.worker or job.worker
        life.untold = [told for told in life.untold if not self._complete_failure(life, job, told)]
        if has_news and len(self.events) == before:
            if life.sent is not None:
                self._tell("sent", life, 1, time=life.sent)
            elif life.start is not None and life.held is None:
                self._tell("started", life, life.attempt, time=life.start, worker=life.worker)
        return True

    def _complete_start(self, life: Life, job: Job) -> None:
        """The worker of the latest start, and of how it ended."""
        if life.held is not None:
            if job.is_doomed or job.is_finished:
                return
            self._has_run(life)
        if job.worker is None or life.worker is not None or life.start is None:
            return
        life.worker = job.worker
        self._tell("started", life, life.attempt, time=life.start, worker=job.worker)
        if life.end is not None and life.end not in life.untold:
            kind, attempt, time = life.end
            self._tell(kind, life, attempt, time=time, worker=job.worker)

    def _complete_failure(self, life: Life, job: Job, told: Told) -> bool:
        """The error of a failure; False where the hash does not have it."""
        kind, attempt, time = told
        error = _NO_ERROR if attempt is None and told is not life.untold[-1] else job.error(attempt)
        if error[0] is not None:
            self._tell(kind, life, attempt, time=time, worker=life.worker if told == life.end else None, error=error)
        return error[0] is not None


Step: TypeAlias = Callable[[Steps, Life, Mapping[str, str]], int]

STEPS: dict[str, Step] = {
    "waiting": Steps.waiting,
    "delayed": Steps.delayed,
    "waiting-children": Steps.waiting_children,
    "active": Steps.active,
    "stalled": Steps.stalled,
    "completed": Steps.completed,
    "failed": Steps.failed,
    "removed": Steps.removed,
}
"""The words that move a job on; besides `added`, which begins it."""

SAY_NOTHING = frozenset(["retries-exhausted", "progress", "duplicated", "deduplicated", "debounced"])
"""Words about a job that say nothing of its way: `failed` told again, a number, an add that did nothing."""

QUEUE_WORDS = frozenset(["drained", "paused", "resumed", "cleaned"])
"""Words about a queue, without a job. Any other word is the users' own."""
