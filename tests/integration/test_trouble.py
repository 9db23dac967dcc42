"""A source's broker dies and comes back: nothing resolves on missing data, it is said, and the counts stay exact."""

# ruff: noqa: D102 - the two rigs have one form
from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests import brokers
from tests.brokers import install
from tests.brokers import kafka as kafka_broker
from tests.brokers.process import Broker
from tests.contract_suites.rigs import create_topic
from tests.integration.live import Daemon, Hook, command_of, died, ndjson, produce, revive

pytestmark = pytest.mark.slow
RULES = """
groups:
  - name: trouble
    interval: 1s
    rules:
      - alert: SourceBlind
        expr: tasktrail_source_up == 0
      - alert: Failing
        expr: sum by (task) (increase(task_failed_total[20s])) > 0
"""


class Kafka:
    """A Kafka of one's own that can be killed and started again."""

    scheme = "kafka"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.command = command_of(broker)
        self.topic = f"t{uuid.uuid4().hex[:12]}"
        asyncio.run(create_topic(broker.address, self.topic, 2, flush_messages="1"))
        self.url = f"kafka://{broker.address}/{self.topic}"

    def write(self, task_id: str) -> None:
        records = [(ndjson([event]), 0) for event in died(task_id)]
        asyncio.run(produce(self.broker.address, self.topic, records))

    def start(self) -> None:
        revive(self.broker, self.command, lambda: kafka_broker.answers(*self.broker.host_port))


class Redis:
    """A Redis of one's own that keeps what it has on disk."""

    scheme = "redis-stream"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.command = [
            install.apt("redis-server", "redis-server"),
            "--port",
            str(broker.host_port[1]),
            "--bind",
            "127.0.0.1",
        ]
        self.command += ["--dir", broker.folder, "--appendonly", "yes", "--appendfsync", "always"]
        self.stream = f"s{uuid.uuid4().hex[:12]}"
        self.url = f"{broker.address.replace('redis://', 'redis-stream://')}/{self.stream}"
        with redis.Redis.from_url(broker.address) as client:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "always")

    def write(self, task_id: str) -> None:
        with redis.Redis.from_url(self.broker.address) as client:
            for event in died(task_id):
                client.xadd(self.stream, {"data": ndjson([event])})

    def start(self) -> None:
        revive(self.broker, self.command, self._answers)

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.broker.address) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@pytest.fixture(
    params=[
        pytest.param(("kafka", Kafka), id="kafka", marks=pytest.mark.kafka),
        pytest.param(("redis", Redis), id="redis", marks=pytest.mark.redis),
    ]
)
def mortal(request: pytest.FixtureRequest) -> Iterator[Kafka | Redis]:
    """A broker that a test may kill."""
    kind, rig = request.param
    try:
        broker = brokers.launch(kind)
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    try:
        yield rig(broker)
    finally:
        broker.stop()


@pytest.mark.case("K01.2")
def test_a_broker_dies_and_comes_back(
    run: Callable[..., Daemon], mortal: Kafka | Redis, told: Hook, tmp_path: Path
) -> None:
    """While the broker is away SourceBlind fires and nothing resolves; afterwards everything is counted, once."""
    (tmp_path / "rules.yaml").write_text(RULES)
    daemon = run("--source", mortal.url, "--rules", "rules.yaml", "--notify", told.url)
    daemon.wait(lambda: daemon.source(mortal.scheme)["up"], 60, "the source does not come up")
    daemon.wait(lambda: not daemon.firing("SourceBlind"), 60, "the source is said to be down")
    mortal.write("before")
    daemon.wait(lambda: bool(daemon.firing("Failing")), 60, "the failure does not alert")
    mortal.broker.kill()

    daemon.wait(lambda: bool(daemon.firing("SourceBlind")), 60, "nobody says that the source is down")
    status, _ = daemon.ask("/api/sources")
    source = daemon.source(mortal.scheme)
    assert status == 503
    assert (source["up"], bool(source["error"])) == (False, True)
    assert ({"source": source["name"]}, 0.0) in daemon.metrics()["tasktrail_source_up"]
    daemon.wait(lambda: [one["blind"] for one in daemon.firing("Failing")] == [True], 5, "it is not kept as blind")
    assert daemon.ask("/-/healthy")[0] == 200, "a broker's outage must not restart the monitor"

    mortal.start()
    daemon.wait(lambda: daemon.source(mortal.scheme)["up"], 90, "the source does not come back")
    mortal.write("after")
    daemon.wait(lambda: daemon.source(mortal.scheme)["events"]["accepted"] >= 6, 30, "the rest is not read")
    daemon.wait(lambda: not daemon.firing("SourceBlind"), 20, "SourceBlind does not end")
    assert daemon.ask("/api/sources")[0] == 200
    source = daemon.source(mortal.scheme)
    assert source["events"] == {"read": 6, "accepted": 6, "duplicate": 0, "malformed": 0, "ignored": 0}
    assert source["gaps"] == []
    failed = sum(value for labels, value in daemon.metrics()["task_failed_total"] if labels["task"] == "pay.settle")
    assert failed == 2
    daemon.wait(lambda: any(one["status"] == "resolved" for one in told.alerts), 40, "the end is not told")
    ended = [one for one in told.alerts if one["labels"]["alertname"] == "Failing" and one["status"] == "resolved"]
    assert len({one["startsAt"] for one in ended}) <= 1, "the failure was told as ended while nothing was seen"
