"""What a look at 5,000 queues costs: `python -m tests.bench.probes [rabbitmq]`.

CPU of this process and round trips of a look, samples written and all, on the brokers of the tests. At a look every
10 s, 100 ms are 1% of a core. RabbitMQ by passive declares; the management API is one question.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import aio_pika
import redis

from collector.config.settings import Overrides, Settings, override
from collector.model.clock import SystemClock
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.probing import Inventory, Probing
from collector.shell.telemetry import Telemetry
from collector.wiring import probe_urls
from tests import brokers
from tests.proxy import proxied

QUEUES = 5_000
LOOKS = 10
NAMES = [f"queue-{number:04}" for number in range(QUEUES)]


def lists(client: redis.Redis, prefix: str = "") -> None:
    """A list with a message for each queue."""
    pipe = client.pipeline(transaction=False)
    for name in NAMES:
        pipe.lpush(prefix + name, '{"headers":{},"properties":{}}')
    pipe.execute()


def celery(client: redis.Redis) -> None:
    """Queues as kombu has them."""
    lists(client)
    client.sadd("_kombu.binding.celery", *(f"{name}\x06\x16\x06\x16{name}" for name in NAMES))


def rq(client: redis.Redis) -> None:
    """Queues as RQ has them."""
    lists(client, "rq:queue:")
    client.sadd("rq:queues", *(f"rq:queue:{name}" for name in NAMES))


def huey(client: redis.Redis) -> None:
    """Queues as Huey has them."""
    lists(client, "huey.redis.")


REDIS: dict[str, Callable[[redis.Redis], None]] = {"celery": celery, "rq": rq, "huey": huey}


async def spent(url: str) -> tuple[float, int]:
    """CPU milliseconds of a look, the median, and how many queues it tells of."""
    (source,) = override(Settings(), Overrides(sources=(url,))).sources
    made = probe_urls.probe(source)
    assert made is not None
    pipeline = Pipeline(Limits(), [], telemetry=Telemetry())
    probing = Probing(
        source=source.name,
        probe=made,
        inventory=Inventory(source.name, None),
        named=lambda _source: (),
        put=pipeline.store.put,
        unseen=pipeline.unseen,
        telemetry=pipeline.telemetry,
        clock=SystemClock(),
    )
    costs = []
    for _ in range(LOOKS):
        began = time.process_time()
        await probing.look()
        costs.append(time.process_time() - began)
    await made.close()
    queues = {dict(labels)["queue"] for name, labels in probing.live if name == "queue_length"}
    return statistics.median(costs[1:]) * 1000, len(queues)


async def shown(what: str, host: str, port: int, url: str) -> None:
    """A line; the first look connects, and is left out of the median."""
    async with proxied(host, port) as link:
        await spent(url.format(port=link.port))
        trips = link.turns / LOOKS
    cost, queues = await spent(url.format(port=port))  # without the link, which costs more than the probe
    print(f"{what}: {queues:,} queues, {cost:.0f} ms CPU a look, {trips:.0f} round trips")


async def on_rabbitmq() -> None:
    """Queues that are declared for an hour."""
    url = brokers.start_rabbitmq()
    parts = urlsplit(url)
    connection = await aio_pika.connect(url)
    channels = [await connection.channel() for _ in range(50)]

    async def declare(number: int) -> None:
        for name in NAMES[number :: len(channels)]:
            await channels[number].declare_queue(name, arguments={"x-expires": 3_600_000})

    await asyncio.gather(*map(declare, range(len(channels))))
    named = f"celery+amqp://guest:guest@127.0.0.1:{{port}}/?queues={','.join(NAMES)}"
    await shown("RabbitMQ, passive declares", str(parts.hostname), parts.port or 5672, named)
    await connection.close()


async def main(arguments: list[str]) -> None:
    """All on Redis, and on RabbitMQ where it is asked for."""
    parts = urlsplit(brokers.start_redis())
    client = redis.Redis(port=parts.port or 6379)
    for name, fill in REDIS.items():
        client.flushdb()
        fill(client)
        await shown(f"{name} on Redis", "127.0.0.1", parts.port or 6379, f"{name}+redis://127.0.0.1:{{port}}/0")
    if "rabbitmq" in arguments:
        await on_rabbitmq()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
