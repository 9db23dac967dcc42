"""Bad links to brokers that are well: nothing is lost or counted twice, nothing resolves meanwhile, and it is said."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Iterator, Sequence

import pytest
import redis.asyncio
from msgspec.structs import replace

from collector.config.settings import Settings
from collector.model.clock import SystemClock
from collector.model.record import Source
from collector.shell.axis import Axis
from collector.sources.kafka import KafkaSource
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_wire import RedisAddress
from collector.wiring.plugs import Feed
from tests import brokers
from tests.brokers.process import Broker
from tests.contract_suites.rigs import KafkaRig, Notes, RedisRig, kafka_topic, running, until
from tests.integration.live import died, ndjson
from tests.proxy import Link, proxied
from tests.unit import parts

WINDOW = 8.0
SOON = 2.0
"""Seconds: what failed longer ago might end before it is noticed that nobody can see it end."""
FROZEN = float(os.environ.get("TASKTRAIL_FROZEN", "0"))
"""Seconds that the link is frozen at least; `make soak` says 40."""
RULES = f"""
groups:
- name: g
  interval: 1s
  rules:
  - alert: Failing
    expr: sum by (source) (increase(task_failed_total[{WINDOW:.0f}s])) > 0
  - alert: SourceBlind
    expr: tasktrail_source_up == 0
"""
PATIENCE = 60.0


def over(link: Link, rig: KafkaRig | RedisRig) -> Source:
    """The rig's source, by way of the link; one that gives up soon."""
    if isinstance(rig, KafkaRig):
        return KafkaSource(replace(rig.options, servers=(f"127.0.0.1:{link.port}",), deadline=2.0))
    address = replace(rig.options.address, host="127.0.0.1", port=link.port)
    return RedisStreamSource(replace(rig.options, address=address))


def firing(run: parts.Running, rule: str) -> dict[str, float]:
    """The sources of which a rule's alert fires, and since when it does."""
    alerts = [one for one in run.daemon.alerts() if one.state == "firing"]
    named = [(dict(one.labels), one.active_at) for one in alerts]
    return {labels["source"]: since for labels, since in named if labels["alertname"] == rule}


async def failing_just_now(run: parts.Running, rigs: Sequence[KafkaRig | RedisRig], axes: Sequence[Axis]) -> int:
    """Write failures until some were counted, and alert, soon after; how many events each rig had."""
    written = 0
    while True:
        began = time.monotonic()
        for rig in rigs:
            await rig.write([ndjson([one]) for one in died(f"before{written}")])
        written += 3
        await until(lambda: all(axis.totals.read == written for axis in axes), PATIENCE)  # noqa: B023
        await until(lambda: len(firing(run, "Failing")) == len(rigs), PATIENCE)
        if time.monotonic() - began < SOON:
            return written


@pytest.mark.case("K01.2")
@pytest.mark.kafka
@pytest.mark.redis
@pytest.mark.slow
async def test_a_frozen_link(kafka: str, redis_url: str, tmp_path) -> None:
    """While nothing moves on it the rules are blind, SourceBlind is told and nothing ends; then all is counted once.

    New connections are taken and hear nothing: the client that gives up meets a black hole.
    """
    (tmp_path / "rules.yaml").write_text(RULES)
    settings = Settings(rules=(str(tmp_path / "rules.yaml"),))
    host, _, port = kafka.rpartition(":")
    async with (
        kafka_topic(kafka) as topic,
        proxied(host, int(port)) as to_kafka,
        proxied(*_address(redis_url)) as to_redis,
    ):
        stream = RedisRig(redis_url)
        rigs = {"kafka": (topic, to_kafka), "redis": (stream, to_redis)}
        feeds = tuple(
            Feed(name=name, is_tailed=True, build=lambda rig=rig, link=link: over(link, rig))
            for name, (rig, link) in rigs.items()
        )
        async with parts.running(settings, clock=SystemClock(), feeds=feeds) as run:
            axes = {axis.name: axis for axis in run.daemon.pipeline.axes if axis.name in rigs}
            await until(lambda: all(axis.is_at_head for axis in axes.values()), PATIENCE)
            await until(lambda: not firing(run, "SourceBlind"), PATIENCE)
            written = await failing_just_now(run, [rig for rig, _ in rigs.values()], list(axes.values()))
            since = firing(run, "Failing")
            for _, link in rigs.values():
                link.freeze()
            frozen_at = time.monotonic()
            made = {name: link.made for name, (_, link) in rigs.items()}
            (failing, _) = run.daemon.pipeline.ticker.groups[0].rules
            await until(lambda: run.daemon.is_blind(failing), PATIENCE)
            for rig, _ in rigs.values():
                await rig.write([ndjson([one]) for one in died("meanwhile")])
            await until(lambda: firing(run, "SourceBlind").keys() == rigs.keys(), PATIENCE)
            await until(lambda: all(link.made > made[name] for name, (_, link) in rigs.items()), PATIENCE)
            await until(lambda: time.monotonic() > frozen_at + max(FROZEN, WINDOW + 2), PATIENCE + FROZEN)
            assert firing(run, "Failing") == since, "it ended while nobody could see"

            for _, link in rigs.values():
                link.thaw()
            thawed_at = time.monotonic()
            await until(lambda: all(axis.totals.accepted == written + 3 for axis in axes.values()), PATIENCE)
            print(f"reading went on {time.monotonic() - thawed_at:.1f} s after the link did")
            await until(lambda: not firing(run, "Failing") and not firing(run, "SourceBlind"), PATIENCE)
            assert all(axis.totals.read == written + 3 and not axis.gaps and axis.is_up for axis in axes.values())
        await stream.client.aclose()


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rpartition("@")[2].partition("/")[0].partition(":")
    return host, int(port)


