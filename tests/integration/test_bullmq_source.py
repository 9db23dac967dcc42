"""What is BullMQ's own as a source: finding queues, hashes before their entries, trimmed streams, what is invisible."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from collector.model.record import Batch
from collector.sources.redis_wire import RedisConnection
from tests.contract_suites.rigs import BullmqRig, Notes, running, until

pytestmark = pytest.mark.redis


@pytest.fixture
async def rig(redis_url: str) -> AsyncIterator[BullmqRig]:
    """Two queues on the shared server."""
    rig = BullmqRig(redis_url)
    await rig.open()
    yield rig
    await rig.client.aclose()


async def add(rig: BullmqRig, *said: dict[str, str], lane: int = 0) -> None:
    """Entries of one write."""
    pipe = rig.client.pipeline(transaction=True)
    for fields in said:
        pipe.xadd(rig.place(lane), fields)
    await pipe.execute()


def word(event: str, job: str, **more: str) -> dict[str, str]:
    """One entry."""
    return {"event": event, "jobId": job, **more}


def by_tap(notes: Notes, tap: str) -> list[Batch]:
    """The batches with records of one tap, in their order."""
    return [batch for batch in notes.batches if batch.tap == tap and batch.bodies]


async def test_hashes_come_before_their_entries_and_in_one_go(rig: BullmqRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the jobs that a batch is about the hashes are handed over first, together, without arguments and results."""
    for number in range(50):
        job = {
            "name": "send",
            "data": "argument",
            "returnvalue": "result",
            "opts": "{}",
            "timestamp": "1",
            "pb": b"\xff",
        }
        await rig.client.hset(f"{rig.prefix}:mail:{number}", mapping={**job, "stacktrace": "[]"})
    asked: list[int] = []
    ask_many = RedisConnection.ask_many

    async def counted(self, commands, *more):
        asked.extend([len(commands)] * (commands[0][0] == b"HMGET"))
        return await ask_many(self, commands, *more)

    monkeypatch.setattr(RedisConnection, "ask_many", counted)
    said = [word("completed", str(number)) for number in range(49)]
    notes = Notes()
    await add(rig, *said, word("failed", "49"), word("active", "gone"), word("progress", "7"), {"event": "drained"})
    async with running(rig.source(), notes):
        await until(lambda: rig.place() in notes.heads and bool(by_tap(notes, "redis-stream")))
    (hashes,), (entries,) = by_tap(notes, "redis-key"), by_tap(notes, "redis-stream")
    assert notes.batches.index(hashes) < notes.batches.index(entries)
    assert asked == [51]
    assert len(hashes.bodies) == 50
    assert hashes.about is not None
    assert hashes.position is None
    assert {about["after"] for about in hashes.about} == {entries.receipts[-1]}
    assert hashes.about[7] | {"after": ""} == {
        "db": 0, "key": f"{rig.prefix}:mail:7", "type": "hash", "pttl": -1, "after": "",
    }  # fmt: skip
    first, last = json.loads(hashes.bodies[0]), json.loads(hashes.bodies[49])
    assert first == {"name": "send", "opts": "{}", "timestamp": "1", "pb": {"b64": "/w=="}}
    assert last == {**first, "stacktrace": "[]"}


async def test_new_queues_are_read_from_their_beginning(rig: BullmqRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that appears while others are read is found, and nothing that was in it before is missed."""
    monkeypatch.setattr("collector.sources.bullmq._LOOK", 0.0)
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: rig.place() in notes.heads)
        rig.queues = ("mail", "new")
        await add(rig, {"event": "drained"}, lane=1)
        await rig.open()
        await until(lambda: notes.places.get(rig.place(1)) == [b"drained"])
        await until(lambda: f"{rig.prefix}:new" in notes.details[-1])
    assert not notes.gaps


async def test_what_only_looks_like_a_queue_is_left_alone(rig: BullmqRig) -> None:
    """Keys of others that end in `:meta`, of any type, are no queues; nor is what only fits the prefix as a pattern."""
    await rig.client.hset(f"{rig.prefix}:other:meta", "title", "x")
    await rig.client.set(f"{rig.prefix}:text:meta", "x")
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
    assert notes.details[0] == f"waits for the first event of {rig.prefix}:mail, {rig.prefix}:render:eu"
    rig.options = replace(rig.options, prefix="?" * len(rig.prefix))
    async with running(rig.source(), notes):
        await until(lambda: "found no BullMQ queue yet" in notes.details[-1])


async def test_a_configured_queue_without_its_key_is_invisible(rig: BullmqRig) -> None:
    """A queue that is named but not there is said to be invisible, and why it may be; once it is there it is read."""
    rig.options = replace(rig.options, queues=("mail", "lost"))
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: bool(notes.details))
        assert f"queue {rig.prefix}:lost is invisible" in notes.details[0]
        assert "PostgreSQL" in notes.details[0]
        rig.queues = ("lost",)
        await rig.open()
        await add(rig, {"event": "drained"})
        await until(lambda: notes.places.get(rig.place()) == [b"drained"])
        await until(lambda: "invisible" not in notes.details[-1])


async def test_one_wrong_key_and_a_queue_made_anew_stop_nothing(
    rig: BullmqRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue made anew without its `meta` key is not called invisible; a key that is no stream is set aside.

    It is named and the others are read, also where it happens meanwhile; once it is a stream it is read.
    """
    monkeypatch.setattr("collector.sources.bullmq._LOOK", 0.0)
    monkeypatch.setattr("collector.sources.redis_stream._LOOK", 0.0)
    rig.options = replace(rig.options, queues=("mail", "render:eu"))
    await rig.client.set(rig.place(1), "no stream")
    await add(rig, {"event": "drained"})
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: notes.places.get(rig.place()) == [b"drained"])
        await until(lambda: f"{rig.place(1)} is not read: it is no stream" in notes.details[-1])
        await rig.client.delete(rig.place(1))
        await add(rig, {"event": "paused"}, lane=1)
        await until(lambda: notes.places.get(rig.place(1)) == [b"paused"])
        await until(lambda: "no stream" not in notes.details[-1])
        await rig.client.delete(rig.place(1))
        await rig.client.set(rig.place(1), "no stream")
        await until(lambda: "no stream" in notes.details[-1])
        await rig.client.delete(rig.place(), f"{rig.prefix}:mail:meta")
        await until(lambda: f"queue {rig.prefix}:mail is invisible" in notes.details[-1])
        await add(rig, {"event": "resumed"})
        await until(lambda: notes.places.get(rig.place()) == [b"drained", b"resumed"])
        await until(lambda: "invisible" not in notes.details[-1])


@pytest.mark.case("K06.2")
async def test_a_trimmed_stream_is_a_gap_with_its_number(rig: BullmqRig) -> None:
    """Entries that BullMQ trimmed while nobody read are a gap with their exact number."""
    positions: dict[str, int | str] = {}
    await rig.write([b"x"] * 10)
    notes = Notes(positions)
    async with running(rig.source(), notes):
        await until(lambda: len(notes.bodies) == 10 and rig.place() in notes.heads)
    await rig.write([b"y"] * 30)
    await rig.client.xtrim(rig.place(), maxlen=5, approximate=False)
    notes = Notes(positions)
    async with running(rig.source(), notes):
        await until(lambda: len(notes.bodies) == 5)
    assert [(gap.place, gap.estimate, gap.reason) for gap in notes.gaps] == [(rig.place(), 25, "trimmed")]
