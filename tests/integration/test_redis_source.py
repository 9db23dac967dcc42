"""What is Redis' own: entry forms, ids as times, trimming, streams that are made anew, a server that is silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import redis.asyncio
from msgspec.structs import replace

from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import redis_groups
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_wire import RedisAddress, connect
from tests import brokers
from tests.brokers import install, redis_server
from tests.brokers.process import Broker, free_port
from tests.contract_suites.rigs import Notes, RedisRig, running, until
from tests.integration.live import revive

pytestmark = pytest.mark.redis


@pytest.fixture
async def rig(redis_url: str) -> AsyncIterator[RedisRig]:
    """Two fresh streams on the shared server."""
    rig = RedisRig(redis_url)
    yield rig
    await rig.client.aclose()


async def read(rig: RedisRig, count: int, notes: Notes | None = None) -> Notes:
    """Run the source until so many entries have come and the first stream is at its head."""
    notes = notes or Notes()
    async with running(rig.source(), notes):
        await until(lambda: len(notes.bodies) >= count and rig.place() in notes.heads)
    return notes


async def test_every_form_of_an_entry(rig: RedisRig) -> None:
    """The only field, or one that holds an event, is the body, with the others beside it; else all are the event."""
    entries: list[tuple[dict[bytes, bytes], bytes, dict[str, str] | None]] = [
        ({b"anything": b"{}"}, b"{}", None),
        ({b"kind": b"sent", b"task_id": b"1"}, b"", {"kind": "sent", "task_id": "1"}),
        ({b"payload": b'{"a":1}', b"task": b"mail"}, b'{"a":1}', {"task": "mail"}),
        ({b"task": b"mail", b"event": b"\x81\xa1a\x01"}, b"\x81\xa1a\x01", {"task": "mail"}),
        ({b"kind": b"sent", b"data": b"words"}, b"", {"kind": "sent", "data": "words"}),
        ({b"data": b"", b"kind": b"\xff"}, b"", {"data": "", "kind": "\ufffd"}),
    ]
    for fields, _, _ in entries:
        await rig.client.xadd(rig.place(), fields)
    notes = await read(rig, len(entries))
    (batch,) = [batch for batch in notes.batches if batch.bodies]
    assert batch.bodies == [body for _, body, _ in entries]
    assert batch.fields == [fields for _, _, fields in entries]


async def test_times_are_those_of_the_ids(rig: RedisRig) -> None:
    """An entry's time is in its id; ids that somebody made up give no time, and none is ahead of now."""
    now = time.time()
    past, future = int((now - 100) * 1000), int((now + 1000) * 1000)
    rig.options = replace(rig.options, start_max_age=None)
    for entry_id in ("5-1", f"{past}-0", f"{past}-1", f"{future}-0"):
        await rig.client.xadd(rig.place(), {"data": "x"}, id=entry_id)
    notes = await read(rig, 4)
    (batch,) = [batch for batch in notes.batches if batch.bodies]
    assert batch.receipts == ["5-1", f"{past}-0", f"{past}-1", f"{future}-0"]
    assert batch.times == [batch.received_at, past / 1000, past / 1000, batch.received_at]


@pytest.mark.case("K06.2")
async def test_a_start_without_position_goes_back_so_far_only(rig: RedisRig) -> None:
    """With no position, entries older than `start_max_age` are not read, and that is no gap."""
    for age in (7200, 1800):
        await rig.client.xadd(rig.place(), {"data": str(age)}, id=f"{int((time.time() - age) * 1000)}-0")
    notes = await read(rig, 1)
    assert notes.bodies == [b"1800"]
    assert not notes.gaps


async def test_what_was_trimmed_during_a_stop_is_counted_exactly(rig: RedisRig) -> None:
    """Entries that were trimmed or deleted while nobody read are a gap with their exact number."""
    await rig.write([b"%d" % number for number in range(10)])
    positions: dict[str, int | str] = {}
    await read(rig, 10, Notes(positions))
    await rig.write([b"%d" % number for number in range(10, 40)])
    await rig.client.xtrim(rig.place(), maxlen=5, approximate=False)
    notes = await read(rig, 5, Notes(positions))
    (gap,) = notes.gaps
    assert (gap.source, gap.place, gap.estimate, gap.reason) == ("r", rig.place(), 25, "trimmed")
    assert gap.start <= gap.end
    assert notes.bodies == [b"%d" % number for number in range(35, 40)]


