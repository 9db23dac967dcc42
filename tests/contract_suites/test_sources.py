"""One suite over all sources: what the rest of the house may rely on, whatever the broker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract_suites.rigs import (
    SQUEEZED,
    BullmqRig,
    CeleryRedisRig,
    FileRig,
    Notes,
    RedisRig,
    Rig,
    UnixRig,
    amqp_exchange,
    kafka_topic,
    running,
    until,
)

KINDS = (
    pytest.param("kafka", marks=pytest.mark.kafka),
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("amqp", marks=pytest.mark.rabbitmq),
    pytest.param("bullmq", marks=pytest.mark.redis),
    pytest.param("celery-redis", marks=pytest.mark.redis),
    "unix",
    *SQUEEZED,
)
LIVE = (KINDS[2], KINDS[4], "unix")
"""Those whose broker keeps nothing for them."""


@pytest.fixture(params=KINDS)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A fresh source of each kind."""
    match request.param:
        case "kafka":
            async with kafka_topic(request.getfixturevalue("kafka")) as made:
                yield made
        case "redis":
            made = RedisRig(request.getfixturevalue("redis_url"))
            yield made
            await made.client.aclose()
        case "amqp":
            async with amqp_exchange(request.getfixturevalue("rabbitmq_url")) as made:
                yield made
        case "bullmq":
            found = BullmqRig(request.getfixturevalue("redis_url"))
            await found.open()
            yield found
            await found.client.aclose()
        case "celery-redis":
            heard = CeleryRedisRig(request.getfixturevalue("redis_url"))
            yield heard
            await heard.client.aclose()
        case "unix":
            yield UnixRig(tmp_path)
        case form:
            yield FileRig(tmp_path, SQUEEZED[form])


def numbered(count: int, start: int = 0) -> list[bytes]:
    """So many good events."""
    return [b'{"kind":"sent","task_id":"%d"}' % number for number in range(start, start + count)]


async def read(rig: Rig, notes: Notes, *writes: tuple[list[bytes], int]) -> None:
    """Write, read until all of it (or `notes.most`) has come, stop."""
    wanted = len(notes.bodies) + sum(len(bodies) for bodies, _ in writes)
    if not rig.is_live:
        for bodies, lane in writes:
            await rig.write(bodies, lane)
    async with running(rig.source(), notes):
        if rig.is_live:
            for bodies, lane in writes:
                await rig.write(bodies, lane)
        await until(lambda: notes.is_full.is_set() or len(notes.bodies) >= wanted)


async def test_everything_comes_in_order(rig: Rig) -> None:
    """Every record of a place comes once, in its order there, with a receipt of its own."""
    writes = [(numbered(1300, lane * 10_000), lane) for lane in range(rig.lanes)]
    notes = Notes()
    await read(rig, notes, *writes)
    assert notes.places == {rig.place(lane): bodies for bodies, lane in writes}
    for place in notes.places:
        receipts = [receipt for batch in notes.batches if batch.place == place for receipt in batch.receipts]
        assert len(set(receipts)) == 1300


async def test_batches_are_bounded_and_parallel(rig: Rig) -> None:
    """A batch holds at most 1,000 records, and its lists are as long as its bodies."""
    notes = Notes()
    await read(rig, notes, (numbered(2600), 0))
    for batch in notes.batches:
        size = len(batch.bodies)
        assert size <= 1000
        assert len(batch.receipts) == size
        assert batch.times is None or len(batch.times) == size
        assert batch.fields is None or len(batch.fields) == size


@pytest.mark.parametrize("rig", [kind for kind in KINDS if kind not in LIVE], indirect=True)
async def test_reading_goes_on_where_it_stopped(rig: Rig) -> None:
    """A source that is stopped and made anew with the stored positions loses nothing and repeats nothing."""
    bodies = numbered(3400)
    await rig.write(bodies[:2400])
    positions: dict[str, int | str] = {}
    got: list[bytes] = []
    for most in (1, 1200, None):
        notes = Notes(positions, most)
        if most is None:
            await rig.write(bodies[2400:])
        async with running(rig.source(), notes):
            await until(lambda: notes.is_full.is_set() or len(got) + len(notes.bodies) >= len(bodies))  # noqa: B023
        got += notes.bodies
        assert not notes.gaps
    assert got == bodies


async def test_the_head_is_told(rig: Rig) -> None:
    """A place that is read to its end says so, also an empty one."""
    notes = Notes()
    async with running(rig.source(), notes) if not isinstance(rig, FileRig) else _written(rig, notes):
        if rig.is_live:
            await rig.write(numbered(3))
        else:
            await until(lambda: rig.place() in notes.heads)
            if not isinstance(rig, FileRig):
                await rig.write(numbered(3))
        await until(lambda: len(notes.bodies) == 3 and rig.place() in notes.heads)


def _written(rig: FileRig, notes: Notes):
    Path(rig.options.path).write_bytes(rig.squeeze(b"".join(line + b"\n" for line in numbered(3))))
    return running(rig.source(), notes)


async def test_broken_bodies_come_untouched(rig: Rig) -> None:
    """A source never looks into a body: what is broken comes as it is, and the next one too."""
    bodies = [b"\xff\xfe", b'{"kind":', b"[]", b"[" * 10_000, b"null", b"\x00", *numbered(1)]
    notes = Notes()
    await read(rig, notes, (bodies, 0))
    assert notes.bodies == bodies


async def test_a_huge_body_does_not_stop_the_next(rig: Rig) -> None:
    """A body of 20 MB comes whole, or as a marker where lines have a limit, and the next one comes after it."""
    huge = b'{"kind":"sent","error_message":"' + b"x" * 20_000_000 + b'"}'
    notes = Notes()
    await read(rig, notes, ([*numbered(1), huge, *numbered(1, 1)], 0))
    first, middle, last = notes.bodies
    assert [first, last] == numbered(2)
    assert middle == huge or (middle.startswith(huge[:1000]) and b"truncated" in middle)


async def test_a_slow_intake_holds_the_source_back(rig: Rig) -> None:
    """The source hands over one batch at a time, and waits until it is counted."""

    class Slow(Notes):
        at_work = most_at_work = 0

        async def take(self, batch):
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            await asyncio.sleep(0.02)
            self.at_work -= 1
            return await super().take(batch)

    notes = Slow()
    await read(rig, notes, *[(numbered(1300), lane) for lane in range(rig.lanes)])
    assert notes.most_at_work == 1


async def test_stopping_is_prompt(rig: Rig) -> None:
    """A source that waits for records is gone within two seconds of its cancellation."""
    notes = Notes()
    if isinstance(rig, FileRig):
        await rig.write([])
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))


async def test_the_intakes_error_is_not_swallowed(rig: Rig) -> None:
    """An error of our own while a batch is counted ends the source with that error."""

    class Broken(Notes):
        async def take(self, batch):
            if batch.bodies:
                raise ZeroDivisionError
            return await super().take(batch)

    if not rig.is_live:
        await rig.write(numbered(1))
    task = asyncio.ensure_future(rig.source().run(Broken()))
    if rig.is_live:
        await rig.write(numbered(1))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await task


async def test_times_are_never_ahead_of_now(rig: Rig) -> None:
    """What the broker says of a record's time is in order within a batch, and not after the batch came."""
    notes = Notes()
    await read(rig, notes, (numbered(20), 0))
    for batch in notes.batches:
        if batch.times:
            assert all(first <= second for first, second in itertools.pairwise([*batch.times, batch.received_at]))
