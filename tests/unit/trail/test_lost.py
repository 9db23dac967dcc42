"""Lost and poison: what was started by a worker that is gone; each once, and made good by what comes after it."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract
from collector.trail.transitions import FACTS, STRIDE
from tests.unit.trail.conftest import T
from tests.unit.trail.findings_bench import Court

WORKERS = (("w1", "0"), ("w2", "1"))
"""How much each has in hand, by its heartbeats."""


def started(court, at, task_id="a", worker="w1", **fields):
    """A task that was sent and started."""
    return [
        court.event("sent", at - 1, task_id),
        court.event("started", at, task_id, worker=worker, **fields),
    ]


def sign(court, kind, at, worker="w1", **fields):
    """A sign of life of a worker."""
    return court.event(kind, at, "", worker=worker, task=None, queue=None, **fields)


def test_three_missing_heartbeats_are_a_loss():
    """After three intervals, ten seconds at least, and grace; told in the timeline and by the state."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20), *started(court, 15)).walk(34.9)
    assert (court.found(), court.state()) == ([], "started")
    court.walk(35)
    assert (court.found(), court.state(), court.lines()) == ([("lost", 35.0)], "lost", ["sent", "started", "lost"])
    court.walk(2_000)
    assert court.found() == [("lost", 35.0)]


def test_the_interval_is_the_workers_own():
    """One that tells of itself every minute is not gone after ten seconds."""
    court = Court()
    court.feed(*court.beats("w1", 0, 120, every=60.0), *started(court, 100)).walk(304)
    assert court.found() == []
    court.walk(306)
    assert court.found() == [("lost", 305.0)]


