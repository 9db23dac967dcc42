"""Probes against real brokers and frameworks: what they say is what the frameworks' own tools say."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aio_pika
import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from collector.config.settings import Overrides, Settings, override
from collector.probes.reading import CONSUMERS, LAG, LAG_SECONDS, Probe, Reading
from collector.wiring import probe_urls
from tests import brokers
from tests.frameworks import node, venvs
from tests.integration.live import Daemon, daemon

SCRIPTS = Path(venvs.__file__).parent
FRAMEWORKS = {
    "celery": ("celery-redis", "celery[redis]==5.7.0"),
    "rq": ("rq-3.0.0", "rq==3.0.0"),
    "dramatiq": ("dramatiq-redis-2.2.1", "dramatiq[redis]==2.2.1"),
    "saq": ("saq-0.26.4", "saq[redis]==0.26.4", "typing_extensions"),
    "huey": ("huey-3.5.4", "huey==3.5.4", "redis"),
    "arq": ("arq-0.28.0", "arq==0.28.0"),
    "taskiq": ("taskiq-0.13.0", "taskiq==0.13.0", "taskiq-redis==1.2.4"),
}
"""Framework → its environment and requirements. Each has the database of its place here, from 1 on; BullMQ has 0."""
SECONDS = 60.0


def had(get: Callable[..., Any], *arguments: Any) -> Any:
    """What is needed; without it a skip, or where CI=true a failure."""
    try:
        return get(*arguments)
    except brokers.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run against real frameworks: {why}", pytrace=False)
        pytest.skip(str(why))


@contextmanager
def filled(url: str) -> Iterator[dict[str, dict[str, Any]]]:
    """Queues of all frameworks, at rest, and what each one's own tool counts: framework → queue → state → count."""
    parts = urlsplit(url)
    base = f"redis://{parts.netloc}"
    modules = str(had(node.modules, "bullmq", node.BULLMQ))
    calls = {"bullmq": ["node", str(SCRIPTS / "queue_counts.mjs"), str(parts.port), "0"]}
    for database, (name, needed) in enumerate(FRAMEWORKS.items(), 1):
        python = had(venvs.python, *needed)
        calls[name] = [python, str(SCRIPTS / "queue_counts.py"), name, f"{base}/{database}"]
    environment = {**os.environ, "NODE_MODULES_AT": modules}
    with ExitStack() as stack:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
        running = {name: stack.enter_context(subprocess.Popen(call, **pipes)) for name, call in calls.items()}
        for process in running.values():
            stack.callback(process.stdin.close)
        yield {name: json.loads(process.stdout.readline()) for name, process in running.items()}


def source(name: str, url: str) -> list[str]:
    """The options of a source of its own name that is asked every second."""
    database = 1 + [*FRAMEWORKS].index(name) if name in FRAMEWORKS else 0
    return ["--source", f"{name}+redis://{urlsplit(url).netloc}/{database}?name={name}&probe_every=1s"]


def told(running: Daemon) -> dict[str, dict[str, dict[str, float]]]:
    """What the daemon shows: source → queue → state (or `consumers`) → number."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    metrics = running.metrics()
    for labels, value in metrics.get("queue_length", []):
        found.setdefault(labels["source"], {}).setdefault(labels["queue"], {})[labels["state"]] = value
    for labels, value in metrics.get("queue_consumers", []):
        found.setdefault(labels["source"], {}).setdefault(labels["queue"], {})["consumers"] = value
    return found


def differs(counted: Mapping[str, Any], shown: Mapping[str, Any]) -> list[Any]:
    """Where a probe says something else than the framework's tool."""
    odd = []
    for framework, queues in counted.items():
        for queue, states in queues.items() if isinstance(queues, dict) else ():
            mine = dict(shown.get(framework, {}).get(queue, {}))
            mine["sum"] = sum(value for state, value in mine.items() if state != "consumers")
            odd += [(framework, queue, mine) for state, count in states.items() if mine.get(state) != count]
    return odd


@pytest.mark.redis
@pytest.mark.slow
def test_queues_on_redis_are_as_long_as_their_own_tools_say(tmp_path):
    """Of every framework, by state. Emptied, a queue is 0 and not gone, also for a daemon that starts only then."""
    server = had(brokers.launch, "redis")
    state = ["--state", str(tmp_path / "state"), "--rules", "shipped"]
    sources = [word for name in (*FRAMEWORKS, "bullmq") for word in source(name, server.address)]
    try:
        with filled(server.address) as counted, daemon(tmp_path, *sources, *state) as running:
            assert sum(len(queues) for queues in counted.values()) >= 12
            running.wait(lambda: not differs(counted, told(running)), SECONDS, "another length")
            asked = running.json("/api/v1/query?query=" + quote('celery_queue_length{queue_name="mail"}'))
            assert asked["data"]["result"][0]["value"][1] == str(counted["celery"]["mail"]["ready"])
            up = {labels["source"]: value for labels, value in running.metrics()["tasktrail_probe_up"]}
            assert up == dict.fromkeys([*FRAMEWORKS, "bullmq"], 1)
            assert running.stop()[0] == 0
        redis.Redis.from_url(server.address).flushall()
        with daemon(tmp_path, *source("celery", server.address), *state) as running:
            empty = {"ready": 0, "unacked": 0, "scheduled": 0}
            running.wait(lambda: told(running).get("celery") == {"mail": empty, "pages": empty}, SECONDS, "not 0")
    finally:
        server.stop()


