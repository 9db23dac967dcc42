"""What the watcher of frameworks in Redis promises, whatever the framework: on a real server, with made-up keys."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis.asyncio

from collector.formats.capture import lines
from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import redis_reader, redis_watcher
from collector.sources.redis_values import VALUE_BYTES
from collector.sources.redis_watch import Channel, Follow, Keys, RedisWatchOptions, Watch
from collector.sources.redis_watcher import RedisWatchSource
from collector.sources.redis_watches import RQ, SAQ
from collector.sources.redis_wire import RedisAddress
from tests import brokers
from tests.brokers.process import Broker
from tests.contract_suites.rigs import Notes, address_of, running, until

pytestmark = pytest.mark.redis

EVERYTHING = Watch(
    sees="all",
    prefix="t",
    roots=("{prefix}:str", "{prefix}:list", "{prefix}:set", "{prefix}:zset", "{prefix}:hash", "{prefix}:stream"),
    tails=("{prefix}:tail",),
    scan="{prefix}:found:*",
    keys=(
        Keys(match="{prefix}:str", kind="string", times=("at",)),
        Keys(match="{prefix}:list", kind="list", first=2, last=2),
        Keys(match="{prefix}:set", kind="set", follow=(Follow(name="(?P<id>.+)", read=("{prefix}:named:{id}",)),)),
        Keys(match="{prefix}:zset", kind="zset"),
        Keys(match="{prefix}:hash", kind="hash", fields=("a", "b"), times=("a",)),
        Keys(match="{prefix}:stream", kind="stream"),
        Keys(match="{prefix}:named:.+", kind="string"),
        Keys(match="{prefix}:found:.+", kind="string"),
    ),
    channels=(Channel(pattern="{prefix}:said:*", follow=(Follow(name=".+:said:(?P<id>.+)", read=("t:named:{id}",)),)),),
    poll=0.05,
)


@pytest.fixture
def server() -> Iterator[Broker]:
    """A Redis of its own."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


@pytest.fixture
async def client(server: Broker) -> AsyncIterator[Any]:
    """A client of that server."""
    async with redis.asyncio.Redis.from_url(server.address) as made:
        yield made


def source(server: Broker, watch: Watch = EVERYTHING, **more: Any) -> RedisWatchSource:
    """A watcher of that server."""
    return RedisWatchSource(RedisWatchOptions(name="w", address=address_of(server.address), watch=watch, **more))


def records(notes: Notes, tap: str = "redis-key") -> list[dict[str, Any]]:
    """The capture lines that a tap gave."""
    return [json.loads(line) for batch in notes.batches if batch.tap == tap for line in lines(batch)]


def bodies(notes: Notes, key: str) -> list[Any]:
    """What a key was said to hold, in turn."""
    return [json.loads(one["body"]) for one in records(notes) if one["key"] == key]


async def test_keys_come_as_a_capture_holds_them(server: Broker, client: Any) -> None:
    """Each kind of key comes in a capture's form, once for each content, and with type `none` when it is gone."""
    await client.set("t:str", b"\xff\x00")
    await client.rpush("t:list", *range(10))
    await client.sadd("t:set", "x", "y")
    await client.zadd("t:zset", {"m": 1.5})
    await client.hset("t:hash", mapping={"a": "1", "c": "secret"})
    await client.xgroup_create("t:stream", "g", mkstream=True)
    entry = (await client.xadd("t:stream", {"a": "b"})).decode()
    await client.xreadgroup("g", "c", {"t:stream": ">"})
    await client.set("t:named:x", "1", ex=100)
    notes = Notes()
    async with running(source(server), notes):
        await until(lambda: "keys" in notes.heads)
        await asyncio.sleep(0.3)
        assert bodies(notes, "t:str") == [{"b64": "/wA="}]
        assert bodies(notes, "t:list") == [["0", "1", "8", "9"]]
        assert bodies(notes, "t:set") == [["x", "y"]]
        assert bodies(notes, "t:zset") == [[["m", 1.5]]]
        assert bodies(notes, "t:hash") == [{"a": "1"}]
        assert bodies(notes, "t:named:x") == ["1"]
        (stream,) = bodies(notes, "t:stream")
        (group,) = stream["groups"]
        assert (stream["len"], group["info"]["name"], group["info"]["pending"]) == (1, "g", 1)
        assert group["consumers"][0]["name"] == "c"
        assert (group["pending"][0]["message_id"], group["pending"][0]["times_delivered"]) == (entry, 1)
        await client.delete("t:str")
        await until(lambda: bodies(notes, "t:str")[1:] == [None])
    by_key = {one["key"]: one for one in records(notes)}
    assert (by_key["t:str"]["type"], by_key["t:str"]["pttl"]) == ("none", -2)
    assert 0 < by_key["t:named:x"]["pttl"] <= 100_000
    assert (by_key["t:list"]["type"], by_key["t:list"]["cut"], by_key["t:list"]["db"]) == ("list", True, 0)


