"""What trails are found to be against their contract and their own past: each once, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.model.contract import Backoff, Contract
from collector.trail.transitions import MEASURES
from tests.unit.trail.conftest import T
from tests.unit.trail.findings_bench import Court

STRICT = Contract(
    match="pay",
    semantics="best_effort",
    max_attempts=3,
    backoff=Backoff(min=10.0, factor=2.0),
    retryable=("TimeoutError",),
    not_retryable=("ValueError",),
)


def tries(court, *ends, task_id="a", first=0.0, waits=(10.0, 20.0, 40.0, 80.0), attempts=True):
    """Tries that run a second each; an end is a kind, or a kind and an error; it waits as long as it should."""
    events, at = [court.event("sent", first, task_id)], first + 1
    for number, (end, wait) in enumerate(zip(ends, (*waits, 0.0), strict=False), 1):
        kind, error = end if isinstance(end, tuple) else (end, None)
        named = {"attempt": number} if attempts else {}
        events.append(court.event("started", at, task_id, worker="w", **named))
        events.append(court.event(kind, at + 1, task_id, worker="w", error=error, **named))
        at += 1 + wait
    return events


def usual(court, seconds, measure="run"):
    """Teach the bench what is usual of `pay` in queue `q`."""
    row = court.rows.row("pay", "q", "s")
    codes = np.full(200, row * len(MEASURES) + MEASURES.index(measure))
    court.stitcher.findings.watch("s", codes, np.full(200, seconds), [T - 1_000.0] * 200)


R = ("retried", "OSError")


@pytest.mark.parametrize(
    ("ends", "waits", "found"),
    [
        ((R, R, "succeeded"), (10, 20), []),
        ((R, R, R, "succeeded"), (10, 20, 40), [("max_attempts", 79.0)]),
        ((R, R, R, R, "succeeded"), (10, 20, 40, 80), [("max_attempts", 79.0)]),
        ((R, R, "succeeded"), (10, 19.9), []),
        ((R, R, "succeeded"), (10, 15), [("backoff", 33.0)]),
        ((R, R, "succeeded"), (5, 15), [("backoff", 12.0)]),
        ((("retried", "ValueError"), "succeeded"), (10,), [("not_retryable", 7.0)]),
        ((("retried", "app.errors.ValueError"), ("retried", "ValueError"), "succeeded"), (10, 20), [
            ("not_retryable", 7.0),
        ]),
        ((R, ("failed", "TimeoutError")), (10,), [("not_retried", 18.0)]),
        ((R, R, ("failed", "TimeoutError")), (10, 20), []),
        ((R, ("failed", "ValueError")), (10,), []),
        ((R, ("failed", "KeyError")), (10,), []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("attempts", [True, False])
def test_the_retry_policy_is_held_against_what_was_done(ends, waits, found, attempts):
    """Too many tries, one after an error that forbids it, none although due, one too soon: once a trail and policy."""
    court = Court(STRICT)
    court.feed(*tries(court, *ends, waits=waits, attempts=attempts)).walk(1_000)
    assert court.found() == found


def test_what_breaks_its_policy_says_how():
    """The timeline has a line for it, with what was done and what was declared."""
    court = Court(STRICT)
    court.feed(*tries(court, R, "succeeded", waits=(4,))).walk(60)
    line = next(one for one in court.stitcher.reader.find("a").events if one.kind == "backoff")
    assert (line.detail, line.at) == ("waited 4 s of 10 s before attempt 2", T + 11)
    assert court.stitcher.reader.find("a").counts["backoff"] == 1


def test_nobody_is_held_to_what_nobody_declared():
    """Without a contract there is no policy."""
    court = Court(Contract(match="mail", semantics="best_effort", max_attempts=1))
    court.feed(*tries(court, R, R, R, R, "succeeded", waits=(0.1, 0.1, 0.1, 0.1))).walk(1_000)
    assert court.found() == []


@pytest.mark.parametrize("limit", [None, 30.0])
def test_what_runs_beyond_its_limit_is_stuck(limit):
    """Beyond the limit of its contract, else beyond five times what 99 of 100 take; also where it ends at last."""
    court = Court(*([Contract(match="pay", semantics="best_effort", time_limit=limit)] if limit else []))
    usual(court, 40.0)
    due = 10 + (limit or 5 * 45.25) + 5
    court.feed(court.event("sent", 0), court.event("started", 10, worker="w"))
    court.feed(court.event("sent", 0, "b"), court.event("started", 10, "b", worker="w"))
    court.feed(court.event("succeeded", 10 + (limit or 220) - 1, "b", worker="w"))
    court.walk(due - 1)
    assert court.found() == []
    court.walk(due + 300)
    assert [(what, pytest.approx(at, 0.01)) for what, at in court.found()] == [("stuck", pytest.approx(due, 0.01))]
    court.feed(court.event("succeeded", due + 400, worker="w")).walk(due + 3_000)
    assert len(court.found()) == 1


def test_a_task_that_nothing_is_known_of_is_never_stuck():
    """Neither a limit nor a past: nothing to compare with."""
    court = Court()
    court.feed(court.event("sent", 0), court.event("started", 10)).walk(50_000)
    assert court.found() == []


def test_a_start_long_after_its_sending_has_its_own_time():
    """The limit runs from the start, however long the task waited, and from each try's own."""
    court = Court(Contract(match="pay", semantics="best_effort", time_limit=30.0))
    court.feed(court.event("sent", 0), court.event("started", 500, attempt=1), court.event("retried", 510, attempt=1))
    court.feed(court.event("started", 900, attempt=2)).walk(2_000)
    assert court.found() == [("stuck", 935.0)]


