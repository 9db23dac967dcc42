"""A user with no more rights than the README lists is enough, and nothing that is needed is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis.asyncio

from collector.config.source_urls import parse_source
from collector.model.secret import Secret
from collector.wiring.plugs import feed
from tests import brokers
from tests.brokers.process import Broker
from tests.contract_suites.rigs import Notes, amqp_exchange, running, until

README = Path(__file__).resolve().parents[2] / "README.md"
ROWS = re.findall(r"^\| `([\w+-]+)` \| `(~[^`]+)`", README.read_text(), re.MULTILINE)
RIGHTS = {scheme: rules.replace("\\|", "|").replace("STREAM", "orders") for scheme, rules in ROWS}
PATHS = {"redis-stream": "/0/orders"}
SECONDS = 2.0
"""For so long each of them asks; what is asked for seldom is asked for at the start as well."""


@pytest.fixture
def own_redis() -> Iterator[Broker]:
    """A server with users of our own."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


async def seed(client: redis.asyncio.Redis) -> None:
    """A little of what each framework leaves in Redis, so that there is something to look into."""
    await client.xadd("orders", {"data": "{}"})
    await client.hset("bull:mail:meta", "opts.maxLenEvents", "10000")
    await client.hset("bull:mail:1", mapping={"name": "send", "data": "{}", "timestamp": "1790000000000"})
    await client.xadd("bull:mail:events", {"event": "added", "jobId": "1", "name": "send"})
    await client.rpush("celery", "{}")
    await client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    await client.hset("unacked", "1", "[{}, '', 'celery']")
    await client.set("celery-task-meta-1", "{}")
    await client.sadd("rq:queues", "rq:queue:default")
    await client.rpush("rq:queue:default", "1")
    await client.hset("rq:job:1", mapping={"status": "queued", "created_at": "2026-11-29T16:44:54.266514Z"})
    await client.zadd("rq:wip:default", {"1": 1})
    await client.set("saq:job:default:1", "{}")
    await client.rpush("saq:default:queued", "saq:job:default:1")
    await client.zadd("saq:default:incomplete", {"saq:job:default:1": 1})
    await client.zadd("arq:queue", {"1": 1})
    await client.set("arq:job:1", b"\x80")
    await client.set("arq:result:2", b"\x80")
    await client.xadd("taskiq", {"data": "{}"})
    await client.xgroup_create("taskiq", "taskiq", id="0")
    await client.rpush("huey.redis.jobs", b"\x80")
    await client.hset("huey.results.jobs", "1", b"\x80")
    await client.rpush("dramatiq:default", "1")
    await client.hset("dramatiq:default.msgs", "1", "{}")


@pytest.mark.redis
async def test_reading_is_all_that_redis_sources_do(own_redis: Broker) -> None:
    """Each kind of source is at work with the rights of its row; only how the server is set it is not told."""
    host, port = own_redis.host_port
    assert len(RIGHTS) >= 9
    async with redis.asyncio.Redis.from_url(own_redis.address, decode_responses=True) as client:
        await client.config_set("notify-keyspace-events", "Kgxh$lzt")
        await seed(client)
        for scheme, rules in RIGHTS.items():
            await client.execute_command("ACL", "SETUSER", scheme, "on", ">pw", *rules.split())

        async def read(scheme: str) -> None:
            url = f"{scheme}://{scheme.replace('+', '%2B')}:pw@{host}:{port}{PATHS.get(scheme, '/0')}"
            build = feed(parse_source(url, {}, Secret)).build
            assert build is not None
            notes = Notes()
            async with running(build(), notes):
                await until(lambda: bool(notes.details), 60)
                await asyncio.sleep(SECONDS)

        await asyncio.gather(*map(read, RIGHTS))
        log = await client.execute_command("ACL", "LOG")
    refused = {(entry["username"], entry["object"]) for entry in log}
    assert {what for _, what in refused} <= {"config|get"}, refused


@pytest.mark.rabbitmq
async def test_rabbitmq_needs_no_more(rabbitmq_url: str) -> None:
    """A user who may make and write what is named tasktrail., and read an exchange, gets what passes there."""
    try:
        brokers.control_rabbitmq("add_user", "eye", "pw")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    try:
        async with amqp_exchange(rabbitmq_url) as rig:
            rights = (r"^tasktrail\..*", r"^tasktrail\..*", f"^(tasktrail\\..*|{rig.exchange})$")
            brokers.control_rabbitmq("set_permissions", "-p", "/", "eye", *rights)
            address = rig.options.address
            url = f"amqp://eye:pw@{address.host}:{address.port}/%2F/exchange/{rig.exchange}"
            build = feed(parse_source(url, {}, Secret)).build
            assert build is not None
            notes = Notes()
            async with running(build(), notes):
                await until(lambda: bool(notes.details), 60)
                await rig.write([b"{}"])
                await until(lambda: notes.bodies == [b"{}"], 60)
    finally:
        brokers.control_rabbitmq("delete_user", "eye")