async def test_trimming_what_was_read_is_no_gap(rig: RedisRig) -> None:
    """A stream that is kept short behind the reader loses nothing, over any number of restarts."""
    positions: dict[str, int | str] = {}
    for start in range(0, 30, 10):
        await rig.write([b"%d" % number for number in range(start, start + 10)])
        notes = await read(rig, 10, Notes(positions))
        assert not notes.gaps
        await rig.client.xtrim(rig.place(), maxlen=0, approximate=False)
    assert not (await read(rig, 0, Notes(positions))).gaps


async def test_trimming_can_overtake_a_reader_at_work(rig: RedisRig) -> None:
    """Entries that go while the source is held up are counted once it has reached the end again."""

    class Held(Notes):
        async def take(self, batch):
            outcome = await super().take(batch)
            if b"0" in batch.bodies:
                await rig.write([b"x"] * 1000)
                await rig.client.xtrim(rig.place(), maxlen=100, approximate=False)
            return outcome

    notes = Held()
    async with running(rig.source(), notes):
        await until(lambda: rig.place() in notes.heads)
        await rig.write([b"0"])
        await until(lambda: bool(notes.gaps), 15)
    assert [gap.estimate for gap in notes.gaps] == [900]
    assert notes.bodies == [b"0"] + [b"x"] * 100


async def test_a_stream_of_old_entries_is_no_gap_later(rig: RedisRig) -> None:
    """Where all entries are too old to be read, a restart finds nothing missing either."""
    await rig.client.xadd(rig.place(), {"data": "old"}, id="7-1")
    positions: dict[str, int | str] = {}
    for _ in range(2):
        notes = await read(rig, 0, Notes(positions))
        assert not notes.gaps
        assert not notes.bodies
    await rig.write([b"new"])
    assert (await read(rig, 1, Notes(positions))).bodies == [b"new"]


@pytest.mark.parametrize("index", ["", "/40"])
async def test_a_stream_made_anew_is_read_from_its_start(rig: RedisRig, index: str) -> None:
    """A position that the stream has not reached means that it was made anew: a gap of unknown size."""
    await rig.client.xadd(rig.place(), {"data": "first"}, id="7-1")
    notes = await read(rig, 1, Notes({rig.place(): f"{int(time.time() * 1000)}-0{index}"}))
    assert [(gap.estimate, gap.reason) for gap in notes.gaps] == [(None, "recreated")]
    assert notes.bodies == [b"first"]


async def test_a_deleted_stream_is_read_again_when_it_comes_back(rig: RedisRig) -> None:
    """A stream that is deleted and made anew while we read is followed without loss and without a repeat."""
    notes = Notes()
    async with running(rig.source(), notes):
        await rig.write([b"0"])
        await until(lambda: notes.bodies == [b"0"])
        # Ids are milliseconds: within the same one the new stream's first entry has the id of the one that was read.
        await asyncio.sleep(0.01)
        await rig.client.delete(rig.place())
        await rig.write([b"1"])
        await until(lambda: notes.bodies == [b"0", b"1"])
    assert not notes.gaps


async def test_a_missing_stream_is_awaited(rig: RedisRig) -> None:
    """The source says which stream is missing, makes nothing, and reads it from its first entry."""
    first, second = rig.streams
    await rig.client.xadd(first, {"data": "x"})
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: first in notes.heads)
        assert notes.details == [f"reads {first}; waits for stream {second}, which does not exist"]
        assert not await rig.client.exists(second)
        await rig.client.xadd(second, {"data": "y"}, id="1-1")
        await until(lambda: notes.places.get(second) == [b"y"])
        await until(lambda: notes.details[-1] == f"reads {first}, {second}", 15)


