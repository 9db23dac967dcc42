"""What is kept, how it leaves, and what outlives it."""

from __future__ import annotations

import pytest

from collector.trail.keep import REASONS
from collector.trail.memory import Generations


def lived(bench, start, task_id="a", end="succeeded"):
    """One whole life."""
    event = bench.event
    return bench.stitch(
        event("sent", start, task_id),
        event("started", start + 1, task_id, worker="w", attempt=1),
        event(end, start + 2, task_id, worker="w", attempt=1, error="ValueError" if end == "failed" else None),
    )


def test_a_finished_trail_is_frozen_and_still_found(bench):
    """After the horizon it is no longer open, yet its timeline and its counts are there, and repeats are known."""
    lived(bench, 0).expire(130)
    assert len(bench.stitcher) == 0
    view = bench.stitcher.reader.find("a")
    assert (view.state, view.counts["started"], len(view.events)) == ("succeeded", 1, 3)
    assert [trail.task_id for trail in bench.stitcher.reader.trails()] == ["a"]
    bench.stitch(bench.event("succeeded", 2, worker="w", attempt=1))
    assert bench.outcome["duplicate"] == 1
    assert bench.counts() == {"sent": 1, "started": 1, "succeeded": 1}


def test_a_frozen_id_that_is_used_again(bench):
    """A new life of a frozen id counts afresh; a start without `sent` is a redelivery."""
    lived(bench, 0).expire(130)
    lived(bench, 200).expire(400)
    bench.stitch(bench.event("started", 410, worker="w2", attempt=1)).expire(500)
    assert bench.counts() == {"sent": 2, "started": 3, "succeeded": 2, "redelivered": 1}


def test_many_lives_keep_only_the_latest(bench):
    """A cron job's id that lives for ever keeps a bounded history and loses no count."""
    for life in range(40):
        lived(bench, life * 100).expire(life * 100 + 50)
    view = bench.stitcher.reader.find("a")
    assert bench.counts() == {"sent": 40, "started": 40, "succeeded": 40}
    assert view.counts == {"sent": 40, "started": 40, "succeeded": 40}
    assert view.lives <= 4
    assert view.truncated


def test_memory_forgets(make_bench):
    """Finished ids are forgotten after their time, and leaving early is counted."""
    bench = make_bench(finished_seconds=900, finished_ids=1_000)
    lived(bench, 0).expire(130).expire(1_000)
    assert bench.stitcher.reader.find("a") is not None
    bench.expire(2_000)
    assert bench.stitcher.reader.find("a") is None
    assert bench.stitcher.evictions["finished_early"] == 0
    bench = make_bench(finished_ids=8)
    for n in range(20):
        lived(bench, n, str(n))
    bench.expire(200)
    remembered = sum(bench.stitcher.reader.find(str(n)) is not None for n in range(20))
    assert remembered <= 8
    assert bench.stitcher.evictions["finished_early"] == 20 - remembered


def test_the_oldest_leave_when_too_many_are_open(make_bench):
    """The bound on count holds after every batch, exactly, and flight goes down with those that leave."""
    bench = make_bench(open_trails=10)
    for n in range(100):
        bench.stitch(bench.event("started", n, str(n)))
    assert len(bench.stitcher) == 10
    assert bench.stitcher.evictions["open_count"] == 90
    assert bench.stitcher.reader.find("89") is None
    assert bench.stitcher.reader.find("90") is not None
    assert bench.gauge("flight") == 10
    assert bench.counts() == {"started": 100}


def test_what_is_finished_is_frozen_before_it_would_be_lost(make_bench):
    """A finished trail that has to make room is remembered, not evicted."""
    bench = make_bench(open_trails=2)
    for n in range(5):
        lived(bench, n * 10, str(n))
    assert bench.stitcher.evictions["open_count"] == 0
    assert bench.stitcher.reader.find("0").state == "succeeded"


def test_open_trails_leave_by_age(make_bench):
    """A trail without an end leaves when it is too old, with what it still held back counted."""
    bench = make_bench(open_seconds=600)
    bench.stitch(bench.event("started", 0), bench.event("started", 1, "b", task=None, queue=None))
    bench.expire(599)
    assert len(bench.stitcher) == 2
    bench.expire(1_000)
    assert len(bench.stitcher) == 0
    assert bench.stitcher.evictions["open_age"] == 2
    assert bench.gauge("flight") == 0
    assert bench.counts() == {"started": 2}


def test_irregular_trails_leave_by_age_settled(make_bench):
    """What an irregular trail still waits for is decided when it has to leave."""
    bench = make_bench(open_trails=1)
    bench.stitch(bench.event("started", 0, worker="w1"), bench.event("started", 1, worker="w2"))
    bench.stitch(bench.event("sent", 2, "b"))
    assert bench.counts() == {"started": 2, "redelivered": 1, "sent": 1}
    assert bench.gauge("flight") == 0
    assert bench.stitcher.next_decision() is None or not bench.expire(100).gauge("flight")


