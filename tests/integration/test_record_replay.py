"""What was recorded from a real broker replays with the counts that a daemon reading it live has."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from zlib import crc32

import pytest
import redis.asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from collector.cli.main import main
from collector.config.source_urls import parse_source
from collector.formats import native
from collector.model.clock import SystemClock
from collector.model.record import Outcome
from collector.model.secret import Secret
from collector.shell.axis import Axis
from collector.shell.intake import Lane
from collector.wiring import plugs
from tests.truth.generator import Line, generate
from tests.unit.parts import pipeline

COUNT = 3000
"""Lines that are written; some hold nothing that can be read, some are lists."""


async def written_to_redis(url: str, lines: list[Line]) -> str:
    """A stream with one entry per body, every tenth with fields beside it."""
    name = f"record-{uuid.uuid4().hex}"
    client = redis.asyncio.from_url(url)
    for number, line in enumerate(lines):
        await client.xadd(name, {"data": line.body, **({"worker": "w", "n": "1"} if number % 10 == 0 else {})})
    await client.aclose()
    return f"redis-stream://{url.removeprefix('redis://')}/{name}"


async def written_to_kafka(servers: str, lines: list[Line]) -> str:
    """A topic of three partitions with all lines, those of a task in one partition, every tenth with headers."""
    topic = f"record-{uuid.uuid4().hex}"
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 3, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    for number, line in enumerate(lines):
        headers = [("worker", b"w"), ("n", b"1")] if number % 10 == 0 else []
        await producer.send(topic, line.body, partition=crc32(line.key.encode()) % 3, headers=headers)
    await producer.stop()
    return f"kafka://{servers}/{topic}"


async def live(url: str, count: int) -> Outcome:
    """The outcome of reading it as a daemon does."""
    made = pipeline()
    axis = Axis(name="live", application="", clock="event")
    lane = Lane(axis, native.decode, made.ingest, SystemClock(), made.telemetry, lambda: None)
    build = plugs.SOURCES[url.partition(":")[0]].build
    task = asyncio.ensure_future(lane.supervise(build(parse_source(url, {}, Secret))))
    async with asyncio.timeout(30):
        while axis.totals.read < count:  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])
    return axis.totals


BROKERS = [
    pytest.param("redis_url", written_to_redis, marks=pytest.mark.redis, id="redis"),
    pytest.param("kafka", written_to_kafka, marks=pytest.mark.kafka, id="kafka"),
]


@pytest.mark.parametrize(("broker", "write"), BROKERS)
def test_a_recording_replays_as_it_was(
    broker: str,
    write: Callable[[str, list[Line]], Awaitable[str]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Events, duplicates and rejects of a recording are those of the live source."""
    address = request.getfixturevalue(broker)
    lines = generate(5, COUNT)[0]

    async def prepare() -> tuple[str, Outcome]:
        url = await write(address, lines)
        return url, await live(url, COUNT)

    url, expected = asyncio.run(prepare())
    capture = tmp_path / "capture.ndjson"
    assert main(["record", "--source", url, "-o", str(capture), "--seconds", "4"]) == 0
    assert len(capture.read_bytes().splitlines()) == COUNT
    capsys.readouterr()
    assert main(["replay", str(capture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == {
        name: getattr(expected, name) for name in ("read", "accepted", "duplicate", "malformed", "ignored")
    }
