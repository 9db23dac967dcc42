"""A running daemon with a little of everything in it, and a client that asks its query API."""

from __future__ import annotations

import json

import aiohttp
import msgspec
import pytest

from collector.config.settings import Settings
from tests.unit.parts import T0, event, running, until

RULES = """
groups:
- name: failures
  interval: 5s
  limit: 7
  rules:
  - record: task:failed:rate1m
    expr: sum by (task) (rate(task_failed_total[1m]))
    labels: {kind: recorded}
  - alert: Failing
    expr: sum by (task) (increase(task_failed_total[30s])) > 0
    for: 5s
    keep_firing_for: 1m
    labels: {severity: page, owner: '{{ $labels.task }}'}
    annotations: {summary: '{{ $value }} failed'}
- name: backlog
  interval: 30s
  rules:
  - alert: InFlight
    expr: sum(tasks_in_flight) > 100
    labels: {severity: info}
"""

EVENTS = (
    event("sent", "1", T0),
    event("started", "1", T0, worker="w"),
    event("succeeded", "1", T0 + 0.5, run_seconds=0.5),
    event("started", "2", T0, task="b", queue="r"),
    event("failed", "2", T0 + 0.5, task="b", queue="r", error="ValueError", run_seconds=2.0),
)


class Asked:
    """A daemon at T0 + 10 and a client."""

    def __init__(self, run, http) -> None:
        self.run = run
        self.http = http

    async def to(self, at: float) -> None:
        """Move its clock, and wait until it has followed."""
        self.run.clock.at = at
        self.run.daemon.woken()
        await until(lambda: self.run.daemon.pipeline.store.frontier >= at)

    async def push(self, *bodies: bytes) -> None:
        """Push events."""
        async with self.http.post(f"{self.run.url}/v1/events", data=b"\n".join(bodies)) as answer:
            assert answer.status == 200

    async def answer(self, path: str, method: str = "GET", **asked: object) -> tuple[int, dict]:
        """Status and body of an answer; `match` and the like stand for `match[]`."""
        several = {"match", "rule_name", "rule_group", "file"}
        pairs = [
            (f"{name}[]" if name in several else name, str(one))
            for name, value in asked.items()
            for one in (value if isinstance(value, list) else [value])
        ]
        sent = {"params": pairs} if method == "GET" else {"data": pairs}
        async with self.http.request(method, f"{self.run.url}/api/v1/{path}", **sent) as answer:
            return answer.status, json.loads(await answer.text())

    async def data(self, path: str, **asked: object):
        """The data of a good answer without warnings."""
        status, body = await self.answer(path, **asked)
        assert (status, body["status"], body.keys()) == (200, "success", {"status", "data"}), body
        return body["data"]

    async def result(self, query: str, **asked: object):
        """The result of an instant query."""
        return (await self.data("query", query=query, **asked))["result"]


@pytest.fixture
async def asked(tmp_path):
    """The daemon, filled."""
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    settings = msgspec.structs.replace(Settings(state="none"), rules=(str(path),))
    async with running(settings) as run, aiohttp.ClientSession() as http:
        made = Asked(run, http)
        made.rules = str(path)
        await made.push(*EVENTS)
        await made.to(T0 + 1)
        await made.to(T0 + 10)
        yield made
