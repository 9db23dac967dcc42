"""Captures of real runs: each dead message is one record, with what its place, its broker and its trail tell of it."""

from __future__ import annotations

from collections import Counter

import pytest

from collector.deadletter.record import Origin
from collector.formats import capture
from collector.model.contract import Contract, Contracts
from collector.model.record import Batch
from collector.replaying import Replay
from tests.replay.truth import CAPTURES

DAY = 86_400.0


def records(name, contracts=None, times=1):
    """The ledger after a replay of a capture, its lines told so many times."""
    lines = (CAPTURES / name).read_bytes().splitlines() * times
    replay = Replay([], contracts=contracts)
    batch = Batch(source="s", place=name, bodies=lines, receipts=list(range(1, len(lines) + 1)), received_at=0.0)
    for part in capture.unpack(batch):
        replay.count(part)
    for _ in replay.finish(10.0):
        pass
    assert replay.pipeline.undertaker._unopened == {}
    return list(replay.pipeline.undertaker.ledger.records.values())


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("celery-rabbit-dlx-classic.jsonl", 7),
        ("celery-rabbit-dlx-quorum.jsonl", 2),
        ("dramatiq-rabbit.jsonl", 2),
        ("dramatiq-redis.jsonl", 2),
        ("kafka-dlq.jsonl", 13),
        ("redis-streams-group.jsonl", 3),
    ],
)
def test_each_dead_message_is_one_record_however_often_it_is_told(name, count):
    """From every convention, and none twice where all is told again."""
    once, twice = records(name), records(name, times=2)
    assert len(once) == count
    assert {one.id for one in once} == {one.id for one in twice}
    for one in once:
        assert one.task
        assert one.queue
        assert one.found.place
        assert one.found.size > 0
        assert one.found.preview
        assert not one.is_virtual


def test_rabbitmq_tells_queue_and_reason():
    """By `x-death`, of classic queues and of the delivery limit of quorum queues: in whichever way a message died."""
    classic, quorum = records("celery-rabbit-dlx-classic.jsonl"), records("celery-rabbit-dlx-quorum.jsonl")
    assert {one.found.place for one in classic + quorum} == {"dlx/orders.dead"}
    assert Counter(one.found.origin.reason for one in classic) == {"rejected": 3, "maxlen": 2, "expired": 2}
    assert {one.task: one.found.origin for one in quorum} == {
        "shop.poison": Origin(queue="orders", reason="delivery_limit"),
        "shop.verify": Origin(queue="orders", reason="rejected"),
    }


@pytest.mark.parametrize(
    ("name", "place"),
    [("dramatiq-redis.jsonl", "dramatiq:jobs.XQ.msgs"), ("dramatiq-rabbit.jsonl", "jobs.XQ")],
)
def test_dramatiq_keeps_its_dead_for_a_week(name, place):
    """The message lies there as it was enqueued last: its traceback says where the try before the last failed."""
    found = {one.task: one for one in records(name)}
    sync, parse = found["stock.sync"], found["stock.parse"]
    assert {sync.found.place, parse.found.place} == {place}
    assert (sync.attempts, sync.error, sync.found.frame) == (3, "ConnectionError", "fw_dramatiq.py:flaky")
    assert (parse.attempts, parse.error, parse.found.frame) == (1, "", "")
    assert sync.found.origin.queue == "jobs"
    assert sync.found.expires_at == pytest.approx(sync.when + 7 * DAY)
    assert "dead_message_ttl" in sync.found.expires_by


def test_kafka_headers_tell_where_it_was_and_why_it_left():
    """Spring's, Connect's, Streams' and SmallRye's: topic, partition and offset, and the class that is meant."""
    found = records("kafka-dlq.jsonl")
    places = {one.found.place.rpartition("/")[0]: one for one in found}
    assert len(places) > 3
    for one in found:
        assert one.error or one.message
        if one.found.origin.topic:
            assert one.found.origin.partition is not None
            assert one.found.origin.offset is not None
    connect = {one.found.receipt: one.found.origin for one in found if one.found.place == "connect-dlq/0"}
    assert connect == {
        "0": Origin(topic="clicks", partition=0, offset=1, group="s3-sink"),
        "1": Origin(topic="clicks", partition=0, offset=2, group="s3-sink"),
    }
    assert places["sensors-streams-dlq"].found.frame == "com.example.Orders.handle"


def test_a_dead_letter_stream_tells_the_entry_that_it_was():
    """Whatever fields a hand-written consumer copied."""
    (first, *_) = records("redis-streams-group.jsonl")
    assert first.found.place == "events:orders:dead"
    assert first.found.origin == Origin(topic="events:orders", id=first.task_id)
    assert (first.attempts, first.error) == (3, "ValueError")


MUST = Contracts([Contract(match="*", semantics="must_complete", owner="shop", review_within=3600.0)])


@pytest.mark.parametrize(
    ("name", "place", "kept"),
    [
        ("rq-redis.jsonl", "rq:failed:", 365 * DAY),
        ("bullmq-basic.jsonl", ":failed", None),
        ("celery-redis-basic.jsonl", "", None),
        ("saq-redis.jsonl", "", None),
    ],
)
def test_what_must_be_done_and_failed_for_good_is_one_too(name, place, kept):
    """In RQ's and BullMQ's sets of failed jobs its message lies; else there is none."""
    found = records(name, MUST)
    assert found
    for one in found:
        assert place in one.found.place
        assert one.is_virtual is (not place)
        assert (one.owner, one.review_by) == ("shop", one.at + 3600.0)
        assert one.error or one.message
        if place:
            assert one.found.receipt
        if kept:
            assert one.found.expires_at == pytest.approx(one.when + kept)
        else:
            assert one.found.expires_at is None