@pytest.mark.parametrize(("deadline", "due"), [(None, 905.0), (60.0, 65.0)])
def test_what_nobody_starts_is_found(deadline, due):
    """After its deadline, else a quarter of an hour or five times its usual wait; only once, and not if it started."""
    court = Court(*([Contract(match="pay", semantics="best_effort", deadline=deadline)] if deadline else []))
    usual(court, 1.0, "wait")
    court.feed(court.event("sent", 0), court.event("received", 1), court.event("sent", 0, "b"))
    court.feed(court.event("started", due - 6, "b"), court.event("sent", 0, "c"), court.event("revoked", 9, "c"))
    court.walk(due - 1)
    assert court.found() == []
    court.walk(due + 2_000)
    assert court.found() == [("never_started", due)]


def test_a_source_that_tells_of_no_starts_misses_none():
    """Where only the sending is told, nothing is never started."""
    court = Court(Contract(match="pay", semantics="best_effort", deadline=60.0))
    court.feed(court.event("sent", 0)).walk(5_000)
    assert court.found() == []


def test_a_deadline_that_cannot_be_held_is_forecast():
    """When less time is left than the usual run takes, before it is overdue; not of what runs or is done by then."""
    court = Court(Contract(match="pay", semantics="best_effort", deadline=100.0))
    usual(court, 30.0)
    p95 = 32.0
    court.feed(court.event("sent", 0), court.event("sent", 0, "b"), court.event("started", 20, "b"))
    court.feed(court.event("sent", 0, "c"), court.event("started", 1, "c"), court.event("succeeded", 30, "c"))
    court.walk(104)
    assert [(what, pytest.approx(at)) for what, at in court.found()] == [("forecast", pytest.approx(105 - p95))]
    court.walk(106)
    assert court.lines()[1] == "forecast"
    assert sorted(court.lines()[2:]) == ["never_started", "overdue"]


def test_a_back_off_that_uses_up_the_deadline_is_forecast_at_once():
    """The next try cannot begin in time: that is known when it is put off."""
    court = Court(Contract(match="pay", semantics="best_effort", deadline=100.0))
    usual(court, 10.0)
    court.feed(court.event("sent", 0), court.event("started", 1, attempt=1))
    court.feed(court.event("retried", 5, attempt=1, eta=T + 95, error="E")).walk(50)
    assert court.found() == [("forecast", 10.0)]


def test_given_back_again_and_again_is_a_loop():
    """The fifth time, once; what a worker gives back when it stops is none."""
    court = Court()
    for number in range(20):
        told = {"worker": f"w{number % 2}"}
        court.feed(court.event("started", 10 * number, **told), court.event("requeued", 10 * number + 1, **told))
    court.feed(court.event("started", 5, "b"), court.event("requeued", 6, "b"), court.event("started", 7, "b"))
    court.walk(1_000)
    assert court.found() == [("requeue_loop", 46.0)]


def test_a_schedule_that_is_not_held_is_missed():
    """Each period without it counts once; a little late is not missed, and not while its source has a hole."""
    court = Court(Contract(match="pay", semantics="best_effort", period=100.0))
    court.stitcher.findings.holes.add("s", T + 480, T + 500)
    for at in (0, 105, 200):
        court.feed(court.event("sent", at, f"{at}"), court.event("sent", at, f"m{at}", task="mail"))
    court.walk(616)
    assert court.found() == [("missed_schedule", 315.0), ("missed_schedule", 415.0), ("missed_schedule", 615.0)]
    court.feed(court.event("sent", 640, "again")).walk(700)
    assert len(court.found()) == 3


