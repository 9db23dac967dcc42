"""From a configured source to its probe: which framework's queues are asked for, as one table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from aiokafka import AIOKafkaConsumer

from collector.config.source_urls import SourceUrl
from collector.documents.scalars import parse_duration
from collector.model.secret import Secret
from collector.probes import rabbitmq, streams
from collector.probes.arq import ArqQueues
from collector.probes.bullmq import BullmqQueues
from collector.probes.celery import CeleryQueues
from collector.probes.dramatiq import DramatiqQueues
from collector.probes.huey import HueyQueues
from collector.probes.kafka import KafkaClients, LagProbe
from collector.probes.kafka_keeping import KafkaKeeping
from collector.probes.reading import Probe
from collector.probes.redis import Kind, RedisProbe
from collector.probes.rq import RqQueues
from collector.probes.saq import SaqQueues
from collector.shell.probing import EVERY
from collector.sources import kafka_client, kafka_records
from collector.sources.amqp_depths import Depths
from collector.sources.kafka_client import KafkaOptions
from collector.sources.redis_wire import connect
from collector.wiring.clients import amqp_address, kafka_options, listed, redis_address

PEEK_BYTES = 65_536
"""Of a partition, in one answer: what lies behind an offset is looked at, not read."""
_TASKIQ = ("taskiq",)


def _prefix(url: SourceUrl) -> str:
    return url.options.get("prefix", "")


REDIS: dict[str, Callable[[SourceUrl], Kind]] = {
    "celery": lambda url: CeleryQueues(url.options.get("global_keyprefix"), listed(url, "queues")),
    "rq": lambda url: RqQueues(_prefix(url), url.items),
    "bullmq": lambda url: BullmqQueues(_prefix(url), () if "*" in url.items else url.items),
    "dramatiq": lambda url: DramatiqQueues(_prefix(url), url.items),
    "arq": lambda url: ArqQueues(url.items),
    "saq": lambda url: SaqQueues(url.items),
    "huey": lambda url: HueyQueues(url.items),
    "taskiq": lambda url: streams.Streams(url.items or _TASKIQ),
    "streaq": lambda _url: streams.streaq(),
    "redis-stream": lambda url: streams.Streams(url.items),
}
"""Scheme, up to its `+`, of a source on Redis → what its queues are made of."""


def _rabbitmq(url: SourceUrl, framework: str) -> Probe | None:
    """By the management API where it is named, else by name; an exchange has no queue but ours."""
    place, beside = (rabbitmq.dramatiq, ".DQ") if framework == "dramatiq" else (rabbitmq.plain, "")
    vhost = url.path[0] if url.path else "/"
    queues = listed(url, "queues")
    if framework.startswith("amqp"):
        *vhosts, what, name = url.path
        if what == "exchange":
            return None
        vhost, queues = (vhosts[0] if vhosts else "/"), (name,)
    address = amqp_address(url, vhost)
    if management := url.options.get("management"):
        login = (address.username, address.password or Secret("guest"))
        return rabbitmq.ManagementProbe(management, vhost, login, place)
    return rabbitmq.DeclaredProbe(Depths(address), queues, place, beside)


def _kafka(options: KafkaOptions) -> KafkaClients:
    def consumer() -> AIOKafkaConsumer:
        made = kafka_client.build(options, PEEK_BYTES)
        kafka_records.keep_from_creating_topics(made)
        return made

    return KafkaClients(partial(kafka_client.admin, options), consumer, kafka_client.close)


def every(url: SourceUrl) -> float:
    """Seconds between two looks; 0: never."""
    given = url.options.get("probe_every")
    return EVERY if given is None else parse_duration(given)


def probe(url: SourceUrl) -> Probe | None:
    """The probe of a source; None where there is nothing to ask, or it is switched off."""
    framework, _, broker = url.scheme.partition("+")
    if every(url) <= 0:
        return None
    if framework in REDIS and (broker.startswith("redis") or framework == "redis-stream"):
        address = msgspec.structs.replace(redis_address(url), name="tasktrail.probe")
        return RedisProbe(REDIS[framework](url), partial(connect, address))
    if framework == "kafka":
        options = kafka_options(url)
        return LagProbe(_kafka(options), options.topics, options.pattern, options.groups)
    if "amqp" in url.scheme:
        return _rabbitmq(url, framework)
    return None


def keeping(url: SourceUrl) -> KafkaKeeping | None:
    """Whom to ask how long dead letters are kept; None where nobody knows, or probes are switched off."""
    return KafkaKeeping(_kafka(kafka_options(url))) if url.scheme == "kafka" and every(url) > 0 else None
