"""The first event counts: from Kafka to the webhook with the shipped rules, and how long that takes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import uuid
from collections.abc import Callable

import pytest

from tests.contract_suites.rigs import create_topic
from tests.integration.live import ROOT, Daemon, Hook, died, ndjson, produce

pytestmark = pytest.mark.kafka


@pytest.mark.case("K20.1")
def test_the_first_dead_letter_of_a_task_never_seen_before_alerts(
    run: Callable[..., Daemon], told: Hook, kafka: str
) -> None:
    """It is told once, with owner, runbook and the task that died; and the alert stays while the letter is dead."""
    topic = f"t{uuid.uuid4().hex[:12]}"
    asyncio.run(create_topic(kafka, topic, 2))
    url = "https://tasktrail.example"
    daemon = run("--source", f"kafka://{kafka}/{topic}", "--notify", told.url, "--external-url", url)
    task_id, task = uuid.uuid4().hex, f"never.seen.{uuid.uuid4().hex[:8]}"
    events = died(task_id, task=task, trace_id="0af7651916cd43dd8448eb211c80319c", caller="web")
    asyncio.run(produce(kafka, topic, [(ndjson([event]), 0) for event in events]))
    daemon.wait(lambda: "DeadLetter" in {one["labels"]["alertname"] for one in told.alerts}, 20, "nobody is told")
    (alert,) = (one for one in told.alerts if one["labels"]["alertname"] == "DeadLetter")
    assert (alert["status"], alert["labels"]["task"], alert["labels"]["queue"]) == ("firing", task, "payments")
    assert alert["labels"]["owner"] == "unassigned"
    assert alert["annotations"]["runbook_url"] == f"{url}/runbooks/dead-letters"
    (offender,) = alert["evidence"]["offenders"]
    seen = (offender["task_id"], offender["error"], offender["trace_id"])
    assert seen == (task_id, "ValueError", events[0]["trace_id"])
    assert alert["evidence"]["top_errors"] == [["ValueError", 1]]
    assert daemon.json(f"/api/tasks/{task_id}")["state"] == "dead_lettered"
    assert [one["state"] for one in daemon.alerts() if one["labels"]["alertname"] == "DeadLetter"] == ["firing"]


@pytest.mark.slow
def test_the_latency_command_prints_p50_and_p99(kafka: str) -> None:
    """`python -m tests.bench.latency` measures under traffic and prints its quantiles in milliseconds."""
    call = [sys.executable, "-m", "tests.bench.latency", "--kafka", kafka, "--rate", "1000", "--samples", "20"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^p50 \d+ ms$", done.stdout, re.MULTILINE)
    assert re.search(r"^p99 \d+ ms$", done.stdout, re.MULTILINE)
