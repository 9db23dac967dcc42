"""A worker that begins tasks and tells of none: where it is heard, a start that is missing is unknown, not found."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract
from collector.trail.findings.crew import Crew
from collector.trail.findings.holes import Holes
from tests.unit.trail.conftest import T
from tests.unit.trail.findings_bench import Court, restarted

CONTRACT = Contract(match="pay", semantics="best_effort", deadline=60.0)


def beat(court, at, begun, worker="w3"):
    """A heartbeat that says how much was begun."""
    labels = {"active": "1", "begun": str(begun)}
    return court.event("heartbeat", at, "", worker=worker, task=None, queue=None, labels=labels)


def beats(court, start, end, begun, worker="w3"):
    """Heartbeats that all say the same."""
    return [beat(court, at, begun, worker) for at in range(start, end, 2)]


def told(court, at, worker, task_id):
    """A task that is told of as it should be."""
    return [court.event(kind, at, task_id, worker=worker) for kind in ("sent", "started", "succeeded")]


def mute(court):
    """Who is said to work without a word."""
    return court.stitcher.findings.crew.mute("s")


def telling(court):
    """A worker that tells of what it begins, with heartbeats after it and before it."""
    court.feed(*beats(court, 0, 10, 0, "w1"), *told(court, 10, "w1", "x"), *beats(court, 12, 30, 1, "w1"))
    return court


@pytest.mark.parametrize(("begun", "found"), [(0, [("never_started", 85.0)]), (1, [])])
def test_what_a_mute_worker_may_have_begun_is_unknown(begun, found):
    """With a worker that has begun something and told nothing it is unknown whether it began; with an idle one not."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), court.event("sent", 20), *beats(court, 22, 100, begun)).walk(100)
    assert mute(court) == ["w3"] * begun
    assert court.found() == found
    assert court.lines() == ["sent", "overdue", "unknown" if begun else "never_started"]
    assert court.state() == ("unknown" if begun else "sent")


def test_who_tells_again_is_believed_again():
    """What is sent after a mute worker has begun to tell is judged as ever."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), *beats(court, 20, 40, 1))
    assert mute(court) == ["w3"]
    court.feed(*told(court, 41, "w3", "y"), *beats(court, 42, 50, 2), court.event("sent", 50, "z"))
    court.feed(*beats(court, 52, 150, 2)).walk(150)
    assert (mute(court), court.found()) == ([], [("never_started", 115.0)])


def test_a_word_that_comes_shortly_after_the_heartbeat_counts():
    """A heartbeat may overtake the events of what it has counted; and what is over starts at its own pace anew."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), beat(court, 20, 1), *told(court, 21, "w3", "y"), *beats(court, 22, 60, 1))
    assert mute(court) == []
    court.feed(*beats(court, 60, 70, 0), *beats(court, 70, 80, 1))
    assert mute(court) == ["w3"]
    court.feed(beat(court, 80, 0))
    assert mute(court) == []


def test_a_result_is_not_a_word_of_its_worker():
    """What the result backend says of a worker does not show that its events are on."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0))
    for at in range(20, 40, 2):
        court.stitch(court.event("succeeded", at, f"r{at}", worker="w3"), channel="result")
        court.stitch(beat(court, at, at))
    assert mute(court) == ["w3"]


def test_what_was_told_in_a_hole_is_not_held_against_its_worker():
    """Begun while the source was not heard: a word of it may have been missed. Who was mute before is mute still."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), *beats(court, 20, 30, 1), *beats(court, 12, 30, 1, "w1"))
    court.stitcher.findings.holes.add("s", T + 31, T + 39)
    court.feed(*beats(court, 40, 60, 2), *beats(court, 40, 60, 2, "w1"))
    assert mute(court) == ["w3"]


def test_who_was_mute_is_so_after_a_restart():
    """The next process knows it; of what was begun meanwhile it does not expect a word."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), *beats(court, 20, 30, 1))
    again = restarted(court, CONTRACT)
    again.feed(*beats(again, 40, 60, 2, "w1"), *beats(again, 40, 60, 1))
    assert mute(again) == ["w3"]


def test_who_left_is_not_waited_for():
    """Neither is a mute worker that is gone named, nor one that is forgotten kept in mind."""
    court = telling(Court(CONTRACT))
    court.feed(*beats(court, 0, 20, 0), *beats(court, 20, 30, 1)).walk(100)
    assert mute(court) == []
    crew = Crew(Holes(), 5.0)
    gone = court.event("offline", 2, "", worker="w3")
    crew.take(0, "s", [beat(court, 0, 0), gone], [T, T + 2])
    crew.forget(T + 1e6)
    assert (crew.all, crew._quiet) == ({}, {0: {}})
