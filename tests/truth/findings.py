"""Trails with known findings: a scenario writes the events of one task id and says what is to be found of it, and when.

Two frameworks speak: one names attempts and workers' heartbeats come often, the other names no attempts and has few.
The truth comes from the plan alone. `python -m tests.truth.findings SEED TRAILS` prints how many of which were planted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from collector.model.contract import Backoff, Contract
from collector.model.event import Event

T = 1_790_000_000.0
SPAN = 3_000.0
"""Seconds in which trails begin."""
END = SPAN + 2_500.0
LATEST = 4.9
"""Seconds that an event comes late at most."""
GRACE = 5.0
DEADLINE, LIMIT, PERIOD = 600.0, 120.0, 100.0

CONTRACTS = (
    Contract(
        match="strict.*",
        semantics="best_effort",
        deadline=DEADLINE,
        time_limit=LIMIT,
        max_attempts=3,
        backoff=Backoff(min=10.0, factor=2.0),
        retryable=("TimeoutError",),
        not_retryable=("ValueError",),
    ),
    Contract(match="cron.*", semantics="best_effort", period=PERIOD),
)
FRAMEWORKS = {"celery": 2.0, "queue": 8.0}
"""Source → seconds between the heartbeats of its workers. Of `queue` no event names its attempt."""
USUAL = 120
"""Trails of each source and kind that are done before the others begin, so that it is known what is usual."""
ANYTHING = -1.0
"""In place of a time that depends on what was learnt."""


@dataclass(slots=True)
class Plan:
    """One task id. Times are seconds after T; `at` is that of the last event written."""

    rng: random.Random
    task_id: str
    source: str
    at: float
    task: str = ""
    events: list[Event] = field(default_factory=list)
    found: list[tuple[str, float]] = field(default_factory=list)
    beyond: list[tuple[str, float]] = field(default_factory=list)
    """What is found of no single trail."""
    counts: Counter[str] = field(default_factory=Counter)
    attempt: int = 0

    def tell(self, kind: str, after: float = 0.0, **fields: object) -> float:
        """One event, so long after the last one; gives when."""
        self.at = round(self.at + after, 3)
        self.events.append(
            Event(kind=kind, task_id=self.task_id, task=self.task, queue="q", time=T + self.at, **fields)
        )
        return self.at

    def sent(self, name: str = "loose") -> None:
        """It is asked for, as a strict or loose task."""
        self.task = f"{name}.{self.source}"
        self.tell("sent")

    def start(self, worker: str = "pool", after: float | None = None, *, again: bool = False) -> float:
        """The next try begins, or (`again`) the same once more."""
        self.attempt += not again
        return self.tell("started", self.rng.uniform(0.1, 2) if after is None else after, **self._named(worker))

    def end(self, kind: str, after: float | None = None, worker: str = "pool", error: str | None = None) -> float:
        """The try ends."""
        usual = (6, 12) if self.task.startswith("strict") else (0.5, 2)
        run = self.rng.uniform(*usual) if after is None else after
        return self.tell(kind, run, error=error, **self._named(worker))

    def _named(self, worker: str) -> dict[str, object]:
        named: dict[str, object] = {"worker": f"{worker}-{self.source}"}
        return named | ({"attempt": self.attempt} if self.source == "celery" else {})

    def signs(self, worker: str, start: float, end: float, last: str = "") -> float:
        """Heartbeats of a worker, and its last word; gives when the last heartbeat was."""
        every, at = FRAMEWORKS[self.source], start
        while at <= end:
            self.sign("heartbeat", worker, at)
            at = round(at + every, 3)
        if last:
            self.sign(last, worker, end)
        return at - every

    def sign(self, kind: str, worker: str, at: float, off: float = 0.0) -> None:
        """One sign of life, `off` seconds wrong by its sender's clock."""
        told = f"{worker}-{self.source}"
        self.events.append(Event(kind=kind, task_id="", worker=told, time=T + at + off, labels={"at": str(T + at)}))

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is gone."""
        return max(10.0, 3 * FRAMEWORKS[self.source])

    def dies(self, worker: str, after: float) -> float:
        """A worker of its own that is silent some time after the start; gives when what it has is lost."""
        last = self.signs(worker, self.at - 40.0, self.at + after)
        return last + self.patience + GRACE


Scenario = Callable[[Plan], None]


def plain(plan: Plan) -> None:
    """Done at the first try."""
    plan.sent(plan.rng.choice(("strict", "loose")))
    plan.tell("received", 0.1)
    plan.start()
    plan.end("succeeded")


def retried(plan: Plan) -> None:
    """Done at a later try, each as late as it must be."""
    plan.sent("strict")
    for wait in (10.5, 20.5)[: plan.rng.randint(1, 2)]:
        plan.start(after=0.5 if not plan.attempt else wait)
        plan.end("retried", error="TimeoutError")
    plan.start(after=10.5 if plan.attempt == 1 else 20.5)
    plan.end("succeeded")


def failed_at_once(plan: Plan) -> None:
    """Given up after an error that must not be tried again."""
    plan.sent("strict")
    plan.start()
    plan.end("failed", error="ValueError")


def failed_at_last(plan: Plan) -> None:
    """Given up after as many tries as are allowed."""
    _tries(plan, (10.5, 20.5), "TimeoutError")
    plan.end("failed", error="TimeoutError")


def _tries(plan: Plan, waits: tuple[float, ...], error: str) -> None:
    """Failed tries, and the one that runs."""
    plan.sent("strict")
    plan.start()
    for wait in waits:
        plan.end("retried", error=error)
        plan.start(after=wait)


def ended(kind: str) -> Scenario:
    """It ends before it is run."""

    def scenario(plan: Plan) -> None:
        plan.sent("strict")
        plan.tell(kind, 3)

    scenario.__name__ = kind
    return scenario


def too_often(plan: Plan) -> None:
    """One try more than allowed."""
    _tries(plan, (10.5, 20.5, 40.5), "OSError")
    plan.found.append(("max_attempts", plan.at + GRACE))
    plan.end("succeeded")


def far_too_often(plan: Plan) -> None:
    """Two tries more: it is found once."""
    _tries(plan, (10.5, 20.5, 40.5, 80.5), "OSError")
    plan.found.append(("max_attempts", round(plan.at - 80.5 - _ran(plan), 3) + GRACE))
    plan.end("succeeded")


def _ran(plan: Plan) -> float:
    """Seconds of the last but one try."""
    starts = [event for event in plan.events if event.kind == "started"]
    ends = [event for event in plan.events if event.kind == "retried"]
    return (ends[-1].time or 0.0) - (starts[-2].time or 0.0)


def wrongly_tried(plan: Plan) -> None:
    """Tried again after an error that forbids it."""
    plan.sent("strict")
    plan.start()
    plan.found.append(("not_retryable", plan.end("retried", error="app.ValueError") + GRACE))
    plan.start(after=11)
    plan.end("succeeded")


def wrongly_given_up(plan: Plan) -> None:
    """Not tried again although it must be."""
    plan.sent("strict")
    plan.start()
    plan.found.append(("not_retried", plan.end("failed", error="TimeoutError") + GRACE))


def too_soon(plan: Plan) -> None:
    """Tried again before its back-off was over."""
    _tries(plan, (10.5, 12.0), "OSError")
    plan.found.append(("backoff", plan.at + GRACE))
    plan.end("succeeded")


def too_soon_and_too_often(plan: Plan) -> None:
    """Two policies at once."""
    _tries(plan, (2.0,), "OSError")
    plan.found.append(("backoff", plan.at + GRACE))
    for wait in (20.5, 40.5):
        plan.end("retried", error="OSError")
        plan.start(after=wait)
    plan.found.append(("max_attempts", plan.at + GRACE))
    plan.end("succeeded")


def stuck(plan: Plan) -> None:
    """Runs for ever."""
    plan.sent("strict")
    plan.found.append(("stuck", plan.start() + LIMIT + GRACE))


def slow(plan: Plan) -> None:
    """Runs beyond its limit, and ends."""
    plan.sent("strict")
    plan.found.append(("stuck", plan.start() + LIMIT + GRACE))
    plan.end("succeeded", LIMIT + 20)


def slow_second(plan: Plan) -> None:
    """Its second try runs beyond the limit."""
    _tries(plan, (10.5,), "OSError")
    plan.found.append(("stuck", plan.at + LIMIT + GRACE))
    plan.end("succeeded", LIMIT + 20)


def just_in_time(plan: Plan) -> None:
    """Runs nearly as long as it may."""
    plan.sent("strict")
    plan.start()
    plan.end("succeeded", LIMIT - 5)


def silent(plan: Plan) -> None:
    """Its worker is gone without a word."""
    plan.sent()
    plan.start(plan.task_id)
    plan.found.append(("lost", plan.dies(plan.task_id, 20)))


def restarted(plan: Plan) -> None:
    """Its worker begins again under its name."""
    plan.sent()
    plan.start(plan.task_id)
    back = plan.at + 17
    plan.signs(plan.task_id, plan.at - 20, back, "online")
    plan.signs(plan.task_id, back, END)
    plan.found.append(("lost", back + GRACE))


def left(plan: Plan) -> None:
    """Its worker says that it leaves, and it does not end."""
    plan.sent("left")  # of which nothing is usual: none ends
    plan.start(plan.task_id)
    plan.signs(plan.task_id, plan.at - 20, plan.at + 10, "offline")
    plan.found.append(("lost", plan.at + 10 + 60 + GRACE))


def left_well(plan: Plan) -> None:
    """Its worker leaves, and it ends while there is time."""
    plan.sent()
    plan.start(plan.task_id)
    plan.signs(plan.task_id, plan.at - 20, plan.at + 10, "offline")
    plan.end("succeeded", 40, plan.task_id)


def run_elsewhere(plan: Plan) -> None:
    """Lost, and done by another worker."""
    silent(plan)
    lost = plan.found[-1][1]
    again = plan.start("pool", lost - plan.at + 30, again=True)
    plan.found.append(("recovered", again))
    plan.counts["redelivered"] += 1
    plan.end("succeeded")


def seen_after_all(plan: Plan) -> None:
    """Lost, and its end is told long after."""
    silent(plan)
    plan.found.append(("recovered", plan.end("succeeded", plan.found[-1][1] - plan.at + 20, plan.task_id)))


def poison(plan: Plan) -> None:
    """Takes two workers down."""
    silent(plan)
    again = plan.start(f"{plan.task_id}b", plan.found[-1][1] - plan.at + 20, again=True)
    plan.found.append(("recovered", again))
    plan.counts["redelivered"] += 1
    gone = plan.dies(f"{plan.task_id}b", 20)
    plan.found += [("lost", gone), ("poison", gone)]


def done_before(plan: Plan) -> None:
    """Its worker is gone right after it was done."""
    plan.sent()
    plan.start(plan.task_id)
    plan.signs(plan.task_id, plan.at - 20, plan.at + 5)
    plan.end("succeeded", 3, plan.task_id)


def unknown_worker(plan: Plan) -> None:
    """Runs for ever on a worker that never gave a sign of life: stuck, by what is usual, and not lost."""
    plan.sent()
    plan.found.append(("stuck", ANYTHING))
    plan.start(plan.task_id)


def never_started(plan: Plan) -> None:
    """Nobody takes it."""
    plan.sent()
    plan.found.append(("never_started", plan.at + 900 + GRACE))


def taken_never_started(plan: Plan) -> None:
    """It is taken, and not begun."""
    plan.sent()
    plan.found.append(("never_started", plan.at + 900 + GRACE))
    plan.tell("received", 1)


def too_late_started(plan: Plan) -> None:
    """It is begun after its deadline: forecast, and never started in time."""
    plan.sent("strict")
    plan.found += [("forecast", ANYTHING), ("never_started", plan.at + DEADLINE + GRACE)]
    plan.start(after=DEADLINE + 30)
    plan.end("succeeded")


def late_started(plan: Plan) -> None:
    """It waits long, but not too long."""
    plan.sent("strict")
    plan.start(after=500)
    plan.end("succeeded")


def loop(plan: Plan) -> None:
    """Given back again and again."""
    plan.sent()
    for number in range(7):
        plan.start(again=number > 0)
        back = plan.end("requeued", 1)
        if number == 4:
            plan.found.append(("requeue_loop", back + GRACE))
    plan.counts["redelivered"] += 7
    plan.start(again=True)
    plan.end("succeeded")


def given_back(plan: Plan) -> None:
    """Given back once, as by a worker that stops."""
    plan.sent()
    plan.start()
    plan.end("requeued", 1)
    plan.start(again=True)
    plan.end("succeeded")
    plan.counts["redelivered"] += 1


def run_twice(plan: Plan) -> None:
    """Started again while it runs."""
    plan.sent()
    plan.start()
    plan.start("other", 20, again=True)
    plan.end("succeeded", 10, "other")
    plan.counts["redelivered"] += 1


def done_twice(plan: Plan) -> None:
    """Started again while it runs, and both are done."""
    plan.sent()
    plan.start()
    plan.start("other", 20, again=True)
    plan.end("succeeded", 10, "other")
    plan.end("succeeded", 10)
    plan.counts.update(("redelivered", "duplicate_success"))


def used_again(plan: Plan) -> None:
    """One id, two lives."""
    plain(plan)
    plan.at += 100
    plan.attempt = 0
    plain(plan)


def skewed(plan: Plan) -> None:
    """A worker whose clock is ahead."""
    plain(plan)
    every = FRAMEWORKS[plan.source]
    for number in range(8):
        plan.sign("heartbeat", plan.task_id, plan.at + number * every, 20.0)
    plan.sign("offline", plan.task_id, plan.at + 8 * every)
    plan.beyond.append(("skew", ANYTHING))


SCENARIOS: tuple[Scenario, ...] = (
    plain, retried, failed_at_once, failed_at_last, ended("revoked"), ended("expired"), ended("rejected"), too_often,
    far_too_often, wrongly_tried, wrongly_given_up, too_soon, too_soon_and_too_often, stuck, slow, slow_second,
    just_in_time, silent, restarted, left, left_well, run_elsewhere, seen_after_all, poison, done_before,
    unknown_worker, never_started, taken_never_started, too_late_started, late_started, loop, given_back, run_twice,
    done_twice, used_again, skewed,
)  # fmt: skip
RARE = frozenset((restarted, skewed, slow, slow_second, just_in_time))
"""They cost many events, or change what is usual."""


def blocked(plan: Plan) -> list[Plan]:
    """A worker that sends nothing while it works: what it does at first is lost and recovered, and nothing after it."""
    worker = plan.task_id
    plan.sent("blocked")  # of which nothing is usual
    plan.start(worker)
    plan.sign("online", worker, plan.at - 41.0)
    plan.found.append(("lost", plan.dies(worker, 1)))
    plan.found.append(("recovered", plan.end("succeeded", plan.found[-1][1] - plan.at + 20, worker)))
    plan.signs(worker, round(plan.at + 0.1, 3), plan.at + 30)
    more = Plan(plan.rng, f"{worker}-more", plan.source, round(plan.at + 30, 3))
    more.sent("blocked")
    more.start(worker)
    more.end("succeeded", plan.rng.uniform(20, 60), worker)
    more.signs(worker, round(more.at + 0.1, 3), more.at + 20, "offline")
    return [plan, more]


def storm(rng: random.Random, number: int, source: str) -> list[Plan]:
    """A dependency that is away: two of three starts of a task are retries after one error."""
    made, began = [], rng.uniform(200, SPAN)
    for trail in range(50):
        plan = Plan(rng, f"storm-{number}-{trail}", source, round(began + trail, 3))
        plan.sent(f"storm.{number}")
        for _ in range(2):
            plan.start()
            plan.end("retried", error="ConnectionError")
        plan.start()
        plan.end("succeeded")
        made.append(plan)
    made[0].beyond.append(("retry_storm", ANYTHING))
    return made


def schedule(rng: random.Random, number: int, source: str) -> Plan:
    """A task that is sent every period, but for one turn."""
    plan = Plan(rng, f"cron-{number}", source, rng.uniform(0, PERIOD), task=f"cron.{number}")
    missing = rng.randint(3, 20)
    first, turns = plan.at, int(END / PERIOD)
    for turn in range(turns):
        if turn != missing:
            plan.at = round(first + turn * PERIOD, 3)
            plan.task_id = f"cron-{number}-{turn}"
            plan.tell("sent")
            plan.tell("started", 0.5)
            plan.tell("succeeded", 0.5)
    plan.beyond.append(("missed_schedule", round(first + missing * PERIOD, 3) + PERIOD / 10 + GRACE))
    return plan


def plans(seed: int, trails: int) -> list[Plan]:
    """Plans of a seed: so many trails, mixed, and a few schedules, retry storms and workers that block."""
    rng = random.Random(seed)
    made: list[Plan] = []
    for number in range(trails):
        source = rng.choice(tuple(FRAMEWORKS))
        scenario = plain if rng.random() < 0.6 else rng.choice(SCENARIOS)
        if scenario in RARE and rng.random() < 0.8:
            scenario = plain
        plan = Plan(rng, f"{source}-{number}", source, round(rng.uniform(60, SPAN), 3))
        scenario(plan)
        made.append(plan)
    for number in range(4 * USUAL):
        source, name = tuple(FRAMEWORKS)[number % 2], ("strict", "loose")[number // 2 % 2]
        plan = Plan(rng, f"{source}-usual-{number}", source, round(rng.uniform(-1_500, -900), 3))
        plan.sent(name)
        plan.start()
        plan.end("succeeded")
        made.append(plan)
    pools = [Plan(rng, f"{name}-{source}", source, 0.0) for source in FRAMEWORKS for name in ("pool", "other")]
    for plan in pools:
        plan.signs(plan.task_id.removesuffix(f"-{plan.source}"), 0.0, END)
    for number in range(4):
        source = tuple(FRAMEWORKS)[number % 2]
        made += blocked(Plan(rng, f"blocked-{number}", source, round(rng.uniform(60, SPAN), 3)))
        made += storm(rng, number, source)
    return [*made, *pools, *(schedule(rng, number, rng.choice(tuple(FRAMEWORKS))) for number in range(4))]


def deliveries(seed: int, made: list[Plan]) -> Iterator[tuple[float, str, Event, float]]:
    """(arrival, source, event, axis time) in the order of arrival: a fifth of them late, one in twenty twice."""
    rng = random.Random(f"{seed} deliveries")
    arrivals = []
    for plan in made:
        for event in plan.events:
            at = float(event.labels["at"]) if event.labels else event.time or 0.0
            for _ in range(1 + (rng.random() < 0.05)):
                late = rng.uniform(0, LATEST) if rng.random() < 0.2 else 0.0
                arrivals.append((at + late, len(arrivals), plan.source, event, at))
    arrivals.sort(key=lambda one: one[:2])
    for arrival, _, source, event, at in arrivals:
        yield arrival, source, event, at


if __name__ == "__main__":
    PLANTED = Counter(
        name for plan in plans(int(sys.argv[1]), int(sys.argv[2])) for name, _ in plan.found + plan.beyond
    )
    print(dict(PLANTED))
