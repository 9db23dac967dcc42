"""Consumer groups of Redis streams: what waits, what is held, and since when."""

from __future__ import annotations

from typing import Any

import pytest

from collector.probes.reading import DELIVERIES, LAG, LAG_SECONDS, OLDEST, PENDING_IDLE
from collector.probes.streams import Streams, streaq
from tests.fakes.redis_keys import Ranked, RedisKeys, Stream
from tests.unit.probes.looks import NOW, lengths, look, values


def entry(age: float, number: int = 0) -> str:
    """The id of an entry that is so old, seconds."""
    return f"{int((NOW - age) * 1000)}-{number}"


def group(name: str = "g", *, lag: int | None = 0, delivered: str = "0-0", **more: Any) -> dict[str, Any]:
    """A group as XINFO has it."""
    made = {"name": name, "pending": 0, "last-delivered-id": delivered, "entries-read": 0, "lag": lag}
    return {**made, "consumers": [], "entries": [], **more}


async def test_what_was_done_is_no_depth():
    """A stream of five entries, of which the group was given three and holds one, has two waiting."""
    held = group(lag=2, delivered=entry(30), pending=1, consumers=[{"name": "c", "pending": 1, "idle": 4_000}])
    held["entries"] = [(entry(30), 4_000, 3)]
    ages = [90, 60, 30, 20, 10]
    reading = await look(Streams(["jobs"]), RedisKeys({"jobs": Stream([held], [entry(age) for age in ages])}))
    assert lengths(reading) == {"jobs": {"ready": 2, "unacked": 1}}
    assert values(reading, LAG, "group") == {"g": 2}
    assert values(reading, OLDEST) == values(reading, LAG_SECONDS) == {"jobs": pytest.approx(20)}
    assert values(reading, PENDING_IDLE, "group") == {"g": 4}
    assert values(reading, DELIVERIES, "group") == {"g": 3}


async def test_the_group_that_is_furthest_behind_says_how_much_waits():
    """Several groups read the same entries: their lags are not added; what they hold is work of each."""
    groups = [group("a", lag=0, delivered=entry(1), pending=2), group("b", lag=3, delivered=entry(50), pending=1)]
    stream = Stream(groups, [entry(50), entry(40), entry(20), entry(1)])
    reading = await look(Streams(["jobs"]), RedisKeys({"jobs": stream}))
    assert lengths(reading) == {"jobs": {"ready": 3, "unacked": 3}}
    assert values(reading, OLDEST) == {"jobs": pytest.approx(40)}


async def test_a_lag_that_the_server_cannot_tell_is_unknown():
    """After a deletion in the middle it is null: no length, no lag, and the queue stands under what is unknown."""
    stream = Stream([group(lag=None, delivered=entry(50))], [entry(50), entry(10)])
    reading = await look(Streams(["jobs"]), RedisKeys({"jobs": stream}))
    assert lengths(reading) == {"jobs": {"unacked": 0}}
    assert values(reading, LAG) == {}
    assert reading.unknown == {"jobs"}


async def test_a_group_that_was_given_nothing_has_all_before_it():
    """Also where the server tells no lag."""
    reading = await look(Streams(["jobs"]), RedisKeys({"jobs": Stream([group(lag=None)], [entry(9), entry(5)])}))
    assert lengths(reading) == {"jobs": {"ready": 2, "unacked": 0}}
    assert values(reading, OLDEST) == {"jobs": pytest.approx(9)}


async def test_ids_that_senders_made_up_are_no_times():
    """How old such an entry is cannot be told; how many wait can."""
    reading = await look(Streams(["jobs"]), RedisKeys({"jobs": Stream([group(lag=1)], ["7-1"])}))
    assert lengths(reading) == {"jobs": {"ready": 1, "unacked": 0}}
    assert values(reading, OLDEST) == values(reading, LAG_SECONDS) == {}


async def test_a_stream_that_no_group_reads_has_no_depth():
    """Nobody will take its entries out, so that nothing waits; the same for a stream that is not there."""
    reading = await look(Streams(["log", "gone"]), RedisKeys({"log": Stream([], [entry(9)])}))
    assert reading.samples == {}
    assert not reading.unknown


async def test_streaq_is_the_sum_of_its_priorities():
    """Entries are deleted at their end, so that the length less what is held waits; delayed tasks lie beside."""
    keys = {
        "streaq:mail:queues:high": Stream([group("workers", delivered=entry(9), pending=1)], [entry(9), entry(3)]),
        "streaq:mail:queues:normal": Stream([group("workers", delivered=entry(8))], [entry(5)]),
        "streaq:mail:queues:delayed:normal": Ranked(t=1, u=2),
        "streaq:mail:task:data:t": b"",
    }
    reading = await look(streaq(), RedisKeys(keys))
    assert lengths(reading) == {"mail": {"ready": 2, "unacked": 1, "delayed": 2}}
    assert values(reading, OLDEST) == {"mail": pytest.approx(5)}
