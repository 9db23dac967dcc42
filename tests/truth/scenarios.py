"""Lives of tasks with their truth: each scenario writes facts and says, fact by fact, what it has to count as.

The truth comes from the plan alone (what counts once, read by hand), never from the code under test.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

TASKS = tuple(f"{area}.{work}" for area in ("pay", "mail", "media", "report", "stock") for work in (
    "settle", "refund", "send", "resize", "import", "export", "sync", "clean",
))  # fmt: skip
QUEUES = ("fast", "bulk", "nightly")
WORKERS = tuple(f"worker-{number:02d}@host-{number % 5}" for number in range(20))
CALLERS = ("web", "api", "cron", "admin")
ERRORS = ("TimeoutError", "ValueError", "ConnectionResetError", "KeyError")


@dataclass(slots=True)
class Fact:
    """One event that will be sent: its fields as the native format names them."""

    time: float
    fields: dict[str, object]


@dataclass(slots=True)
class Plan:
    """One task id from its first fact to its last. `at` is the time of the last fact written."""

    rng: random.Random
    task_id: str
    task: str
    queue: str
    at: float
    shared: dict[str, object]
    """Fields of all its facts: caller, trace id, parent."""
    names_attempt: bool
    wait: float = 0.3
    """Median seconds in the queue."""
    run: float = 0.5
    """Median seconds of a run."""
    facts: list[Fact] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    state: str = "sent"
    dead: int = 0
    """1 while it is an open dead letter."""

    def fact(self, kind: str, after: float, *, counts_as: tuple[str, ...] | None = None, **fields: object) -> None:
        """Write one fact, `after` seconds after the last one. It counts as its kind unless told otherwise."""
        self.at = round(self.at + max(after, 0.001), 6)
        named = {"kind": kind, "task_id": self.task_id, "time": self.at, "task": self.task, "queue": self.queue}
        self.facts.append(Fact(self.at, named | self.shared | fields))
        self.counts.update(counts_as or (kind,))

    def spread(self, median: float) -> float:
        """Seconds around a median, as times at work are spread: many short, few long."""
        return min(self.rng.lognormvariate(0, 0.6) * median, 60.0)

    def sent(self, after: float = 0.0) -> None:
        """Somebody asks for the work."""
        self.fact("sent", after)

    def received(self, worker: str) -> None:
        """A worker takes the message."""
        self.fact("received", self.spread(self.wait), worker=worker)

    def started(self, worker: str, attempt: int, after: float | None = None, *, again: bool = False) -> None:
        """An execution begins; `again` where its attempt was started before."""
        self.fact(
            "started",
            self.spread(0.02) if after is None else after,
            counts_as=("started", "redelivered") if again else None,
            worker=worker,
            **self.named(attempt),
        )

    def ended(self, kind: str, worker: str, attempt: int, *, again: bool = False) -> None:
        """An execution ends; `again` where this life has succeeded before."""
        seconds = round(self.spread(self.run), 3)
        fields: dict[str, object] = {"worker": worker, **self.named(attempt)}
        if kind == "succeeded":
            fields["run_seconds"] = seconds
        else:
            fields["error"] = self.rng.choice(ERRORS)
        self.fact(kind, seconds, counts_as=("duplicate_success",) if again else None, **fields)

    def named(self, attempt: int) -> dict[str, object]:
        """The attempt, where this task's framework tells it."""
        return {"attempt": attempt} if self.names_attempt else {}

    def worker(self, *, other: str = "") -> str:
        """Any worker but the other one."""
        return self.rng.choice([worker for worker in WORKERS if worker != other])

    def enqueued(self) -> str:
        """The beginning that most have; some frameworks tell neither or only one of the two."""
        worker = self.worker()
        if self.rng.random() < 0.95:
            self.sent()
        if self.rng.random() < 0.8:
            self.received(worker)
        return worker


def plain(plan: Plan) -> None:
    """Done at the first try."""
    worker = plan.enqueued()
    plan.started(worker, 1)
    plan.ended("succeeded", worker, 1)
    plan.state = "succeeded"


def tries(plan: Plan) -> tuple[str, int]:
    """One to three failed tries with another to come; gives the worker and number of the try that is under way."""
    worker = plan.enqueued()
    plan.started(worker, 1)
    attempt = 1
    for _ in range(plan.rng.choice((1, 1, 1, 2, 3))):
        plan.ended("retried", worker, attempt)
        worker = plan.worker()
        attempt += 1
        plan.started(worker, attempt, after=plan.rng.uniform(0.5, 15))
    return worker, attempt


def retried(plan: Plan) -> None:
    """Done at a later try."""
    worker, attempt = tries(plan)
    plan.ended("succeeded", worker, attempt)
    plan.state = "succeeded"


