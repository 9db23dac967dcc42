"""The ledger on a real broker: every dead message is one record, also after `kill -9`, and every verdict holds."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Daemon

COUNT = 1_000
JUDGED = 100
TASKS = "tasks:\n- {match: 'order*', semantics: must_complete, owner: shop, review_within: 1h}\n"


def spring(topic: str, offset: int) -> list[tuple[str, bytes]]:
    """What Spring's recoverer writes on a record that it gives up."""
    return [
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", (0).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", offset.to_bytes(8, "big")),
        ("kafka_dlt-original-consumer-group", b"billing"),
        ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
        ("kafka_dlt-exception-cause-fqcn", b"java.sql.SQLException"),
        ("kafka_dlt-exception-message", f"no row {offset}".encode()),
        (
            "kafka_dlt-exception-stacktrace",
            b"x: y\n\tat a.B.c(B.java:1)\nCaused by: z\n\tat shop.Orders.save(Orders.java:7)",
        ),
    ]


async def fill(bootstrap: str, topic: str) -> None:
    """Write all messages, and the same ones once more as dead."""
    await create_topic(bootstrap, topic, 1)
    await create_topic(bootstrap, f"{topic}-dlt", 1)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for dead in (False, True):
            name = f"{topic}-dlt" if dead else topic
            pending = [
                await producer.send(
                    name, json.dumps({"type": "order.bill", "n": n}).encode(), partition=0,
                    headers=spring(topic, n) if dead else [],
                )
                for n in range(COUNT)
            ]  # fmt: skip
            await asyncio.gather(*pending)


def command(*arguments: str) -> str:
    """What `tasktrail dead-letters` prints."""
    call = [sys.executable, "-m", "collector", "dead-letters", *arguments]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def causes(daemon: Daemon) -> list[tuple[int, int]]:
    """How many records each cause has, and how many of them are open."""
    found: list[dict[str, Any]] = daemon.json("/api/dead-letters?by=fingerprint").get("causes", [])
    return [(one["total"], one["open"]) for one in found]


def is_open(daemon: Daemon) -> float:
    """What rules read."""
    return sum(value for _, value in daemon.metrics().get("dead_letters_open", []))


@pytest.mark.kafka
def test_each_dead_message_is_one_record_over_kill_and_restart(
    kafka: str, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """Origin, error, owner and cause are right; a verdict that was answered holds; nothing is there twice."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    asyncio.run(fill(kafka, topic))
    state, tasks = tmp_path / "state", tmp_path / "tasks.yaml"
    tasks.write_text(TASKS)
    arguments = ("--source", f"kafka://{kafka}/{topic},{topic}-dlt?dead_letter=*-dlt", "--state", str(state))
    arguments += ("--tasks", str(tasks))
    daemon = run(*arguments)
    daemon.wait(lambda: causes(daemon) == [(COUNT, COUNT)], 60, "not all are on record")
    page = daemon.json(f"/api/dead-letters?limit={JUDGED}")["dead_letters"]
    verdict = {"ids": [one["id"] for one in page], "actor": "ann", "reason": "test", "state": "discarded"}
    status, answer = daemon.ask("/api/dead-letters/resolve", json.dumps(verdict).encode(), "application/json")
    assert (status, json.loads(answer)["is_kept"]) == (200, True)
    daemon.process.kill()
    daemon.process.wait()
    left = [json.loads(line) for line in command("export", "--from", str(state)).splitlines()]
    assert sorted(one["origin"]["offset"] for one in left) == list(range(COUNT))
    assert {(one["origin"]["topic"], one["origin"]["partition"], one["origin"]["group"]) for one in left} == {
        (topic, 0, "billing")
    }
    assert {(one["task"], one["error"], one["owner"], one["frame"], one["place"]) for one in left} == {
        ("order.bill", "java.sql.SQLException", "shop", "shop.Orders.save", f"{topic}-dlt/0")
    }
    assert {one["receipt"] for one in left} == {str(n) for n in range(COUNT)}
    daemon = run(*arguments)
    daemon.wait(lambda: causes(daemon) == [(COUNT, COUNT - JUDGED)], 60, "a record was lost, or is there twice")
    daemon.wait(lambda: is_open(daemon) == COUNT - JUDGED, 60, "verdicts and counts differ")
    assert command("list", "--url", daemon.base, "--state", "discarded", "--json").count('"actor": "ann"') == JUDGED