@pytest.mark.parametrize(
    ("url", "message"),
    [({"password": Secret("wrong")}, "AUTH"), ({"database": 999}, "SELECT")],
)
async def test_a_refusal_is_final(rig: RedisRig, url: dict, message: str) -> None:
    """A wrong password or database is an error that waiting does not cure, and it does not show the password."""
    rig.options = replace(rig.options, address=replace(rig.options.address, **url))
    with pytest.raises(SourceError, match=message) as caught:
        await rig.source().run(Notes())
    assert not caught.value.retryable
    assert "wrong" not in str(caught.value).lower().replace("wrongpass", "")


async def test_a_key_of_another_type_is_final(rig: RedisRig) -> None:
    """Keys that are no streams are an error that names them, where there is no other key to read."""
    for lane in range(2):
        await rig.client.set(rig.place(lane), "x")
    with pytest.raises(SourceError, match="WRONGTYPE") as caught:
        await rig.source().run(Notes())
    assert not caught.value.retryable
    assert f"no stream: {rig.place()}, {rig.place(1)}" in str(caught.value)


async def test_a_key_of_another_type_stops_no_other(rig: RedisRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, counts as read to its end, so that no rule waits for it, and is read once it is a stream."""
    monkeypatch.setattr("collector.sources.redis_stream._LOOK", 0.0)
    await rig.client.set(rig.place(1), "x")
    await rig.write([b"a"])
    notes = Notes()
    async with running(rig.source(), notes):
        await until(lambda: notes.places.get(rig.place()) == [b"a"] and notes.heads == {rig.place(), rig.place(1)})
        assert f"{rig.place(1)} is not read: it is no stream" in notes.details[-1]
        await rig.client.delete(rig.place(1))
        await rig.write([b"b"], lane=1)
        await until(lambda: notes.places.get(rig.place(1)) == [b"b"])


async def test_only_harmless_commands_are_sent(rig: RedisRig, redis_url: str) -> None:
    """Everything that the source asks of the server reads, and reads only."""
    seen: list[str] = []
    await rig.client.ping()  # the writer's own greeting is over
    async with redis.asyncio.Redis.from_url(redis_url) as watcher, watcher.monitor() as monitor:

        async def note() -> None:
            async for said in monitor.listen():
                seen.append(said["command"])  # noqa: PERF401 - it never ends

        listener = asyncio.ensure_future(note())
        notes = Notes()
        async with running(rig.source(), notes):
            await rig.write([b"0"])
            await until(lambda: notes.bodies == [b"0"])
            await asyncio.sleep(6)  # past the first look at the stream's state
        listener.cancel()
        await asyncio.wait([listener])
    ours = {command.split()[0] for command in seen if not command.startswith(("XADD", "CLIENT SETNAME tasktrail"))}
    assert ours == {"XREAD", "XINFO", "TIME"}


@pytest.fixture
def own_redis() -> Iterator[Broker]:
    """A server that a test may kill."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


async def test_a_server_that_forgot_everything(own_redis: Broker) -> None:
    """A restart without persistence is a gap of unknown size; what was added since is read whole, though it is more."""
    host, port = own_redis.host_port
    command = [install.apt("redis-server", "redis-server"), "--port", str(port), "--bind", host]
    command += ["--save", "", "--appendonly", "no", "--dir", own_redis.folder]
    options = RedisStreamOptions(name="r", address=RedisAddress(host=host, port=port), streams=("s",))
    notes = Notes()
    for life, count in enumerate((3, 5)):
        if life:
            own_redis.kill()
            revive(own_redis, command, lambda: redis_server.answers(host, port))
        async with redis.asyncio.Redis.from_url(own_redis.address) as client:
            for number in range(count):
                await client.xadd("s", {"data": f"{life}.{number}"})
        read_before = len(notes.bodies)
        async with running(RedisStreamSource(options), notes):
            await until(lambda: len(notes.bodies) == read_before + count and "s" in notes.heads)  # noqa: B023
    assert [(gap.estimate, gap.reason) for gap in notes.gaps] == [(None, "recreated")]


@pytest.mark.parametrize(("policy", "estimate", "bodies"), [("newest", 9, []), ("stop", None, None)])
async def test_a_lost_position_is_met_as_the_options_say(
    rig: RedisRig, policy: str, estimate: int | None, bodies: list[bytes] | None
) -> None:
    """Instead of from the oldest entry reading goes on at the newest, what is left out counted, or does not go on."""
    positions: dict[str, int | str] = {}
    await rig.write([b"0"])
    await read(rig, 1, Notes(positions))
    await rig.write([b"%d" % number for number in range(1, 10)])
    await rig.client.xtrim(rig.place(), maxlen=4, approximate=False)
    rig.options = replace(rig.options, out_of_range=policy)
    if bodies is None:
        with pytest.raises(SourceError, match="start is stop") as caught:
            await rig.source().run(Notes(positions))
        assert not caught.value.retryable
        return
    notes = Notes(positions)
    await read(rig, 0, notes)
    assert ([gap.estimate for gap in notes.gaps], notes.bodies) == ([estimate], bodies)
    await rig.write([b"new"])
    again = Notes(positions)
    await read(rig, 1, again)
    assert (again.gaps, again.bodies) == ([], [b"new"])


@pytest.mark.case("K10.1")
@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_a_lost_server_is_an_error(own_redis: Broker, how: str) -> None:
    """A server that died, and one that holds its connections but answers nothing, end the source."""
    host, port = own_redis.host_port
    options = RedisStreamOptions(name="r", address=RedisAddress(host=host, port=port), streams=("s",))
    notes = Notes()
    task = asyncio.ensure_future(RedisStreamSource(options).run(notes))
    await until(lambda: "s" in notes.heads)
    getattr(own_redis, how)()
    with pytest.raises(SourceError) as caught:
        async with asyncio.timeout(20):
            await task
    assert caught.value.retryable


async def test_a_silent_server_does_not_hold_up_the_stop(own_redis: Broker) -> None:
    """Cancelling a source whose server answers nothing ends it at once."""
    host, port = own_redis.host_port
    options = RedisStreamOptions(name="r", address=RedisAddress(host=host, port=port), streams=("s",))
    notes = Notes()
    async with running(RedisStreamSource(options), notes):
        await until(lambda: "s" in notes.heads)
        own_redis.pause()
        await asyncio.sleep(0.5)


async def test_a_server_that_is_not_there_says_where() -> None:
    """Where nobody listens, the error names the address."""
    port = free_port()
    options = RedisStreamOptions(name="r", address=RedisAddress(port=port), streams=("s",))
    with pytest.raises(SourceError, match=f"127.0.0.1:{port}"):
        await RedisStreamSource(options).run(Notes())


async def test_a_password_lets_us_in(own_redis: Broker) -> None:
    """A password, with or without a user name, is used."""
    async with redis.asyncio.Redis.from_url(own_redis.address) as client:
        await client.config_set("requirepass", "s3cret")
    host, port = own_redis.host_port
    for username in ("", "default"):
        address = RedisAddress(host=host, port=port, username=username, password=Secret("s3cret"), database=3)
        notes = Notes()
        async with running(RedisStreamSource(RedisStreamOptions(name="r", address=address, streams=("s",))), notes):
            await until(lambda: "s" in notes.heads)  # noqa: B023


async def test_a_group_that_is_deleted_meanwhile_is_left_out(rig: RedisRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that goes between two questions about it does not take the source down; the others are told of."""
    for name in ("stays", "goes"):
        await rig.client.xgroup_create(rig.place(), name, id="0", mkstream=True)
    await rig.write([b"0"])
    for name in ("stays", "goes"):
        await rig.client.xreadgroup(name, "c", {rig.place(): ">"})
    connection = await connect(rig.options.address)
    ask = connection.ask

    async def slow(*words, **how):
        if words[0] == "XPENDING":
            await rig.client.xgroup_destroy(rig.place(), "goes")
        return await ask(*words, **how)

    monkeypatch.setattr(connection, "ask", slow)
    told = await redis_groups.groups(connection, rig.place().encode())
    connection.close()
    assert [group["info"]["name"] for group in told["groups"]] == ["stays"]
