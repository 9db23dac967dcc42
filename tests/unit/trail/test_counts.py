"""What counts once: one promise per test."""

from __future__ import annotations

from itertools import permutations

import pytest


def test_the_contract_sample(bench):
    """The sample of the contract check gives its counts, one duplicate and its states."""
    event = bench.event
    bench.stitch(
        event("sent", 0, caller="web", trace_id="0af7651916cd43dd8448eb211c80319c"),
        event("received", 1, worker="w1"),
        event("started", 2, worker="w1", attempt=1),
        event("retried", 3, worker="w1", attempt=1, error="TimeoutError"),
        event("started", 9, worker="w2", attempt=2),
        event("succeeded", 10, worker="w2", attempt=2, run_seconds=1.0),
        event("succeeded", 10, worker="w2", attempt=2, run_seconds=1.0),
        event("started", 4, "b", worker="w1", attempt=1),
        event("sent", 3, "b"),
        event("failed", 5, "b", worker="w1", attempt=1, error="ValueError"),
        event("dead_lettered", 5.1, "b", attempt=1, error="ValueError"),
    ).expire(60)
    assert bench.counts() == {
        "sent": 2,
        "received": 1,
        "started": 3,
        "retried": 1,
        "succeeded": 1,
        "failed": 1,
        "dead_lettered": 1,
    }
    assert bench.outcome == {"accepted": 10, "duplicate": 1, "ignored": 0}
    assert (bench.state("a"), bench.state("b")) == ("succeeded", "dead_lettered")
    assert bench.gauge("flight") == 0
    assert bench.gauge("dead") == 1
    assert bench.measures() == [
        ("run", 1.0),
        ("run", 1.0),
        ("run", 1.0),
        ("total", 2.0),
        ("total", 10.0),
        ("wait", 1.0),
        ("wait", 2.0),
    ]
    view = bench.stitcher.reader.find("a")
    assert [attempt.worker for attempt in view.attempts] == ["w1", "w2"]
    assert view.trace_id.startswith("0af7")


@pytest.mark.parametrize("between", [0, 5, 600])
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_every_order_gives_the_same(make_bench, order, between):
    """All 24 orders of a task's four events give the same counts, state, durations and flight."""
    kinds = ("sent", "received", "started", "succeeded")
    told = {"worker": "w", "attempt": 1}
    bench = make_bench()
    events = [bench.event(kind, n / 10, **(told if n else {})) for n, kind in enumerate(kinds)]
    for place, n in enumerate(order):
        # As from a source whose axis is arrival: the sender's time stays, the axis time is when it came.
        bench.stitch(events[n], ats=[place * between]).expire(place * between)
    bench.expire(5_000)
    assert bench.counts() == dict.fromkeys(kinds, 1)
    assert bench.state() == "succeeded"
    assert bench.measures() == [("run", 0.1), ("total", 0.3), ("wait", 0.2)]
    assert bench.gauge("flight") == 0
    assert bench.lowest("flight") >= 0


def test_two_failures_for_one_start_count_once_until_a_second_start_shows_up(bench):
    """Celery's double task-failed counts once; a second start gives the second failure its right."""
    event = bench.event
    bench.stitch(
        event("started", 1, worker="w", attempt=1),
        event("failed", 5, worker="w", attempt=1, error="TimeLimitExceeded"),
        event("failed", 5.2, worker="w", attempt=1, error="TimeLimitExceeded"),
    ).expire(30)
    assert bench.counts()["failed"] == 1
    bench.stitch(event("started", 2, worker="w", attempt=1), ats=[31]).expire(60)
    assert bench.counts() == {"started": 2, "failed": 2, "redelivered": 1}


def test_an_end_without_any_start_counts_once(bench):
    """Successes that come mid-stream, with no start, count, and flight stays at zero."""
    for n in range(3):
        bench.stitch(bench.event("succeeded", n, str(n), worker="w"))
    bench.expire(60)
    assert bench.counts() == {"succeeded": 3}
    assert bench.gauge("flight") == 0


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_a_retry_chain_without_attempts(make_bench, order):
    """Starts and retries that name no attempt make the same chain in every order within grace."""
    bench = make_bench()
    chain = [("started", 0), ("retried", 1), ("started", 2), ("retried", 3), ("started", 4)]
    bench.stitch(*(bench.event(*chain[n], worker="w") for n in order)).expire(60)
    assert bench.counts() == {"started": 3, "retried": 2}
    assert bench.gauge("flight") == 1
    view = bench.stitcher.reader.find("a")
    assert [attempt.attempt for attempt in view.attempts] == [1, 2, 3]
    assert view.state == "started"


