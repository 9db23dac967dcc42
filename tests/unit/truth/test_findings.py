"""The whole of findings against a generator that knows the truth."""

from __future__ import annotations

import os
from collections import Counter, defaultdict

import numpy as np
import pytest

from collector.model.contract import Contracts
from collector.trail.keep import Bounds
from collector.trail.rows import Errors, Rows
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import FACTS, PAIRED, STRIDE, Transitions
from tests.truth.findings import ANYTHING, CONTRACTS, END, T, deliveries, plans
from tests.truth.wires import Wires

SEEDS = range(1, 1 + int(os.environ.get("TASKTRAIL_FINDING_SEEDS", "1")))
TRAILS = int(os.environ.get("TASKTRAIL_FINDING_TRAILS", "2000"))
BESIDES = ("redelivered", "duplicate_success")
_NAMED = ("findings", "policy_violations", "recovered")


class Court:
    """A stitcher that is fed as a pipeline feeds it, and what came out."""

    def __init__(self) -> None:
        self.errors = Errors()
        self.stitcher = Stitcher(Rows(), self.errors, Bounds(finished_seconds=1e6, open_seconds=1e6))
        self.stitcher.promises.use(Contracts(CONTRACTS))
        self.stitcher.findings.use(Contracts(CONTRACTS))
        self.out = Transitions()
        self.starts: dict[int, list[float]] = defaultdict(list)
        self.stitcher.findings.storms.starts = self.started

    def started(self, row: int, since: float, until: float) -> float:
        """How many starts of a row were counted in a time, as the series know it."""
        return sum(since < at <= until for at in self.starts[row])

    def note_starts(self, out: Transitions) -> None:
        """Count them."""
        for code, at in zip(out.codes, out.ats, strict=True):
            if "started" in {FACTS[one] for one in PAIRED.get(code % STRIDE, (code % STRIDE,))}:
                self.starts[code // STRIDE].append(at)

    def walk(self, until: float) -> None:
        """Decide all that is due."""
        while (due := self.stitcher.next_due()) is not None and due <= until:
            while self.stitcher.expire(due, self.out):
                pass
        self.stitcher.expire(until, self.out)

    def feed(self, source: str, batch: list) -> None:
        """Events of one source with their axis times."""
        out = Transitions()
        self.stitcher.stitch(source, "", [event for event, _ in batch], [at for _, at in batch], out)
        self.note_starts(out)
        if out.measures:
            self.stitcher.watch(source, "", out, np.array(out.measures), np.array(out.seconds))

    def counted(self) -> Counter[str]:
        """How often each thing was found, as the series see it."""
        out = self.stitcher.findings.out
        named = Counter(self.errors.name(error) for code, error, _ in out.errors if FACTS[code % STRIDE] in _NAMED[:2])
        recovered = sum(FACTS[code % STRIDE] == "recovered" for code, _, _ in out.errors)
        lost = sum(FACTS[code % STRIDE] == "lost" for code in out.codes)
        return named + Counter({"recovered": recovered, "lost": lost})


def found(court: Court, task_id: str) -> list[tuple[str, float]]:
    """The findings in a trail's timeline, deadlines left out."""
    view = court.stitcher.reader.find(task_id)
    assert view is not None
    return sorted(
        (one.kind, round(one.at - T, 3))
        for one in view.events
        if not one.attempt and "overdue" not in {one.kind, one.detail} and one.kind not in BESIDES
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_planted_is_found_once_and_nothing_else(seed):
    """With the right ids and times, in the wire forms of two frameworks, out of order and with duplicates."""
    made, court, wires = plans(seed, TRAILS), Court(), Wires()
    for arrival, source, event, at in deliveries(seed, made):
        court.walk(arrival)
        court.feed(source, [(carried, at) for carried in wires.carry(source, event, at)])
    court.walk(T + END)
    wrong = []
    for plan in made:
        for task_id in {event.task_id for event in plan.events if event.task_id}:
            expected = sorted((name, round(at, 3)) for name, at in plan.found)
            got = found(court, task_id)
            unsure = {name for name, at in expected if at == ANYTHING}
            got = sorted((name, ANYTHING if name in unsure else at) for name, at in got)
            counts = court.stitcher.reader.find(task_id).counts
            twice = {name: counts.get(name, 0) for name in ("redelivered", "duplicate_success")}
            if got != expected or twice != {name: plan.counts[name] for name in twice}:
                wrong.append((task_id, got, expected, twice, dict(plan.counts)))
    assert not wrong, (len(wrong), wrong[:8])
    planted = Counter(name for plan in made for name, _ in plan.found + plan.beyond)
    assert court.counted() == planted
    assert len(planted) >= 12
