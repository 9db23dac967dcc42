"""Redrive on the real RabbitMQ and Redis, of what really died there or lies there as the frameworks write it.

TASKTRAIL_REDRIVEN: how many messages of each, and then on both kinds of RabbitMQ's queues; 200 unless told otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aio_pika
import pytest
import redis

from collector.model.redrive import HEADER, mark_of
from tests import brokers
from tests.frameworks import journal, venvs
from tests.integration.live import Daemon
from tests.integration.redrive_rig import Redrive

COUNT = int(os.environ.get("TASKTRAIL_REDRIVEN", "200"))
KINDS = ("classic", "quorum") if "TASKTRAIL_REDRIVEN" in os.environ else ("quorum",)
PATIENCE = 90.0
JOBS = Path(journal.__file__).parent
TASKS = "tasks:\n- {match: '*', semantics: must_complete, owner: shop}\n"


def seen(daemon: Daemon) -> int:
    """How many records there are."""
    return sum(one["total"] for one in daemon.json("/api/dead-letters?by=fingerprint").get("causes", []))


def is_open(daemon: Daemon) -> float:
    """What rules read."""
    return sum(value for _, value in daemon.metrics().get("dead_letters_open", []))


def body(number: int) -> bytes:
    """A message of Celery's; what is no ASCII must come through, too."""
    return json.dumps([[number, "ü" * (number % 7)], {}, {"chain": None}], ensure_ascii=False).encode()


class Rabbit:
    """A queue whose rejected messages go over an exchange to a dead-letter queue of some type."""

    def __init__(self, url: str, kind: str) -> None:
        self.url = url
        self.name = f"orders{uuid.uuid4().hex[:8]}"
        self.kind = kind

    async def bury(self) -> None:
        """Send all, and reject all."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            await channel.set_qos(prefetch_count=500)
            exchange = await channel.get_exchange(f"{self.name}.dlx")
            dead = await channel.declare_queue(f"{self.name}.dead", durable=True, arguments={"x-queue-type": self.kind})
            await dead.bind(exchange, "#")
            settings = {"x-dead-letter-exchange": exchange.name, "x-queue-type": self.kind}
            queue = await channel.declare_queue(self.name, durable=True, arguments=settings)
            for number in range(COUNT):
                headers = {"id": f"{self.name}-{number}", "task": "shop.bill", "lang": "py", "n": number, "f": 0.5}
                message = aio_pika.Message(body(number), headers=headers, correlation_id=f"{self.name}-{number}",
                                           content_type="application/json", priority=3)  # fmt: skip
                await channel.default_exchange.publish(message, self.name)
            async with queue.iterator() as messages:
                left = COUNT
                async for message in messages:
                    await message.reject(requeue=False)
                    left -= 1
                    if not left:
                        break

    async def exchange(self) -> None:
        """Before anything: what the daemon listens to."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            await channel.declare_exchange(f"{self.name}.dlx", "topic", durable=True)

    async def lengths(self) -> tuple[int, int]:
        """How many wait, and how many are dead."""
        connection = await aio_pika.connect(self.url)
        async with connection, connection.channel() as channel:
            found = [await channel.get_queue(name, ensure=False) for name in (self.name, f"{self.name}.dead")]
            declared = [await channel.declare_queue(one.name, passive=True) for one in found]
            return tuple(one.declaration_result.message_count for one in declared)

    async def taken(self, name: str) -> list[Any]:
        """All that waits in a queue, acknowledged."""
        connection = await aio_pika.connect(self.url)
        found = []
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue(name, passive=True)
            while (message := await queue.get(fail=False)) is not None:
                await message.ack()
                found.append(message)
        return found