def test_a_retry_at_the_time_of_the_next_start_comes_before_it(bench):
    """With a coarse clock, a retry and the start that follows it are not mistaken for a redelivery."""
    event = bench.event
    bench.stitch(event("started", 1), event("started", 2), event("retried", 2), event("started", 3)).expire(60)
    bench.stitch(event("retried", 3)).expire(60)
    assert [attempt.attempt for attempt in bench.stitcher.reader.find("a").attempts] == [1, 2, 3]


def test_a_sent_after_the_end_opens_a_new_life(bench):
    """A reused id is counted afresh, and its state is that of the new life."""
    event = bench.event
    for start in (0, 100):
        bench.stitch(event("sent", start), event("started", start + 1, attempt=1))
        bench.stitch(event("succeeded", start + 2, attempt=1))
    bench.stitch(event("sent", 200)).expire(300)
    assert bench.counts() == {"sent": 3, "started": 2, "succeeded": 2}
    assert bench.state() == "sent"


def test_a_start_after_the_end_without_sent_is_a_redelivery(bench):
    """It is decided after grace, counted at that time, and the second success is a duplicate."""
    event = bench.event
    bench.stitch(event("sent", 0), event("started", 1, worker="w1"), event("succeeded", 2, worker="w1"))
    bench.stitch(event("started", 10, worker="w2"), event("succeeded", 11, worker="w2")).expire(14.9)
    assert bench.counts() == {"sent": 1, "started": 2, "succeeded": 1}
    bench.expire(20)
    assert bench.counts() == {"sent": 1, "started": 2, "succeeded": 1, "redelivered": 1, "duplicate_success": 1}
    assert ("redelivered", ("pay", "q", "s"), 15.0) in bench.entries()
    assert ("duplicate_success", ("pay", "q", "s"), 16.0) in bench.entries()
    assert bench.state() == "succeeded"


def test_a_late_sent_within_grace_makes_it_a_new_life(bench):
    """The start after the end was no redelivery if a `sent` between them comes within grace."""
    event = bench.event
    bench.stitch(event("sent", 0), event("started", 1), event("succeeded", 2), event("started", 10)).expire(13)
    bench.stitch(event("sent", 9), event("succeeded", 12), ats=[13, 13]).expire(60)
    assert bench.counts() == {"sent": 2, "started": 2, "succeeded": 2}


def test_a_sent_later_than_grace_takes_nothing_back(bench):
    """What was decided stays counted; what comes later counts by itself."""
    event = bench.event
    bench.stitch(event("sent", 0), event("started", 1), event("succeeded", 2), event("started", 10)).expire(30)
    bench.stitch(event("sent", 9), ats=[31]).expire(60)
    assert bench.counts() == {"sent": 2, "started": 2, "succeeded": 1, "redelivered": 1}
    bench.stitch(event("started", 40, worker="other")).expire(90)
    assert bench.counts()["redelivered"] == 2


@pytest.mark.case("K07.1")
def test_parallel_executions(bench):
    """Three workers that each ran one message: two redeliveries, one success, two duplicates."""
    for n in range(3):
        bench.stitch(bench.event("received", n * 3600, worker=f"w{n}", attempt=1))
    for n in range(3):
        bench.stitch(bench.event("started", 9_000, worker=f"w{n}", attempt=1))
    assert bench.gauge("flight") == 3
    for n in range(3):
        bench.stitch(bench.event("succeeded", 9_001, worker=f"w{n}", attempt=1))
    bench.expire(9_100)
    assert bench.counts() == {"received": 3, "started": 3, "succeeded": 1, "redelivered": 2, "duplicate_success": 2}
    assert bench.gauge("flight") == 0


def test_partial_facts_are_the_same_fact(bench):
    """A fact that names less than another of its kind and attempt, and contradicts nothing, is that fact."""
    event = bench.event
    bench.stitch(event("started", 1, worker="w", attempt=1))
    bench.stitch(event("started", 1, attempt=1), event("started", 0, attempt=1, time=None, worker="w"), ats=[1, 1.1])
    bench.stitch(event("started", 0, attempt=1, time=None), ats=[1.2]).expire(60)
    assert bench.counts() == {"started": 1}
    assert bench.outcome["duplicate"] == 3


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_partial_facts_count_as_a_set(make_bench, order):
    """Facts that name only a worker and facts that name only a time are paired off, in every order."""
    bench = make_bench()
    event = bench.event
    facts = [
        event("started", 0, time=None, worker="w1", attempt=1),
        event("started", 5, attempt=1),
        event("started", 7, attempt=1),
        event("started", 9, worker="w2", attempt=1),
    ]
    bench.stitch(*(facts[n] for n in order), ats=[8] * 4).expire(60)
    assert bench.counts()["started"] == 3


