"""How long places keep dead letters is asked while something lies there, and seldom."""

from __future__ import annotations

import msgspec
import pytest

from collector.deadletter.record import Found
from collector.model.clock import ManualClock
from collector.model.errors import SourceError
from collector.model.keeping import Keeping, Kept
from collector.shell.retention import LOOKS, Retention
from tests.unit.deadletter.deaths import T, death
from tests.unit.parts import pipeline


class Asked:
    """A cluster that says what it is told to; notes what it was asked about."""

    def __init__(self):
        self.says = Keeping()
        self.error = None
        self.places = []

    async def ask(self, places):
        """Once more."""
        self.places.append(sorted(places))
        if self.error is not None:
            raise self.error
        return self.says


def at_work(lines):
    """A pipeline that says its lines to a list, and what asks for source `k`."""
    made = pipeline()
    made.telemetry.said = lambda text, *more: lines.append(text % more)
    asks = Asked()
    retention = Retention(
        source="k", asks=asks, every=10.0, undertaker=made.undertaker, telemetry=made.telemetry, clock=ManualClock(T)
    )
    return made.undertaker.ledger, asks, retention


def lies(ledger, name, place="dlt/0", receipt="5"):
    """One more lies there, written at T."""
    found = Found(place=place, receipt=receipt, written_at=T, read_by="k")
    ledger.open(death(name), found, "me", None)


async def test_it_is_asked_when_a_place_is_new_and_then_seldom():
    """Nothing lies anywhere: nobody is asked; a new place: at once; else at every so manieth look."""
    ledger, asks, retention = at_work([])
    await retention.look()
    assert asks.places == []
    lies(ledger, "a")
    await retention.look()
    for number in range(2 * LOOKS):
        if number == 0:
            lies(ledger, "b", "dlt/1")
        await retention.look()
    assert asks.places == [["dlt/0"], *[["dlt/0", "dlt/1"]] * 3]


async def test_what_it_says_dates_all_that_lies_there_and_changes_with_it():
    """A setting that was changed dates anew; what is unknown then has no time."""
    ledger, asks, retention = at_work([])
    lies(ledger, "a")
    for kept, expected in [
        (Kept(60.0, "w"), (T + 60.0, "w")),
        (Kept(90.0, "w"), (T + 90.0, "w")),
        (Kept(None, "never: x"), (None, "never: x")),
        (Kept(), (None, "")),
    ]:
        asks.says = Keeping(kept={"dlt": kept})
        retention.known.clear()
        await retention.look()
        (one,) = ledger.records.values()
        assert (one.found.expires_at, one.found.expires_by) == expected


async def test_what_the_place_has_deleted_is_expired_and_nothing_else():
    """A place that is asked says itself what is gone: it may keep a record beyond its time, or lose it before."""
    ledger, asks, retention = at_work([])
    lies(ledger, "a", receipt="4")
    lies(ledger, "b", receipt="5")
    asks.says = Keeping(kept={"dlt": Kept(60.0, "retention.ms")}, begins={"dlt/0": 5})
    await retention.look()
    assert ledger.expire(T + 1000.0) == []
    assert [(one.task_id, one.state, one.reason) for one in ledger.records.values()] == [
        ("a", "expired", "the place where it lay keeps it no longer"),
        ("b", "open", ""),
    ]
    asks.says.begins = {"dlt/0": 6}
    retention.known.clear()
    await retention.look()
    assert [one.reason for one in ledger.records.values()][1] == "retention.ms"
    assert ledger.clocks.places("k") == []


@pytest.mark.parametrize(("place", "receipt"), [("dlt/0", "1690000000000-0"), ("dlt/0", ""), ("jobs:dead", "4")])
async def test_what_is_no_offset_in_a_partition_is_passed_over(place, receipt):
    """A ledger of before may have it: it is not asked about, and ends nobody's work; its time is then what is known."""
    former, _, _ = at_work([])
    lies(former, "a", place, receipt)
    lies(former, "b", receipt="4")
    (one, other) = former.records.values()
    ledger, asks, retention = at_work([])
    dated = msgspec.structs.replace(one.found, expires_at=T + 60.0)
    ledger.restore([msgspec.structs.replace(one, found=dated), other], [])
    asks.says = Keeping(kept={"dlt": Kept(60.0, "w")}, begins={"dlt/0": 5})
    await retention.look()
    assert asks.places == [["dlt/0"]]
    assert [one.state for one in ledger.records.values()] == ["open", "expired"]
    assert [one.task_id for one in ledger.expire(T + 60.0)] == ["a"]


async def test_where_nobody_asks_any_more_the_time_that_was_known_holds():
    """Its source was renamed, or its probe is off: else it would be about to expire for ever."""
    ledger, _, _ = at_work([])
    for name, source in [("a", "k"), ("b", "former")]:
        found = Found(place="dlt/0", receipt="5", read_by=source, written_at=T, expires_at=T + 60.0, expires_by="w")
        ledger.open(death(name), found, "me", None)
    assert ledger.expire(T + 59.0) == []
    assert [(one.task_id, one.found.expires_by) for one in ledger.expire(T + 60.0)] == [("b", "w")]
    assert [one.state for one in ledger.records.values()] == ["open", "expired"]


async def test_what_lay_in_a_topic_that_is_gone_is_gone_with_it():
    """Nothing says any more where it begins; what lies elsewhere stays."""
    ledger, asks, retention = at_work([])
    lies(ledger, "a")
    lies(ledger, "b", "dlt/1")
    asks.says = Keeping(kept={"dlt": Kept()}, gone=frozenset(["dlt/0"]))
    await retention.look()
    assert [(one.state, one.reason) for one in ledger.records.values()] == [
        ("expired", "the place where it lay is there no longer"),
        ("open", ""),
    ]
    assert ledger.clocks.places("k") == ["dlt/1"]


async def test_a_cluster_that_cannot_be_asked_changes_nothing_and_is_told_once():
    """And once more when it is known again."""
    lines = []
    ledger, asks, retention = at_work(lines)
    lies(ledger, "a")
    asks.says = Keeping(kept={"dlt": Kept(60.0, "w")})
    await retention.look()
    asks.error = SourceError("no answer")
    for _ in range(2 * LOOKS):
        await retention.look()
    asks.error = None
    for _ in range(LOOKS):
        await retention.look()
    assert next(iter(ledger.records.values())).found.expires_at == T + 60.0
    assert lines == [
        "source k: when dead letters are deleted is not known: no answer",
        "source k: when dead letters are deleted is known again",
    ]