async def test_large_values_are_cut_and_said_to_be(server: Broker, client: Any) -> None:
    """Of a value longer than the limit that much is handed over, also where the cut falls into a character."""
    await client.set("t:str", "é" * VALUE_BYTES)
    await client.hset("t:hash", "a", "x" + "é" * VALUE_BYTES)
    notes = Notes()
    async with running(source(server), notes):
        await until(lambda: "keys" in notes.heads)
    assert len(bodies(notes, "t:str")[0].encode()) == VALUE_BYTES
    assert len(bodies(notes, "t:hash")[0]["a"].encode()) == VALUE_BYTES - 1
    assert all(one["cut"] for one in records(notes))


async def test_messages_come_with_what_they_name(server: Broker, client: Any) -> None:
    """A message is handed over as it is, and the key that it names is read at once, long before it would be polled."""
    notes = Notes()
    async with running(source(server, poll=60.0), notes):
        await until(lambda: "messages" in notes.heads)
        await client.set("t:named:7", "seven")
        await client.publish("t:said:7", b"\xff!")
        await until(lambda: bodies(notes, "t:named:7") == ["seven"])
    (said,) = records(notes, "redis-pubsub")
    assert (said["channel"], said["pattern"], said["body_b64"]) == ("t:said:7", "t:said:*", "/yE=")


async def test_keys_are_found(server: Broker, client: Any) -> None:
    """Keys that nothing names are found by SCAN among many others."""
    await client.mset({f"other:{number}": "x" for number in range(5000)})
    await client.mset({f"t:found:{number}": str(number) for number in range(50)})
    notes = Notes()
    async with running(source(server), notes):
        await until(lambda: len(notes.bodies) == 50)
    assert {one["key"] for one in records(notes)} == {f"t:found:{number}" for number in range(50)}


async def test_a_tailed_stream_goes_on_where_it_stopped(server: Broker, client: Any) -> None:
    """Entries of a tailed stream come in order with their fields, and after a stop from the stored position on."""
    for number in range(3):
        await client.xadd("t:tail", {"n": number})
    positions: dict[str, Any] = {}
    got: list[str] = []
    for more in (3, 6):
        notes = Notes(positions)
        async with running(source(server), notes):
            await until(lambda: len(records(notes, "redis-stream")) == 3)  # noqa: B023
        got += [one["fields"]["n"] for one in records(notes, "redis-stream")]
        for number in range(more, more + 3):
            await client.xadd("t:tail", {"n": number})
    assert got == ["0", "1", "2", "3", "4", "5"]


async def test_not_listening_is_a_gap(server: Broker, client: Any) -> None:
    """Published while we were away: the hole is on record, and state is read again, but not what is old."""
    positions: dict[str, Any] = {}
    await client.set("t:str", json.dumps({"at": time.time() - 600}))
    notes = Notes(positions)
    async with running(source(server), notes):
        await until(lambda: notes.heads >= {"keys", "messages"})
        assert (notes.gaps, len(bodies(notes, "t:str"))) == ([], 1)
    await client.hset("t:hash", "a", str(time.time()))
    again = Notes(positions)
    async with running(source(server), again):
        await until(lambda: "keys" in again.heads)
    (gap,) = again.gaps
    assert (gap.place, gap.reason, gap.estimate) == ("messages", "not_subscribed", None)
    assert gap.start < gap.end
    assert [one["key"] for one in records(again)] == ["t:hash"]


