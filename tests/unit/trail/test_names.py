"""Names: an event that lacks task or queue takes its trail's, else what was last seen for the task, else ""."""

from __future__ import annotations

from itertools import permutations

import pytest


def bare(bench, kind, at, **fields):
    """An event that names neither task nor queue."""
    return bench.event(kind, at, task=None, queue=None, **fields)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_nameless_fact_takes_its_trails_name(make_bench, order):
    """Celery's started and succeeded name no task: they count under that of the trail, in every order."""
    bench = make_bench()
    facts = [bench.event("received", 0), bare(bench, "started", 1), bare(bench, "succeeded", 2)]
    bench.stitch(*(facts[n] for n in order)).expire(60)
    assert bench.counts("pay") == bench.counts() == {"received": 1, "started": 1, "succeeded": 1}
    assert bench.gauge("flight") == 0
    assert ("succeeded", ("pay", "q", "s"), 2.0) in bench.entries()


def test_a_fact_without_any_name_counts_after_grace(bench):
    """Where the name never comes it is counted under "", grace after it came."""
    bench.stitch(bare(bench, "succeeded", 2)).expire(6.9)
    assert bench.entries() == []
    assert bench.stitcher.next_decision() == pytest.approx(bench.event("sent", 7).time)
    bench.expire(7)
    assert bench.entries() == [("succeeded", ("", "", "s"), 7.0)]


def test_a_task_that_never_names_a_queue_counts_at_once(bench):
    """Nothing is held for a queue that no event of the task has ever named."""
    bench.stitch(bench.event("started", 1, queue=None))
    assert ("started", ("pay", "", "s"), 1.0) in bench.entries()


def test_a_missing_queue_is_the_last_seen(bench):
    """A fact that names no queue waits for its trail to name one, then takes what was last seen for the task."""
    bench.stitch(bench.event("sent", 0, "other"), bench.event("started", 1, queue=None)).expire(5.9)
    assert bench.counts() == {"sent": 1}
    bench.expire(6)
    assert ("started", ("pay", "q", "s"), 6.0) in bench.entries()


@pytest.mark.parametrize("told_twice", [False, True])
def test_a_queue_that_only_results_name_is_that_of_the_next_tasks(bench, told_twice):
    """Workers' events name no queue, results do: from the first of them on, starts and ends have one queue."""
    bare_facts = [bench.event(kind, at, "first", queue=None) for at, kind in enumerate(("received", "started"))]
    end = [bench.event("failed", 2, "first", queue=None)] if told_twice else []
    bench.stitch(*bare_facts, *end)
    bench.stitch(bench.event("failed", 2, "first"), channel="result")
    for task_id, at in (("second", 10), ("third", 20)):
        bench.stitch(*(bench.event(kind, at, task_id, queue=None) for kind in ("received", "started")))
        bench.stitch(bench.event("failed", at + 1, task_id), channel="result")
    bench.stitch(*(bench.event(kind, 30, "runs", queue=None) for kind in ("received", "started"))).expire(60)
    named = [what for what, names, _ in bench.entries() if names[1] == "q"]
    assert (named.count("started"), named.count("failed")) == (3, 3 - told_twice)


def test_each_event_counts_under_its_own_names(bench):
    """A retry that moves to another queue counts there; the ups and downs of flight stay together."""
    bench.stitch(bench.event("sent", 0), bench.event("started", 1), bench.event("succeeded", 2, queue="slow")).expire(
        60
    )
    assert ("succeeded", ("pay", "slow", "s"), 2.0) in bench.entries()
    assert ("flight_down", ("pay", "q", "s"), 2.0) in bench.entries()


def test_rows_overflow_per_source(make_bench):
    """Beyond the cap every new name is one row per source, and that is counted."""
    bench = make_bench()
    bench.rows.cap = 2
    for n in range(4):
        bench.stitch(bench.event("sent", 0, str(n), task=f"t{n}"))
    assert [bench.rows.names(row) for row in range(len(bench.rows))] == [
        ("t0", "q", "s"),
        ("t1", "q", "s"),
        ("_other", "_other", "s"),
    ]
    assert bench.counts("_other") == {"sent": 2}
    assert bench.stitcher.evictions["names"] == 2
    assert set(bench.rows.queues) == {"t0", "t1"}


def test_errors_overflow(bench):
    """Beyond the cap all error classes are one; none is ""."""
    bench.errors.cap = 3
    assert [bench.errors.intern(name) for name in (None, "", "A", "B", "A")] == [0, 0, 2, 1, 2]
    assert bench.errors.name(1) == "_other"