@pytest.mark.kafka
@pytest.mark.redis
async def test_a_link_that_is_cut_again_and_again(kafka: str, redis_url: str) -> None:
    """Late, cut and refused in the middle of a backlog, each record comes exactly once over both brokers."""
    host, _, port = kafka.rpartition(":")

    async def read(rig: KafkaRig | RedisRig, link: Link) -> None:
        bodies = [b"%05d" % number + b"x" * 500 for number in range(3000)]
        await rig.write(bodies)
        notes, link.delay, link.rate = Notes(), 0.01, 2e6
        reading = asyncio.ensure_future(_insisting(over(link, rig), notes, link))
        await until(lambda: len(notes.bodies) >= len(bodies), PATIENCE)
        reading.cancel()
        await asyncio.wait([reading])
        assert notes.places[rig.place()] == bodies
        assert not notes.gaps
        assert link.made > 3

    async with (
        kafka_topic(kafka) as topic,
        proxied(host, int(port)) as to_kafka,
        proxied(*_address(redis_url)) as to_redis,
    ):
        stream = RedisRig(redis_url)
        await asyncio.gather(read(topic, to_kafka), read(stream, to_redis))
        await stream.client.aclose()


async def _insisting(source: Source, notes: Notes, link: Link) -> None:
    """Run it, cut it after each tenth of a second of reading four times, and begin again whenever it is lost."""

    async def cutting() -> None:
        for number in range(4):
            await until(lambda: len(notes.batches) > 2 * number, PATIENCE)  # noqa: B023
            link.is_refusing = number % 2 == 1
            link.cut()
            await asyncio.sleep(0.2)
            link.is_refusing = False

    cuts = asyncio.ensure_future(cutting())
    try:
        while True:
            await asyncio.gather(source.run(notes), return_exceptions=True)
            await asyncio.sleep(0.05)
    finally:
        cuts.cancel()


@pytest.fixture
def own_redis() -> Iterator[Broker]:
    """A server whose settings a test may change."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


@pytest.mark.redis
async def test_a_server_that_hangs_up_on_large_answers(own_redis: Broker) -> None:
    """Redis ends a client whose answer is beyond its output buffer: smaller ones are asked for until all has come."""
    stream = f"s{uuid.uuid4().hex[:12]}"
    async with redis.asyncio.Redis.from_url(own_redis.address) as client:
        await client.config_set("client-output-buffer-limit", "normal 300000 300000 0")
        for number in range(100):
            await client.xadd(stream, {"data": b"%03d" % number + b"x" * 20_000})
    host, port = own_redis.host_port
    notes = Notes()
    options = RedisStreamOptions(name="r", address=RedisAddress(host=host, port=port), streams=(stream,))
    async with running(RedisStreamSource(options), notes):
        await until(lambda: len(notes.bodies) >= 100, PATIENCE)
    assert [body[:3] for body in notes.bodies] == [b"%03d" % number for number in range(100)]
    assert not notes.gaps


@pytest.mark.redis
async def test_a_link_too_slow_for_a_large_answer(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that had begun and does not end in time is asked for again in smaller pieces, and reading goes on."""
    monkeypatch.setattr("collector.sources.redis_stream._MARGIN", 0.5)
    rig, notes = RedisRig(redis_url), Notes()
    rig.options = replace(rig.options, count=100)
    await rig.write([b"%03d" % number + b"x" * 1000 for number in range(100)])
    async with proxied(*_address(redis_url)) as link:
        link.rate = 50_000.0
        async with running(over(link, rig), notes):
            await until(lambda: len(notes.bodies) >= 100, PATIENCE)
        assert link.made > 1
    assert [body[:3] for body in notes.bodies] == [b"%03d" % number for number in range(100)]
    await rig.client.aclose()