async def test_what_is_too_old_is_not_read(server: Broker, client: Any) -> None:
    """At the start, what happened longer ago than `start_max_age` is left out; the rest is placed where it belongs."""
    now = time.time()
    await client.sadd("rq:queues", "rq:queue:q")
    for name, age in (("old", 7200), ("new", 1800)):
        await client.zadd("rq:failed:q", {name: now + 1e7})
        times = {"created_at": str(now - age - 1), "ended_at": str(now - age), "status": "failed"}
        await client.hset(f"rq:job:{name}", mapping=times)
        await client.xadd(f"rq:results:{name}", {"type": "2"}, id=f"{int((now - age) * 1000)}-0")
    notes = Notes()
    async with running(source(server, RQ), notes):
        await until(lambda: "keys" in notes.heads)
    assert [one["stream"] for one in records(notes, "redis-stream")] == ["rq:results:new"]
    assert [one["key"] for one in records(notes) if ":job:" in one["key"]] == ["rq:job:new"]
    times = [at for batch in notes.batches for at in batch.times or () if at < now - 60]
    assert times == [pytest.approx(now - 1800, abs=1)] * 2


async def test_waiting_jobs_are_read_once(server: Broker, client: Any) -> None:
    """A thousand waiting jobs cost one reading each, and then a handful of commands a poll in one round trip."""
    await client.sadd("rq:queues", "rq:queue:q")
    pipe = client.pipeline(transaction=False)
    for number in range(1000):
        pipe.rpush("rq:queue:q", str(number))
        pipe.hset(f"rq:job:{number}", mapping={"status": "queued", "created_at": "2026-11-29T16:44:54Z", "origin": "q"})
    await pipe.execute()

    async def calls() -> dict[str, int]:
        stats = await client.info("commandstats")
        return {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}

    notes = Notes()
    async with running(source(server, RQ, start_max_age=None, poll=0.05), notes):
        await until(lambda: sum(":job:" in one["key"] for one in records(notes)) == 1000)
        first = await calls()
        await asyncio.sleep(1.0)
        second = await calls()
    polls = second["sscan"] - first["sscan"]
    assert first["hmget"] == 1000
    assert second["hmget"] == 1000
    assert polls >= 10  # of two sets: five polls at least
    grown = {name: second[name] - first.get(name, 0) for name in ("lrange", "zrange", "sscan", "pttl")}
    assert sum(grown.values()) <= 20 * (polls / 2 + 1)


async def test_one_job_that_moves_costs_one_reading(server: Broker, client: Any) -> None:
    """Of many waiting jobs, one that leaves the queue is read again, and no other."""
    await client.sadd("rq:queues", "rq:queue:q")
    await client.rpush("rq:queue:q", *(str(number) for number in range(200)))
    for number in range(200):
        await client.hset(f"rq:job:{number}", mapping={"status": "queued", "created_at": str(time.time())})
    notes = Notes()
    async with running(source(server, RQ), notes):
        await until(lambda: sum(":job:" in one["key"] for one in records(notes)) == 200)
        before = (await client.info("commandstats"))["cmdstat_hmget"]["calls"]
        await client.hset("rq:job:0", "status", "started")
        await client.lpop("rq:queue:q")
        await until(lambda: len(bodies(notes, "rq:job:0")) == 2)
        assert (await client.info("commandstats"))["cmdstat_hmget"]["calls"] == before + 1


