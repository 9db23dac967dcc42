"""The tries of a task that a framework counts, as one machine: begun, stopped, lost, ended.

Takes what keys and notifications say; tells facts. Two things are not certain when they are seen, and wait: that a try
which was counted ran its function (one that is given up at once runs none), and that a try which stopped will be tried
again (the one that was the last is only known as such by what comes next).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from collector.formats.remembered import Remembered
from collector.model.event import LONGEST_TEXT

JOBS = 50_000
"""Tasks that are remembered."""
TRIES = 1000
"""Tries of one task that are told apart."""
UNSEEN = 100
"""Tries that are told of though they were not seen, because a later one was counted."""
RUN_SECONDS = 0.5
"""How long a try must last to have run for certain."""
LOOK_SECONDS = 10.0
"""How long after a look has found something the notification of the same may be heard, on a busy machine."""
NAME_SECONDS = 2.0
"""How long a task without a name waits for it."""
AGAIN_SECONDS = 10.0
"""How long after it is due a stopped try waits for the next one."""

Tell = Callable[..., None]


class Job(msgspec.Struct):
    """What was told of a task in its newest life."""

    task_id: str
    task: str | None = None
    queue: str | None = None
    born: float | None = None
    """By the sender's clock."""
    is_sent: bool = False
    tries: int = 0
    """Those that were counted."""
    is_running: bool = False
    is_told: bool = False
    """Whether the start of the newest try was told."""
    began: float | None = None
    owes: bool = False
    """Whether it is to be told of a try that it was retried: the newest, or the one before it until that runs."""
    stopped: float | None = None
    """When that try ended."""
    sure_at: float = 0.0
    """When what waits is told as it is; 0.0: nothing waits."""
    is_over: bool = False
    expires: float = 0.0
    """When the sign that it runs goes by itself."""
    lasts: float = 0.0
    """How long that sign lasts, at least."""
    is_noted: bool = False
    """Whether notifications tell of it: then looks are late."""
    looked: float = 0.0
    """When a try, or the end, was last found by a look."""
    is_unheard: bool = False
    """Whether no notification has told of that try."""

    def begin_life(self) -> None:
        """The id is used again."""
        self.is_sent = self.is_running = self.is_told = self.is_over = self.owes = self.is_unheard = False
        self.tries = 0
        self.born = self.began = self.stopped = None
        self.sure_at = self.expires = 0.0