def failed(plan: Plan) -> None:
    """Failed for good, half of them after tries."""
    if plan.rng.random() < 0.5:
        worker, attempt = tries(plan)
    else:
        worker, attempt = plan.enqueued(), 1
        plan.started(worker, 1)
    plan.ended("failed", worker, attempt)
    plan.state = "failed"


def dead(plan: Plan) -> None:
    """Failed, and moved to the dead letters."""
    failed(plan)
    plan.fact("dead_lettered", plan.spread(0.05), error=plan.facts[-1].fields["error"])
    plan.state = "dead_lettered"
    plan.dead = 1


def redriven(plan: Plan) -> None:
    """A dead letter that is sent again by its id, and done: a second life."""
    dead(plan)
    plan.sent(after=plan.rng.uniform(20, 90))
    finish(plan)
    plan.dead = 0


def second_life(plan: Plan) -> None:
    """A custom id that is used again soon after its end."""
    plain(plan)
    plan.sent(after=plan.rng.uniform(1, 20))
    finish(plan)


def finish(plan: Plan) -> None:
    """The rest of a life that was sent: done at the first try."""
    worker = plan.worker()
    plan.received(worker)
    plan.started(worker, 1)
    plan.ended("succeeded", worker, 1)
    plan.state = "succeeded"


def redelivered(plan: Plan) -> None:
    """The first worker is taken for gone, a second one does the work."""
    first = plan.enqueued()
    second = plan.worker(other=first)
    plan.started(first, 1)
    plan.started(second, 1, after=plan.rng.uniform(0.5, 20), again=True)
    plan.ended("succeeded", second, 1)
    plan.state = "succeeded"


def done_twice(plan: Plan) -> None:
    """Two workers did the same work, one after the other."""
    first = plan.enqueued()
    second = plan.worker(other=first)
    plan.started(first, 1)
    plan.started(second, 1, after=plan.rng.uniform(0.5, 20), again=True)
    plan.ended("succeeded", first, 1)
    plan.ended("succeeded", second, 1, again=True)
    plan.state = "succeeded"


def started_again(plan: Plan) -> None:
    """Delivered again after it was done, without having been sent again."""
    plain(plan)
    worker = plan.worker(other=str(plan.facts[-1].fields["worker"]))
    plan.started(worker, 1, after=plan.rng.uniform(1, 60), again=True)
    plan.ended("succeeded", worker, 1, again=True)


def rejected(plan: Plan) -> None:
    """Refused by the worker."""
    worker = plan.enqueued()
    plan.started(worker, 1)
    plan.ended("rejected", worker, 1)
    plan.state = "rejected"


def revoked(plan: Plan) -> None:
    """Taken back before it began."""
    plan.sent()
    plan.fact("revoked", plan.spread(2))
    plan.state = "revoked"


def expired(plan: Plan) -> None:
    """Not begun in time."""
    plan.sent()
    plan.received(plan.worker())
    plan.fact("expired", plan.spread(10))
    plan.state = "expired"


def requeued(plan: Plan) -> None:
    """Given back by a worker that stops, done by another one."""
    first = plan.worker()
    plan.sent()
    plan.received(first)
    plan.fact("requeued", plan.spread(0.5), worker=first)
    second = plan.worker(other=first)
    plan.received(second)
    plan.started(second, 1)
    plan.ended("succeeded", second, 1)
    plan.state = "succeeded"


def waiting(plan: Plan) -> None:
    """Still in its queue when the stream ends."""
    plan.sent()
    plan.state = "sent"


def taken(plan: Plan) -> None:
    """Still with a worker that has not begun."""
    plan.sent()
    plan.received(plan.worker())
    plan.state = "received"


def running(plan: Plan) -> None:
    """Still running."""
    plan.started(plan.enqueued(), 1)
    plan.state = "started"


def retrying(plan: Plan) -> None:
    """Still to be tried again."""
    worker, attempt = tries(plan)
    plan.ended("retried", worker, attempt)
    plan.state = "retrying"


Scenario = Callable[[Plan], None]
SCENARIOS: tuple[tuple[Scenario, float], ...] = (
    (plain, 84.0),
    (retried, 4.0),
    (failed, 0.4),
    (dead, 0.1),
    (redriven, 0.3),
    (second_life, 1.5),
    (redelivered, 1.5),
    (done_twice, 0.3),
    (started_again, 0.3),
    (rejected, 0.7),
    (revoked, 0.7),
    (expired, 0.7),
    (requeued, 1.5),
    (waiting, 0.3),
    (taken, 0.3),
    (running, 0.5),
    (retrying, 0.2),
)
"""What happens to tasks, with weights."""

QUIET: frozenset[Scenario] = frozenset([plain, rejected, revoked, waiting, taken])
"""Nothing in these is decided later than it is seen, so that they may go on until the very end of the stream."""