async def test_notifications_are_used_where_the_server_sends_them(server: Broker, client: Any) -> None:
    """With keyspace notifications an execution is seen however short, and the detail says whether they are on."""
    notes = Notes()
    async with running(source(server, RQ), notes):
        await until(lambda: bool(notes.details))
    assert "keyspace notifications are off (CONFIG SET notify-keyspace-events Kgh" in notes.details[0]
    await client.config_set("notify-keyspace-events", "Kgh")
    notes = Notes()
    async with running(source(server, RQ), notes):
        await until(lambda: bool(notes.details))
        await client.hset("rq:execution:j:" + "0" * 32, "id", "x")
        await client.delete("rq:execution:j:" + "0" * 32)
        await until(lambda: len(records(notes, "redis-pubsub")) == 2)
    assert "keyspace notifications are on" in notes.details[0]
    assert [one["body"] for one in records(notes, "redis-pubsub")] == ["hset", "del"]


@pytest.mark.parametrize(("watch", "prefix", "key"), [(SAQ, "saq", "saq:job:q:k"), (RQ, "rq", "rq:queue:q")])
async def test_a_user_who_may_only_read_is_enough(
    server: Broker, client: Any, watch: Watch, prefix: str, key: str
) -> None:
    """An ACL of reading commands and one prefix does; what it may not hear besides is said, and how to allow it."""
    rules = ["on", ">pw", f"~{prefix}:*", "&saq:job:*", "-@all", "+@read", "+@connection", "+psubscribe", "+time"]
    await client.execute_command("ACL", "SETUSER", "eye", *rules)
    await client.set("saq:job:q:k", "{}")
    await client.rpush("rq:queue:q", "k")
    await client.sadd("rq:queues", "rq:queue:q")
    host, port = server.host_port
    address = RedisAddress(host=host, port=port, username="eye", password=Secret("pw"))
    notes = Notes()
    async with running(RedisWatchSource(RedisWatchOptions(name="w", address=address, watch=watch)), notes):
        await until(lambda: bool(bodies(notes, key)) and bool(notes.details))
    assert ("may not hear them (ACL: &__keyspace@0__:rq:execution:*)" in notes.details[0]) == (prefix == "rq")


async def test_a_refusal_is_an_error_that_names_the_command(server: Broker, client: Any) -> None:
    """A user who may not read ends the source with an error that waiting does not cure."""
    await client.execute_command("ACL", "SETUSER", "eye", "on", ">pw", "-@all", "+client", "+auth", "+psubscribe", "&*")
    host, port = server.host_port
    address = RedisAddress(host=host, port=port, username="eye", password=Secret("pw"))
    with pytest.raises(SourceError, match="TIME") as caught:
        await RedisWatchSource(RedisWatchOptions(name="w", address=address, watch=SAQ)).run(Notes())
    assert not caught.value.retryable


@pytest.mark.parametrize("kind", ["pubsub", "normal"])
async def test_a_lost_connection_is_an_error(server: Broker, client: Any, kind: str) -> None:
    """Whichever of its connections the server closes, the source ends, so that it is made anew with a gap."""
    notes = Notes()
    task = asyncio.ensure_future(source(server).run(notes))
    await until(lambda: "messages" in notes.heads)
    await client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    with pytest.raises(SourceError) as caught:
        async with asyncio.timeout(20):
            await task
    assert caught.value.retryable


async def test_a_silent_server_does_not_hold_up_the_stop(server: Broker) -> None:
    """Cancelling a watcher whose server answers nothing ends it at once."""
    notes = Notes()
    async with running(source(server), notes):
        await until(lambda: "keys" in notes.heads)
        server.pause()
        await asyncio.sleep(0.3)