@pytest.mark.rabbitmq
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rabbitmq_gets_its_messages_back_though_the_command_is_killed(
    kind: str, rabbitmq_url: str, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """Each at least once under its id, byte for byte, in the queue in which it died; the ledger is complete."""
    rabbit = Rabbit(rabbitmq_url, kind)
    asyncio.run(rabbit.exchange())
    daemon = run("--source", f"celery+{rabbitmq_url}?dead_letter_exchange={rabbit.name}.dlx")
    reads = lambda: f"reads exchange {rabbit.name}.dlx" in daemon.source("celery")["detail"]  # noqa: E731
    daemon.wait(reads, PATIENCE, "the exchange is not read")
    asyncio.run(rabbit.bury())
    daemon.wait(lambda: seen(daemon) == COUNT, PATIENCE, "not all are on record")
    records = daemon.dead_letters()
    assert {(one["origin"]["queue"], one["origin"]["reason"]) for one in records} == {(rabbit.name, "rejected")}
    made = Redrive(daemon, f"{rabbitmq_url}queue/{rabbit.name}", tmp_path)
    which = ("--state", "unresolved", "--from", f"{rabbit.name}.dead")
    assert made.run(*which, "--dry-run")["sent"] == COUNT
    daemon.wait(lambda: asyncio.run(rabbit.lengths()) == (0, COUNT), PATIENCE, "a dry run has moved something")
    made.killed(*which, "--canary", "0s")
    last = made.run(*which, "--canary", "0s")
    assert last["refused"] == {}
    assert made.counts() == (COUNT, 0)
    found = asyncio.run(rabbit.taken(rabbit.name))
    names = Counter(message.headers["id"] for message in found)
    assert set(names) == {f"{rabbit.name}-{number}" for number in range(COUNT)}
    assert sum(names.values()) - COUNT <= 100  # of what was under way when it was killed
    for message in found:
        number = message.headers["n"]
        assert (message.body, message.priority, message.content_type) == (body(number), 3, "application/json")
        assert (message.headers["f"], message.headers["x-first-death-queue"]) == (0.5, rabbit.name)
        mark = mark_of(message.headers[HEADER])
        assert (mark.number, mark.task_id) == (1, message.headers["id"])


@pytest.fixture
def server() -> Iterator[str]:
    """A Redis of its own; its address."""
    try:
        broker = brokers.launch("redis")
    except brokers.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(str(why))
        pytest.skip(str(why))
    yield broker.address
    broker.stop()


def python(name: str, requirements: list[str]) -> list[str]:
    """How the framework's own interpreter is called; without it a skip, in CI a failure."""
    try:
        return [venvs.python(name, *requirements)]
    except brokers.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(str(why))
        pytest.skip(str(why))


def environment(url: str, folder: Path) -> dict[str, str]:
    """What the jobs of `tests/frameworks` read."""
    return {
        **os.environ,
        "JOURNAL": str(folder / "journal"),
        "PYTHONPATH": str(JOBS),
        "JOBS_URL": url,
        "JOBS_QUEUE": "work",
        "WORKER": "w1",
    }


def stamp(at: float) -> str:
    """As RQ writes times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fail_in_rq(client: Any, job_id: str, now: float, queue: str) -> None:
    """A job as RQ leaves it in its failed registry."""
    client.hset(
        f"rq:job:{job_id}",
        mapping={
            "created_at": stamp(now - 3),
            "data": zlib.compress(b"\x80\x04not a pickle that may be read"),
            "origin": queue,
            "description": "shop.bill()",
            "enqueued_at": stamp(now - 3),
            "started_at": stamp(now - 2),
            "ended_at": stamp(now - 1),
            "timeout": 180,
            "status": "failed",
            "worker_name": "w0",
        },
    )
    text = 'Traceback (most recent call last):\n  File "shop.py", line 3, in bill\n    x()\nKeyError: 7\n'
    result = {
        "type": 2,
        "worker_name": "w0",
        "execution_id": uuid.uuid4().hex,
        "execution_started_at": now - 2,
        "execution_ended_at": now - 1,
        "exc_string": base64.b64encode(zlib.compress(text.encode())).decode(),
    }
    client.xadd(f"rq:results:{job_id}", result)
    client.zadd(f"rq:failed:{queue}", {job_id: int(now) + 31_536_000})


def dead_in_dramatiq(number: int, now: float, actor: str, queue: str) -> tuple[str, bytes]:
    """An id in Redis, and a message as Dramatiq leaves it in its dead-letter queue."""
    identity = str(uuid.uuid4())
    message = {
        "queue_name": queue,
        "actor_name": actor,
        "args": [],
        "kwargs": {},
        "options": {"redis_message_id": identity, "retries": 1, "big": 12345678901234567890, "none": []},
        "message_id": f"m-{queue}-{number}",
        "message_timestamp": int(now * 1000) - 3000,
    }
    return identity, json.dumps(message, separators=(",", ":")).encode()


class Jobs:
    """What is dead in one Redis: of RQ a job that really failed, all else as the frameworks write it."""

    def __init__(self, server: str, folder: Path) -> None:
        self.server = server
        self.client = redis.Redis.from_url(server, decode_responses=False)
        self.settings = environment(server, folder)
        self.folder = folder
        self.rq = python("rq-3.0.0", ["rq==3.0.0"])
        self.dramatiq = python("dramatiq-redis-2.2.1", ["dramatiq[redis]==2.2.1"])
        self.messages: dict[str, bytes] = {}

    def bury(self) -> None:
        """All of it."""
        put = f"j.Queue('real', connection=j.Redis.from_url({self.server!r})).enqueue(j.flaky, 1)"
        self.call("-c", f"import rq_jobs as j; {put}")
        self.work_rq()
        assert self.client.zcard("rq:failed:real") == 1
        self.client.sadd("rq:queues", "rq:queue:work")
        now = time.time()
        for number in range(COUNT):
            fail_in_rq(self.client, f"job-{number}", now, "work")
            self.die(number, now, "bill", "bills")
            more = {"original_id": f"1-{number}", "original_stream": "orders", "error": f"KeyError: {number}"}
            self.client.xadd("orders:dead", {"type": "order", "id": f"o{number}", **more})
        self.die(COUNT, now, "pack", "work")

    def die(self, number: int, now: float, actor: str, queue: str) -> None:
        """One of Dramatiq's."""
        identity, message = dead_in_dramatiq(number, now, actor, queue)
        self.messages[f"m-{queue}-{number}"] = message
        self.client.zadd(f"dramatiq:{queue}.XQ", {identity: int(now * 1000)})
        self.client.hset(f"dramatiq:{queue}.XQ.msgs", identity, message)

    def call(self, *words: str) -> None:
        """RQ's interpreter."""
        subprocess.run([*self.rq, *words], env=self.settings, check=True, timeout=PATIENCE, capture_output=True)

    def work_rq(self) -> None:
        """A real worker does what waits."""
        self.call("-m", "rq.cli", "worker", "--url", self.server, "--burst", "real")

    def work_dramatiq(self, daemon: Daemon) -> None:
        """A real worker does the one that waits, and does not bury it again."""
        process = subprocess.Popen(
            [*self.dramatiq, "-m", "dramatiq", "dramatiq_redis_jobs", "-p", "1", "-t", "1"],
            env=self.settings, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            daemon.wait(lambda: self.client.hlen("dramatiq:work.msgs") == 0, PATIENCE, "the worker does not do it")
            assert self.client.zcard("dramatiq:work.XQ") == 0
        finally:
            process.terminate()
            process.wait(30)

    def check_rq(self) -> None:
        """Each waits once, as `rq requeue` leaves it; the real one is done by a worker."""
        client = self.client
        assert Counter(client.lrange("rq:queue:work", 0, -1)) == Counter(b"job-%d" % n for n in range(COUNT))
        assert client.zcard("rq:failed:work") == 0
        left = client.hgetall("rq:job:job-0")
        mark = mark_of(left.pop(HEADER.encode()).decode())
        assert (mark.number, mark.task_id, left[b"status"], left[b"started_at"]) == (1, "job-0", b"queued", b"")
        assert left[b"data"] == zlib.compress(b"\x80\x04not a pickle that may be read")
        self.work_rq()
        assert (client.zcard("rq:failed:real"), client.zcard("rq:finished:real")) == (0, 1)

    def check_dramatiq(self) -> None:
        """Each waits once, with all but its id in Redis and the mark byte for byte as it was."""
        client = self.client
        assert client.exists("dramatiq:bills.XQ", "dramatiq:bills.XQ.msgs") == 0
        messages = client.hgetall("dramatiq:bills.msgs")
        assert Counter(client.lrange("dramatiq:bills", 0, -1)) == Counter(messages.keys())
        found = {json.loads(value)["message_id"]: (name.decode(), value) for name, value in messages.items()}
        assert len(found) == COUNT
        for name, (identity, value) in found.items():
            options = json.loads(value)["options"]
            mark = mark_of(options[HEADER])
            assert (options["redis_message_id"], mark.number, mark.task_id) == (identity, 1, name)
            before = self.messages[name]
            old = json.loads(before)["options"]["redis_message_id"]
            more = json.dumps({HEADER: options[HEADER]}, separators=(",", ":"))[1:-1].encode()
            assert value.replace(b"," + more, b"").replace(identity.encode(), old.encode()) == before


@pytest.mark.redis
@pytest.mark.slow
def test_what_died_in_redis_is_on_record_once_and_goes_back(
    server: str, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """Of RQ, Dramatiq and a stream, over `kill -9`; a killed redrive sends none twice, and real workers take them."""
    jobs = Jobs(server, tmp_path)
    jobs.bury()
    (tmp_path / "tasks.yaml").write_text(TASKS)
    rq, dramatiq, stream = (server.replace("redis", name, 1) for name in ("rq+redis", "dramatiq+redis", "redis-stream"))
    sources = (f"{rq}?poll=300ms", f"{dramatiq}?poll=300ms", f"{stream}/orders,orders:dead?format=messages")
    arguments = [word for source in sources for word in ("--source", source)]
    arguments += ["--tasks", str(tmp_path / "tasks.yaml"), "--state", str(tmp_path / "state")]
    daemon = run(*arguments)
    total = 3 * COUNT + 2
    daemon.wait(lambda: seen(daemon) == total, PATIENCE, "not all are on record")
    daemon.process.kill()
    daemon.process.wait()
    daemon = run(*arguments)
    daemon.wait(lambda: seen(daemon) == total, PATIENCE, "a record was lost")
    daemon.wait(lambda: is_open(daemon) == total, PATIENCE, "records and counts differ")
    lines = daemon.ask("/api/dead-letters/export?format=ndjson")[1].splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all(one["receipt"] == one["task_id"] for one in records if one["place"].startswith("rq:"))
    assert Counter((one["place"], one["error"], one["owner"]) for one in records) == Counter(
        {
            ("rq:failed:work", "KeyError", "shop"): COUNT,
            ("rq:failed:real", "ConnectionError", "shop"): 1,
            ("dramatiq:bills.XQ.msgs", "", "shop"): COUNT,
            ("dramatiq:work.XQ.msgs", "", "shop"): 1,
            ("orders:dead", "KeyError", "shop"): COUNT,
        }
    )
    made = Redrive(daemon, f"{rq}/work,real", tmp_path)
    which = ("--state", "unresolved", "--canary", "0s", "--source")
    assert made.run(*which, "rq*", "--dry-run")["sent"] == COUNT + 1
    made.killed(*which, "rq*")
    assert made.run(*which, "rq*")["refused"] == {}
    jobs.check_rq()
    made = Redrive(daemon, f"{dramatiq}/work,bills", tmp_path)
    made.killed(*which, "dramatiq*")
    assert made.run(*which, "dramatiq*")["refused"] == {}
    jobs.check_dramatiq()
    jobs.work_dramatiq(daemon)
    assert made.counts() == (total, COUNT)
