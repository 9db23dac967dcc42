"""One request through three brokers: Celery on Redis, Kafka, BullMQ, joined by the traceparent that each carries."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.brokers import Unavailable
from tests.contract_suites.rigs import create_topic
from tests.frameworks.bullmq import bullmq
from tests.frameworks.celery_live import Jobs
from tests.integration.live import ROOT, Daemon

pytestmark = [pytest.mark.redis, pytest.mark.kafka, pytest.mark.slow]

TRACE = uuid.uuid4().hex
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PATIENCE = 90.0
"""Seconds: far more than anything here takes, so that a loaded machine is no failure."""


def trace(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """The tasks of the trace by their names; none while nothing is known of it."""
    status, body = daemon.ask(f"/api/traces/{TRACE}")
    return {one["task"]: one for one in json.loads(body)["tasks"]} if status == 200 else {}


async def handed_on(servers: str, topic: str) -> None:
    """A message with the trace in its headers, and a consumer of a group that takes and commits it."""
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        headers = [("traceparent", TRACEPARENT.encode())]
        await producer.send_and_wait(topic, json.dumps({"type": "ship"}).encode(), partition=0, headers=headers)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=f"shipping-{topic}", auto_offset_reset="earliest"
    )
    async with consumer:
        await consumer.getone()
        await consumer.commit()


def test_one_request_through_three_brokers_is_one_trace(kafka: str, tmp_path: Path, run: Callable[..., Daemon]) -> None:
    """Three tasks of three sources in one trace, each with its own times, and the waterfall has them in their order."""
    try:
        with bullmq(tmp_path, "mail") as mail:
            jobs = Jobs(tmp_path, mail.url, LATE="1", HEADERS=json.dumps({"traceparent": TRACEPARENT}))
            topic = f"shipping-{uuid.uuid4().hex[:8]}"
            asyncio.run(create_topic(kafka, topic, 1))
            try:
                follow(jobs, mail, kafka, topic, run)
            finally:
                jobs.stop()
    except Unavailable as why:
        pytest.skip(str(why))


def follow(jobs: Jobs, mail: Any, kafka: str, topic: str, run: Callable[..., Daemon]) -> None:
    """Send the request along, each hop when the one before is seen to be over."""
    daemon = run(
        *("--source", f"celery+{mail.url}"),
        *("--source", f"kafka://{kafka}/{topic}?format=messages&groups=shipping-{topic}"),
        *("--source", mail.url.replace("redis://", "bullmq+redis://")),
    )
    jobs.start_worker("w1", "-E", "--concurrency", "1")
    mail.worker("mailer")
    state = lambda task: trace(daemon).get(task, {}).get("state")  # noqa: E731
    jobs.produce("charge", "1", "4")
    daemon.wait(lambda: state("jobs.charge") == "succeeded", PATIENCE, "the first hop is not in the trace")
    asyncio.run(handed_on(kafka, topic))
    daemon.wait(lambda: state("ship") == "succeeded", PATIENCE, "the second hop is not in the trace")
    telemetry = {"telemetry": {"metadata": json.dumps({"traceparent": TRACEPARENT})}}
    mail.produce({"add": "notify", "data": {"kind": "nap", "ms": 300}, "opts": telemetry})
    daemon.wait(lambda: state("notify") == "succeeded", PATIENCE, "the third hop is not in the trace")
    tasks = trace(daemon)
    assert set(tasks) == {"jobs.charge", "ship", "notify"}
    shown = subprocess.run(
        [sys.executable, "-m", "collector", "trace", TRACE, "--url", daemon.base],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True, timeout=PATIENCE,
    ).stdout.splitlines()  # fmt: skip
    assert shown[0].startswith(f"trace {TRACE}: 3 tasks in ")
    assert [line.split()[0] for line in shown[1:]] == ["jobs.charge", "ship", "notify"]
    bars = [line.split("|")[1] for line in shown[1:]]
    begins = [len(bar) - len(bar.lstrip()) for bar in bars]
    assert begins == sorted(begins)
    assert begins[0] == 0
    assert "█" in bars[0]