def test_one_application_of_two_sources_counts_what_the_fuller_channel_names(bench):
    """A second channel that tells of the same task adds nothing but what the first left out."""
    event = bench.event
    events = [event("sent", 0), event("started", 1, worker="w", attempt=1)]
    bench.stitch(*events, source="events", application="shop")
    again = [event("sent", 0.2), event("started", 1.2, attempt=1), event("succeeded", 2, attempt=1)]
    bench.stitch(*again, source="hook", application="shop").expire(60)
    assert bench.counts() == {"sent": 1, "started": 1, "succeeded": 1}
    assert bench.outcome == {"accepted": 3, "duplicate": 2, "ignored": 0}


def test_one_id_in_two_sources_is_two_tasks(bench):
    """Sources without a common application keep their ids apart."""
    bench.stitch(bench.event("sent", 0), source="one").stitch(bench.event("sent", 0), source="two")
    assert bench.counts() == {"sent": 2}


def test_one_idempotency_key_succeeds_once(bench):
    """A second task that succeeds under the same key is a duplicate success."""
    bench.stitch(bench.event("sent", 0, "a", idempotency_key="k"), bench.event("succeeded", 1, "a"))
    bench.stitch(bench.event("succeeded", 2, "b", idempotency_key="k")).expire(60)
    assert bench.counts() == {"sent": 1, "succeeded": 1, "duplicate_success": 1}


def test_worker_events_are_ignored(bench):
    """Events about workers count as ignored and open no trail."""
    bench.stitch(bench.event("heartbeat", 0), bench.event("online", 1))
    assert bench.outcome == {"accepted": 0, "duplicate": 0, "ignored": 2}
    assert len(bench.stitcher) == 0


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (["sent"], "sent"),
        (["sent", "received"], "received"),
        (["started", "sent"], "started"),
        (["started", "retried"], "retrying"),
        (["sent", "started", "requeued"], "sent"),
        (["failed", "dead_lettered"], "dead_lettered"),
        (["dead_lettered", "succeeded"], "succeeded"),
        (["succeeded", "failed"], "succeeded"),
        (["revoked", "expired"], "revoked"),
        (["rejected", "failed"], "failed"),
        (["succeeded", "started"], "succeeded"),
    ],
)
def test_state(bench, facts, state):
    """The state is the highest fact of the latest life: final ends first, then by attempt and place."""
    bench.stitch(*(bench.event(kind, n) for n, kind in enumerate(facts))).expire(100)
    assert bench.state() == state


def test_deferred(bench):
    """A task sent for later is deferred, and its wait begins when it may start."""
    bench.stitch(bench.event("sent", 0, eta=bench.event("sent", 60).time))
    assert bench.state() == "deferred"
    bench.stitch(bench.event("started", 61))
    assert bench.measures() == [("wait", 1.0)]
    assert bench.stitcher.reader.find("a").state == "started"


def test_two_successes_under_one_key_in_an_irregular_trail(bench):
    """The key is asked also where `tally` decides."""
    bench.stitch(bench.event("succeeded", 0, "a", idempotency_key="k"))
    bench.stitch(bench.event("rejected", 1, "b"), bench.event("succeeded", 2, "b", idempotency_key="k")).expire(60)
    assert bench.counts() == {"succeeded": 1, "rejected": 1, "duplicate_success": 1}


def test_a_repeat_fills_in_what_was_missing(bench):
    """A duplicate counts as one, and its error, message, caller and trace are kept."""
    bench.stitch(bench.event("failed", 0, attempt=1))
    told = {"error": "KeyError", "error_message": "'x'", "caller": "web", "trace_id": "f" * 32}
    bench.stitch(bench.event("failed", 0, attempt=1, **told)).expire(60)
    view = bench.stitcher.reader.find("a")
    assert (view.error, view.error_message, view.caller, view.trace_id) == ("KeyError", "'x'", "web", "f" * 32)
    assert bench.outcome["duplicate"] == 1
    assert bench.counts() == {"failed": 1}


def test_facts_without_sender_times(bench):
    """Facts that name no time are placed by the axis; what the end overtook within grace belongs before it."""
    order = [("succeeded", 0), ("started", 1), ("sent", 2)]
    bench.stitch(*(bench.event(kind, 0, time=None) for kind, _ in order), ats=[at for _, at in order]).expire(60)
    assert bench.counts() == {"succeeded": 1, "started": 1, "sent": 1}
    assert bench.state() == "succeeded"
    assert bench.gauge("flight") == 0
    assert bench.measures() == []


def test_a_retry_waits_from_its_eta(bench):
    """Back-off is no waiting: the next attempt's wait begins at the eta of the retry, and is unknown without one."""
    event = bench.event
    told = {"worker": "w", "attempt": 1, "run_seconds": 0.0}
    bench.stitch(event("retried", 1, eta=event("started", 11).time, **told), event("started", 13, attempt=2))
    bench.stitch(event("retried", 1, "b", **told), event("started", 13, "b", attempt=2))
    assert bench.measures() == [("run", 0.0), ("run", 0.0), ("wait", 2.0)]
