"""Celery on Redis: a real worker, the running daemon, and what only this channel has: holes, silence, being cut off."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from collector.model.errors import SourceError
from collector.sources.celery_redis import CeleryRedisOptions, CeleryRedisSource, Past
from collector.sources.celery_workers import Worker
from tests import brokers
from tests.brokers.process import Broker, wait_until
from tests.contract_suites.rigs import CeleryRedisRig, Notes, address_of, running, until
from tests.frameworks.celery_live import Jobs
from tests.integration.live import Daemon

pytestmark = pytest.mark.redis

READING = {"AUTH", "CLIENT", "SELECT", "PSUBSCRIBE", "PING", "SCAN", "SMEMBERS", "LRANGE", "HSCAN", "MGET", "EXISTS"}
READING |= {"LLEN", "ZRANGE", "HGET", "HSTRLEN"}  # the probe
ENDS = {"succeeded": "succeeded", "raised": "failed"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A Redis of the test's own."""
    try:
        made = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield made
    made.stop()


@pytest.fixture
def jobs(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Jobs]]:
    """Makes applications on that Redis; their workers end with the test."""
    made: list[Jobs] = []

    def start(**environment: str) -> Jobs:
        try:
            made.append(Jobs(tmp_path, broker.address, broker.address, **environment))
        except brokers.Unavailable as why:
            pytest.skip(str(why))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def source_url(broker: Broker, options: str = "") -> str:
    """How the daemon is told of the broker."""
    return f"celery+{broker.address}{options}"