def test_what_tasks_do_is_a_sign_of_life():
    """A worker whose heartbeats do not come, but whose tasks do, is there."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20), *started(court, 15), *started(court, 28, "b")).walk(42)
    assert court.found() == []
    court.walk(44)
    assert court.found() == [("lost", 43.0), ("lost", 43.0)]


def test_a_restart_under_the_same_name_loses_what_ran():
    """What was started before it, and nothing that came after."""
    court = Court()
    court.feed(*started(court, 15), sign(court, "online", 20), *started(court, 21, "b")).walk(100)
    assert (court.found(), court.state(), court.state("b")) == ([("lost", 25.0)], "lost", "started")


def test_a_worker_that_comes_back_to_its_broker_has_not_restarted():
    """It says that it has tasks in hand; and two channels may tell of one beginning."""
    court = Court()
    court.feed(*started(court, 15), sign(court, "online", 20, labels={"active": "1"})).walk(100)
    court.feed(sign(court, "online", 101), *started(court, 102, "b"), sign(court, "online", 103)).walk(200)
    assert court.found() == [("lost", 106.0)]  # a alone


@pytest.mark.parametrize(("limit", "at"), [(None, 85.0), (30.0, 85.0), (300.0, 325.0)])
def test_a_worker_that_leaves_has_time_to_finish(limit, at):
    """A minute after its `offline`, or as long as its task may run."""
    court = Court(Contract(match="pay", semantics="best_effort", time_limit=limit))
    court.feed(*court.beats("w1", 0, 20), *started(court, 15), sign(court, "offline", 20)).walk(at - 0.1)
    assert ("lost", at) not in court.found()
    court.walk(at)
    assert ("lost", at) in court.found()


@pytest.mark.case("K05.1")
def test_what_an_idle_worker_started_is_over_and_nobody_knows_how():
    """Its end was not told: unknown, no failure and no longer in flight; an end that comes after all counts once."""
    court = Court()
    names = [f"t{number}" for number in range(20)]
    told = [fact for name in names for fact in started(court, 15, name)]
    busy = [*started(court, 15, "busy", worker="w2")]
    beats = [sign(court, "heartbeat", at, w, labels={"active": n}) for at in range(0, 200, 2) for w, n in WORKERS]
    court.feed(*told, *busy, *beats).walk(200)
    assert ({court.state(name) for name in names}, court.state("busy")) == ({"unknown"}, "started")
    assert (court.found(), court.counts()) == ([], {"sent": 21, "started": 21})
    assert not court.stitcher.evictions["deadlines"]  # nothing left early
    landed = court.stitcher.findings.out.codes
    assert [FACTS[code % STRIDE] for code in landed] == ["flight_down"] * 20
    court.feed(court.event("succeeded", 201, "t3", worker="w1")).walk(207)
    assert (court.state("t3"), court.counts()["succeeded"]) == ("succeeded", 1)
    assert court.gauge("flight") - len(landed) == 1  # the busy one


def test_an_idle_worker_is_believed_by_its_latest_heartbeats():
    """However many it sent since the start: what it had not ended is unknown at the first look, after a minute."""
    court = Court()
    beats = [sign(court, "heartbeat", at, labels={"active": "0"}) for at in range(0, 100, 2)]
    court.feed(*started(court, 15), *beats)
    assert (court.state(), court.found()) == ("unknown", [])


@pytest.mark.parametrize("kind", ["silence", "online"])
def test_what_an_idle_worker_started_is_not_lost_when_it_leaves(kind):
    """It was over, nobody knows how, before its worker was gone: one finding, also where both are due at one look."""
    court = Court()
    beats = [sign(court, "heartbeat", at, labels={"active": "0"}) for at in range(0, 56, 2)]
    court.feed(*started(court, 20), *beats)
    assert court.state() == "started"  # nobody looked yet
    court.feed(*([] if kind == "silence" else [sign(court, kind, 56)])).walk(200)
    assert (court.found(), court.state(), court.lines()) == ([], "unknown", ["sent", "started", "unknown"])


def test_what_is_lost_stays_lost_while_its_worker_is_idle_afterwards():
    """One that began anew and says that it has nothing in hand: one finding; it is no longer in flight."""
    court = Court()
    beats = [sign(court, "heartbeat", at, labels={"active": "0"}) for at in range(22, 200, 2)]
    court.feed(*started(court, 15), sign(court, "online", 20), *beats).walk(200)
    assert (court.found(), court.state(), court.lines()) == ([("lost", 25.0)], "lost", ["sent", "started", "lost"])
    landed = [FACTS[code % STRIDE] for code in court.stitcher.findings.out.codes]
    assert (landed, court.gauge("flight")) == (["lost", "flight_down"], 1)
    court.feed(court.event("succeeded", 201, worker="w2")).walk(210)
    assert (court.state(), court.gauge("flight"), court.found()[1:]) == ("succeeded", 1, [("recovered lost", 201.0)])


@pytest.mark.parametrize(("active", "state"), [("1", "started"), ("0", "unknown")])
def test_what_a_worker_said_in_a_lag_is_heard_when_it_comes(active, state):
    """One that was busy all the time is not taken for idle because it was waited for while its source was behind."""
    court = Court()
    is_up = True
    court.stitcher.findings.holes.is_known = lambda _source: is_up
    idle = [sign(court, "heartbeat", at, labels={"active": "0"}) for at in range(0, 40, 2)]
    court.feed(*idle, *started(court, 40)).walk(41)
    is_up = False
    court.walk(94)
    is_up = True
    court.walk(95)
    late = [sign(court, "heartbeat", at, labels={"active": active}) for at in range(42, 94, 2)]
    court.stitch(*late, sign(court, "heartbeat", 96, labels={"active": "0"})).walk(104)  # it is looked at on the way
    assert (court.state(), court.found()) == (state, [])


@pytest.mark.parametrize("kind", ["heartbeat", "offline"])
def test_what_a_worker_said_last_in_a_lag_holds(kind):
    """How much it has in hand, and that it leaves, also where it was waited for beyond that."""
    court = Court()
    is_up = False
    court.stitcher.findings.holes.is_known = lambda _source: is_up
    court.feed(*[sign(court, "heartbeat", at, labels={"active": "0"}) for at in range(0, 40, 2)]).walk(60)
    is_up = True
    court.walk(61)
    court.stitch(sign(court, kind, 42, labels={"active": "1"}))
    (worker,) = court.stitcher.findings.crew.all.values()
    assert (worker.active, worker.is_up) == (1, kind == "heartbeat")


def test_what_ends_is_not_lost():
    """Also when its worker goes right after it, and however its end comes."""
    court = Court()
    for number, kind in enumerate(("succeeded", "failed", "retried", "requeued", "revoked")):
        court.feed(*started(court, 10, kind), court.event(kind, 12 + number, kind, worker="w1"))
    court.feed(*court.beats("w1", 0, 20)).walk(500)
    assert court.found() == []


def test_an_end_that_comes_too_late_makes_the_loss_good():
    """What is lost is decided by what was there when it was due, not by what comes while that is waited for."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20), *started(court, 15), court.event("succeeded", 32, worker="w1")).walk(500)
    assert (court.found(), court.state()) == ([("lost", 35.0), ("recovered lost", 35.0)], "succeeded")


def test_a_worker_without_a_sign_of_life_is_never_gone():
    """Nothing is known of it."""
    court = Court()
    court.feed(*started(court, 15), *court.beats("w2", 0, 20)).walk(1_000)
    assert (court.found(), court.state()) == ([], "started")