class Tries:
    """The tasks of one decoder."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._jobs: Remembered[Job] = Remembered(JOBS)
        self._waiting: dict[str, Job] = {}
        self._at = 0.0

    def known(self, task_id: str) -> Job | None:
        """A task that was heard of."""
        return self._jobs.get(task_id)

    def job(self, task_id: str) -> Job:
        """A task."""
        found = self._jobs.get(task_id)
        if found is None:
            found = Job(task_id)
            for key, gone in self._jobs.put(task_id, found).items():
                if self._waiting.pop(key, None) is not None:
                    self._settle(gone)
        return found

    def named(self, job: Job, task: Any, born: float | None, queue: str | None = None) -> bool:
        """Its name is known, and when it was sent; whether this is of its newest life."""
        if job.born is not None and born is not None and born != job.born:
            if born < job.born:
                return False
            if job.sure_at:
                self._settle(job)
            job.begin_life()
        job.task = sys.intern(task[:LONGEST_TEXT]) if isinstance(task, str) and task else job.task
        job.queue = job.queue or queue
        job.born = born if born is not None else job.born
        return True

    def sent(self, job: Job, *, time: float | None, eta: float | None = None) -> None:
        """It was sent."""
        if not job.is_sent:
            job.is_sent = True
            later = eta if eta is not None and time is not None and eta > time else None
            self._fact(job, "sent", time=time, eta=later)

    def heard(self, job: Job, at: float) -> None:
        """It was heard of, but not yet its name."""
        if self._is_past(job, at):
            return
        if not job.is_sent:
            job.born = None if job.is_over else job.born
            self._wait(job, at + NAME_SECONDS)

    def begin(self, job: Job, time: float | None, at: float) -> None:
        """The next try was counted; the one before is over, if it was not."""
        if job.is_over:
            job.begin_life()
        if job.is_running:
            self.stop(job, None, at)
        job.tries = min(job.tries + 1, TRIES)
        job.is_running, job.is_told, job.began = True, False, time
        if time is None:
            job.looked, job.is_unheard = self._at, True
        self._wait(job, at + RUN_SECONDS)

    def noted(self, job: Job, at: float) -> bool:
        """A notification tells of a try; whether it is news, and not of one that a look found, which may be over."""
        job.is_noted = True
        is_news = not (job.is_unheard and at - job.looked < LOOK_SECONDS) and not self._is_past(job, at)
        job.is_unheard = False
        return is_news

    def _is_past(self, job: Job, at: float) -> bool:
        """Whether what is heard was before the end, which was read. An id that is used again is read, too."""
        return job.is_over and at - job.looked < LOOK_SECONDS

    def counted(self, job: Job, count: int, at: float) -> None:
        """So many tries were counted by now."""
        if job.is_over or count <= job.tries or count > TRIES:
            return
        job.tries = max(job.tries, count - UNSEEN)
        while job.tries < count:
            self.begin(job, None, at)

    def runs(self, job: Job) -> None:
        """The newest try runs for certain."""
        if job.is_running and not job.is_told:
            self._start(job, time=job.began)

    def held(self, job: Job, at: float) -> None:
        """A worker has it. That is so, too, while a job that had all its tries is given up, which counts one more."""
        if job.tries <= 1 or at - job.looked >= RUN_SECONDS:
            self.runs(job)

    def stop(self, job: Job, time: float | None, at: float, due: float | None = None) -> None:
        """The newest try ran and is over, without an outcome so far."""
        if job.is_running:
            self.runs(job)
            job.is_running, job.stopped, job.owes = False, time, True
            self._wait(job, max(at, due or at) + AGAIN_SECONDS)

    def lose(self, job: Job, time: float | None) -> None:
        """The newest try's worker fell silent: it is given to another, and that is no retry."""
        if job.is_running:
            self.runs(job)
            job.is_running = False
            self._fact(job, "requeued", attempt=job.tries, time=time)

    def void(self, job: Job) -> None:
        """The newest try was counted, and given up before its function ran."""
        if job.is_running and not job.is_told:
            job.is_running = False
            job.tries -= 1
            job.is_told = True

    def vanish(self, job: Job) -> None:
        """It is over, and nothing says how."""
        self.runs(job)
        job.is_running = job.owes = False
        job.is_over = True

    def end(  # noqa: PLR0913 - what a result says
        self,
        job: Job,
        kind: str,
        count: int,
        *,
        ran: bool,
        began: float | None,
        is_moved: bool = True,
        **fields: Any,
    ) -> None:
        """The outcome, after `count` counted tries, of which the last may not have run.

        `is_moved`: whether it was put back by anybody, so that earlier tries of which nothing was seen were retried.
        """
        last = min(count, TRIES) - (not ran)
        if job.tries > last:
            job.tries, job.is_told = last, True
        elif job.tries < last:
            job.tries = max(job.tries, last - UNSEEN)
            while job.tries < last:
                if not is_moved:
                    self.lose(job, None)
                self.begin(job, None, 0.0)
        if last > 0 and not job.is_told:
            self._start(job, time=began if ran else job.began, worker=fields.get("worker") if ran else None)
        job.is_running = job.owes = False
        job.is_over, job.sure_at, job.looked = True, 0.0, self._at
        self._waiting.pop(job.task_id, None)
        self._fact(job, kind, attempt=last or None, **fields)

    def release(self, at: float) -> None:
        """Tell what waited until now. Before anything else of that moment."""
        self._at = at
        for job in list(self._waiting.values()) if self._waiting else ():
            if job.sure_at <= at:
                self._settle(job)

    # Inside

    def _wait(self, job: Job, until: float) -> None:
        job.sure_at = until
        self._waiting[job.task_id] = job

    def _settle(self, job: Job) -> None:
        self._waiting.pop(job.task_id, None)
        job.sure_at = 0.0
        self.sent(job, time=job.born)
        self.runs(job)
        if not job.is_running:
            self._pay(job, job.tries)

    def _start(self, job: Job, **fields: Any) -> None:
        job.is_told = True
        self._pay(job, job.tries - 1)
        self._fact(job, "started", attempt=job.tries, **fields)

    def _pay(self, job: Job, attempt: int) -> None:
        """A try that stopped is followed by another."""
        if job.owes:
            job.owes = False
            self._fact(job, "retried", attempt=attempt, time=job.stopped)

    def _fact(self, job: Job, kind: str, **fields: Any) -> None:
        if kind != "sent" and not job.is_sent:
            self.sent(job, time=job.born)
        self._tell(kind, job.task_id, task=job.task, queue=job.queue, **fields)