class Watch:
    """Every command that a Redis is given by clients named `tasktrail`."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.lines: list[tuple[str, str]] = []
        self.is_over = False
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        with suppress(redis.ConnectionError), self.client.monitor() as monitor:
            for command in monitor.listen():
                self.lines.append((f"{command['client_address']}:{command['client_port']}", command["command"]))
                if self.is_over:
                    return

    def commands(self) -> Counter[str]:
        """Command → how often. Clients are ours by their name, which is the second thing that each says."""
        self.is_over = True
        self.client.ping()
        self.thread.join(5)
        ours = {client for client, command in self.lines if command.upper().startswith("CLIENT SETNAME TASKTRAIL")}
        return Counter(command.split()[0].upper() for client, command in self.lines if client in ours)


def counted(daemon: Daemon, task_id: str) -> dict[str, Any]:
    """What the daemon knows of a task."""
    status, body = daemon.ask(f"/api/tasks/{task_id}")
    return json.loads(body) if status == 200 else {"state": "", "counts": {}}


def as_expected(daemon: Daemon, truth: dict[str, Counter[str]]) -> list[tuple[str, Any, Any]]:
    """What the daemon does not know as the tasks logged it."""
    wrong = []
    for task_id, facts in truth.items():
        task = next(name[5:] for name in facts if name.startswith("task="))
        counts = counted(daemon, task_id)["counts"]
        got = {fact: counts.get(fact, 0) for fact in ("sent", "started", "succeeded", "retried", "failed", "rejected")}
        expected = {fact: facts[fact] for fact in ("sent", "started", "succeeded", "retried")}
        expected["failed"] = int(task == "jobs.missing") or (facts["raised"] if task in FAILING else 0)
        expected["rejected"] = facts["raised"] if task == "jobs.verify" else 0
        if got != expected:
            wrong.append((f"{task} {task_id}", expected, got))
    return wrong


def ran(truth: dict[str, Counter[str]]) -> list[Counter[str]]:
    """What was logged of the tasks that a worker knows."""
    return [facts for facts in truth.values() if not facts["task=jobs.missing"]]


FAILING = ("jobs.lookup", "jobs.notify")


@pytest.mark.case("K23.1")
@pytest.mark.parametrize("extended", ["1", "0"])
def test_a_real_worker_is_counted_as_its_tasks_logged(
    broker: Broker, jobs: Callable[..., Jobs], run: Callable[..., Daemon], extended: str
) -> None:
    """The daemon counts what the tasks did, per task, reads only, and leaves nothing behind when it is killed."""
    app = jobs(EXTENDED=extended)
    app.start_worker("w1", "-E", "--concurrency", "2")
    watch = Watch(broker.address)
    client = redis.Redis.from_url(broker.address)
    patterns = client.pubsub_numpat()
    daemon = run("--source", source_url(broker))
    daemon.wait(lambda: "w1@here" in daemon.source("celery+redis")["detail"], 20, "no worker is heard")
    app.produce("8")
    truth = app.facts
    assert wait_until(lambda: all(facts["succeeded"] + facts["raised"] for facts in ran(truth())), 40)
    wait_until(lambda: not as_expected(daemon, truth()), 20)
    assert as_expected(daemon, truth()) == []
    detail = "task events are on, with `task-sent`"  # it is said once a second
    daemon.wait(lambda: detail in daemon.source("celery+redis")["detail"], 10, "it does not say that events are on")
    failed = next(task_id for task_id, facts in truth().items() if facts["task=jobs.lookup"])
    assert counted(daemon, failed)["error"] == "KeyError"
    daemon.end()
    assert set(watch.commands()) <= READING
    client.ping()
    assert wait_until(lambda: client.pubsub_numpat() == patterns, 10)
    assert [one for one in client.client_list() if one["name"] == "tasktrail"] == []
    assert client.keys("*tasktrail*") == []


def test_events_that_are_off_are_found_and_switched_on(
    broker: Broker, jobs: Callable[..., Jobs], run: Callable[..., Daemon]
) -> None:
    """A worker without `-E` that is busy is told of with the fix; with `enable_events` it is asked, and they come."""
    app = jobs(RESULTS="", SENT="0")
    app.start_worker("w1", "--concurrency", "1")
    daemon = run("--source", source_url(broker))
    daemon.wait(lambda: "w1@here" in daemon.source("celery+redis")["detail"], 60, "no worker is heard")
    app.produce("charge", "5", "0.5")
    told = "task events are off although workers are busy: start workers with `-E`"
    daemon.wait(lambda: told in daemon.source("celery+redis")["detail"], 30, "it does not say that events are off")
    asking = run("--source", source_url(broker, "?enable_events=true"))
    asking.wait(lambda: "w1@here" in asking.source("celery+redis")["detail"], 20, "no worker is heard")
    words = re.compile("were asked|task events are on")
    asking.wait(lambda: bool(words.search(asking.source("celery+redis")["detail"])), 10, "nobody was asked")
    app.produce("charge", "12", "0")
    asking.wait(lambda: counts_of(asking, "succeeded") >= 12, 20, "no events came")
    detail = "`task-sent` is off, so waiting times are unknown: set `task_send_sent_event = True`"
    asking.wait(lambda: detail in asking.source("celery+redis")["detail"], 10, "a missing `task-sent` is not said")


def test_a_worker_without_events_beside_another_is_named(
    broker: Broker, jobs: Callable[..., Jobs], run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """One of two workers without `-E` is told of by its name, and what it runs is not found never started."""
    app = jobs(RESULTS="")
    app.start_worker("w1", "-E", "--concurrency", "1", "-Q", "orders")
    app.start_worker("w3", "--concurrency", "1", "-Q", "quiet")
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text("tasks: [{match: jobs.charge, semantics: best_effort, deadline: 10s}]")
    daemon = run("--source", source_url(broker), "--tasks", str(tasks))
    told = "hears 2 workers (w1@here, w3@here)"
    daemon.wait(lambda: told in daemon.source("celery+redis")["detail"], 60, "the workers are not heard")
    app.produce("charge", "5", "1")  # so long that none ends before it says that it was sent; all but the first wait
    daemon.wait(lambda: counts_of(daemon, "succeeded") == 5, 60, "nothing is told")
    app.produce("charge", "1", "30", "quiet")
    told = "task events are off at w3@here although workers are busy"
    daemon.wait(lambda: told in daemon.source("celery+redis")["detail"], 60, "it does not say whose events are off")
    unheard = next(task_id for task_id, facts in app.facts().items() if not facts["succeeded"])
    daemon.wait(lambda: counted(daemon, unheard)["state"] != "sent", 60, "it is not looked at")
    assert counted(daemon, unheard)["state"] == "unknown"
    assert "never_started" not in counted(daemon, unheard)["counts"]


def counts_of(daemon: Daemon, fact: str) -> float:
    """The sum of a counter."""
    return sum(value for _, value in daemon.metrics().get(f"task_{fact}_total", []))


# What needs no worker


def enveloped(event: dict[str, Any]) -> bytes:
    """A worker event as it is published."""
    return json.dumps(
        {"body": base64.b64encode(json.dumps(event).encode()).decode(), "properties": {"body_encoding": "base64"}}
    ).encode()


def beat(processed: int, worker: str = "w1@here", pid: int = 7) -> bytes:
    """A heartbeat."""
    return enveloped({"type": "worker-heartbeat", "hostname": worker, "pid": pid, "active": 0, "processed": processed})


@pytest.fixture
async def rig(redis_url: str) -> Any:
    """A prefix of its own on the shared server."""
    made = CeleryRedisRig(redis_url)
    yield made
    await made.client.aclose()


async def published(rig: CeleryRedisRig, key: str, *bodies: bytes) -> None:
    """Publish under a routing key."""
    for body in bodies:
        async with asyncio.timeout(20):
            while not await rig.client.publish(f"{rig.prefix}/0.celeryev/{key}", body):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)


async def test_a_reconnect_is_a_hole_with_an_estimate(rig: CeleryRedisRig) -> None:
    """What workers processed while nobody listened is the estimate of a gap, from the last word to the new one."""
    past, notes = Past(), Notes()
    async with running(CeleryRedisSource(rig.options, past), notes):
        await published(rig, "worker.heartbeat", beat(100), beat(5, "w2@here"))
        await until(lambda: len(notes.bodies) == 2)
        await until(lambda: past.workers.keys() == {"w1@here", "w2@here"})
        await published(rig, "task.sent", b"1")
        await until(lambda: past.kinds.sent == 1)
    assert notes.gaps == []
    async with running(CeleryRedisSource(rig.options, past), notes):
        await published(rig, "worker.heartbeat", beat(1_000_100), beat(3, "w2@here", pid=8))
        await published(rig, "task.multi", *[b"1"] * 30)
        await until(lambda: bool(notes.gaps) and "with `task-sent`" in notes.details[-1])
    (gap,) = notes.gaps
    assert (gap.reason, gap.is_rough, gap.place) == ("reconnected", True, "celery")
    assert 0 < gap.estimate < 3_000_000, "it is what was processed between two heartbeats, not in the hole alone"
    assert gap.start <= gap.end <= time.time()


async def test_workers_that_are_gone_are_forgotten(rig: CeleryRedisRig) -> None:
    """Where workers come and go under ever new names, what is known of them does not pile up over connections."""
    past, notes = Past(workers={"gone@there": Worker(1, 5, time.time())}), Notes()
    async with running(CeleryRedisSource(rig.options, past), notes):
        await published(rig, "worker.heartbeat", beat(1))
        await until(lambda: past.workers.keys() == {"w1@here"})


async def test_a_hole_is_kept_until_it_is_on_record(rig: CeleryRedisRig) -> None:
    """A connection that is lost before the workers have said how far they are leaves the hole to the next one."""
    past, notes = Past(heard_at=time.time() - 100, workers={"w1@here": Worker(7, 100, time.time() - 100)}), Notes()
    began = past.heard_at
    async with running(CeleryRedisSource(rig.options, past), notes):
        await published(rig, "task.multi", b"1")
        await until(lambda: bool(notes.bodies))
    assert notes.gaps == []
    async with running(CeleryRedisSource(rig.options, past), notes):
        await published(rig, "worker.heartbeat", beat(110))
        await until(lambda: bool(notes.gaps))
    (gap,) = notes.gaps
    assert gap.start == began
    assert 0 < gap.estimate <= 30  # as much of it as the hole has of the time between the heartbeats


async def test_a_lost_connection_is_an_error(rig: CeleryRedisRig) -> None:
    """A connection that the server closes ends the source, retryably, after what had come was handed over."""
    notes = Notes()
    task = asyncio.ensure_future(CeleryRedisSource(rig.options).run(notes))
    await published(rig, "task.multi", b"1")
    for client in await rig.client.client_list():
        if client["name"] == "tasktrail" and int(client["psub"]):
            await rig.client.client_kill_filter(_id=client["id"])
    with pytest.raises(SourceError) as caught:
        async with asyncio.timeout(20):
            await task
    assert caught.value.retryable
    assert notes.bodies == [b"1"]


async def test_results_stored_in_a_hole_are_read_again(rig: CeleryRedisRig) -> None:
    """After a reconnect the results that were stored meanwhile are handed over, and no others."""
    now = time.time()
    for name, at in (("in", now - 5), ("before", now - 500), ("garbage", None)):
        done = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + ".1+00:00" if at else "x"
        body = json.dumps({"status": "SUCCESS", "date_done": done, "task_id": name})
        await rig.client.set(f"{rig.prefix}celery-task-meta-{name}", body)
    notes = Notes()
    async with running(CeleryRedisSource(rig.options, Past(heard_at=now - 10)), notes):
        await until(lambda: bool(notes.bodies))
        await asyncio.sleep(0.2)
    found = [about["key"] for batch in notes.batches if batch.about for about in batch.about]
    assert found == [f"{rig.prefix}celery-task-meta-in"]


async def test_a_restart_is_a_hole_too(rig: CeleryRedisRig) -> None:
    """A new process has only the position: the gap begins there, and what was stored since is handed over."""
    before = Notes()
    async with running(CeleryRedisSource(rig.options), before):
        await published(rig, "worker.heartbeat", beat(100))
        await until(lambda: bool(before.bodies) and bool(before.positions))
    assert before.gaps == []
    heard_at = float(before.positions["celery"])
    assert abs(heard_at - time.time()) < 60
    positions = {"celery": str(heard_at - 10)}
    done = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(heard_at - 5)) + ".1+00:00"
    body = json.dumps({"status": "SUCCESS", "date_done": done, "task_id": "in"})
    await rig.client.set(f"{rig.prefix}celery-task-meta-in", body)
    after = Notes(positions)
    async with running(CeleryRedisSource(rig.options), after):
        await until(lambda: bool(after.gaps) and float(positions["celery"]) >= heard_at)
    (gap,) = after.gaps
    assert (gap.reason, gap.start, gap.estimate) == ("reconnected", heard_at - 10, None)
    found = [about["key"] for batch in after.batches if batch.about for about in batch.about]
    assert found == [f"{rig.prefix}celery-task-meta-in"]


async def test_waiting_and_held_messages_are_looked_at(rig: CeleryRedisRig) -> None:
    """Queues that were declared are found, with their priorities, and a look that finds nothing new is silent."""
    await rig.client.sadd(f"{rig.prefix}_kombu.binding.orders", "orders\x06\x16\x06\x16orders")
    await rig.client.sadd(f"{rig.prefix}_kombu.binding.celeryev", "x\x06\x16\x06\x16celeryev.1")
    await rig.client.rpush(f"{rig.prefix}orders", *[f"m{number}" for number in range(30)])
    await rig.client.rpush(f"{rig.prefix}orders\x06\x166", "p", b"\xff")
    await rig.client.hset(f"{rig.prefix}unacked", "tag", "held")
    notes = Notes()
    async with running(CeleryRedisSource(replace(rig.options, look_seconds=0.05)), notes):
        await until(lambda: len(notes.bodies) >= 3)
        await asyncio.sleep(0.3)
    keys = {about["key"].removeprefix(rig.prefix): json.loads(body) for batch in notes.batches if batch.about
            for about, body in zip(batch.about, batch.bodies, strict=True)}  # fmt: skip
    assert keys == {
        "orders": [f"m{number}" for number in range(10, 30)],
        "orders\x06\x166": ["p", {"b64": "/w=="}],
        "unacked": {"tag": "held"},
    }
    assert len(notes.bodies) == 3


async def test_other_databases_and_prefixes_are_left_alone(redis_url: str) -> None:
    """One database's channels are read, all prefixes of it unless one is named; `*` reads every database."""
    base = CeleryRedisOptions(name="c", address=address_of(redis_url))
    assert base.patterns == ("*/0.celeryev*", "*celery-task-meta-*")
    assert replace(base, database="*").patterns[0] == "*/*.celeryev*"
    assert replace(base, prefix="a*b:", fanout_prefix="", results=False).patterns == ("a\\*b:celeryev*",)
    client = redis.asyncio.Redis.from_url(redis_url)
    notes = Notes()
    async with running(CeleryRedisSource(replace(base, database="3", prefix="only:")), notes):
        await until(lambda: bool(notes.details))
        for channel in ("only:/0.celeryev/x", "/3.celeryev/x", "only:/13.celeryev/x", "only:/3.celeryev/x"):
            await client.publish(channel, channel)
        await until(lambda: bool(notes.bodies))
    assert notes.bodies == [b"only:/3.celeryev/x"]
    await client.aclose()


