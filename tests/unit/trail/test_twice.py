"""What was run or done twice says after what, and which setting is guilty where that can be seen."""

from __future__ import annotations

import pytest

from tests.unit.trail.findings_bench import Court


def lines(court):
    """Kind and detail of the lines that are no facts."""
    return [(one.kind, one.detail) for one in court.stitcher.reader.find("a").events if not one.attempt]


@pytest.mark.case("K07.1")
@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (
            "celery+redis://host/0",
            ": the visibility_timeout of the Redis transport (an hour by default)",
        ),
        ("bullmq+redis://host/0/q", ": its lock ran out (lockDuration), so that it was taken for stalled"),
        ("mine", ""),
    ],
)
def test_a_run_that_is_given_out_again_names_the_setting(source, cause):
    """While the first one still runs; the timeline tells after how long, and where that was."""
    court = Court()
    events = [
        court.event("sent", 0),
        court.event("started", 1, worker="w1", attempt=1),
        court.event("started", 6, worker="w2", attempt=1),
        court.event("succeeded", 13, worker="w1", attempt=1),
        court.event("succeeded", 18, worker="w2", attempt=1),
    ]
    court.stitch(*events, source=source).walk(100)
    (run, why), done = lines(court)
    assert (run, done) == ("redelivered", ("duplicate_success", "first done 5 s before on w1"))
    assert why.startswith(f"5 s after the start on w1, which still runs{cause}")
    assert bool(cause) == (":" in why)


def test_a_run_after_a_loss_or_an_end_blames_no_setting():
    """The broker did what it should."""
    court = Court()
    court.feed(*court.beats("w1", 0, 20), court.event("started", 15, worker="w1", attempt=1))
    court.feed(court.event("started", 60, worker="w2", attempt=1), court.event("succeeded", 61, worker="w2", attempt=1))
    court.feed(court.event("started", 65, worker="w3", attempt=1)).walk(100)
    assert [one for one in lines(court) if one[0] == "redelivered"] == [
        ("redelivered", "45 s after the start on w1, which was lost"),
        ("redelivered", "5 s after the start on w2, which had ended"),
    ]


def test_a_key_that_was_done_before_is_named():
    """Another id did the same."""
    court = Court()
    for task_id in ("b", "a"):
        key = {"idempotency_key": "order-7"}
        court.feed(court.event("started", 1, task_id, **key), court.event("succeeded", 2, task_id, **key))
    court.walk(50)
    assert court.counts()["duplicate_success"] == 1
    assert lines(court) == [("duplicate_success", "the idempotency key order-7 was done before")]
