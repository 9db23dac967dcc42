"""Which trails are kept when they leave, and with them their whole traces."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract, Contracts
from collector.trail import sieve as sieving


@pytest.fixture
def sieve(bench):
    """The sieve of the bench's stitcher, at work."""
    bench.stitcher.sieve.begin()
    return bench.stitcher.sieve


def lived(bench, start, task_id="a", end="succeeded", took=1, **fields):
    """One whole life."""
    event = bench.event
    error = "ValueError" if end == "failed" else None
    return bench.stitch(
        event("sent", start, task_id, **fields),
        event("started", start + 1, task_id, worker="w", attempt=1),
        event(end, start + 1 + took, task_id, worker="w", attempt=1, error=error),
    )


def kept(sieve, most=1_000):
    """Ids of what is to be kept and why, in order; all that there is."""
    found = []
    while len(sieve):
        sieve.explore(most)
        found += [(one.remains.listed.task_id, one.reason) for one in sieve.take(most)]
    return found


@pytest.mark.parametrize("end", ["failed", "dead_lettered", "rejected", "expired"])
def test_what_went_wrong_is_kept(bench, sieve, end):
    """With all its events; a regular success is not, nor what somebody took back."""
    lived(bench, 0, "good")
    lived(bench, 0, "bad", end)
    lived(bench, 0, "back", "revoked")
    bench.expire(200)
    (one,) = sieve.take(10)
    assert not sieve.explore(10)
    timeline = one.remains.timeline
    assert (timeline.task_id, timeline.state, one.reason, one.home) == ("bad", end, "outcome", "s")
    assert [event.kind for event in timeline.events] == ["sent", "started", end]
    assert len(sieve) == 0


