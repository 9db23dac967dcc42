"""One task id for thousands of events: a constant where an id should be, or a task that goes round without end."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from hypothesis import given, settings

from collector.model.contract import Contract, Contracts
from collector.model.event import KIND_CODE
from collector.trail import misfits, tally
from collector.trail.lifecycle import TIE
from collector.trail.transitions import FACTS, STRIDE
from tests.unit.trail.conftest import Bench
from tests.unit.trail.test_order import fact_sets

EVENTS = 1_500
BOUND = 96
STEP = 0.001
"""Seconds from one event to the next: within grace there are far more than the bound."""

LIVES = [
    ["sent", "started", "succeeded"],
    ["sent", "started", "started", "retried", "failed"],
    ["sent", "started", "succeeded", "failed", "dead_lettered"],
    ["started", "retried"],
    ["started", "failed"],
    ["started", "succeeded"],
    ["started", "requeued"],
    ["dead_lettered"],
    ["sent"],
]


def crowded(kinds, count=EVENTS, *, at_once=100, bound=BOUND, contract=None):
    """So many events of one id, one life after the other."""
    bench = Bench(trail_facts=bound)
    if contract is not None:
        bench.stitcher.promises.use(Contracts([contract]))
    events = [bench.event(kind, n * STEP) for n, kind in enumerate(islice(cycle(kinds), count))]
    for start in range(0, count, at_once):
        bench.stitch(*events[start : start + at_once]).expire(start * STEP)
    return bench


def held(bench):
    """The one trail."""
    (trail,) = bench.stitcher._keep.homes[0].open.values()
    return trail


@pytest.fixture
def work(monkeypatch):
    """How many facts were gone through."""
    looked = [0]
    real = tally.lives_of

    def counting(facts, grace):
        looked[0] += len(facts)
        return real(facts, grace)

    monkeypatch.setattr(tally, "lives_of", counting)
    return looked


@pytest.mark.parametrize("kinds", LIVES, ids="-".join)
def test_counts_are_those_of_a_trail_that_remembers_all(kinds):
    """However many lives one id has within grace, each counts; what was cut is counted, and the trail stays small."""
    bench, whole = (crowded(kinds, 900, bound=bound).expire(30) for bound in (BOUND, 1_000_000))
    assert bench.counts() == whole.counts()
    assert bench.outcome == whole.outcome
    assert bench.gauge("flight") == whole.gauge("flight") == 0
    assert bench.gauge("dead") == whole.gauge("dead")
    assert bench.stitcher.evictions["trail_facts"] >= 900 - 2 * BOUND
    assert len(held(bench).facts) <= 2 * BOUND


@pytest.mark.parametrize("kinds", LIVES, ids="-".join)
def test_an_event_costs_the_same_however_many_there_were(kinds, work):
    """The facts that are gone through for an event are bounded, and no more at the end than at the beginning."""
    crowded(kinds, 1_000)
    first, work[0] = work[0], 0
    crowded(kinds, 2_000)
    assert work[0] < 2.2 * first
    assert first < 10 * 1_000


def test_an_event_by_itself_is_bounded_too(work):
    """Where each event is a batch of its own, twice the bound is gone through at most a few times."""
    crowded(["started"], 500, at_once=1)
    assert work[0] < 500 * 3 * BOUND


def test_what_never_ends_leaves_flight_when_it_is_cut():
    """Starts without ends count one by one; those that are no longer remembered are not said to be running."""
    bench = crowded(["started"], 1_000).expire(30)
    assert bench.counts() == {"started": 1_000, "redelivered": 999}
    gone = bench.stitcher.evictions["trail_facts"]
    assert gone > 1_000 - 2 * BOUND
    assert bench.gauge("flight") == 1_000 - gone


def test_repeats_in_a_crowd_are_duplicates(bench):
    """What turns out to be no fact of its own at the end of the batch was not accepted."""
    bench.stitch(*(bench.event("started", n, worker=f"w{n}") for n in range(40)))
    bench.stitch(*(bench.event("started", 50, worker=f"w{n}", time=None) for n in range(40, 60)), ats=[50.0] * 20)
    bench.stitch(*(bench.event("started", 51, worker=f"w{n}", time=None) for n in range(50, 70)), ats=[51.0] * 20)
    assert bench.outcome == {"accepted": 70, "duplicate": 10, "ignored": 0}


@settings(max_examples=100, deadline=None)
@given(fact_sets(is_tidy=False))
def test_a_batch_settled_at_its_end_counts_like_each_event_by_itself(case):
    """When a trail is settled does not matter, for facts in the order of their times."""
    facts, _ = case
    order = sorted(range(len(facts)), key=lambda n: (facts[n]["at"], TIE[KIND_CODE[facts[n]["kind"]]]))

    def counted(at_once):
        bench = Bench()
        told = [bench.event(**facts[n]) for n in order]
        for start in range(0, len(told), at_once):
            bench.stitch(*told[start : start + at_once])
        bench.expire(30)
        return bench.counts(), bench.state(), bench.gauge("flight"), bench.gauge("dead")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(misfits, "_CROWD", 0)
        assert counted(len(order)) == counted(1)


def test_each_life_of_a_crowd_is_judged_by_its_deadline():
    """Once, and the trail does not remember all of them."""
    bench = crowded(["sent", "started", "succeeded"], contract=Contract(match="pay", deadline=60.0)).expire(30)
    counted = [FACTS[code % STRIDE] for code in bench.stitcher.promises.out.codes]
    assert counted == ["in_time"] * (EVENTS // 3)
    assert len(held(bench).found) < EVENTS // 3