def test_open_trails_leave_by_bytes(make_bench):
    """The estimate of bytes bounds finished trails first, then open ones."""
    bench = make_bench(bytes=10_000)
    for n in range(5):
        lived(bench, 0, f"old{n}")
    bench.expire(100)
    for n in range(50):
        bench.stitch(bench.event("sent", 100 + n, str(n)))
    assert len(bench.stitcher) == 10_000 // 640
    assert bench.stitcher.evictions["finished_early"] == 5
    assert bench.stitcher.evictions["open_bytes"] == 50 - 10_000 // 640


def test_one_endless_trail_is_cut(make_bench):
    """A task that goes round for ever keeps a bounded history, exact counts, and leaves the others alone."""
    bench = make_bench(trail_facts=30)
    lived(bench, 0, "other")
    for n in range(200):
        told = {"worker": f"w{n % 3}", "attempt": n + 1}
        bench.stitch(bench.event("started", 2 * n, **told), bench.event("requeued", 2 * n + 1, **told))
        bench.expire(2 * n)
    bench.expire(1_000)
    view = bench.stitcher.reader.find("a")
    assert len(view.events) <= 31
    assert view.truncated
    assert view.counts == {"started": 200, "requeued": 200, "requeue_loop": 1}
    assert bench.stitcher.evictions["trail_facts"] == 400 - (len(view.events) - 1)
    assert bench.gauge("flight") == 0
    assert len(bench.stitcher.reader.find("other").events) == 3


@pytest.mark.parametrize("waited", [10, 200, 5_000])
def test_a_dead_letter_is_open_until_a_newer_life(make_bench, waited):
    """Whether its trail is open, frozen or forgotten by then, a `sent` of the same id closes it."""
    bench = make_bench()
    lived(bench, 0, end="failed").stitch(bench.event("dead_lettered", 3, attempt=1))
    for at in range(0, waited, 50):
        bench.expire(at)
    assert bench.gauge("dead") == 1
    bench.stitch(bench.event("sent", waited)).expire(waited + 10)
    assert bench.gauge("dead") == 0
    assert bench.lowest("dead") == 0
    lived(bench, waited + 20, end="failed")
    bench.stitch(bench.event("dead_lettered", waited + 23, attempt=1)).expire(waited + 100)
    assert bench.gauge("dead") == 1


def test_a_dead_letter_told_again_after_it_was_forgotten(bench):
    """It is one open dead letter, however often and however late it is told, until a success closes it."""
    bench.stitch(bench.event("dead_lettered", 0))
    for at in range(0, 5_000, 50):
        bench.expire(at)
    bench.stitch(bench.event("dead_lettered", 0), ats=[5_000]).expire(5_010)
    assert bench.gauge("dead") == 1
    bench.stitch(bench.event("succeeded", 5_020)).expire(5_100)
    assert bench.gauge("dead") == 0


def test_a_later_success_closes_a_dead_letter(bench):
    """Somebody repaired it; the state is that of the success."""
    bench.stitch(bench.event("dead_lettered", 0), bench.event("succeeded", 5)).expire(60)
    assert [bench.gauge("dead", at) for at in (0, 4, 5)] == [1, 1, 0]
    assert bench.state() == "succeeded"


def test_open_dead_letters_are_bounded(make_bench):
    """Beyond the bound the oldest can no longer be closed, which is counted; the gauge keeps it."""
    bench = make_bench(dead_letters=2)
    for n in range(5):
        bench.stitch(bench.event("dead_lettered", n, str(n)))
    assert bench.stitcher.evictions["dead_letters"] == 3
    assert bench.gauge("dead") == 5


def test_every_reason_has_its_counter(bench):
    """The reasons are a closed list, each with a counter from the start."""
    assert bench.stitcher.evictions == dict.fromkeys(REASONS, 0)


def test_expire_is_bounded_per_call(bench):
    """One call handles at most so many trails, and says that more is due."""
    for n in range(25):
        lived(bench, 0, str(n))
    calls = 1
    while bench.stitcher.expire(bench.event("sent", 200).time, bench.out, 10):
        calls += 1
    assert calls >= 3
    assert len(bench.stitcher) == 0


def test_idempotency_keys_are_bounded(make_bench):
    """Keys that leave before their time are counted."""
    bench = make_bench(keys=4)
    for n in range(10):
        bench.stitch(bench.event("succeeded", n, str(n), idempotency_key=f"k{n}"))
    assert bench.stitcher.evictions["keys_early"] > 0
    assert bench.counts() == {"succeeded": 10}


def test_generations_give_the_newest_value():
    """A key put again has its newest value, and taking it forgets it."""
    memory = Generations(90.0, 100)
    memory.put("k", 1, 0.0)
    memory.put("x", 1, 40.0)
    assert memory.get("k") == 1
    assert memory.take("k") == 1
    assert memory.get("k") is None
    memory.forget(200.0)
    assert len(memory) == 0


def test_what_generations_drop_does_not_pile_up():
    """Also where nobody asks them to forget: what comes takes apart what went."""
    memory = Generations(1e9, 100)
    for number in range(5_000):
        memory.put(str(number), 1, 0.0)
        assert sum(map(len, memory._doomed)) <= 100
    assert len(memory) <= 100
