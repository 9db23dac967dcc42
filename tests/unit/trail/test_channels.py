"""One task told over several channels of one source: events of workers, and results that their children store."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.trail.transitions import Transitions
from tests.unit.trail.conftest import Bench, T


def told(bench, *facts):
    """Stitch (channel, kind, at, fields) one by one."""
    for channel, kind, at, fields in facts:
        out = Transitions()
        event = bench.event(kind, at, **fields)
        done = bench.stitcher.stitch("s", "", [event], [T + at if event.time is None else event.time], out, channel)
        for column in Transitions.__slots__:
            if (values := getattr(out, column)) is not None:
                getattr(bench.out, column).extend(values)
        for name, count in zip(("accepted", "duplicate", "ignored"), done, strict=True):
            bench.outcome[name] += count
    return bench


def summed(bench):
    """Counts, state, attempts with their outcomes, and what is in flight, when all is decided."""
    bench.expire(100)
    view = bench.stitcher.reader.find("a")
    tries = [(one.attempt, one.started, one.outcome) for one in view.attempts]
    return bench.counts(), view.state, tries, bench.gauge("flight")


def test_a_result_stored_before_the_start_was_told_is_no_redelivery(bench):
    """A child stores its result before its parent says that it started: that start is not one after the end."""
    told(
        bench, ("", "sent", 0, {}), ("result", "succeeded", 1.0, {"worker": "w"}), ("", "started", 1.1, {"worker": "w"})
    )
    told(bench, ("", "succeeded", 1.2, {"worker": "w"}))
    counts, state, tries, flying = summed(bench)
    assert counts == {"sent": 1, "started": 1, "succeeded": 1}
    assert (state, tries, flying) == ("succeeded", [(1, T + 1.1, "succeeded")], 0)


def test_an_end_that_two_channels_tell_of_is_marked_as_one(bench):
    """The timeline shows both, and which of them adds nothing; what happened twice is not marked."""
    worker = {"worker": "w"}
    told(bench, ("", "started", 1, worker), ("", "retried", 2, worker), ("result", "retried", 1.9, worker))
    told(bench, ("", "started", 3, worker), ("", "failed", 4, worker), ("result", "failed", 3.9, worker))
    told(bench, ("", "started", 5, worker))
    events = bench.stitcher.reader.find("a").events
    assert [(one.kind, round(one.time - T, 3)) for one in events if one.detail] == [("retried", 1.9), ("failed", 3.9)]
    assert len(events) == 7


def test_a_result_that_names_no_attempt_is_about_the_end_that_the_events_tell(bench):
    """The second try's result, stored before its start was told, is not the first try's success."""
    told(bench, ("", "started", 1, {}), ("", "retried", 2, {}), ("result", "succeeded", 3.0, {}))
    told(bench, ("", "started", 3.1, {}), ("", "succeeded", 3.2, {}))
    counts, _, tries, _ = summed(bench)
    assert counts == {"started": 2, "retried": 1, "succeeded": 1}
    assert tries == [(1, T + 1, "retried"), (2, T + 3.1, "succeeded")]


def test_a_result_alone_ends_what_the_events_started(bench):
    """Where a worker's own end was lost, the stored one counts."""
    told(bench, ("", "started", 1, {"worker": "w"}), ("result", "failed", 0.9, {"error": "KeyError"}))
    counts, state, tries, flying = summed(bench)
    assert counts == {"started": 1, "failed": 1}
    assert (state, tries, flying) == ("failed", [(1, T + 1, "failed")], 0)


def test_a_second_life_keeps_its_own_results(bench):
    """An id that is used again has the result of each life in that life."""
    for at in (0, 20):
        told(bench, ("", "sent", at, {}), ("", "started", at + 1, {}), ("result", "succeeded", at + 0.9, {}))
        told(bench, ("", "succeeded", at + 2, {}))
    counts, _, _, _ = summed(bench)
    assert counts == {"sent": 2, "started": 2, "succeeded": 2}
    assert bench.stitcher.reader.find("a").lives == 2


RETRIES = [
    # channel, kind, at, the attempt that is named, the attempt that is meant
    ("", "received", 0.00, None, 1),
    ("", "started", 0.10, None, 1),
    ("", "received", 0.15, 2, 2),
    ("result", "retried", 0.20, 1, 1),
    ("", "retried", 0.25, None, 1),
    ("", "started", 1.10, None, 2),
    ("", "received", 1.15, 3, 3),
    ("result", "retried", 1.20, 2, 2),
    ("", "retried", 1.25, None, 2),
    ("", "started", 2.10, None, 3),
    ("result", "succeeded", 2.20, 3, 3),
    ("", "succeeded", 2.25, None, 3),
]
"""What Celery tells of a task with three tries: its results name the attempt, of its events `received` alone."""


@pytest.mark.parametrize("first", range(len(RETRIES)))
def test_who_begins_to_listen_between_two_tries_counts_nothing_twice(first):
    """Each end that was told counts once, though what came before says which attempt it is, and was never heard."""
    heard = RETRIES[first:]
    bench = told(
        Bench(),
        *((channel, kind, at, {"worker": "w", "attempt": attempt}) for channel, kind, at, attempt, _ in heard),
    )
    meant = {(kind, attempt) for _, kind, _, _, attempt in heard}
    assert bench.counts() == Counter(kind for kind, _ in meant)


def test_a_start_is_of_the_attempt_that_its_worker_received_last():
    """Not of the first, though nothing of those before was heard; what another worker received says nothing of it."""
    mine = ("", "received", 1, {"worker": "w", "attempt": 3})
    others = ("", "received", 2, {"worker": "x", "attempt": 4})
    started = ("", "started", 3, {"worker": "w"})
    _, state, tries, _ = summed(told(Bench(), others, mine, started))
    assert (state, tries[0][:2]) == ("received", (3, T + 3))


@st.composite
def lives(draw):
    """The events of a task with up to four tries, in their order, and anywhere among them a result for each end.

    Some backends say the attempt, some do not.
    """
    facts, at = [("", "sent", 0.0, {})], 1.0
    tries = draw(st.integers(1, 4))
    names_attempt = draw(st.booleans())
    for attempt in range(1, tries + 1):
        kind = "retried" if attempt < tries else draw(st.sampled_from(["succeeded", "failed"]))
        early = draw(st.sampled_from([0.05, 0.15, -0.05]))
        facts += [("", "started", at, {"worker": "w"}), ("", kind, at + 0.2, {"worker": "w"})]
        facts.append(("result", kind, at + early, {"attempt": attempt} if names_attempt else {}))
        at += 0.5
    events, results = ([fact for fact in facts if bool(fact[0]) is of] for of in (False, True))
    mixed = list(events)
    for result in draw(st.permutations(results)):
        mixed.insert(draw(st.integers(0, len(mixed))), result)
    return events, mixed


@settings(max_examples=200, deadline=None)
@given(lives())
def test_results_beside_events_change_nothing_in_any_order(case):
    """Counts, state, attempts and flight are those of the events alone."""
    events, mixed = case
    assert summed(told(Bench(), *mixed)) == summed(told(Bench(), *events))
