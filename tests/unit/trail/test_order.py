"""Counts, states and flight are a function of the set of facts, whatever their order and whichever path they take."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collector.model.event import TASK_KINDS
from collector.trail import flat
from collector.trail.trail import M_IRREGULAR
from tests.unit.trail.conftest import Bench

KINDS = ["sent", "received", "started", "started", "succeeded", "failed", "retried", "retried", *TASK_KINDS]


@st.composite
def fact_sets(draw, *, is_tidy):
    """Facts of one task within grace: tidy ones name worker and attempt, others leave some of it out.

    A sender names the attempt with a kind of fact always or never; that is what the promise is about.
    """
    count = draw(st.integers(1, 7))
    naming = draw(st.sets(st.sampled_from(TASK_KINDS)))
    facts = []
    for _ in range(count):
        kind = draw(st.sampled_from(KINDS))
        at = draw(st.integers(0, 40)) / 10
        worker = draw(st.sampled_from(["w1", "w2"] if is_tidy else ["w1", "w1", None]))
        attempt = draw(st.sampled_from([1, 1, 2])) if is_tidy or kind in naming else None
        facts.append({"kind": kind, "at": at, "worker": worker, "attempt": attempt})
    order = draw(st.permutations(range(count)))
    repeated = draw(st.lists(st.integers(0, count - 1), max_size=2))
    return facts, [*order, *repeated]


def result(facts, order, *, frontier=0.0):
    """What stitching the facts in this order, one by one, comes to."""
    bench = Bench()
    for n in order:
        bench.stitch(bench.event(**facts[n]))
    bench.expire(frontier).expire(100)
    view = bench.stitcher.reader.find("a")
    assert bench.lowest("flight") >= 0
    assert bench.lowest("dead") >= 0
    return (
        bench.counts(),
        view.state,
        [(a.attempt, a.worker, a.started, a.outcome) for a in view.attempts],
        bench.gauge("flight"),
        bench.gauge("dead"),
    )


@pytest.mark.case("K05.2")
@settings(max_examples=300, deadline=None)
@given(fact_sets(is_tidy=True))
def test_order_and_repetition_do_not_matter(case):
    """Any permutation with repetitions, within grace, counts like the facts in the order of their times."""
    facts, order = case
    in_order = sorted(range(len(facts)), key=lambda n: facts[n]["at"])
    assert result(facts, order) == result(facts, in_order)


@settings(max_examples=300, deadline=None)
@given(fact_sets(is_tidy=False))
@example(
    (
        [
            {"kind": kind, "at": at, "worker": None, "attempt": None}
            for kind, at in [
                ("dead_lettered", 0.1),
                ("sent", 0.1),
                ("sent", 0.0),
                ("succeeded", 0.1),
                ("dead_lettered", 0.0),
                ("sent", 0.0),
            ]
        ],
        [0, 2, 3, 4, 1, 5],
    )
)
def test_order_does_not_matter_where_attempts_are_absent(case):
    """The same where events leave attempt or worker out."""
    facts, order = case
    in_order = sorted(range(len(facts)), key=lambda n: facts[n]["at"])
    assert result(facts, order) == result(facts, in_order)


@settings(max_examples=300, deadline=None)
@given(fact_sets(is_tidy=False))
@example(
    (
        [
            {"kind": "started", "at": 0.0, "worker": "w1", "attempt": None},
            {"kind": "retried", "at": 0.0, "worker": "w1", "attempt": None},
            {"kind": "started", "at": 0.1, "worker": "w1", "attempt": None},
        ],
        [0, 1, 2, 0],
    )
)
def test_the_fast_path_is_the_tally(case):
    """The slots of the hot loop give what `tally` alone gives, whatever comes."""
    facts, order = case
    fast = result(facts, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "NEW", M_IRREGULAR)
        assert result(facts, order) == fast


@settings(max_examples=300, deadline=None)
@given(fact_sets(is_tidy=True))
def test_the_fast_path_measures_like_the_tally(case):
    """Durations are observed once, and the same, on both paths for facts in the order of their times."""
    facts, _ = case
    order = sorted(range(len(facts)), key=lambda n: facts[n]["at"])

    def measured():
        bench = Bench()
        bench.stitch(*(bench.event(**facts[n]) for n in order)).expire(100)
        return bench.measures()

    fast = measured()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "NEW", M_IRREGULAR)
        assert measured() == fast


def test_an_end_that_overtakes_the_start_of_its_own_worker_is_not_the_running_attempts(bench):
    """Without an attempt named it belongs to its worker's start, which is still to come; its repeat is a duplicate."""
    end = bench.event("succeeded", 15.67, "a", worker="w3", run_seconds=0.33)
    bench.stitch(
        bench.event("sent", 0, "a"),
        bench.event("started", 0.75, "a", worker="w19"),
        end,
        bench.event("started", 15.34, "a", worker="w3"),
        end,
    )
    bench.expire(60)
    assert bench.counts() == {"sent": 1, "started": 2, "redelivered": 1, "succeeded": 1}
    assert bench.outcome["duplicate"] == 1


@pytest.mark.parametrize("end", ["failed", "retried"])
@pytest.mark.parametrize("is_chain", [False, True])
def test_of_two_versions_of_a_fact_the_same_one_is_believed(make_bench, end, is_chain):
    """Whichever comes first, and whichever form the trail has by then; one without an error class is never believed."""
    believed = set()
    for errors in itertools.permutations(["ValueError", "KeyError", None]):
        bench = make_bench()
        bench.stitch(bench.event("sent", 0, "a"), bench.event("started", 1, "a", worker="w", attempt=1))
        for error in errors:
            bench.stitch(bench.event(end, 2, "a", worker="w", attempt=1, error=error))
            if is_chain:
                bench.stitch(bench.event("started", 3, "a", worker="w", attempt=2))
        view = bench.stitcher.reader.find("a")
        believed.add((view.error, view.attempts[0].error))
    assert believed == {("KeyError", "KeyError")}


@pytest.mark.case("K05.2")
@pytest.mark.parametrize("apart", [0.0, 5.0, 600.0])
def test_each_order_of_one_life_ends_alike(make_bench, apart):
    """However late the others come, each counts once, the end stays the end, and the run is what it was."""
    told = [("sent", 0.0), ("received", 1.0), ("started", 2.0), ("succeeded", 5.0)]
    for order in itertools.permutations(told):
        bench = make_bench()
        for number, (kind, at) in enumerate(order):
            arrived = 5.0 + number * apart
            bench.expire(arrived).stitch(bench.event(kind, at, worker="w" if at > 1 else None), ats=[arrived])
        bench.expire(arrived + 30.0)
        assert bench.counts() == dict.fromkeys(("sent", "received", "started", "succeeded"), 1), order
        assert (bench.state(), bench.gauge("flight"), bench.lowest("flight")) == ("succeeded", 0, 0), order
        assert [seconds for measure, seconds in bench.measures() if measure == "run"] == [3.0], order


@pytest.mark.case("K05.1")
def test_ends_whose_starts_nobody_saw(bench):
    """Who comes in the middle counts the ends, has nothing in flight, and learns a name from what is told late."""
    for task_id in ("a", "b", "c"):
        bench.stitch(bench.event("succeeded", 1, task_id, worker="w", task=None, queue=None))
        bench.stitch(bench.event("received", 0, task_id, worker="w"), ats=[2.0])
    bench.expire(60)
    assert bench.counts("pay") == {"succeeded": 3, "received": 3}
    assert (bench.gauge("flight"), bench.lowest("flight")) == (0, 0)
