"""Ten thousand alerts at once: what grouping, telling and listing them costs, and how long the loop is held by it."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from collector.keeping.keeper import Keeper
from collector.model.alert import Alert, Notification
from collector.model.clock import SystemClock
from collector.model.labels import fingerprint, labels_of
from collector.routing.desk import Desk
from collector.routing.group import Target
from collector.routing.grouping import Grouping
from collector.shell.delivery import Delivery
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.sendqueue import DeliverySettings
from collector.shell.telemetry import Telemetry
from collector.state.store import open_store
from collector.web.v2_alerts import pieces

COUNT = 10_000
AT_ONCE = 50
"""Alerts that the pipeline hands over in one step."""
GROUPS = (10, 1_000, COUNT)


def made(count: int, groups: int, at: float) -> list[Alert]:
    """So many alerts, in so many groups of the built-in route."""
    found = []
    for number in range(count):
        task = f"task{number % groups}"
        labels = labels_of(
            {"alertname": "Failing", "task": task, "queue": "q", "worker": f"w{number}", "severity": "page"}
        )
        found.append(
            Alert(
                labels=labels,
                annotations=labels_of({"summary": f"{task} fails", "runbook_url": "https://example.invalid/failing"}),
                fingerprint=fingerprint(labels),
                state="firing",
                value=1.0,
                active_at=at,
                fired_at=at,
            )
        )
    return found


def report() -> Iterator[str]:
    """The figures, as lines."""
    gc.set_threshold(50_000, 20, 100)  # as the daemon has it
    gc.freeze()
    for groups in GROUPS:
        yield asyncio.run(_storm(groups))
    yield asyncio.run(_queued())


async def _storm(groups: int) -> str:
    now = time.time()
    alerts = made(COUNT, groups, now)
    desk = Desk(receivers={"default": [Target("bench")]})
    gc.collect()
    tracemalloc.start()
    for start in range(0, COUNT, AT_ONCE):
        desk.grouping.insert(alerts[start : start + AT_ONCE], now)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    desk = Desk(receivers={"default": [Target("bench")]})
    longest, messages = 0.0, 0
    for start in range(0, COUNT, AT_ONCE):
        began = time.thread_time()
        desk.grouping.insert(alerts[start : start + AT_ONCE], now)
        longest = max(longest, time.thread_time() - began)
    telling, said = _tell(desk.grouping, now)
    messages += said
    began, steps, size = time.perf_counter(), 0.0, 0
    step = time.thread_time()
    async for piece in pieces(desk, now):
        steps, step = max(steps, time.thread_time() - step), time.thread_time()
        size += len(piece)
    listed = time.perf_counter() - began
    return (
        f"{COUNT:,} alerts at once in {groups:,} groups: {messages:,} messages, {held / COUNT:.0f} B an alert; longest "
        f"step: taking {longest * 1e3:.1f} ms, telling {telling * 1e3:.1f} ms, listing {steps * 1e3:.1f} ms of CPU; "
        f"/api/v2/alerts in {listed * 1e3:.0f} ms, {size / 1e6:.1f} MB"
    )


def _tell(grouping: Grouping, now: float) -> tuple[float, int]:
    """The longest step of saying what is ripe, and how many messages that were."""
    longest, count = 0.0, 0
    while True:
        began = time.thread_time()
        ripe = grouping.due(now)
        longest = max(longest, time.thread_time() - began)
        if not ripe:
            return longest, count
        for one in ripe:
            grouping.confirm(one, now)
        count += len(ripe)


class _Closed:
    """A target that takes nothing until it is opened."""

    name, spacing_seconds = "bench", 0.0

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.taken = 0

    async def send(self, notification: Notification) -> None:
        """Wait, and count."""
        await self.opened.wait()
        self.taken += len(notification.alerts)

    async def close(self) -> None:
        """Nothing is held."""


async def _queued() -> str:
    """So many groups for one target that is away: what queueing costs, what it holds, and that none is lost."""
    clock, target = SystemClock(), _Closed()
    with TemporaryDirectory(prefix="tasktrail-bench-") as folder:
        store = open_store(Path(folder), "bench")
        telemetry = Telemetry()
        pipeline = Pipeline(Limits(), [], telemetry=telemetry, receivers={"default": [Target(target.name)]})
        keeper = Keeper(store, pipeline, clock)
        delivery = Delivery(
            {target.name: target},
            pipeline.grouping,
            telemetry,
            clock=clock,
            outbox=keeper,
            settings=DeliverySettings(try_seconds=600.0),
        )
        running = asyncio.create_task(delivery.run())
        pipeline.grouping.insert(made(COUNT, COUNT, clock.now()), clock.now())
        gc.collect()
        tracemalloc.start()
        while ripe := pipeline.grouping.due(clock.now()):
            for one in ripe:
                delivery.submit(one)
            keeper.flush()
            await store.durable()
        del ripe, one
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        waiting = sum(delivery.waiting().values())
        target.opened.set()
        began, cpu = time.perf_counter(), time.process_time()
        await delivery.drain(60.0)
        took, spent = time.perf_counter() - began, time.process_time() - cpu
        await running
        store.close()
    return (
        f"{waiting:,} messages wait for one target, {held / waiting:.0f} B each besides the disk; then "
        f"{target.taken:,} are taken in {took:.1f} s, {spent / waiting * 1e6:.0f} us of CPU each with their rows"
    )
