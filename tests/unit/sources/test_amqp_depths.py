"""How long many queues are, in few round trips over few channels."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from collector.model.errors import SourceError
from collector.sources import amqp_depths
from collector.sources.amqp_depths import CHANNELS, Depths
from collector.sources.amqp_wire import AmqpAddress


class Broker:
    """Answers all that was asked when nobody asks any more; a queue that is not there closes its channel."""

    def __init__(self):
        self.there = {}
        self.trips = 0
        self.opened = 0
        self.asked = []
        self._waiting = []

    async def _trip(self):
        """Until nobody has anything more to ask."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        count = 0
        while count != len(self._waiting) and not answer.done():
            count = len(self._waiting)
            await asyncio.sleep(0)
        if not answer.done():
            self.trips += 1
            waiting, self._waiting = self._waiting, []
            for one in waiting:
                one.set_result(None)

    async def channel(self, _connection, _address):
        """A fresh one."""
        self.opened += 1
        return self

    async def queue_declare(self, queue, *, passive, **more):
        """On whichever channel."""
        assert passive
        assert more["timeout"] > 0
        self.asked.append(queue)
        await self._trip()
        said = self.there.get(queue)
        if isinstance(said, tuple):
            return SimpleNamespace(message_count=said[0], consumer_count=said[1])
        raise SourceError(said or f"NOT_FOUND - no queue '{queue}'")


@pytest.fixture
def broker(monkeypatch):
    """In the place of a real one."""
    made = Broker()

    async def connect(_address):
        return object()

    async def close(_connection):
        """Nothing."""

    for name, value in (("connect", connect), ("channel", made.channel), ("close", close)):
        monkeypatch.setattr(amqp_depths, name, value)
    return made


def names(count, word="q"):
    """So many queues."""
    return [f"{word}{number}" for number in range(count)]


async def test_five_thousand_queues_cost_one_round_trip_per_hundred(broker):
    """Over a hundred channels, which are used again."""
    broker.there = dict.fromkeys(names(5_000), (3, 1))
    depths = Depths(AmqpAddress())
    for _ in range(2):
        broker.trips = 0
        assert await depths.lengths(names(5_000)) == broker.there
        assert (broker.trips, broker.opened) == (50, CHANNELS)


async def test_queues_that_are_gone_are_looked_for_some_at_a_time(broker):
    """All that are there are told at each look; all that come back are, in the end."""
    broker.there = dict.fromkeys(names(150), (3, 1))
    every = [*names(150), *names(350, "gone")]
    depths = Depths(AmqpAddress())
    assert await depths.lengths(every) == broker.there
    broker.asked.clear()
    broker.there |= dict.fromkeys(names(350, "gone"), (0, 0))
    lengths = [len(await depths.lengths(every)) for _ in range(4)]
    assert lengths == [250, 350, 450, 500]
    assert (await depths.lengths(["gone0"])) == {"gone0": (0, 0)}


async def test_one_that_may_not_be_asked_for_is_unknown_and_no_other_is(broker):
    """Somebody's exclusive queue."""
    broker.there = {"a": (1, 0), "b": "RESOURCE_LOCKED - of another", "c": (2, 0)}
    depths = Depths(AmqpAddress())
    for _ in range(2):
        assert await depths.lengths(["a", "b", "c", "d"]) == {"a": (1, 0), "b": None, "c": (2, 0)}
    broker.there["b"] = "the connection was lost"
    with pytest.raises(SourceError, match="lost"):
        await depths.lengths(["a", "b"])