async def test_a_flood_is_bounded_and_on_record(server: Broker, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More keys at once than may wait: those are not read, and their number is a gap."""
    monkeypatch.setattr(redis_reader, "PENDING", 100)
    await client.sadd("t:set", *range(500))
    notes = Notes()
    async with running(source(server), notes):
        await until(lambda: bool(notes.gaps))
    (gap,) = notes.gaps
    assert (gap.place, gap.reason) == ("keys", "too_many_keys")
    assert 400 <= gap.estimate <= 400 + len(EVERYTHING.roots)


async def test_batches_come_one_at_a_time_and_bounded(server: Broker, client: Any) -> None:
    """However much comes over however many connections, the intake has one batch at a time, of at most 1,000."""

    class Slow(Notes):
        at_work = most_at_work = 0

        async def take(self, batch: Any) -> Any:
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            await asyncio.sleep(0.005)
            self.at_work -= 1
            return await super().take(batch)

    notes = Slow()
    async with running(source(server), notes):
        await until(lambda: "messages" in notes.heads)
        pipe = client.pipeline(transaction=False)
        for number in range(2500):
            pipe.publish("t:said:x", number)
            pipe.xadd("t:tail", {"n": number})
        await pipe.execute()
        await until(lambda: len(notes.bodies) == 5000)
    assert notes.most_at_work == 1
    assert max(len(batch.bodies) for batch in notes.batches) <= redis_watcher.CHUNK
    assert [int(one["body"]) for one in records(notes, "redis-pubsub")] == list(range(2500))
    for batch in notes.batches:
        assert len(batch.bodies) == len(batch.receipts) == len(batch.about)


async def test_the_intakes_error_is_not_swallowed(server: Broker, client: Any) -> None:
    """An error of our own while a batch is counted ends the source with that error."""

    class Broken(Notes):
        async def take(self, batch: Any) -> Any:
            if batch.bodies:
                raise ZeroDivisionError
            return await super().take(batch)

    await client.set("t:str", "x")
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await source(server).run(Broken())


AWAITING = Watch(
    sees="entries",
    prefix="t",
    roots=("{prefix}:old", "{prefix}:dated"),
    tails=("{prefix}:tail",),
    keys=(
        Keys(match="{prefix}:old", kind="hash", is_undated=True),
        Keys(match="{prefix}:(dated|got:.+)", kind="string"),
    ),
    entries=(Follow(name="t:tail job (?P<id>.+)", until=("{namespace}got:{id}",)),),
    poll=0.05,
)


async def test_an_entry_may_name_a_key_that_is_awaited(server: Broker, client: Any) -> None:
    """A key that an entry of a tailed stream names is handed over when it is written, and others are not looked at."""
    notes = Notes()
    async with running(source(server, AWAITING, start_max_age=None), notes):
        await until(lambda: "keys" in notes.heads)
        await client.xadd("t:tail", {"job": "a", "other": "b"})
        await until(lambda: bool(records(notes, "redis-stream")))
        await asyncio.sleep(0.2)
        assert not bodies(notes, "t:got:a")
        await client.mset({"t:got:a": "1", "t:got:b": "2"})
        await until(lambda: bodies(notes, "t:got:a") == ["1"])
        await client.set("t:got:a", "3")
        await asyncio.sleep(0.2)
    assert bodies(notes, "t:got:a") == ["1"]
    assert not bodies(notes, "t:got:b")


async def test_awaited_keys_take_turns(server: Broker, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many keys that never come do not keep one that came from being seen; too many of them are forgotten."""
    monkeypatch.setattr(redis_reader, "AT_ONCE", 2)
    monkeypatch.setattr(redis_reader, "AWAITED", 20)
    notes = Notes()
    async with running(source(server, AWAITING, start_max_age=None), notes):
        for number in range(30):
            await client.xadd("t:tail", {"job": str(number)})
        await until(lambda: len(records(notes, "redis-stream")) == 30)
        await client.mset({"t:got:0": "1", "t:got:29": "2"})
        await until(lambda: bodies(notes, "t:got:29") == ["2"])
    assert not bodies(notes, "t:got:0")


async def test_what_was_there_and_has_no_time_is_said_to_be_old(server: Broker, client: Any) -> None:
    """Content that says nothing of when it was written comes as `before` at the start, and as news later."""
    await client.hset("t:old", "a", "1")
    await client.set("t:dated", "1")
    notes = Notes()
    async with running(source(server, AWAITING), notes):
        await until(lambda: "keys" in notes.heads)
        await client.hset("t:old", "b", "2")
        await until(lambda: len(bodies(notes, "t:old")) == 2)
    assert [one.get("before") for one in records(notes) if one["key"] == "t:old"] == [True, None]
    assert [one.get("before") for one in records(notes) if one["key"] == "t:dated"] == [None]
