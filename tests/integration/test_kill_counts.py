"""`kill -9` at random moments under load: every replayable source goes on where the counted state ends.

TASKTRAIL_KILLS: how many times each daemon is killed; 10 in CI, 4 elsewhere, unless told otherwise. TASKTRAIL_SEED: of
the moments.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from collector.shell.axis import SavedAxis
from collector.state import checkpoint
from tests.brokers.process import wait_until
from tests.contract_suites.rigs import create_topic
from tests.integration.live import Daemon, daemon, died, ndjson
from tests.truth.generator import Line, Truth, generate

KILLS = int(os.environ.get("TASKTRAIL_KILLS", "10" if os.environ.get("CI") == "true" else "4"))
SEED = int(os.environ.get("TASKTRAIL_SEED", "0")) or random.randrange(1, 1 << 30)
RATE = 5_000
SECONDS_PER_KILL = 4.0
PARTITIONS = 4
Write = Callable[[Sequence[Line]], None]


@contextmanager
def loaded(write: Write, lines: Sequence[Line]) -> Iterator[threading.Thread]:
    """Lines written at the rate, by a thread."""

    def run() -> None:
        began = time.monotonic()
        step = RATE // 20
        for number, start in enumerate(range(0, len(lines), step)):
            if over.is_set():
                return
            write(lines[start : start + step])
            time.sleep(max(0.0, began + (number + 1) / 20 - time.monotonic()))

    thread = threading.Thread(target=run, daemon=True)
    over = threading.Event()
    thread.start()
    try:
        yield thread
    finally:
        over.set()
        thread.join(60)


@contextmanager
def kafka_writer(bootstrap: str, topic: str) -> Iterator[Write]:
    """Writes to four partitions by task id."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, loop).result(120)

    async def start() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
        await producer.start()
        return producer

    async def send(lines: Sequence[Line]) -> None:
        sent = [
            await producer.send(topic, line.body, partition=zlib.crc32(line.key.encode()) % PARTITIONS)
            for line in lines
        ]
        await asyncio.gather(*sent)

    wait(create_topic(bootstrap, topic, PARTITIONS))
    producer = wait(start())
    try:
        yield lambda lines: wait(send(lines))
    finally:
        wait(producer.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def redis_writer(url: str, stream: str) -> Iterator[Write]:
    """Writes to one stream."""
    with redis.Redis.from_url(url) as client:

        def write(lines: Sequence[Line]) -> None:
            pipe = client.pipeline(transaction=False)
            for line in lines:
                pipe.xadd(stream, {"data": line.body})
            pipe.execute()

        yield write


def counted(daemon: Daemon) -> dict[tuple[str, str], dict[str, int]]:
    """Every counter of what events said, by task and queue: what is found by the time it takes depends on the run."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for name, samples in daemon.metrics().items():
        if name.startswith("task_") and name.endswith("_total") and name != "task_findings_total":
            for labels, value in samples:
                if value:
                    counts = found.setdefault((labels["task"], labels["queue"]), Counter())
                    counts[name.removeprefix("task_").removesuffix("_total")] += int(value)
    return {names: dict(counts) for names, counts in found.items()}


def survives(folder: Path, url: str, write: Write, lines: Sequence[Line], truth: Truth) -> None:
    """Kill it again and again while the lines come; then everything was counted once."""
    rng = random.Random(SEED)
    arguments = ("--source", url, "--state", str(folder / "state"))
    scheme = url.partition(":")[0]
    running = Daemon(folder, *arguments).wait_ready()
    try:
        with loaded(write, lines) as load:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.3, 2 * SECONDS_PER_KILL - 2.0))
                running.end()
                running = Daemon(folder, *arguments).wait_ready()
            load.join(600)
        up = lambda: running.ask("/-/healthy")[0] == 200  # noqa: E731
        all_read = lambda: up() and running.source(scheme)["events"]["read"] >= truth.read  # noqa: E731
        running.wait(all_read, 120, "not all was read")
        settled = lambda: not differing(counted(running), truth.series)  # noqa: E731
        wait_until(settled, 20)  # what rests on missing facts is decided after the grace
        said = running.source(scheme)["events"]
        assert (said["read"], said["duplicate"], said["malformed"]) == (truth.read, truth.duplicate, truth.malformed)
        assert differing(counted(running), truth.series) == {}, f"seed {SEED}"
        dead = sum(value for _, value in running.metrics()["dead_letters_open"])
        assert dead == truth.dead_letters_open
        assert running.source(scheme)["gaps"] == []
    finally:
        running.end()


def differing(got: dict[Any, Any], want: dict[Any, Any]) -> dict[Any, Any]:
    """What is not the same, both sides."""
    return {key: (got.get(key), want.get(key)) for key in got.keys() | want.keys() if got.get(key) != want.get(key)}


def lines_of() -> tuple[list[Line], Truth]:
    """Enough for all the kills."""
    return generate(seed=SEED % 1000, events=int(RATE * SECONDS_PER_KILL * (KILLS + 1)))


@pytest.mark.slow
@pytest.mark.kafka
def test_counts_over_kills_are_exact_on_kafka(kafka: str, tmp_path: Path) -> None:
    """However often it is killed under load, what a Kafka topic holds is counted once, and no gap is recorded."""
    lines, truth = lines_of()
    topic = f"kill-{random.getrandbits(48):x}"
    with kafka_writer(kafka, topic) as write:
        survives(tmp_path, f"kafka://{kafka}/{topic}", write, lines, truth)


@pytest.mark.slow
@pytest.mark.redis
def test_counts_over_kills_are_exact_on_redis_streams(redis_url: str, tmp_path: Path) -> None:
    """However often it is killed under load, what a Redis stream holds is counted once, and no gap is recorded."""
    lines, truth = lines_of()
    stream = f"kill-{random.getrandbits(48):x}"
    with redis_writer(redis_url, stream) as write:
        url = f"{redis_url.replace('redis://', 'redis-stream://')}/{stream}"
        survives(tmp_path, url, write, lines, truth)


def test_counts_over_a_kill_are_exact_on_a_file(tmp_path: Path) -> None:
    """A file is read on from the line where the counted state ends."""
    lines, truth = generate(seed=4, events=30_000)
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"".join(line.body + b"\n" for line in lines))
    arguments = ("--source", f"file://{path}", "--state", str(tmp_path / "state"))
    for _ in range(2):
        with daemon(tmp_path, *arguments) as running:
            running.wait(lambda: running.source("file")["events"]["read"] == truth.read, 60, "not all was read")
            wait_until(lambda: not differing(counted(running), truth.series), 20)
            got = counted(running)
            running.wait(lambda: kept(tmp_path) == truth.read, 60, "no checkpoint has all")
        assert differing(got, truth.series) == {}


def test_pushes_since_the_last_checkpoint_are_a_recorded_gap(tmp_path: Path) -> None:
    """After a kill the gap of the pushes is on record, older ones are counted; after a stop in order there is none."""
    state = ("--state", str(tmp_path / "state"))
    with daemon(tmp_path, *state) as running:
        assert running.ask("/v1/events", ndjson(died("1")))[0] == 200
        running.wait(lambda: kept(tmp_path) == 3, 60, "no checkpoint has them")
    with daemon(tmp_path, *state) as running:
        assert [gap["reason"] for gap in running.source("http")["gaps"]] == ["crash"]
        assert counted(running)[("pay.settle", "payments")]["dead_lettered"] == 1
        assert running.ask("/v1/events", ndjson(died("2")))[0] == 200
        running.stop()
    with daemon(tmp_path, *state) as running:
        assert [gap["reason"] for gap in running.source("http")["gaps"]] == ["crash"]
        assert counted(running)[("pay.settle", "payments")]["dead_lettered"] == 2


def kept(folder: Path) -> int:
    """How many records the newest checkpoint has counted."""
    found = checkpoint.found(folder / "state").saved
    places = dict(found[0].parts())["places"] if found else msgspec.msgpack.encode([])
    return sum(axis.totals.read for axis in msgspec.msgpack.decode(places, type=list[SavedAxis]))


def stopped_after(folder: Path, url: str, count: int) -> None:
    """A daemon that has counted so many events, and was killed after a checkpoint of them."""
    with daemon(folder, "--source", url, "--state", str(folder / "state")) as running:
        running.wait(lambda: kept(folder) == count, 90, "no checkpoint has all")


@pytest.mark.case("K06.1")
@pytest.mark.redis
def test_entries_trimmed_while_it_was_away_are_a_gap_of_their_size(redis_url: str, tmp_path: Path) -> None:
    """A restored position that the stream no longer has gives a gap with the number that is missing."""
    stream = f"kill-{random.getrandbits(48):x}"
    url = f"{redis_url.replace('redis://', 'redis-stream://')}/{stream}"
    lines = [Line(line, 0.0, "") for number in range(10) for line in ndjson(died(f"t{number}")).splitlines()]
    with redis_writer(redis_url, stream) as write, redis.Redis.from_url(redis_url) as client:
        write(lines[:12])
        stopped_after(tmp_path, url, 12)
        write(lines[12:])
        client.xtrim(stream, maxlen=6, approximate=False)
        with daemon(tmp_path, "--source", url, "--state", str(tmp_path / "state")) as running:
            running.wait(lambda: running.source("redis-stream")["events"]["read"] == 18, 90, "not all was read")
            assert [(gap["reason"], gap["estimate"]) for gap in running.source("redis-stream")["gaps"]] == [
                ("trimmed", 12)
            ]


@pytest.mark.kafka
def test_a_topic_made_anew_while_it_was_away_is_a_gap(kafka: str, tmp_path: Path) -> None:
    """A restored position beyond the end of a topic says that it is another one, which is read from its beginning."""
    topic = f"kill-{random.getrandbits(48):x}"
    lines = [Line(line, 0.0, "0") for number in range(10) for line in ndjson(died(f"t{number}")).splitlines()]
    url = f"kafka://{kafka}/{topic}"
    with kafka_writer(kafka, topic) as write:
        write(lines[:12])
        stopped_after(tmp_path, url, 12)
    asyncio.run(removed(kafka, topic))
    with kafka_writer(kafka, topic) as write:
        write(lines[12:15])
        with daemon(tmp_path, "--source", url, "--state", str(tmp_path / "state")) as running:
            running.wait(lambda: running.source("kafka")["events"]["read"] == 15, 90, "not all was read")
            assert [(gap["reason"], gap["estimate"]) for gap in running.source("kafka")["gaps"]] == [
                ("recreated", None)
            ]


async def removed(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([topic])
        for _ in range(100):
            if topic not in await admin.list_topics():
                break
            await asyncio.sleep(0.1)
    finally:
        await admin.close()
