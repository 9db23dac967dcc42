"""Fixtures that all tests share: real brokers, started when the first test asks for one."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import brokers


def _ask(start: Callable[[], str]) -> str:
    """The broker's address; without the broker a skip, or where CI=true a failure."""
    try:
        return start()
    except brokers.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run against real brokers: {why}", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What a command makes of logging ends with the test that ran it in this process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name in ("tasktrail", "aiokafka"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def kafka() -> str:
    """Bootstrap address of a real Kafka, `host:port`. Topics are shared: a test makes its own names."""
    return _ask(brokers.start_kafka)


@pytest.fixture(scope="session")
def apache(kafka: str) -> str:
    """The same, where it has what only the real one has: times, transactions, retention, groups."""
    if any(line.startswith("tansu") for line in brokers.used()):
        pytest.skip("tansu lacks look-up by time, transactions, deletion of records, new partitions, lags of groups")
    return kafka


@pytest.fixture(scope="session")
def redis_url() -> str:
    """URL of a real Redis, `redis://host:port/0`. Keys are shared: a test makes its own names."""
    return _ask(brokers.start_redis)


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """URL of a real RabbitMQ, `amqp://guest:guest@host:port/`."""
    return _ask(brokers.start_rabbitmq)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first which brokers it used."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["brokers"] = brokers.used()


class _Workers:
    """What the processes of a parallel run said of their brokers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.lines += getattr(node, "workeroutput", {}).get("brokers", [])


_workers = _Workers()


CORE = (
    "collector.formats.celery_envelope",
    "collector.formats.celery_events",
    "collector.sources.redis_messages",
    "collector.trail.flat",
)
"""What may be compiled; another test compares it with what is."""


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes are named by their argument: what each process packs anew (gzip writes the hour) has no fixed name."""
    return argname if isinstance(val, bytes) and len(val) > 24 else None


def pytest_configure(config: pytest.Config) -> None:
    """Listen to the processes of a parallel run; refuse to test a core that is older than its source."""
    config.pluginmanager.register(_workers)
    for name in CORE:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent / (name.rpartition(".")[2] + ".py")
        if Path(spec.origin).stat().st_mtime < source.stat().st_mtime:
            pytest.exit(f"{spec.origin} is older than {source}: `make check` compiles it anew", returncode=4)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which brokers the run used."""
    lines = brokers.used() + _workers.lines
    terminalreporter.write_line(f"brokers: {'; '.join(lines) if lines else 'none was asked for'}")


def pytest_unconfigure() -> None:
    """End the brokers that this run started."""
    brokers.stop_all()
