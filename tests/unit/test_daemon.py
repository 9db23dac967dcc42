"""The loop that moves the frontier: when it turns, where it pauses, and what it lets rules see."""

from __future__ import annotations

import asyncio
import math

import pytest

from collector import daemon as module
from collector.daemon import Daemon
from collector.formats import native
from collector.model.clock import ManualClock, SystemClock
from collector.routing.grouping import Target as Receiver
from collector.shell.delivery import Delivery
from collector.shell.pipeline import Pipeline
from tests.unit.parts import T0, Kept, batch, event, pipeline, until


class Busy(ManualClock):
    """A clock whose monotonic hand moves a little whenever it is looked at, as if all took its time."""

    def __init__(self, at: float, step: float) -> None:
        super().__init__(at)
        self._step = step
        self._looks = 0

    def monotonic(self) -> float:
        """A step later than the last time."""
        self._looks += 1
        return self.at + self._looks * self._step


def daemon(made: Pipeline, clock: ManualClock, channel: Kept | None = None) -> Daemon:
    """A daemon on a pipeline whose source is at its head."""
    made.axes[0].advance(batch([], is_head=True), [])
    channel = channel or Kept()
    delivery = Delivery({"kept": channel}, made.grouping, made.telemetry, clock=clock)
    return Daemon(made, delivery, clock, {}, list)


def fail(made: Pipeline, *names: str, at: float = T0) -> None:
    """Count a failure of each task."""
    bodies = [event("failed", f"id-{name}", at, task=name, error="E") for name in names]
    made.ingest.count(made.axes[0], native.decode, batch(bodies, received_at=at, is_head=True), math.inf)


async def test_a_turn_pauses_for_others() -> None:
    """A turn with much to do gives others a turn between its short steps, moves on while it lasts, and says so."""
    made = pipeline()
    fail(made, *(f"t{number}" for number in range(500)))
    running = daemon(made, Busy(T0, 0.004))
    turns = []

    async def other() -> None:
        while True:
            turns.append(running._moved_at)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    assert await running.turn() is True
    task.cancel()
    assert len(turns) > 5
    assert len(set(turns)) > 5
    assert 0 < made.telemetry.get("tasktrail_loop_stall_seconds") < 0.1


async def test_notifications_do_not_wait_for_the_end_of_a_turn() -> None:
    """What is ripe is handed to delivery in the pauses too."""
    made = pipeline(receivers={"default": [Receiver("kept")]})
    fail(made, *(f"t{number}" for number in range(200)))
    running = daemon(made, Busy(T0, 0.004))
    seen = []

    async def other() -> None:
        while True:
            seen.append(sum(running.delivery.waiting().values()))
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    await running.turn()
    task.cancel()
    assert any(0 < count < 200 for count in seen)
    assert sum(running.delivery.waiting().values()) == 200


async def test_the_loop_is_woken_by_a_batch(monkeypatch) -> None:
    """Between turns the loop rests, until something is counted or something is due."""
    monkeypatch.setattr(module, "LONGEST_REST", 1000.0)
    monkeypatch.setattr(module, "BETWEEN_TURNS", 0.0)
    made = pipeline("groups:\n- {name: g, interval: 1h, rules: [{alert: A, expr: task_failed_total > 0}]}\n")
    clock = ManualClock(T0)
    running = daemon(made, clock)
    task = asyncio.ensure_future(running.tick())
    await until(lambda: made.store.frontier == T0)
    for _ in range(20):
        await asyncio.sleep(0)
    clock.at = T0 + 1
    for _ in range(20):
        await asyncio.sleep(0)
    assert made.store.frontier == T0
    fail(made, "a", at=T0 + 1)
    running.woken()
    await until(lambda: made.store.frontier == T0 + 1)
    task.cancel()
    assert [one.state for one in running.alerts()] == ["firing"]


async def test_the_loop_wakes_when_something_is_due(monkeypatch) -> None:
    """Without anything counted the loop turns again when its rest is over."""
    monkeypatch.setattr(module, "LONGEST_REST", 0.001)
    made = pipeline()
    clock = ManualClock(T0 + 1)
    running = daemon(made, clock)
    task = asyncio.ensure_future(running.tick())
    await until(lambda: made.store.frontier == T0 + 1)
    clock.at = T0 + 2
    await until(lambda: made.store.frontier == T0 + 2)
    task.cancel()


async def test_how_long_the_loop_may_rest() -> None:
    """It rests until the next slot, a rule that was held back, or a ripe group; a second at most."""
    made = pipeline(receivers={"default": [Receiver("kept")]})
    clock = ManualClock(T0 + 1)
    running = daemon(made, clock)
    await running.turn()
    assert running._rest() == 1.0
    clock.at = T0 + 4.75
    assert running._rest() == 0.25
    clock.at = T0 + 6
    assert running._rest() == 0.0
    await running.turn()
    fail(made, "a", at=T0 + 6)
    await running.turn()
    clock.at = T0 + 6.05
    fail(made, "b", at=T0 + 6.05)
    await running.turn()
    assert running._rest() == pytest.approx(0.05)


async def test_rules_see_our_own_numbers() -> None:
    """Once a second our own numbers become samples at the wall's time, also while a backlog is walked."""
    made = pipeline()
    clock = ManualClock(T0 + 5000)
    running = daemon(made, clock)
    made.axes[0].advance(batch([b"x"]), [T0])
    assert await running.turn() is False
    assert made.store.frontier == T0
    (series,) = made.store.select("tasktrail_source_lag_seconds", ())
    assert made.store.value(series, T0)[1].tolist() == [False]
    assert made.store.value(series, T0 + 5000)[0].tolist() == [5000.0]
    for step in range(10):
        clock.at = T0 + 5000 + step / 5
        await running.turn()
    ((times, _),) = made.store.samples(series, 0, T0 + 6000, 1)
    assert times.tolist() == [T0 + 5000, T0 + 5001]


async def test_the_last_turns_leave_nothing_out() -> None:
    """What was counted just before the end is evaluated, also where its rule was evaluated a moment ago."""
    made = pipeline("groups:\n- {name: g, interval: 1h, rules: [{alert: A, expr: task_failed_total > 0}]}\n")
    clock = SystemClock()
    running = daemon(made, clock)
    fail(made, "a", at=clock.now())
    await running.turn()
    fail(made, "b", at=clock.now())
    await running.finish()
    assert {dict(one.labels)["task"] for one in running.alerts()} == {"a", "b"}


async def test_a_source_that_is_awaited_holds_the_first_turns() -> None:
    """At the start nothing is evaluated while a source has not said where it stands, for ten seconds at most."""
    made = pipeline()
    clock = ManualClock(T0)
    running = daemon(made, clock)
    made.axes[0].place("another partition")
    clock.at = T0 + 9
    await running.turn()
    assert made.store.frontier == 0.0
    clock.at = T0 + 10
    made.axes[0].is_up = False
    await running.turn()
    assert made.store.frontier == T0 + 10


def test_a_push_before_the_endpoint_is_wired_is_a_bug() -> None:
    """The listener opens after the lanes; without the lane of the endpoint nothing can be pushed."""
    with pytest.raises(AssertionError):
        daemon(pipeline(), ManualClock(T0)).pushed_to()
