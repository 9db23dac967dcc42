"""From an alert to a real HTTP request, through routing, delivery and both kinds of HTTP channel."""

from __future__ import annotations

import asyncio
import json

from collector.channels import from_url
from collector.model.clock import SystemClock
from collector.routing.grouping import Grouping, Target
from collector.routing.route import BUILT_IN
from collector.shell.delivery import Delivery, DeliverySettings


class Silent:
    """A report to nobody but the test: it counts."""

    def __init__(self):
        self.happened = []

    def __getattr__(self, name):
        """Every happening is kept by its name."""
        return lambda *_: self.happened.append(name)


async def until(holds):
    """Wait for something that comes soon or never."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


async def test_alert_to_request(service, notification):
    """An alert reaches a webhook and an apprise target at once, each once, and its end follows one interval later."""
    urls = (f"webhook+http://127.0.0.1:{service.port}/hook", f"json://127.0.0.1:{service.port}/json")
    channels = {config.name: config.open() for config in map(from_url, urls)}
    grouping = Grouping(BUILT_IN, {"default": [Target(name) for name in channels]})
    clock, report = SystemClock(), Silent()
    service.answers = [(503, {}, ""), (200, {}, "")]
    settings = DeliverySettings(first_wait_seconds=0.01)
    delivery = Delivery(channels, grouping, report, clock=clock, settings=settings)
    running = asyncio.create_task(delivery.run())
    try:
        for at, status in ((0, "firing"), (1, "resolved"), (10, "")):
            if status:
                grouping.insert(notification(status).alerts, at)
            for ripe in grouping.due(at):
                delivery.submit(ripe)
            await until(lambda: not any(delivery.waiting().values()))
    finally:
        assert await delivery.drain(5) == dict.fromkeys(channels, 0)
        await running
    heads = sorted(head.split()[1] for head, _, _ in service.requests)
    assert sorted(report.happened) == ["retrying", "sent", "sent", "sent", "sent"]
    assert len(heads) == 5
    assert {heads.count("/hook"), heads.count("/json")} == {2, 3}
    hooks = [json.loads(body) for head, _, body in service.requests if "/hook" in head]
    assert hooks[-1]["status"] == "resolved"
    assert grouping.due(20) == []
    assert len(grouping) == 0


async def test_end_with_a_hanging_service(service, notification):
    """With services that hang, delivery ends at its deadline, and no thread of ours keeps the process."""
    service.answers = ["hang"]
    channels = {
        config.name: config.open()
        for config in map(from_url, (f"webhook+http://127.0.0.1:{service.port}/x", f"json://127.0.0.1:{service.port}/"))
    }
    grouping = Grouping(BUILT_IN, {"default": [Target(name) for name in channels]})
    delivery = Delivery(channels, grouping, Silent(), clock=SystemClock())
    running = asyncio.create_task(delivery.run())
    await asyncio.sleep(0)
    grouping.insert(notification().alerts, 0)
    for ripe in grouping.due(0):
        delivery.submit(ripe)
    await until(lambda: len(service.requests) == 2)
    assert await delivery.drain(0.1) == dict.fromkeys(channels, 1)
    await running
    service.released.set()
