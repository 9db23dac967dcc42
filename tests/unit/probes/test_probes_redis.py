"""What holds for every kind of queue on Redis: few round trips, only reading, unknown is not 0."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
import pytest

from collector.model.errors import SourceError
from collector.probes.arq import ArqQueues
from collector.probes.bullmq import BullmqQueues
from collector.probes.celery import CeleryQueues
from collector.probes.dramatiq import DramatiqQueues
from collector.probes.huey import HueyQueues
from collector.probes.redis import FIRST_SCANS, MOST_QUEUES, Finder, Kind, RedisProbe
from collector.probes.rq import RqQueues
from collector.probes.saq import SaqQueues
from collector.probes.streams import Streams, streaq
from tests.fakes.redis_keys import Ranked, RedisKeys, Stream
from tests.unit.probes.looks import NOW, lengths, look

SEPARATOR = "\x06\x16"
GROUP = {
    "name": "g",
    "consumers": [],
    "pending": 0,
    "last-delivered-id": "0-0",
    "entries-read": 0,
    "lag": 1,
    "entries": [],
}


class Case(msgspec.Struct):
    """A kind, and the keys of a number of queues that each hold one item."""

    kind: Callable[[], Kind]
    keys: Callable[[str], dict[str, object]]
    named: bool = False
    """Whether the queues must be named."""
    label: str = "{}"


def _job(name: str) -> dict[str, object]:
    return {f"rq:queue:{name}": ["j"], "rq:queues": set()}


CASES = {
    "celery": Case(
        CeleryQueues,
        lambda name: {name: ["m"], f"_kombu.binding.{name}": {f"{name}{SEPARATOR}{SEPARATOR}{name}"}},
    ),
    "rq": Case(RqQueues, _job, named=True),
    "bullmq": Case(
        BullmqQueues, lambda name: {f"bull:{name}:meta": {"opts.maxLenEvents": "1"}, f"bull:{name}:wait": ["7"]}
    ),
    "dramatiq": Case(DramatiqQueues, lambda name: {f"dramatiq:{name}": ["m"], f"dramatiq:{name}.msgs": {"m": "{}"}}),
    "arq": Case(ArqQueues, lambda name: {name: Ranked(m=1.0)}, named=True),
    "saq": Case(SaqQueues, lambda name: {f"saq:{name}:queued": ["j"], f"saq:{name}:incomplete": Ranked(j=0.0)}),
    "huey": Case(HueyQueues, lambda name: {f"huey.redis.{name}": ["m"]}),
    "streams": Case(Streams, lambda name: {name: Stream([GROUP], ["1-0"])}, named=True),
    "streaq": Case(streaq, lambda name: {f"streaq:{name}:queues:normal": Stream([GROUP], ["1-0"])}),
}


def built(name: str, count: int) -> tuple[Kind, RedisKeys]:
    """A kind and a server with so many of its queues."""
    case = CASES[name]
    queues = [f"q{number}" for number in range(count)]
    keys = {key: value for queue in queues for key, value in case.keys(queue).items()}
    if name == "rq":
        keys["rq:queues"] = {f"rq:queue:{queue}" for queue in queues}
    kind = Streams(queues) if name == "streams" else ArqQueues(queues) if name == "arq" else case.kind()
    return kind, RedisKeys(keys)


@pytest.mark.parametrize("name", CASES)
async def test_five_thousand_queues_cost_one_round_trip_per_hundred(name):
    """Each of them is told of with at most 50 round trips, also at the first look, which has to find them."""
    kind, server = built(name, 5_000)
    reading = await look(kind, server)
    assert {queue: states["ready"] for queue, states in lengths(reading).items()} == {
        f"q{number}": 1 for number in range(5_000)
    }
    assert server.trips <= 50
    assert server.connections == 1


@pytest.mark.parametrize("name", CASES)
async def test_an_empty_server_says_nothing(name):
    """Nothing is there, nothing is unknown: no sample but of queues that are named."""
    reading = await look(CASES[name].kind(), RedisKeys())
    assert not [sample for sample, value in reading.samples.items() if value]
    assert not reading.queues
    assert not reading.unknown


@pytest.mark.parametrize("name", CASES)
async def test_a_server_that_is_gone_is_asked_again_on_a_new_connection(name):
    """What cannot be asked raises; when it is back, all is told again."""
    kind, server = built(name, 3)
    probe = RedisProbe(kind, server.connect)
    before = lengths(await probe.look((), NOW))
    server.is_broken = True
    with pytest.raises(SourceError, match="gone"):
        await probe.look((), NOW + 10)
    server.is_broken = False
    assert lengths(await probe.look((), NOW + 20)) == before
    assert server.connections == 2


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("words", "is_final"),
    [("NOPERM this user has no permissions", True), ("LOADING Redis is loading the dataset in memory", False)],
)
async def test_a_server_that_refuses_is_not_an_empty_one(name, words, is_final):
    """Where every answer is a refusal, nothing is known; whether waiting helps stands in the error."""
    kind, server = built(name, 3)
    server.refuse = words
    with pytest.raises(SourceError) as raised:
        await look(kind, server)
    assert raised.value.retryable is not is_final


async def test_a_queue_that_a_whole_sweep_did_not_find_is_gone():
    """Keys are looked for over and over; what is no longer there is forgotten at the end of the next sweep."""
    server = RedisKeys({"huey.redis.a": ["m"], "huey.redis.b": ["m"]})
    kind = HueyQueues()
    probe = RedisProbe(kind, server.connect)
    assert lengths(await probe.look((), NOW)).keys() == {"a", "b"}
    del server.keys["huey.redis.b"]
    assert lengths(await probe.look((), NOW + 10))["b"]["ready"] == 0
    assert lengths(await probe.look((), NOW + 90)).keys() == {"a"}


async def test_a_large_server_is_gone_through_in_turns():
    """One look takes a bounded number of steps over the names of keys, and the next goes on where it ended."""
    server = RedisKeys({f"other:{number}": b"" for number in range(30_000)} | {"huey.redis.last": ["m"]})
    probe = RedisProbe(HueyQueues(), server.connect)
    assert lengths(await probe.look((), NOW)) == {}
    assert server.trips <= FIRST_SCANS
    for turn in range(1, 4):
        found = lengths(await probe.look((), NOW + 10 * turn))
    assert found["last"]["ready"] == 1


def test_there_is_a_bound_to_what_is_found():
    """A server with very many keys of a form fills no memory."""
    finder = Finder("*")
    steps = finder.go_on(NOW)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send([[b"0", [b"%d" % number for number in range(MOST_QUEUES + 5)]]])
    assert len(finder.found) == MOST_QUEUES


TEXTS = ("", "q0", "rq:queue:q0", "{}", "[1]", "null", '{"headers": 3}', "\x00", '{"message_timestamp": 1e999}')
JUNK: tuple[Callable[[random.Random], object], ...] = (
    lambda dice: dice.choices(TEXTS, k=3),
    lambda dice: {text: dice.choice(TEXTS) for text in dice.choices((*TEXTS, "queues", "opts.maxLenEvents"), k=3)},
    lambda dice: set(dice.choices(TEXTS, k=3)),
    lambda dice: Ranked({text: dice.choice((-1.0, 0.0, 1e12, 1e300, math.inf)) for text in dice.choices(TEXTS, k=3)}),
    lambda dice: dice.choice((b"", b"\xff\xfe", b"[" * 5_000, b'{"queued": "soon"}', b'{"queued": 1e999}')),
    lambda dice: Stream([{**GROUP, "lag": dice.choice((None, 0, 5))}], dice.choices(("1-1", "1750000000000-0"), k=2)),
)
SUFFIXES = ("", ".msgs", ".DQ.msgs", ":wait", ":meta", ":active", ":queued", ":incomplete", ":stats", ":queues:normal")


@pytest.mark.parametrize("name", CASES)
async def test_keys_of_any_type_and_content_break_nothing(name):
    """Others may keep what they want under a framework's names: a length is told, or it is not; no look fails."""
    dice = random.Random(name)
    for _ in range(100):
        kind, server = built(name, 2)
        places = [*server.keys, "unacked", "unacked_index", "rq:workers", "j", "saq:job:q0:j"]
        places += [base + end for base in ("dramatiq:q0", "bull:q0", "saq:q0", "streaq:q0", "q0") for end in SUFFIXES]
        for place in dice.sample(places, 6):
            server.keys[place] = dice.choice(JUNK)(dice)
        probe = RedisProbe(kind, server.connect)
        for now in (NOW, NOW + 100):
            reading = await probe.look(["q0", "q1", "rq:queue:q0"], now)
            assert all(value >= 0 for value in reading.samples.values())
