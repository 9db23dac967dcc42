"""Dead letters as trails tell them, and verdicts as trails take them."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract, Contracts
from collector.model.death import SENT_AGAIN, SUCCEEDED_LATER, Death, Ending
from collector.trail.deaths import Deaths

T = 1_790_000_000.0


@pytest.fixture
def deaths(bench):
    """Asks the bench's stitcher."""
    return Deaths(bench.stitcher.parts)


def failing(bench, *, last="dead_lettered", task_id="a"):
    """Two tries that fail, and the end."""
    return [
        bench.event("sent", 0.0, task_id),
        bench.event("started", 1.0, task_id, attempt=1, worker="w1"),
        bench.event("retried", 2.0, task_id, attempt=1, worker="w1", error="KeyError", error_message="no row 1"),
        bench.event("started", 3.0, task_id, attempt=2, worker="w2"),
        bench.event(last, 4.0, task_id, attempt=2, worker="w2", error="ValueError", error_message="no row 2"),
    ]


def test_a_death_tells_what_its_trail_knows(bench, deaths):
    """Attempts, first and last failure, error and message of the last one, worker, and whose id it is."""
    bench.stitch(*failing(bench), application="shop")
    (death,) = deaths.turns()
    assert death == Death(
        home="=shop", task_id="a", task="pay", queue="q", source="s", at=T + 4.0, when=T + 4.0, attempts=2,
        error="ValueError", message="no row 2", worker="w2", sent_at=T, first_failed_at=T + 2.0,
        last_failed_at=T + 4.0,
    )  # fmt: skip
    assert list(deaths.turns()) == []


def test_where_the_dead_letter_has_no_error_its_last_failure_has(bench, deaths):
    """A queue of dead messages seldom says why."""
    events = failing(bench)[:-1]
    bench.stitch(*events, bench.event("dead_lettered", 4.0))
    (death,) = deaths.turns()
    assert (death.error, death.message, death.worker) == ("KeyError", "no row 1", "w1")


@pytest.mark.parametrize(("kind", "why"), [("succeeded", SUCCEEDED_LATER), ("sent", SENT_AGAIN)])
def test_what_ends_it_is_told_with_its_time(bench, deaths, kind, why):
    """A later success, or a newer life of the same id."""
    bench.stitch(*failing(bench), bench.event(kind, 9.0))
    assert list(deaths.turns())[1:] == [Ending("s", "a", T + 9.0, why)]


def test_a_failure_for_good_of_what_must_be_done_is_a_virtual_one(bench, deaths):
    """Nothing keeps its message; the event that told of it is given, too."""
    bench.stitcher.promises.use(Contracts([Contract(match="pay", semantics="must_complete")]))
    events = failing(bench, last="failed")
    bench.stitch(*events)
    (death,) = deaths.turns()
    assert (death.is_virtual, death.error, death.attempts) == (True, "ValueError", 2)
    assert deaths.told() == [events[-1]]
    assert deaths.told() == []


def test_repeats_are_told_but_open_nothing(bench, deaths):
    """A place that tells the same again may know more of it."""
    events = failing(bench)
    bench.stitch(*events, events[-1])
    assert deaths.told() == [events[-1], events[-1]]
    assert len(list(deaths.turns())) == 1


@pytest.mark.parametrize("wait", [10.0, 200.0, 2_000.0], ids=["open", "finished", "forgotten"])
def test_a_verdict_takes_it_down_for_good(bench, deaths, wait):
    """Wherever its trail is by then: it counts no longer, and nothing that is told again takes it up."""
    events = failing(bench)
    bench.stitch(*events).expire(wait / 10.0).expire(wait)
    assert bench.gauge("dead") == 1
    assert deaths.judge("s", "a", T + wait, bench.out) is True
    assert deaths.judge("s", "a", T + wait, bench.out) is False
    assert bench.gauge("dead") == 0
    if wait < 900.0:
        bench.stitch(events[-1], bench.event("requeued", 4.5), ats=[wait, wait]).expire(wait + 10.0)
        assert bench.gauge("dead") == 0


def test_what_becomes_of_it_after_a_verdict_is_told(bench, deaths):
    """It was redriven, and then done: once, and nothing is taken down twice."""
    bench.stitch(*failing(bench))
    deaths.judge("s", "a", T + 5.0, bench.out)
    bench.stitch(bench.event("started", 6.0), bench.event("succeeded", 7.0), bench.event("succeeded", 8.0))
    assert list(deaths.turns())[1:] == [Ending("s", "a", T + 7.0, SUCCEEDED_LATER)]
    assert (bench.gauge("dead"), bench.lowest("dead")) == (0, 0)


def test_what_died_again_after_a_verdict_is_another(bench, deaths):
    """A newer life that dies is a new dead letter."""
    bench.stitch(*failing(bench))
    deaths.judge("s", "a", T + 5.0, bench.out)
    bench.stitch(bench.event("sent", 10.0), bench.event("dead_lettered", 12.0, error="ValueError"))
    turns = list(deaths.turns())
    assert [type(turn).__name__ for turn in turns] == ["Death", "Ending", "Death"]
    assert turns[2].when == T + 12.0
    assert bench.gauge("dead") == 1


def test_what_is_open_can_be_told_again(bench, deaths):
    """With what is left of it: all of a trail that is held, its names where the trail has left."""
    bench.stitch(*failing(bench, task_id="old")).expire(100.0).expire(2_000.0).expire(3_000.0)
    later = [bench.event("sent", 3_001.0, "new"), bench.event("dead_lettered", 3_002.0, "new", error="KeyError")]
    bench.stitch(*later)
    found = {death.task_id: death for death in deaths.open()}
    assert (found["old"].task, found["old"].queue, found["old"].error) == ("pay", "q", "")
    assert (found["new"].error, found["new"].when, found["new"].attempts) == ("KeyError", T + 3_002.0, 1)


def test_what_was_kept_elsewhere_counts_once(bench, deaths):
    """No trail knows of it: it is up; told again it is not up twice; a success takes it down."""
    events = failing(bench)
    bench.stitch(*failing(bench, task_id="held"))
    for task_id in ("a", "a", "held"):
        known = Death(home="s", task_id=task_id, task="pay", queue="q", source="s", at=T + 4.0, when=T + 4.0)
        deaths.hold(known, bench.out)
    assert bench.gauge("dead") == 2
    bench.stitch(events[-1])
    assert bench.gauge("dead") == 2
    bench.stitch(bench.event("succeeded", 9.0))
    assert bench.gauge("dead") == 1


def test_the_life_that_died_told_again_from_its_beginning_ends_nothing(bench):
    """A `sent` that is no later than the death is no newer life."""
    deaths = Deaths(bench.stitcher.parts, lambda home, task_id: {("s", "a"): T + 4.0}.get((home, task_id)))
    known = Death(home="s", task_id="a", task="pay", queue="q", source="s", at=T + 4.0, when=T + 4.0)
    deaths.hold(known, bench.out)
    for event in failing(bench):
        bench.stitch(event)
    assert (bench.gauge("dead"), list(deaths.turns())) == (1, [])
    bench.stitch(bench.event("sent", 9.0))
    assert bench.gauge("dead") == 0
    bench.stitch(bench.event("dead_lettered", 10.0))
    assert bench.gauge("dead") == 1
