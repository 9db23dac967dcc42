"""The brokers that are redriven on: from a target's URL to what writes there. A row for each scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from collector.config.source_urls import SourceUrl
from collector.deadletter.redrive import Kind
from collector.model.clock import SystemClock
from collector.redrive.kafka import KafkaRedrive
from collector.redrive.message import Broker
from collector.redrive.rabbitmq import RabbitRedrive
from collector.redrive.redis_jobs import DRAMATIQ, RQ
from collector.redrive.redis_server import RedisRedrive
from collector.redrive.redis_stream import STREAM
from collector.sources import amqp_wire, kafka_client, redis_wire
from collector.wiring import clients

KINDS: Mapping[str, Kind] = {
    "kafka": "kafka",
    "redis-stream": "redis-stream",
    "amqp": "rabbitmq",
    "amqps": "rabbitmq",
    "dramatiq+redis": "dramatiq",
    "dramatiq+rediss": "dramatiq",
    "rq+redis": "rq",
    "rq+rediss": "rq",
}
"""Scheme → kind of place that is redriven over it."""


def redriven_on(url: SourceUrl) -> Broker:
    """What writes to the broker that a target names."""
    return _BROKERS[KINDS[url.scheme]](url)


def _kafka(url: SourceUrl) -> Broker:
    found = clients.kafka_options(url)
    return KafkaRedrive(
        lambda: kafka_client.build(found),
        lambda name: kafka_client.producer(found, name),
        lambda: kafka_client.admin(found),
    )


def _stream(url: SourceUrl) -> Broker:
    address = clients.redis_address(url)
    return RedisRedrive(lambda: redis_wire.connect(address), STREAM, SystemClock())


def _dramatiq(url: SourceUrl) -> Broker:
    address = clients.redis_address(url)
    return RedisRedrive(lambda: redis_wire.connect(address), DRAMATIQ, SystemClock())


def _rq(url: SourceUrl) -> Broker:
    address = clients.redis_address(url)
    return RedisRedrive(lambda: redis_wire.connect(address), RQ, SystemClock())


def _rabbitmq(url: SourceUrl) -> Broker:
    vhost = url.path[:-2]
    return RabbitRedrive(_Wire(clients.amqp_address(url, vhost[0] if vhost else "/")))


class _Wire:
    """A RabbitMQ; fits `collector.redrive.rabbitmq.Wire`."""

    def __init__(self, address: amqp_wire.AmqpAddress) -> None:
        self._address = address

    async def connect(self) -> Any:
        return await amqp_wire.connect(self._address)

    async def channel(self, connection: Any) -> Any:
        return await amqp_wire.channel(connection, self._address, confirms=True)

    def spoken(self, doing: str, used: Any = None) -> AbstractContextManager[None]:
        return amqp_wire.spoken(self._address, doing, used)

    async def close(self, connection: Any) -> None:
        await amqp_wire.close(connection)


_BROKERS: Mapping[Kind, Callable[[SourceUrl], Broker]] = {
    "kafka": _kafka,
    "redis-stream": _stream,
    "rabbitmq": _rabbitmq,
    "dramatiq": _dramatiq,
    "rq": _rq,
}
