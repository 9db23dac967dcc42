"""What is found from absence waits while its source cannot be believed, without being looked at, and is found then."""

from __future__ import annotations

from collector.model.contract import Contract
from collector.trail.findings.holes import MOST, Holes
from tests.unit.trail.conftest import T
from tests.unit.trail.findings_bench import Court, restarted

CONTRACT = Contract(match="pay", semantics="must_complete", deadline=60.0, period=100.0)


def shut(court):
    """Nothing of this bench's source can be believed; gives what lets it be believed again."""
    known = set()
    court.stitcher.findings.holes.is_known = known.__contains__
    return lambda: known.add("s")


def overdue(court):
    """How many were found overdue."""
    trails = (trail for home in court.stitcher.parts.keep.homes for trail in home.open.values())
    return sum(one.name == "overdue" for trail in trails for one in trail.found or ())


def test_what_waits_is_not_looked_at_until_its_source_is_believed():
    """A deadline, a wait, a schedule and a worker: none is due again meanwhile, each is found once afterwards."""
    court = Court(CONTRACT)
    believe = shut(court)
    court.feed(*court.beats("w1", 0, 20), court.event("sent", 0), court.event("started", 1, worker="w1", attempt=1))
    court.feed(court.event("sent", 2, "b")).walk(250)
    assert (court.found(), overdue(court)) == ([], 0)
    assert court.stitcher.findings.expire(T + 480, 1_000) == 0
    assert not court.stitcher.findings.holes.is_ready
    believe()
    assert court.stitcher.findings.holes.is_ready
    court.walk(510)
    assert overdue(court) == 2
    names = [what for what, _ in court.found()]
    assert [names.count(one) for one in ("lost", "never_started", "missed_schedule")] == [1, 1, 4]
    assert not court.stitcher.findings.holes.is_ready


def test_holes_do_not_push_out_those_of_another_source_nor_what_they_go_on_from():
    """Of very many holes of one source, the newest are remembered; one that goes on and on is one of them."""
    holes = Holes()
    holes.add("kafka", 0, 10)
    for number in range(2 * MOST):
        holes.add("push", 3 * number, 3 * number + 1)
    assert [holes.over("push", at, at) for at in (0, 3 * MOST - 3, 3 * MOST)] == [None, None, 3 * MOST + 1]
    for number in range(1_000, 1_000 + 2 * MOST):
        holes.add("push", 5 * number, 5 * number + 5)
    assert holes.over("push", 5_000, 5_000) == 5_000 + 10 * MOST
    assert holes.over("push", 6 * MOST - 3, 6 * MOST - 3) == 6 * MOST - 2
    assert [holes.over("kafka", 5, 6), holes.over("kafka", 11, 12)] == [10, None]


def test_many_that_waited_are_looked_at_in_steps():
    """A thousand deadlines that could not be judged are judged in bounded steps, each once."""
    court = Court(CONTRACT)
    believe = shut(court)
    for number in range(1_000):
        court.stitch(court.event("sent", 0, f"t{number}"))
    court.walk(200)
    believe()
    steps = 1
    while court.stitcher.expire(T + 201, court.out, most=1_600):
        steps += 1
    assert overdue(court) == 1_000
    assert steps >= 10


def test_a_worker_that_was_not_seen_has_the_time_anew_after_a_restart():
    """What waited for its source when the process ended is not judged by what was missed meanwhile."""
    court = Court()
    shut(court)
    court.feed(*court.beats("w1", 0, 20), court.event("started", 15, worker="w1", attempt=1)).walk(100)
    again = restarted(court).expire(100).walk(105)
    assert again.found() == []
    assert [what for what, _ in again.walk(200).found()] == ["lost"]