def test_what_was_retried_run_twice_or_overdue_is_kept(bench, sieve):
    """Also where it ended well; what came over two channels in any order is regular."""
    event = bench.event
    bench.stitcher.promises.use(Contracts((Contract(match="due", deadline=10.0),)))
    lived(bench, 0, "due", took=20, task="due")
    bench.stitch(
        event("sent", 0, "tried"),
        event("started", 1, "tried", attempt=1, worker="w"),
        event("retried", 2, "tried", attempt=1, worker="w", error="E"),
        event("started", 3, "tried", attempt=2, worker="w"),
        event("succeeded", 4, "tried", attempt=2, worker="w"),
        event("succeeded", 3, "odd", worker="w"),
        event("started", 1, "odd", worker="w2"),
        event("started", 2, "odd", worker="w"),
        event("succeeded", 3, "mixed", worker="w", attempt=1),
        event("sent", 1, "mixed"),
        event("started", 2, "mixed", worker="w", attempt=1),
        ats=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    bench.expire(300)
    assert dict(kept(sieve)) == {"due": "outcome", "tried": "outcome", "odd": "outcome"}


def test_an_error_message_is_kept_masked(bench, sieve):
    """What looks like a secret or a person does not go to the disk."""
    bench.stitch(bench.event("failed", 0, error="E", error_message="to joe@example.com with password=hunter2"))
    bench.expire(200)
    (one,) = sieve.take(1)
    assert not {"joe@example.com", "hunter2"} & set(one.remains.timeline.error_message.split())
    assert "hunter2" not in one.remains.timeline.error_message


def test_with_one_its_whole_trace_is_kept(bench, sieve):
    """What was over before, what was open, what comes later, and what has only its parent in common."""
    lived(bench, 0, "before", trace_id="t")
    lived(bench, 0, "other", trace_id="u")
    bench.expire(100)
    lived(bench, 100, "cause", "failed", trace_id="t", parent_id="caller")
    lived(bench, 100, "caller")
    lived(bench, 101, "child", parent_id="cause")
    bench.expire(200)
    assert dict(kept(sieve)) == {"cause": "outcome", "before": "trace", "caller": "trace", "child": "trace"}
    lived(bench, 5_000, "later", trace_id="t").expire(5_200)
    (one,) = sieve.take(1)
    assert (one.remains.listed.task_id, one.trace) == ("later", "t")


def test_the_trace_of_what_goes_wrong_for_long_is_kept_before_its_end(bench, sieve):
    """A retry that waits for hours: what its trace did in the meantime is forgotten by memory before it is over."""
    lived(bench, 0, "kin", trace_id="t")
    bench.stitch(
        bench.event("sent", 0, "long", trace_id="t"),
        bench.event("started", 1, "long", worker="w", attempt=1),
        bench.event("retried", 2, "long", worker="w", attempt=1, error="E"),
    )
    bench.expire(100).expire(200)
    assert kept(sieve) == [("kin", "trace")]
    lived(bench, 400, "child", parent_id="long").expire(600)
    assert kept(sieve) == [("child", "trace")]


def test_what_comes_of_a_kept_trail_after_memory_forgot_it_is_kept_too(bench, sieve):
    """A dead letter that is done at last; a trail of another id with such a life is not."""
    lived(bench, 0, "dead", "failed").expire(100)
    assert kept(sieve) == [("dead", "outcome")]
    bench.expire(2_000).expire(4_000)
    assert bench.stitcher.reader.find("dead") is None
    lived(bench, 5_000, "dead")
    lived(bench, 5_000, "new").expire(5_200)
    assert kept(sieve) == [("dead", "trace")]


def test_slower_than_its_99th_percentile_is_kept_within_a_bound(bench, sieve):
    """So many of a task a minute; the others are counted."""
    for number in range(200):
        lived(bench, number, f"n{number}")
    bench.expire(1_000)
    assert kept(sieve) == []
    lived(bench, 1_300, "usual")
    for number in range(12):
        lived(bench, 1_300, f"slow{number}", took=30)
    bench.expire(1_450)
    assert kept(sieve) == [(f"slow{number}", "slow") for number in range(sieving.SLOW_OF_ROW_PER_MINUTE)]
    assert sieve.shed["kept_slow"] == 2


def test_a_share_of_successes_is_kept_whole_traces_alike(bench, sieve):
    """The same ones at every time; where one task of a trace has a share, all of its tasks are kept."""
    sieve.use(Contracts((Contract(match="pay", keep_success=0.25),)))
    for number in range(400):
        lived(bench, number / 10, f"a{number}", trace_id=f"t{number}")
        lived(bench, number / 10, f"b{number}", trace_id=f"t{number}", task="mail")
    bench.expire(300)
    first = {name for name, _ in kept(sieve)}
    chosen = {name[1:] for name in first if name[0] == "a"}
    assert 60 <= len(chosen) <= 140
    assert {name[1:] for name in first if name[0] == "b"} == chosen
    sieve.use(None)
    lived(bench, 900, "c1", trace_id="t").expire(1_200)
    assert kept(sieve) == []


@pytest.mark.parametrize(("is_well", "reason"), [(True, "kept_load"), (False, "kept_disk")])
def test_what_cannot_wait_is_counted_by_reason(bench, sieve, monkeypatch, is_well, reason):
    """Every failure is kept or counted."""
    monkeypatch.setattr(sieving, "MOST_WAITING", 30)
    sieve.is_disk_well = lambda: is_well
    for number in range(100):
        lived(bench, 0, f"n{number}", "failed")
    bench.expire(300)
    assert (len(kept(sieve)), sieve.shed[reason]) == (30, 70)


def test_a_trace_is_kept_within_a_bound(bench, sieve, monkeypatch):
    """Its failures all the same."""
    monkeypatch.setattr(sieving, "MOST_OF_TRACE", 10)
    lived(bench, 0, "cause", "failed", trace_id="t")
    for number in range(20):
        lived(bench, 1, f"n{number}", trace_id="t")
    lived(bench, 2, "last", "failed", trace_id="t").expire(300)
    found = kept(sieve)
    assert (len(found), ("last", "outcome") in found) == (11, True)
    assert sieve.shed["kept_trace"] >= 11


def test_regular_successes_cost_a_test_or_two(bench, sieve, monkeypatch):
    """Nothing is decoded, encoded or looked up of them."""
    monkeypatch.setattr(sieve, "_accept", None)
    monkeypatch.setattr(sieve, "_mark_of", None)
    monkeypatch.setattr(sieve, "_share", None)
    for number in range(100):
        lived(bench, 0, f"n{number}", trace_id=f"t{number}")
    bench.expire(300)
    assert (len(bench.stitcher), len(sieve), bench.counts()["succeeded"]) == (0, 0, 100)


def test_what_a_former_process_kept_is_still_marked(bench, sieve):
    """Ids and traces alike."""
    sieve.remember([("dead", "t"), ("plain", "")], bench.event("sent", 0).time)
    for name, fields in (("dead", {}), ("plain", {}), ("kin", {"trace_id": "t"}), ("else", {"trace_id": "u"})):
        lived(bench, 0, name, **fields)
    bench.expire(300)
    assert sorted(kept(sieve)) == [("dead", "trace"), ("kin", "trace"), ("plain", "trace")]
