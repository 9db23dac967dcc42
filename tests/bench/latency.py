"""How long from an event written to Kafka to the webhook called: `python -m tests.bench.latency [--kafka HOST:PORT]`.

The daemon runs with the shipped rules and the built-in route. Other traffic is written by a process of its own, so that
it competes for the machine but not for this interpreter. Each sample is the first dead letter of a task never seen
before. Measured from before the record is handed to the producer until the body of the webhook has been read. Times
are wall times of a busy machine: compare medians.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
from aiokafka import AIOKafkaProducer

from collector.bench.load import messages
from tests import brokers
from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Hook, daemon, hook

PARTITIONS = 4
WARM_UP = 3.0
BETWEEN = (0.03, 0.07)
"""Seconds between samples, so that they meet the daemon's turns at every phase."""


async def traffic(bootstrap: str, topic: str, rate: int) -> None:
    """Write events at a rate (a second) until the process is ended."""
    load = messages(200_000, time.time(), open_trails=2_000)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, acks=1)
    async with producer:
        began, sent = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * rate)
            for number in range(sent, due):
                await producer.send(topic, load[number % len(load)], partition=number % PARTITIONS)
            sent = due
            await asyncio.sleep(0.005)


async def samples(bootstrap: str, topic: str, told: Hook, count: int) -> list[float]:
    """Seconds of each sample. Raises TimeoutError where one is never told of."""
    written: dict[str, float] = {}
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=0, acks=1)
    async with producer:
        await producer.partitions_for(topic)
        for number in range(count):
            task = f"sample.{uuid.uuid4().hex[:12]}"
            event = {
                "kind": "dead_lettered",
                "task_id": uuid.uuid4().hex,
                "task": task,
                "queue": "q",
                "error": "ValueError",
            }
            written[task] = time.time()
            event["time"] = written[task]
            await producer.send(topic, msgspec.json.encode(event), partition=number % PARTITIONS)
            await asyncio.sleep(BETWEEN[0] + (BETWEEN[1] - BETWEEN[0]) * (number * 0.618 % 1))
    async with asyncio.timeout(30):
        while not written.keys() <= (called := _called(told)).keys():  # noqa: ASYNC110 - told by a thread
            await asyncio.sleep(0.1)
    return [called[task] - at for task, at in written.items()]


def _called(told: Hook) -> dict[str, float]:
    """When the webhook first heard of each task's dead letter."""
    first: dict[str, float] = {}
    for at, body in list(told.got):
        for alert in body["alerts"]:
            if alert["labels"]["alertname"] == "DeadLetter":
                first.setdefault(alert["labels"]["task"], at)
    return first


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def measure(bootstrap: str, rate: int, count: int) -> list[float]:
    """Run the daemon and the traffic, and take samples; seconds."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(bootstrap, topic, PARTITIONS))
    with (
        tempfile.TemporaryDirectory() as folder,
        hook() as told,
        daemon(Path(folder), "--source", f"kafka://{bootstrap}/{topic}", "--notify", told.url),
    ):
        call = [
            sys.executable,
            "-m",
            "tests.bench.latency",
            "--traffic",
            topic,
            "--kafka",
            bootstrap,
            "--rate",
            str(rate),
        ]
        with subprocess.Popen(call, cwd=ROOT) as other:
            try:
                time.sleep(WARM_UP)
                return asyncio.run(samples(bootstrap, topic, told, count))
            finally:
                other.kill()


def main(arguments: Sequence[str]) -> None:
    """Print p50 and p99 in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.latency", description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker; else one is started")
    parser.add_argument("--rate", type=int, default=5_000, help="events a second of other traffic (5000)")
    parser.add_argument("--samples", type=int, default=200, help="how many (200)")
    parser.add_argument("--traffic", metavar="TOPIC", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    bootstrap = options.kafka or brokers.start_kafka()
    if options.traffic:
        asyncio.run(traffic(bootstrap, options.traffic, options.rate))
    taken = measure(bootstrap, options.rate, options.samples)
    print(f"event written to Kafka -> webhook called, under {options.rate:,} events/s, {len(taken)} samples:")
    print(f"p50 {quantile(taken, 0.5) * 1000:.0f} ms")
    print(f"p99 {quantile(taken, 0.99) * 1000:.0f} ms")
    print(f"longest {max(taken) * 1000:.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
