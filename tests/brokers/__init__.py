"""Real brokers for the tests and for people: Apache Kafka 4, Redis and RabbitMQ, as plain processes on loopback.

By hand: `python -m tests.brokers up`, `down`, or `run -- COMMAND`. From a test: the fixtures `kafka`, `redis_url` and
`rabbitmq_url` of `tests/conftest.py`. From a script: `start_kafka()`, `start_redis()`, `start_rabbitmq()`, each of
which starts its broker once per process and gives the same address afterwards; all end with the process.

A broker that is named by TASKTRAIL_TEST_KAFKA (host:port), TASKTRAIL_TEST_REDIS or TASKTRAIL_TEST_RABBITMQ (URLs) is
used as it is. What is missing is installed where that is possible. What cannot run raises `Unavailable` with the
reason. Ports are always free ones and data always lies in a temporary folder, so that several runs live side by side.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

from tests.brokers import kafka, rabbitmq, redis_server
from tests.brokers.process import Broker, Unavailable

__all__ = [
    "ENVIRONMENT",
    "KINDS",
    "Broker",
    "Unavailable",
    "control_rabbitmq",
    "launch",
    "pause_rabbitmq",
    "start_kafka",
    "start_rabbitmq",
    "start_redis",
    "stop_all",
    "used",
]

KINDS: dict[str, Callable[[bool], Broker]] = {
    "kafka": kafka.launch,
    "redis": redis_server.launch,
    "rabbitmq": rabbitmq.launch,
}
ENVIRONMENT = {kind: f"TASKTRAIL_TEST_{kind.upper()}" for kind in KINDS}
_NAMES: dict[str, Callable[[str], str]] = {
    "kafka": kafka.name_of,
    "redis": redis_server.name_of,
    "rabbitmq": rabbitmq.name_of,
}

_shared: dict[str, Broker] = {}
_refused: dict[str, Unavailable] = {}


def launch(kind: str, *, detached: bool = False) -> Broker:
    """A broker of one's own, to be paused or killed at will. Ends with this process unless `detached`."""
    return KINDS[kind](detached)


def start_kafka() -> str:
    """The shared Kafka's bootstrap address, `host:port`."""
    return _start("kafka").address


def start_redis() -> str:
    """The shared Redis' URL, `redis://host:port/0`."""
    return _start("redis").address


def start_rabbitmq() -> str:
    """The shared RabbitMQ's URL, `amqp://guest:guest@host:port/`."""
    return _start("rabbitmq").address


def control_rabbitmq(*words: str) -> str:
    """What `rabbitmqctl` prints for the shared RabbitMQ. Unavailable where it was not started here."""
    return rabbitmq.control(_start("rabbitmq"), *words)


def pause_rabbitmq() -> Callable[[], None]:
    """Make the shared RabbitMQ deaf; gives what ends that."""
    broker = _start("rabbitmq")
    if not broker.pids:
        raise Unavailable("only a node that the tests have started can be paused")
    broker.pause()
    return broker.resume


def used() -> list[str]:
    """One line per broker that this process used, or could not use."""
    lines = [f"{broker.name} at {broker.address}" for broker in _shared.values()]
    return lines + [f"no {kind}: {why}" for kind, why in _refused.items()]


def stop_all() -> None:
    """End the shared brokers that this process started."""
    while _shared:
        _shared.popitem()[1].stop()


def _start(kind: str) -> Broker:
    if kind in _refused:
        raise _refused[kind]
    if kind not in _shared:
        variable = ENVIRONMENT[kind]
        try:
            if named := os.environ.get(variable):
                _shared[kind] = Broker(f"{_NAMES[kind](named)} (named by {variable})", named)
            else:
                _shared[kind] = launch(kind)
        except Unavailable as why:
            _refused[kind] = why
            raise
    return _shared[kind]


atexit.register(stop_all)