@pytest.mark.parametrize("kind", ["started", "succeeded", "failed", "retried"])
def test_a_loss_is_made_good_by_what_comes_after_it(kind):
    """It runs again, or its end is seen after all: recovered, once, and no longer lost."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20), *started(court, 15, attempt=1))
    court.feed(court.event(kind, 60, worker="w1" if kind != "started" else "w2", attempt=1)).walk(300)
    assert court.found() == [("lost", 35.0), ("recovered lost", 60.0)]
    assert court.state() != "lost"


def test_what_takes_its_worker_down_twice_is_poison():
    """Two workers that died under one task; not two that were told to leave."""
    court = Court()
    for number, worker in enumerate(("w1", "w2", "w3")):
        began = 100 * number
        court.feed(*court.beats(worker, began, began + 20))
        court.feed(court.event("started", began + 15, worker=worker, attempt=1))
    court.walk(1_000)
    assert [one for one in court.found() if one[0] != "recovered lost"] == [
        ("lost", 35.0), ("lost", 135.0), ("poison", 135.0), ("lost", 235.0),
    ]  # fmt: skip


def test_a_graceful_leave_is_no_poison():
    """A deployment takes its time; the task did nothing."""
    court = Court()
    for number, worker in enumerate(("w1", "w2")):
        began = 200 * number
        court.feed(*court.beats(worker, began, began + 20), court.event("started", began + 15, worker=worker))
        court.feed(sign(court, "offline", began + 20, worker))
    court.walk(1_000)
    assert [what for what, _ in court.found() if what != "recovered lost"] == ["lost", "lost"]


def test_nothing_is_lost_while_a_source_cannot_be_believed():
    """Heartbeats that do not come from a source that is down are not missing; it is judged when the source is back."""
    court = Court()
    is_up = False
    court.stitcher.findings.holes.is_known = lambda _source: is_up
    court.feed(*court.beats("w1", 0, 20), *started(court, 15)).walk(300)
    assert court.found() == []
    is_up = True
    court.feed(*court.beats("w1", 301, 310)).walk(320)
    assert court.found() == []


def test_a_loss_that_may_lie_in_a_hole_is_unknown():
    """The end may have been missed: no finding, and the state says so."""
    court = Court()
    court.stitcher.findings.holes.add("s", T + 16, T + 50)
    court.feed(*court.beats("w1", 0, 15), *started(court, 15)).walk(64)
    assert court.state() == "started"
    court.walk(300)
    assert (court.found(), court.state(), court.stitcher.evictions["deadlines"]) == ([], "unknown", 1)


def test_many_are_lost_in_steps():
    """Ten thousand trails of a dead worker are gone through in bounded steps, each found once."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20))
    court.stitch(*(court.event("started", 15, f"{number}", worker="w1") for number in range(10_000)))
    steps = 0
    while court.stitcher.expire(T + 40, court.out, 2_000):
        steps += 1
    assert court.found() == [("lost", 35.0)] * 10_000
    assert steps > 50


def test_an_interval_that_is_told_needs_no_two_heartbeats():
    """A worker that says how often it sends them, and is gone before the second one or even the first."""
    court = Court()
    told = {"labels": {"active": "0", "every": "2"}}
    court.feed(sign(court, "online", 10, **told), sign(court, "heartbeat", 12, **told), *started(court, 13))
    court.feed(sign(court, "online", 50, "w2", **told), *started(court, 51, "b", worker="w2")).walk(500)
    assert court.found() == [("lost", 28.0), ("lost", 66.0)]  # a start is a sign of life, too


def blocked(court, start, end, task_id):
    """A run that is begun between two heartbeats, and keeps its worker from sending any."""
    return [*started(court, start, task_id), court.event("succeeded", end, task_id, worker="w1")]


def test_a_worker_that_sends_nothing_while_it_works_is_known_by_its_first_run():
    """It came back without a restart: its silence means nothing then, unless it is far longer than any before."""
    court = Court()
    court.feed(sign(court, "online", 0), *court.beats("w1", 2, 14), *blocked(court, 15, 60, "a"))
    court.feed(*court.beats("w1", 60, 70), *blocked(court, 71, 170, "b"), *court.beats("w1", 170, 180)).walk(185)
    assert court.found() == [("lost", 30.0), ("recovered lost", 60.0)]  # silent from 15, when it was begun, to 60
    court.feed(*started(court, 181, "c")).walk(2_000)
    assert court.found()[2:] == [("lost", 181.0 + 3 * 45.0 + 5.0)]  # it was believed gone for 45 s


def test_a_restart_is_no_sign_that_a_worker_was_there_all_the_time():
    """What was silent until it began anew was dead: its next silence is judged as the first one was."""
    court = Court()
    court.feed(sign(court, "online", 0), *court.beats("w1", 2, 14), *started(court, 15))
    court.feed(sign(court, "online", 100), *court.beats("w1", 102, 130), *started(court, 131, "b")).walk(500)
    assert court.found() == [("lost", 30.0), ("lost", 146.0)]
