"""The end of the daemon: exit 0 within 10 s whatever else is broken, and what was counted is told first."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from collector.bench.load import messages
from tests import brokers
from tests.brokers.process import Broker
from tests.contract_suites.rigs import create_topic
from tests.integration.live import Daemon, Hook, died, hook, ndjson, produce

pytestmark = pytest.mark.slow
LIMIT = 10.0
Run = Callable[..., Daemon]


@pytest.fixture
def doomed_kafka() -> Iterator[Broker]:
    """A Kafka of one's own, to be killed."""
    try:
        broker = brokers.launch("kafka")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


def stops(daemon: Daemon) -> None:
    """SIGTERM: exit 0, in time, without a traceback."""
    code, seconds = daemon.stop()
    assert code == 0, daemon.log[-3000:]
    assert seconds < LIMIT, daemon.log[-3000:]
    assert "Traceback" not in daemon.log


@pytest.mark.case("K17.1")
@pytest.mark.kafka
def test_while_it_reads_a_backlog(run: Run, told: Hook, kafka: str) -> None:
    """It stops in the middle of a backlog that it walks along."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(kafka, topic, 4))
    load = messages(150_000, time.time())
    asyncio.run(produce(kafka, topic, [(body, number % 4) for number, body in enumerate(load)]))
    daemon = run("--source", f"kafka://{kafka}/{topic}", "--notify", told.url)
    daemon.wait(lambda: daemon.source("kafka")["events"]["read"] > 0, 20, "nothing is read")
    read = daemon.source("kafka")["events"]["read"]
    stops(daemon)
    assert 0 < read < len(load), "the backlog was no backlog"


def test_while_it_is_pushed_to(run: Run, told: Hook) -> None:
    """It stops while workers go on pushing; a push is answered, or refused, but never half counted."""
    daemon = run("--notify", told.url)
    over = threading.Event()
    answers: list[int] = []

    def push() -> None:
        while not over.is_set():
            answers.append(daemon.ask("/v1/events", ndjson(died(uuid.uuid4().hex)))[0])

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        daemon.wait(lambda: len(answers) > 50, 20, "pushes are not answered")
        stops(daemon)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(answers) <= {200, 0}


@pytest.mark.case("K17.1")
@pytest.mark.kafka
@pytest.mark.parametrize("is_noticed", [False, True], ids=["just-now", "and-the-webhook-hangs"])
def test_with_kafka_gone(run: Run, doomed_kafka: Broker, is_noticed: bool) -> None:  # noqa: FBT001 - a case
    """Kafka has died just now, or a while ago and the webhook hangs as well: it stops in time."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(doomed_kafka.address, topic, 2))
    asyncio.run(produce(doomed_kafka.address, topic, [(ndjson([one]), 0) for one in died("a")]))
    with hook(hang=is_noticed) as told:
        daemon = run("--source", f"kafka://{doomed_kafka.address}/{topic}", "--notify", told.url)
        daemon.wait(lambda: bool(told.got), 20, "the webhook was not called")
        doomed_kafka.kill()
        if is_noticed:
            daemon.wait(lambda: not daemon.source("kafka")["up"], 60, "the source is still up")
        stops(daemon)


@pytest.mark.case("K17.1")
def test_with_a_webhook_that_hangs(run: Run) -> None:
    """A target that never answers holds up neither the others nor the end; what it did not take is counted."""
    with hook(hang=True) as deaf, hook() as told:
        daemon = run("--notify", deaf.url, "--notify", told.url)
        daemon.ask("/v1/events", ndjson(died("a")))
        daemon.wait(lambda: bool(deaf.got), 20, "the webhook was not called")
        daemon.ask("/v1/events", ndjson(died("b", task="mail.send")))
        stops(daemon)
        assert {alert["labels"]["task"] for alert in told.alerts} == {"pay.settle", "mail.send"}
        assert " not sent" in daemon.log


def test_what_was_counted_is_told(run: Run, told: Hook) -> None:
    """A push that was answered is evaluated and its alert sent, though the signal comes with the answer."""
    daemon = run("--notify", told.url)
    status, answer = daemon.ask("/v1/events", ndjson(died("a")))
    assert (status, json.loads(answer)["accepted"]) == (200, 3)
    stops(daemon)
    assert {alert["labels"]["alertname"] for alert in told.alerts} >= {"DeadLetter", "TaskFailing"}


@pytest.mark.case("K17.1")
def test_a_second_signal_ends_it_at_once(run: Run) -> None:
    """Who is in a hurry need not wait for targets."""
    with hook(hang=True) as deaf:
        daemon = run("--notify", deaf.url)
        daemon.ask("/v1/events", ndjson(died("a")))
        daemon.wait(lambda: bool(deaf.got), 20, "the webhook was not called")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait(lambda: "stopping" in daemon.log, 5, "it does not stop")
        code, seconds = daemon.stop()
        assert code == 0
        assert seconds < 3
