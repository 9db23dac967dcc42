"""Redrive of Dramatiq and RQ against a server that only answers."""

from __future__ import annotations

import zlib

import pytest

from collector.model.clock import ManualClock
from collector.model.errors import SourceError
from collector.model.redrive import HEADER, Mark
from collector.redrive.message import MARKERS, Place
from collector.redrive.redis_jobs import DRAMATIQ, NOT_JSON, RATE_LIMITED, RQ
from collector.redrive.redis_server import RedisRedrive

XQ = Place(id="r1", place="my:ns:bills.XQ.msgs", receipt="old", target="bills", partition=None, task_id="m")
FAILED = Place(id="r2", place="rq:failed:work", receipt="j", target="work", partition=None, task_id="j")
MESSAGE = (
    b'{"queue_name":"bills","args":[1.50,{"a":[]}],"options":{"redis_message_id":"old","retries":3},"message_id":"m"}'
)


class Server:
    """Answers what it was told to; keeps what it was asked."""

    def __init__(self, *replies) -> None:
        self.replies = list(replies)
        self.asked = []

    async def ask(self, *words, **_):
        """One command."""
        return (await self.ask_many([words]))[0]

    async def ask_many(self, commands, **_):
        """Several."""
        self.asked += commands
        return [self.replies.pop(0) for _ in commands]

    def close(self) -> None:
        """Nothing to close."""


async def opened(way, *replies) -> tuple[RedisRedrive, Server]:
    """A redrive that is connected."""
    server = Server(*replies)

    async def connect():
        return server

    made = RedisRedrive(connect, way, ManualClock(1_750_000_000.25))
    await made.open(writes=True)
    return made, server


async def test_a_message_of_dramatiq_moves_with_a_new_id_and_the_mark():
    """All else of it stays byte for byte; an earlier mark is known, and replaced."""
    before = MESSAGE.replace(b'"retries":3', b'"retries":3,"tasktrail-redrive":"id=r0;n=1;task=m"')
    made, server = await opened(DRAMATIQ, before, 1, [b"r0"])
    found = (await made.read([XQ]))["r1"]
    assert (found.marked, found.refused) == ("id=r0;n=1;task=m", "")
    await made.send([(found, str(Mark("r1", 2, "m")))])
    word, _, count, *rest = server.asked[-1]
    keys, (record, _, old, new, body) = rest[:5], rest[5:]
    assert (word, count, record, old) == ("EVAL", "5", "r1", "old")
    assert keys == [MARKERS, "my:ns:bills.XQ", "my:ns:bills.XQ.msgs", "my:ns:bills", "my:ns:bills.msgs"]
    assert body == MESSAGE.replace(b"old", new.encode()).replace(
        b'"retries":3', b'"retries":3,"tasktrail-redrive":"id=r1;n=2;task=m"'
    )
    assert await made.sent() == {"r0"}


@pytest.mark.parametrize("body", [b"\x80\x04pickle", b"{}", b'{"options":[]}', b"[" * 100_000])
async def test_a_message_that_is_not_dramatiqs_json_is_left(body):
    """Whoever has another encoder has to send it himself; and what is gone is not there."""
    made, _ = await opened(DRAMATIQ, body, None)
    assert (await made.read([XQ]))["r1"].refused == NOT_JSON
    assert await made.read([XQ]) == {}


async def test_a_job_of_rq_is_requeued_as_rq_does():
    """Its times and its error are taken back, it lives as long as it was to live, and its data are not touched."""
    made, server = await opened(RQ, b"1", [None, b"500", None], 1)
    await made.send([((await made.read([FAILED]))["r2"], "mark")])
    _, _, count, *rest = server.asked[-1]
    keys, (record, _, job, ttl, *flat) = rest[:7], rest[7:]
    assert (count, record, job, ttl) == ("7", "r2", "j", b"500")
    assert keys[:5] == [MARKERS, "rq:failed:work", "rq:job:j", "rq:queue:work", "rq:queues"]
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == {
        "status": "queued",
        "origin": "work",
        "enqueued_at": "2025-06-15T15:06:40.250000Z",
        "started_at": "",
        "ended_at": "",
        "exc_info": zlib.compress(b""),
        HEADER: "mark",
    }


async def test_a_job_of_rq_that_is_gone_or_rate_limited_is_left():
    """The one has no place in the registry, the other must acquire capacity as RQ alone can."""
    made, _ = await opened(RQ, None, [None, None, None], b"1", [b"id=r;n=1;task=j", None, b"k"])
    assert await made.read([FAILED]) == {}
    found = (await made.read([FAILED]))["r2"]
    assert (found.refused, found.marked) == (RATE_LIMITED, "id=r;n=1;task=j")


async def test_what_the_server_refuses_is_an_error():
    """For reading and for sending."""
    made, _ = await opened(DRAMATIQ, SourceError("WRONGTYPE"), MESSAGE, SourceError("NOPERM"))
    with pytest.raises(SourceError, match="WRONGTYPE"):
        await made.read([XQ])
    with pytest.raises(SourceError, match="NOPERM"):
        await made.send([((await made.read([XQ]))["r1"], "mark")])