async def test_results_of_other_databases_are_left_alone(redis_url: str) -> None:
    """Their channels have no number: what counts is whose database has the key."""
    ours = redis.asyncio.Redis.from_url(redis_url)
    theirs = redis.asyncio.Redis.from_url(f"{redis_url.rpartition('/')[0]}/5")
    notes, name = Notes(), f"celery-task-meta-{uuid.uuid4()}"
    async with running(CeleryRedisSource(CeleryRedisOptions(name="c", address=address_of(redis_url))), notes):
        await until(lambda: bool(notes.details))
        await theirs.set(f"{name}5", "{}")
        await theirs.publish(f"{name}5", b"theirs")
        await ours.set(f"{name}0", "{}")
        await ours.publish(f"{name}0", b"ours")
        await until(lambda: b"ours" in notes.bodies)
    assert b"theirs" not in notes.bodies
    await ours.delete(f"{name}0")
    await theirs.delete(f"{name}5")
    await ours.aclose()
    await theirs.aclose()


@pytest.mark.case("K04.1")
async def test_a_listener_that_is_cut_off_says_why(broker: Broker) -> None:
    """An intake that stands still makes the server end the connection in the end; that is an error and then a hole."""
    client = redis.asyncio.Redis.from_url(broker.address)
    await client.config_set("client-output-buffer-limit", "pubsub 1mb 0 0")
    options = CeleryRedisOptions(name="c", address=address_of(broker.address), held=100_000)

    class Still(Notes):
        async def take(self, batch: Any) -> Any:
            if batch.bodies:
                await is_over.wait()
            return await super().take(batch)

    is_over = asyncio.Event()
    notes, past = Still(), Past()
    task = asyncio.ensure_future(CeleryRedisSource(options, past).run(notes))
    body = b"x" * 100_000
    async with asyncio.timeout(30):
        while not await client.publish("/0.celeryev/task.multi", body):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        while await client.publish("/0.celeryev/task.multi", body):
            cut_at = time.time()
    await asyncio.sleep(2)  # it is cut off, and does not know
    is_over.set()
    with pytest.raises(SourceError, match="too much was waiting"):
        async with asyncio.timeout(20):
            await task
    assert notes.bodies
    assert set(notes.bodies) == {body}
    async with running(CeleryRedisSource(options, past), notes):
        await until(lambda: bool(notes.gaps))
    (gap,) = notes.gaps
    assert gap.start < cut_at < gap.end, "what was published until it was cut off is not in the gap"
    await client.aclose()


async def test_a_unix_socket(tmp_path: Path) -> None:
    """A server's unix socket is as good as its port."""
    try:
        made = brokers.launch("redis")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    try:
        client = redis.asyncio.Redis.from_url(made.address)
        path = str(tmp_path / "redis.sock")
        with pytest.raises(SourceError):
            await CeleryRedisSource(
                CeleryRedisOptions(name="c", address=replace(address_of(made.address), path=path))
            ).run(Notes())
        server = await asyncio.start_unix_server(_relay(*made.host_port), path)
        notes = Notes()
        options = CeleryRedisOptions(name="c", address=replace(address_of(made.address), path=path))
        async with running(CeleryRedisSource(options), notes):
            await until(lambda: bool(notes.details))
            await client.publish("/0.celeryev/task.multi", b"1")
            await until(lambda: notes.bodies == [b"1"])
        server.close()
        await client.aclose()
    finally:
        made.stop()


def _relay(host: str, port: int) -> Callable[..., Any]:
    """Connects a unix socket to a port."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    return connected
