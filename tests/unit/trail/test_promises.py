"""Deadlines: in time, overdue, recovered; each once, whatever order the events come in."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.model.contract import Contract, Contracts
from collector.trail.transitions import FACTS, STRIDE
from tests.unit.trail.conftest import Bench, T

MINUTE = Contract(match="pay", semantics="must_complete", owner="payments", deadline=60.0)
FOUND = ("in_time", "overdue", "recovered")


def promised(*contracts, **bounds):
    """A bench whose tasks `pay` have a deadline of a minute, unless said otherwise."""
    made = Bench(**bounds)
    made.stitcher.promises.use(Contracts(contracts or (MINUTE,)))
    return made


def found(bench):
    """Each finding with when it was counted, in seconds from T; and how many are overdue now."""
    out = bench.stitcher.promises.out
    counted = [(code % STRIDE, at) for code, at in zip(out.codes, out.ats, strict=True)]
    counted += [(code % STRIDE, at) for code, _, at in out.errors]
    names = [(FACTS[fact], round(at - T, 3)) for fact, at in counted]
    open_now = sum((name == "late_up") - (name == "late_down") for name, _ in names)
    return sorted(one for one in names if one[0] in FOUND), open_now


def run(bench, *events):
    """Stitch events one by one, each decided up to its time before."""
    for event in events:
        bench.expire(event.time - T)
        bench.stitch(event)
    return bench


def test_what_is_done_by_its_deadline_is_in_time():
    """It counts at its success, and never as overdue."""
    bench = promised()
    bench.stitch(bench.event("sent", 0), bench.event("started", 1), bench.event("succeeded", 60))
    bench.expire(1_000)
    assert found(bench) == ([("in_time", 60.0)], 0)


def test_what_is_not_done_is_overdue_once_its_deadline_has_passed_by_grace():
    """Not before, once, and it is held in the gauge until it ends."""
    bench = promised()
    bench.stitch(bench.event("sent", 0), bench.event("started", 1))
    bench.expire(64.9)
    assert found(bench) == ([], 0)
    bench.expire(65)
    bench.expire(500)
    assert found(bench) == ([("overdue", 65.0)], 1)
    assert [(one.kind, one.at - T) for one in bench.stitcher.reader.find("a").events][-1] == ("overdue", 65.0)


def test_a_late_success_recovers():
    """It takes nothing back: the overdue stays counted, and the gauge comes down."""
    bench = promised()
    run(bench, bench.event("sent", 0), bench.event("started", 1), bench.event("succeeded", 90)).expire(500)
    assert found(bench) == ([("overdue", 65.0), ("recovered", 95.0)], 0)
    timeline = bench.stitcher.reader.find("a")
    assert [one.kind for one in timeline.events] == ["sent", "started", "overdue", "succeeded", "recovered"]
    assert (timeline.counts["overdue"], timeline.counts["recovered"]) == (1, 1)


def test_the_deadline_runs_from_the_eta():
    """What shall not start before has its time from then on."""
    bench = promised()
    bench.stitch(bench.event("sent", 0, eta=T + 100))
    bench.expire(164)
    assert found(bench) == ([], 0)
    bench.expire(165)
    assert found(bench) == ([("overdue", 165.0)], 1)


def test_retries_are_in_the_deadline():
    """It runs from the first `sent`, whatever attempt succeeds."""
    bench = promised()
    run(
        bench,
        bench.event("sent", 0),
        bench.event("started", 1, attempt=1),
        bench.event("retried", 2, attempt=1, error="E"),
        bench.event("sent", 2, attempt=2),
        bench.event("started", 50, attempt=2),
        bench.event("succeeded", 61, attempt=2),
    ).expire(500)
    assert found(bench) == ([("overdue", 65.0), ("recovered", 66.0)], 0)


@pytest.mark.parametrize("first", ["sent", "succeeded"])
def test_a_success_of_the_next_life_recovers_nothing_of_this_one(first):
    """Also where it overtakes the `sent` that begins its life."""
    bench = promised()
    run(bench, bench.event("sent", 0), bench.event("failed", 1)).expire(65.5)
    second = {"sent": "succeeded", "succeeded": "sent"}[first]
    bench.stitch(bench.event(first, 64))
    bench.expire(68)
    bench.stitch(bench.event(second, 64))
    bench.expire(500)
    assert found(bench)[0] == [("in_time", 64.0), ("overdue", 65.0)]


@pytest.mark.parametrize("kind", ["failed", "dead_lettered", "rejected", "expired"])
def test_what_ends_without_success_is_overdue_at_its_deadline_and_not_before(kind):
    """It has ended, so the gauge does not hold it."""
    bench = promised()
    run(bench, bench.event("sent", 0), bench.event("started", 1), bench.event(kind, 2)).expire(64)
    assert found(bench) == ([], 0)
    bench.expire(500)
    assert found(bench) == ([("overdue", 65.0)], 0)


def test_a_deadline_outlives_the_trail():
    """A failure that was long forgotten when its deadline passed is overdue all the same."""
    bench = promised(Contract(match="pay", semantics="best_effort", deadline=5_000.0))
    run(bench, bench.event("sent", 0), bench.event("started", 1), bench.event("failed", 2))
    for at in range(60, 6_000, 60):
        bench.expire(at)
    assert bench.stitcher.reader.find("a") is None
    assert found(bench) == ([("overdue", 5_005.0)], 0)


def test_what_was_taken_back_owes_nothing():
    """A revoked task is neither in time nor overdue."""
    bench = promised()
    run(bench, bench.event("sent", 0), bench.event("revoked", 2)).expire(500)
    assert found(bench) == ([], 0)


def test_each_life_has_its_own_deadline():
    """An id that is used again is judged again."""
    bench = promised()
    run(
        bench,
        bench.event("sent", 0),
        bench.event("started", 1),
        bench.event("succeeded", 2),
        bench.event("sent", 100),
    ).expire(500)
    assert found(bench) == ([("in_time", 2.0), ("overdue", 165.0)], 1)


def test_nothing_is_found_across_a_hole_of_the_source():
    """What is missing may lie in the hole: it is counted as not judged, and nothing else."""
    bench = promised()
    bench.stitcher.findings.holes.add("s", T + 10, T + 20)
    bench.stitch(bench.event("sent", 0), bench.event("sent", 30, "b"))
    bench.expire(500)
    assert found(bench) == ([("overdue", 95.0)], 1)
    assert bench.stitcher.evictions["deadlines"] == 1


def test_a_trail_that_leaves_is_no_longer_overdue():
    """The gauge never holds what is not remembered."""
    bench = promised(open_seconds=300.0)
    bench.stitch(bench.event("sent", 0))
    for at in range(60, 600, 60):
        bench.expire(at)
    assert bench.stitcher.reader.find("a") is None
    assert found(bench) == ([("overdue", 65.0)], 0)


def test_too_many_deadlines_are_counted():
    """Beyond the bound a deadline is not judged, and that is said."""
    bench = promised(deadlines=1)
    bench.stitch(bench.event("sent", 0), bench.event("sent", 1, "b"))
    bench.expire(500)
    assert (found(bench)[0], bench.stitcher.promises.unseen) == ([("overdue", 65.0)], 1)
    assert bench.stitcher.evictions["deadlines"] >= 1


def test_what_nobody_declared_has_no_deadline():
    """Of other tasks nothing is found."""
    bench = promised()
    bench.stitch(bench.event("sent", 0, task="mail"))
    bench.expire(5_000)
    assert found(bench) == ([], 0)


def test_what_must_complete_and_failed_for_good_is_an_open_dead_letter():
    """Although nothing keeps its message; a later success closes it, and a real dead letter is no second one."""
    bench = promised()
    for task_id in ("a", "b"):
        run(bench, bench.event("sent", 0, task_id), bench.event("started", 1, task_id))
        run(bench, bench.event("failed", 2, task_id, error="E"))
    bench.stitch(bench.event("failed", 2, "c", task="mail", error="E"), bench.event("dead_lettered", 3, "b"))
    assert bench.gauge("dead") == 2
    run(bench, bench.event("started", 9), bench.event("succeeded", 10))
    assert bench.gauge("dead") == 1


KINDS = ("sent", "started", "succeeded", "failed", "retried", "revoked", "sent")
CHAINS = st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0.1, 150).map(lambda at: round(at, 1))), max_size=6)


@settings(max_examples=300, deadline=None)
@given(chain=CHAINS, data=st.data())
def test_findings_do_not_depend_on_order_or_repetition_within_grace(chain, data):
    """The same facts, each up to grace late and some of them twice, give the same findings and timeline.

    Of two successes the one that arrives first gives the time of `in_time`, so there only the kinds are compared.
    None of them lies before the first `sent`: an end that does is of a life of which nothing is known.
    """
    outcomes = []
    for is_disturbed in (False, True):
        bench = promised()
        arrivals = []
        for kind, at in sorted([("sent", 0.0), *chain], key=lambda one: one[1]):
            event = bench.event(kind, at, attempt=1, worker="w")
            repeats = data.draw(st.integers(1, 2)) if is_disturbed else 1
            arrivals += [(at + (data.draw(st.floats(0, 4.9)) if is_disturbed else 0.0), event) for _ in range(repeats)]
        for arrival, event in sorted(arrivals, key=lambda one: one[0]):
            bench.expire(arrival)
            bench.stitch(event)
        bench.expire(400)
        timeline = bench.stitcher.reader.find("a")
        lines = timeline and Counter((one.kind, one.at) for one in timeline.events if one.kind in FOUND)
        findings, gauge = found(bench)
        if sum(kind == "succeeded" for kind, _ in chain) < 2:
            outcomes.append((findings, gauge, lines))
        else:
            outcomes.append((Counter(kind for kind, _ in findings), gauge, None))
    assert outcomes[0] == outcomes[1]