def probe(url: str) -> Probe:
    """The probe of a source URL."""
    (parsed,) = override(Settings(), Overrides(sources=(url,))).sources
    made = probe_urls.probe(parsed)
    assert made is not None
    return made


async def until(look: Callable[[], Awaitable[Reading]], holds: Callable[[Reading], object]) -> Reading:
    """Look until something holds; what was said last where it does not."""
    deadline = time.monotonic() + SECONDS
    while True:
        reading = await look()
        if holds(reading) or time.monotonic() > deadline:
            assert holds(reading), sorted(reading.samples.items())
            return reading
        await asyncio.sleep(0.2)


@pytest.mark.rabbitmq
async def test_rabbitmqs_queues_are_as_long_as_rabbitmqctl_says(rabbitmq_url):
    """Passively, on classic and quorum queues: what is ready and who consumes; a queue that is not there is not 0."""
    mail, pages, idle, gone = (f"{word}-{uuid.uuid4().hex[:8]}" for word in ("mail", "pages", "idle", "gone"))
    connection = await aio_pika.connect(rabbitmq_url)
    channel = await connection.channel()

    async def holds(_message: Any) -> None:
        """Takes it, and acknowledges nothing."""

    asked = probe(f"celery+{rabbitmq_url}?queues={mail},{pages},{idle},{gone}")
    only = probe(f"{rabbitmq_url.rstrip('/')}/queue/{mail}")
    try:
        await channel.set_qos(prefetch_count=2)
        for name, kind, count in ((mail, "classic", 5), (pages, "quorum", 3), (idle, "classic", 0)):
            queue = await channel.declare_queue(name, durable=True, arguments={"x-queue-type": kind})
            for _ in range(count):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), name)
            if name != pages:
                await queue.consume(holds)
        expected = {mail: (3, 1), pages: (3, 0), idle: (0, 1)}

        def said(reading: Reading) -> dict[str, tuple[float, float]]:
            numbers = {(name, dict(labels)["queue"]): value for (name, labels), value in reading.samples.items()}
            queues = {queue for _, queue in numbers}
            return {queue: (numbers["queue_length", queue], numbers[CONSUMERS, queue]) for queue in queues}

        for one, wanted in ((asked, expected), (only, {mail: (3, 1)})):
            await until(lambda one=one: one.look((), time.time()), lambda got, wanted=wanted: said(got) == wanted)
        listed = had(brokers.control_rabbitmq, "list_queues", "name", "messages_ready", "consumers", "--silent")
        rows = [line.split("\t") for line in listed.splitlines()]
        # of quorum queues rabbitmqctl counts only every few seconds what is in them
        del expected[pages]
        assert {name: (int(ready), int(many)) for name, ready, many in rows if name in expected} == expected
    finally:
        for one in (asked, only):
            await one.close()
        for name in (mail, pages, idle):
            await channel.queue_delete(name)
        await connection.close()


class Cluster:
    """A Kafka, and names of its own."""

    def __init__(self, bootstrap: str, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer) -> None:
        self.bootstrap = bootstrap
        self.admin = admin
        self.producer = producer
        self.mark = uuid.uuid4().hex[:8]

    def name(self, word: str) -> str:
        """A topic or group of ours."""
        return f"{word}-{self.mark}"

    async def create(self, word: str, partitions: int = 1, **configs: str) -> str:
        """A topic."""
        configs = {name.replace("_", "."): value for name, value in configs.items()}
        await self.admin.create_topics([NewTopic(self.name(word), partitions, 1, topic_configs=configs)])
        return self.name(word)

    async def send(self, topic: str, count: int, key: bytes | None = None, partition: int = 0) -> None:
        """Records, each in a batch of its own."""
        for number in range(count):
            await self.producer.send_and_wait(topic, b"%d" % number, key=key, partition=partition)

    async def transact(self, topic: str, count: int, *, aborted: int = 0) -> None:
        """Records, each in a transaction of its own; the last ones are aborted."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=self.name("tx")) as producer:
            for number in range(count + aborted):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"x", partition=0)
                await (producer.commit_transaction() if number < count else producer.abort_transaction())

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit as a group does."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=self.name(group), enable_auto_commit=False
        )
        await consumer.start()
        places = {TopicPartition(*place): offset for place, offset in offsets.items()}
        consumer.assign(list(places))
        if places:
            await consumer.commit(places)
        await consumer.stop()

    def delete_group(self, group: str) -> None:
        """Delete a group: Kafka's request 42, version 0, which the client does not have."""
        name, (host, _, port) = self.name(group).encode(), self.bootstrap.partition(":")
        request = struct.pack(f">hhihih{len(name)}s", 42, 0, 1, -1, 1, len(name), name)
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            assert connection.recv(1000)[-2:] == b"\0\0"