def test_a_storm_of_retries_is_found_once_until_it_is_over():
    """Most starts are retries after one error, for a while; a few retries, or those of many errors, are none."""
    court = Court()
    court.stitcher.findings.storms.starts = lambda _row, _since, _until: 60.0
    for burst in (0, 1_000):
        for number in range(120):
            at = burst + number
            court.feed(court.event("retried", at, f"{at}", error="Timeout", attempt=1))
            court.feed(court.event("retried", at + 0.1, f"b{at}", task="mail", error=f"E{number}", attempt=1))
    court.walk(2_000)
    assert [what for what, _ in court.found()] == ["retry_storm", "retry_storm"]
    assert [at for _, at in court.found()] == [pytest.approx(50, abs=16), pytest.approx(1_050, abs=16)]


@pytest.mark.case("K19.1")
def test_a_clock_that_is_wrong_is_found_once():
    """A worker whose signs of life come from the future; not one whose signs are a little slow."""
    court = Court()
    for number in range(30):
        for worker, off in (("ahead", 7.0), ("slow", -2.0), ("behind", -45.0)):
            fields = {"worker": worker, "task": None, "queue": None}
            beat = court.event("heartbeat", 2 * number + off, "", **fields)
            court.stitch(beat, ats=[2 * number])
    court.walk(60)
    assert [what for what, _ in court.found()] == ["skew", "skew"]


@pytest.mark.case("K19.1")
def test_what_comes_late_by_our_own_lag_is_no_wrong_clock():
    """Where all of a source come as late as each other it is the way that is slow; one that lags alone is behind."""
    court = Court()
    for number in range(20):
        for worker, late in (("w1", 900.0), ("w2", 900.5), ("w3", 901.0)):
            beat = court.event("heartbeat", 2 * number, "", worker=worker, task=None, queue=None)
            court.stitch(beat, ats=[2 * number + late])
    court.walk(1_000)
    assert court.found() == []
    for number in range(20):
        for worker, off in (("w1", 0.0), ("w2", -0.5), ("w3", -90.0)):
            beat = court.event("heartbeat", 1_000 + 2 * number + off, "", worker=worker, task=None, queue=None)
            court.stitch(beat, ats=[1_000 + 2 * number])
    court.walk(1_100)
    assert [what for what, _ in court.found()] == ["skew"]


def test_a_wrong_clock_is_found_once_however_seldom_another_is_heard():
    """Until its signs say that it is right; not each time that one with a right clock was heard within its last."""
    court = Court()
    for at in range(300):
        for worker, off, every in (("w1", -60.0, 1), ("w2", 0.0, 60)):
            if at % every == 0:
                beat = court.event("heartbeat", at + off * (at < 200 or at > 220), "", worker=worker)
                court.stitch(beat, ats=[at])
    court.walk(310)
    assert [what for what, _ in court.found()] == ["skew", "skew"]  # it was right for a while


TOLD = ("started", "succeeded", "failed", "retried", "requeued", "sent", "revoked")
CHAINS = st.lists(
    st.tuples(
        st.sampled_from(TOLD),
        st.floats(0.1, 150).map(lambda at: round(at, 1)),
        st.integers(1, 3),
        st.sampled_from(("w1", "w2")),
        st.sampled_from(("TimeoutError", "ValueError")),
    ),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(chain=CHAINS, data=st.data())
def test_findings_do_not_depend_on_order_or_repetition_within_grace(chain, data):
    """The same facts, each up to grace late and some of them twice, give the same findings, state and timeline."""
    policy = {name: getattr(STRICT, name) for name in ("retryable", "not_retryable", "backoff")}
    outcomes = []
    for is_disturbed in (False, True):
        court = Court(
            Contract(match="pay", semantics="best_effort", deadline=100.0, time_limit=30.0, max_attempts=2, **policy)
        )
        usual(court, 10.0)
        usual(court, 1.0, "wait")
        arrivals = [(at + 0.0, beat) for beat in court.beats("w1", 0, 100, every=4.0) for at in [beat.time - T]]
        arrivals += [(at + 0.0, beat) for beat in court.beats("w2", 0, 300, every=4.0) for at in [beat.time - T]]
        for kind, at, attempt, worker, error in sorted([("sent", 0.0, 1, "w1", "E"), *chain], key=lambda one: one[1]):
            event = court.event(kind, at, attempt=attempt, worker=worker, error=error)
            repeats = data.draw(st.integers(1, 2)) if is_disturbed else 1
            arrivals += [(at + (data.draw(st.floats(0, 4.9)) if is_disturbed else 0.0), event) for _ in range(repeats)]
        for arrival, event in sorted(arrivals, key=lambda one: one[0]):
            court.walk(arrival)
            court.stitch(event)
        court.walk(400)
        view = court.stitcher.reader.find("a")
        lines = sorted(
            (one.kind, one.at, one.detail)
            for one in (view.events if view else ())
            if not one.attempt and "overdue" not in (one.kind, one.detail)
        )
        outcomes.append((court.found(), view and view.state, lines))
    assert outcomes[0] == outcomes[1]
