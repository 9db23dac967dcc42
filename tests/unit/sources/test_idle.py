"""A source to which nothing comes for ever."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from collector.model.clock import ManualClock
from collector.sources.redis_stream import RedisStreamOptions, Tail
from collector.sources.redis_wire import RedisAddress
from tests.contract_suites.rigs import Notes

POLLS = 2_000
STATE = [b"length", 0, b"last-generated-id", b"1790000000000-0", b"first-entry", None, b"entries-added", 7]


class Idle:
    """A server whose stream stays as it is."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.polls = 0

    async def ask(self, *words: str | bytes, **_: Any) -> Any:
        """A second passes at each XREAD."""
        if words[0] != "XREAD":
            return STATE
        self.polls += 1
        self.clock.at += 1.0
        return None


class Few(Notes):
    """An intake that keeps nothing."""

    async def take(self, batch: Any) -> Any:
        """Forget what came before."""
        self.batches.clear()
        return await super().take(batch)


@pytest.mark.case("K08.1", "K10.1")
async def test_empty_polls_leave_nothing_behind() -> None:
    """However many there were, no memory and no task is left of them."""
    clock = ManualClock(1_790_000_100.0)
    options = RedisStreamOptions(name="r", address=RedisAddress(), streams=("s",))
    server = Idle(clock)
    tail = Tail(options, clock, server, Few({"s": "1790000000000-0/7"}))  # type: ignore[arg-type]
    await tail.begin()
    tasks = len(asyncio.all_tasks())
    tracemalloc.start()
    try:
        while server.polls < 100:
            await tail.go_on()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        while server.polls < POLLS:
            await tail.go_on()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < before + 20_000
    finally:
        tracemalloc.stop()
    assert len(asyncio.all_tasks()) == tasks