def lags(reading: Reading, metric: str = LAG) -> dict[tuple[str, str, str], float]:
    """(group, topic, partition), by their words → lag."""
    found = {}
    for (name, labels), value in reading.samples.items():
        if name == metric:
            own = dict(labels)
            words = (own["group"].rpartition("-")[0], own["topic"].rpartition("-")[0], own["partition"])
            found[words] = value
    return found


async def scene(cluster: Cluster) -> tuple[str, str, str, str]:
    """Four topics, and a group that is behind in them, one that has done all there is, and one that never committed."""
    plain = await cluster.create("plain", 2)
    payments = await cluster.create("payments")
    compacted = await cluster.create(
        "compacted", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001"
    )
    anew = await cluster.create("anew")
    await cluster.send(plain, 10)
    await cluster.send(plain, 4, partition=1)
    await cluster.transact(payments, 3, aborted=2)  # 10 offsets: 3 records, 2 aborted ones, 5 marks
    await cluster.send(compacted, 30, b"same")
    await cluster.send(anew, 9)
    await cluster.commit("behind", {(plain, 0): 4, (payments, 0): 0, (compacted, 0): 0, (anew, 0): 7})
    await cluster.commit("done", {(plain, 0): 10, (payments, 0): 6})  # all that is left there are aborted ones
    await cluster.commit("never", {})
    return plain, payments, compacted, anew


@pytest.mark.case("K12.2")
@pytest.mark.kafka
async def test_the_lag_of_groups_is_what_they_really_have_before_them(apache):
    """Committed offsets only, without marks of transactions, aborted and compacted records; seconds of the first."""
    admin = AIOKafkaAdminClient(bootstrap_servers=apache)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=apache, linger_ms=0))
        await admin.start()
        stack.push_async_callback(admin.close)
        cluster = Cluster(apache, admin, producer)
        began = time.time()
        plain, payments, compacted, anew = await scene(cluster)
        asked = probe(f"kafka://{apache}/{plain},{payments},{compacted},{anew}")

        async def look() -> Reading:
            return await asked.look((), time.time())

        expected = {
            ("behind", "plain", "0"): 6,
            ("behind", "payments", "0"): 3,
            ("behind", "anew", "0"): 2,
            ("done", "plain", "0"): 0,
            ("done", "payments", "0"): 0,
        }

        def is_so(reading: Reading) -> bool:
            return {place: lag for place, lag in lags(reading).items() if place[1] != "compacted"} == expected

        reading = await until(look, is_so)  # partition 1, where nobody has committed, is unknown
        seconds = lags(reading, LAG_SECONDS)
        assert 0 < seconds["behind", "plain", "0"] <= time.time() - began
        assert seconds["done", "plain", "0"] == seconds["done", "payments", "0"] == 0

        # Compaction leaves few of thirty records; new ones make the log close its segment.
        async def compacts() -> Reading:
            await cluster.send(compacted, 1, b"same")
            fresh = probe(f"kafka://{apache}/{compacted}")
            try:
                return await fresh.look((), time.time())
            finally:
                await fresh.close()

        place = ("behind", "compacted", "0")
        await until(compacts, lambda got: 0 < lags(got).get(place, 99) < 20)

        # A partition is added, and nobody has committed there yet; then somebody has.
        await admin.create_partitions({plain: NewPartitions(3)})
        await until(look, is_so)
        await cluster.commit("behind", {(plain, 2): 0})
        await until(look, lambda got: lags(got).get(("behind", "plain", "2")) == 0)

        # A topic made anew knows nothing of what was committed in its former self.
        await admin.delete_topics([anew])
        await until(look, lambda got: ("behind", "anew", "0") not in lags(got))
        await cluster.create("anew")
        await cluster.send(anew, 3)
        assert ("behind", "anew", "0") not in lags(await look())
        await cluster.commit("behind", {(anew, 0): 1})
        await until(look, lambda got: lags(got).get(("behind", "anew", "0")) == 2)

        # A group that is deleted is gone.
        cluster.delete_group("done")
        await until(look, lambda got: not any(group == "done" for group, _, _ in lags(got)))
        await asked.close()
