"""Native events with known truth: `python -m tests.truth.generator --seed 1 --events 200000 -o FILE [--truth FILE]`.

Takes a seed and a number of lines; gives the lines in the order of their delivery, and what has to be counted of
them. The same seed gives the same bytes everywhere. Of all lines 5% are exact repeats, 1% are malformed, and 5% come
late by less than the grace of 5 s. Some tasks go bad for a while, so that rules fire and resolve.

Where lines are spread over partitions they must go by `key`, else the disorder grows beyond the grace.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.truth import malformed, scenarios
from tests.truth.scenarios import Fact, Plan, Scenario

EPOCH = 1_750_000_000.0  # 2025-06-15: fixed, and in the past of every machine
SPAN = 1500.0  # seconds from the first fact to the last start of a task
TAIL = 240.0  # seconds before the end of the span in which only quiet scenarios begin
LATEST = 4.5  # seconds that a line comes late at most, within the grace of 5
DUPLICATES = 0.05
MALFORMED = 0.01
LATE = 0.05


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it is delivered."""

    body: bytes
    time: float
    """By the sender's clock, Unix seconds; of a malformed line the time around which it is delivered."""
    key: str
    """The task id: what decides the partition. Empty where the line is malformed."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What must be counted, however the lines are delivered."""

    read: int
    accepted: int
    duplicate: int
    malformed: int
    reasons: dict[str, int]
    """Malformed lines by reason."""
    tasks: dict[str, dict[str, int]]
    """Per task name, with the names of `replay --json`; what never happened is not in it."""
    series: dict[tuple[str, str], dict[str, int]]
    """The same per task name and queue."""
    states: dict[str, str]
    """Per task id, at the end."""
    last: dict[str, float]
    """Per task id, the time of its last fact: what ended long ago may have been forgotten."""
    dead_letters_open: int


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the span in which one task goes bad."""

    task: str
    start: float
    """Share of the span."""
    end: float
    share: float
    """How many of its tasks it meets."""
    scenario: Scenario
    wait: float = 0.3
    run: float = 0.5


PHASES: tuple[Phase, ...] = (
    Phase("pay.settle", 0.12, 0.30, 0.6, scenarios.failed),
    Phase("mail.send", 0.25, 0.45, 0.8, scenarios.retried),
    Phase("media.resize", 0.40, 0.55, 0.9, scenarios.plain, run=25.0),
    Phase("stock.import", 0.50, 0.65, 0.9, scenarios.plain, wait=25.0),
    Phase("report.export", 0.60, 0.66, 0.4, scenarios.redriven),
)


def generate(seed: int = 1, events: int = 200_000) -> tuple[list[Line], Truth]:
    """The lines in delivery order, and their truth. `events`: how many lines, at least 1,000."""
    rng = random.Random(seed)
    repeats = round(events * DUPLICATES)
    bad = round(events * MALFORMED)
    plans = _plans(rng, events - repeats - bad)
    delivered: list[tuple[float, Line]] = []
    for plan in plans:
        for fact in plan.facts:
            delay = rng.uniform(0.05, LATEST) if rng.random() < LATE else 0.0
            delivered.append((fact.time + delay, Line(_body(rng, fact), fact.time, plan.task_id)))
    for at, line in rng.choices(delivered, k=repeats):
        delivered.append((at + rng.uniform(0.0, LATEST), line))
    reasons: Counter[str] = Counter()
    for number in range(bad):
        _, write, reason = malformed.KINDS[number % len(malformed.KINDS)]
        at = round(EPOCH + rng.uniform(1, SPAN), 6)
        sample = {"kind": "started", "task_id": f"malformed-{number}", "time": at, "task": rng.choice(scenarios.TASKS)}
        delivered.append((at, Line(write(sample), at, "")))
        reasons[reason] += 1
    delivered.sort(key=lambda pair: pair[0])
    return [line for _, line in delivered], _truth(plans, repeats, reasons)


def _plans(rng: random.Random, facts: int) -> list[Plan]:
    """Tasks with exactly so many facts in all."""
    plans: list[Plan] = []
    names, weights = zip(*scenarios.SCENARIOS, strict=True)
    left = facts
    while left > 0:
        scenario = rng.choices(names, weights)[0] if left > 20 else scenarios.waiting
        plan = _plan(rng, scenario, plans)
        plans.append(plan)
        left -= len(plan.facts)
    return plans


def _plan(rng: random.Random, scenario: Scenario, before: list[Plan]) -> Plan:
    task = rng.choice(scenarios.TASKS)
    share = rng.random()
    phase = next((phase for phase in PHASES if phase.task == task and phase.start <= share < phase.end), None)
    meets = phase is not None and scenario is not scenarios.waiting and rng.random() < phase.share
    if phase is not None and meets:
        scenario = phase.scenario
    ahead = 0.0 if scenario in scenarios.QUIET else TAIL
    plan = Plan(
        rng=rng,
        task_id=f"{rng.getrandbits(128):032x}",
        task=task,
        queue=rng.choice(scenarios.QUEUES),
        at=EPOCH + share * (SPAN - ahead),
        shared={"caller": rng.choice(scenarios.CALLERS), "trace_id": f"{rng.getrandbits(128) | 1:032x}"},
        names_attempt=rng.random() < 0.5,
    )
    if phase is not None and meets:
        plan.wait, plan.run = phase.wait, phase.run
    if before and rng.random() < 0.1:
        parent = rng.choice(before[-50:])
        root = parent.shared.get("root_id", parent.task_id)
        plan.shared |= {"trace_id": parent.shared["trace_id"], "parent_id": parent.task_id, "root_id": root}
    scenario(plan)
    return plan


def _body(rng: random.Random, fact: Fact) -> bytes:
    """A fact as JSON, now and then in another spelling that says the same."""
    fields = dict(fact.fields)
    if rng.random() < 0.02:
        fields["time"] = datetime.fromtimestamp(fact.time, UTC).isoformat(timespec="microseconds")
    if rng.random() < 0.02:
        fields["traceparent"] = f"00-{fields.pop('trace_id')}-{rng.getrandbits(64) | 1:016x}-01"
    return json.dumps(fields, separators=(",", ":")).encode()


def _truth(plans: list[Plan], repeats: int, reasons: Counter[str]) -> Truth:
    tasks: dict[str, Counter[str]] = {}
    series: dict[tuple[str, str], Counter[str]] = {}
    for plan in plans:
        tasks.setdefault(plan.task, Counter()).update(plan.counts)
        series.setdefault((plan.task, plan.queue), Counter()).update(plan.counts)
    accepted = sum(len(plan.facts) for plan in plans)
    return Truth(
        read=accepted + repeats + reasons.total(),
        accepted=accepted,
        duplicate=repeats,
        malformed=reasons.total(),
        reasons=dict(reasons),
        tasks={name: dict(counts) for name, counts in tasks.items()},
        series={names: dict(counts) for names, counts in series.items()},
        states={plan.task_id: plan.state for plan in plans},
        last={plan.task_id: plan.at for plan in plans},
        dead_letters_open=sum(plan.dead for plan in plans),
    )


def as_json(truth: Truth) -> dict[str, object]:
    """The truth in the shape of `replay --json`, as far as that goes."""
    return {
        "events": {
            "read": truth.read,
            "accepted": truth.accepted,
            "duplicate": truth.duplicate,
            "malformed": truth.malformed,
            "ignored": 0,
        },
        "tasks": truth.tasks,
        "trails": {task_id: {"state": state} for task_id, state in truth.states.items()},
        "reasons": truth.reasons,
        "dead_letters_open": truth.dead_letters_open,
    }


def main(arguments: list[str]) -> None:
    """Write the lines, and where asked the truth."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--truth", type=Path, help="write what must be counted, as JSON")
    options = parser.parse_args(arguments)
    lines, truth = generate(options.seed, options.events)
    options.output.write_bytes(b"".join(line.body + b"\n" for line in lines))
    if options.truth:
        options.truth.write_text(json.dumps(as_json(truth)))
    print(f"{truth.read} lines of seed {options.seed}, {truth.accepted} facts, written to {options.output}")


if __name__ == "__main__":
    main(sys.argv[1:])
