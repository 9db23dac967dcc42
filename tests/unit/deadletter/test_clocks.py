"""Ages and retention: the oldest and the next of each task, without looking at them all."""

from __future__ import annotations

from collector.deadletter.record import Found
from collector.model.death import SUCCEEDED_LATER, Ending
from tests.unit.deadletter.deaths import Kept, T, verdict

LYING = Found(place="pay.XQ", expires_at=T + 1000.0)


def standing(kept):
    """What is known of task `pay`."""
    return dict(kept.clocks.standings()).get(("pay", "q", "s"))


def test_the_oldest_counts_in_whatever_order_they_came(ledger):
    """A backlog may tell the older one later."""
    ledger.die("a", at=50.0)
    ledger.die("b", at=20.0)
    now = standing(ledger)
    assert (now.lying, now.unreviewed_since, now.lying_since) == (2, T + 20.0, T + 20.0)


def test_an_ack_stops_the_clock_of_the_review_and_no_other(ledger):
    """Somebody looks at it; it still lies there and will still be deleted."""
    first, _ = ledger.die("a", at=20.0, found=LYING)
    ledger.die("b", at=50.0)
    ledger.judge(first, verdict("acknowledged"), T + 60.0)
    now = standing(ledger)
    assert (now.lying, now.unreviewed_since, now.lying_since, now.expires_at) == (2, T + 50.0, T + 20.0, T + 1000.0)


def test_where_all_has_ended_nothing_is_told_after_once_more(ledger):
    """The last word is that there is none; then the task is forgotten."""
    ledger.die("a", found=LYING)
    ledger.end(Ending("s", "a", T + 5.0, SUCCEEDED_LATER))
    now = standing(ledger)
    assert (now.lying, now.unreviewed_since, now.lying_since, now.expires_at) == (0, None, None, None)
    assert standing(ledger) is None


def test_the_clock_goes_on_where_it_turns_out_not_to_have_ended(ledger):
    """Also where the task had been forgotten meanwhile."""
    ledger.die("a", found=LYING)
    ledger.end(Ending("s", "a", T + 5.0, SUCCEEDED_LATER))
    assert [standing(ledger).lying, standing(ledger)] == [0, None]
    ledger.die("a", is_again=True)
    assert (standing(ledger).unreviewed_since, standing(ledger).expires_at) == (T, T + 1000.0)


def test_without_a_message_nothing_lies_anywhere(ledger):
    """A failure for good of what keeps no message waits for a review, and for nothing else."""
    ledger.die(is_virtual=True)
    now = standing(ledger)
    assert (now.lying, now.unreviewed_since, now.lying_since) == (0, T, None)


def test_what_was_deleted_waits_for_a_review_though_somebody_had_seen_it(ledger):
    """Its owner must hear that it is gone."""
    name, _ = ledger.die(found=LYING)
    ledger.judge(name, verdict("acknowledged"), T + 1.0)
    ledger.expire(T + 999.0)
    assert standing(ledger).expires_at == T + 1000.0
    ledger.expire(T + 1000.0)
    now = standing(ledger)
    assert (now.lying, now.unreviewed_since, now.expires_at) == (0, T, None)


def test_a_forgotten_record_has_no_clock():
    """Its ages leave with it."""
    kept = Kept()
    name, _ = kept.die(found=LYING)
    kept._forget(name)
    now = standing(kept)
    assert (now.lying, now.unreviewed_since, now.lying_since, now.expires_at) == (0, None, None, None)
