"""The gate: nobody counts while somebody saves, and nobody saves in the middle of a batch."""

from __future__ import annotations

import asyncio

from collector.shell.gate import Gate


async def test_saving_waits_for_the_batch_under_way() -> None:
    """The gate is closed to new batches at once, and the saver goes on when the last one has left."""
    gate = Gate()
    order: list[str] = []
    leave = asyncio.Event()

    async def count(name: str) -> None:
        await gate.passed()
        with gate.inside():
            order.append(f"{name} in")
            await leave.wait()
            order.append(f"{name} out")

    async def save() -> None:
        async with gate.closed():
            order.append("saved")

    first = asyncio.create_task(count("first"))
    await asyncio.sleep(0)
    saving = asyncio.create_task(save())
    await asyncio.sleep(0)
    second = asyncio.create_task(count("second"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == ["first in"]
    leave.set()
    await asyncio.gather(first, second, saving)
    assert order == ["first in", "first out", "saved", "second in", "second out"]


async def test_a_saver_that_is_cancelled_opens_the_gate() -> None:
    """Whatever ends the saving, counting goes on."""
    gate = Gate()

    async def save() -> None:
        async with gate.closed():
            await asyncio.Event().wait()

    saving = asyncio.create_task(save())
    await asyncio.sleep(0)
    assert gate.is_closed
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    await gate.passed()
    assert not gate.is_closed
