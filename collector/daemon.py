"""The running daemon: the loop that moves the frontier, and what the listener may ask. Glue; decides nothing.

One asyncio loop owns all state. A turn of `tick` walks to the instant that is complete, in steps between which
everyone else has a turn, and hands what is ripe to delivery.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from prometheus_client.metrics_core import Metric

from collector.axis import Axis
from collector.delivery import Delivery
from collector.intake import Lane
from collector.model.alert import Alert
from collector.model.clock import Clock
from collector.model.errors import ProblemsError
from collector.model.record import Outcome
from collector.pipeline import Pipeline
from collector.series.expose import families
from collector.sources.push import batches, split
from collector.telemetry import Rejected
from collector.ticker import target
from collector.web.exposition import family_metric

STEP = 0.005
"""Seconds of one uninterrupted step of evaluation, as far as single stops allow."""
BETWEEN_TURNS = 0.02
"""Seconds between two turns: a batch wakes the loop at once, a stream of them this often."""
LONGEST_REST = 1.0
NOT_LIVE_REST = 0.1
"""While the frontier keeps a distance from now, its next stop tells nothing about when it gets there."""
STUCK = 10.0
"""Seconds without a turn after which the loop is not healthy."""


class Daemon:
    """The parts of a running process, and their one loop."""

    def __init__(
        self,
        pipeline: Pipeline,
        delivery: Delivery,
        clock: Clock,
        pages: Mapping[str, str],
        load_rules: Callable[[], Sequence[Any]],
    ) -> None:
        self.pipeline = pipeline
        self.delivery = delivery
        self.lanes: list[Lane] = []
        self.pushed: Lane | None = None
        self._clock = clock
        self._pages = pages
        self._load_rules = load_rules
        self._wake = asyncio.Event()
        self._turned_at = clock.monotonic()
        self._sampled_at = float("-inf")
        self._is_live = False

    # the loop

    def woken(self) -> None:
        """A batch was counted."""
        self._wake.set()

    async def tick(self) -> None:
        """Turn for ever."""
        while True:
            self._wake.clear()
            await self.turn()
            # A rule that was held back gets its turn to the millisecond: half its readers wait for it.
            held = self.pipeline.ticker.next_start() - self._clock.now()
            await asyncio.sleep(held if 0 < held < BETWEEN_TURNS else BETWEEN_TURNS)
            if not self._wake.is_set():
                try:
                    async with asyncio.timeout(self._rest()):
                        await self._wake.wait()
                except TimeoutError:
                    pass

    async def turn(self) -> None:
        """Walk to the instant that is complete, and say what is ripe."""
        clock, telemetry = self._clock, self.pipeline.telemetry
        now = clock.now()
        until = target(self.pipeline.axes, now, self.pipeline.grace)
        self._is_live = until is not None and until.is_live
        self._sample(now)
        began = clock.monotonic()
        for _ in chain(self.pipeline.watch(now), self.pipeline.advance(until, now) if until else ()):
            spent = clock.monotonic() - began
            if spent > STEP:
                telemetry.stalled(spent)
                self.say()
                await asyncio.sleep(0)
                began = clock.monotonic()
        self.say()
        telemetry.stalled(clock.monotonic() - began)
        self._turned_at = clock.monotonic()

    async def last_turn(self) -> None:
        """Evaluate what was counted, also by rules that were held back, and say what is ripe."""
        await self.turn()
        held = self.pipeline.ticker.next_start() - self._clock.now()
        if math.isfinite(held):
            await asyncio.sleep(max(0.0, held))
            await self.turn()

    def say(self) -> None:
        """Hand what is ripe to delivery."""
        for notification in self.pipeline.notifications(self._clock.now()):
            self.delivery.submit(notification)

    def _rest(self) -> float:
        due = self.pipeline.grouping.next_due()
        now = self._clock.now()
        ticker = self.pipeline.ticker
        stop = min(ticker.next_stop(), ticker.next_watch(), now + LONGEST_REST if due is None else due)
        return min(LONGEST_REST, max(0.0 if self._is_live else NOT_LIVE_REST, stop - now))

    def _sample(self, at: float) -> None:
        """Once a second, let rules see our own numbers."""
        now = self._clock.monotonic()
        if now - self._sampled_at < 1.0:
            return
        self._sampled_at = now
        telemetry, pipeline = self.pipeline.telemetry, self.pipeline
        for axis in pipeline.axes:
            telemetry.set("tasktrail_source_lag_seconds", (axis.name,), axis.lag_seconds(self._clock.now()))
        telemetry.sizes(len(pipeline.stitcher), {**pipeline.stitcher.evictions, **pipeline.store.evictions})
        for name, labels, value in telemetry.samples():
            pipeline.store.put(name, labels, at, value)

    # what the listener asks

    @property
    def is_ready(self) -> bool:
        """Whether every source was tried once."""
        return all(lane.axis.was_tried for lane in self.lanes)

    @property
    def trouble(self) -> str:
        """What is wrong with our own loop, or nothing."""
        still = self._clock.monotonic() - self._turned_at
        return f"the loop made no turn for {still:.0f} s" if still > STUCK else ""

    @property
    def axes(self) -> Sequence[Axis]:
        """The sources."""
        return self.pipeline.axes

    @property
    def rejected(self) -> Iterable[Rejected]:
        """The last records that could not be used."""
        return self.pipeline.telemetry.rejected

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def alerts(self) -> Sequence[Alert]:
        """Pending and firing alerts."""
        return [alert for alert in self.pipeline.alerts() if alert.state != "resolved"]

    def metrics(self) -> Iterator[Metric]:
        """Everything for /metrics."""
        # Our own numbers come from telemetry; the samples of them in the store are for rules.
        own = {metric.name for metric in self.pipeline.telemetry.collect()}
        for family in families(self.pipeline.store):
            if family.name.removesuffix("_total") not in own:
                yield family_metric(family)
        yield from self.pipeline.telemetry.collect()

    def task(self, task_id: str) -> Any | None:
        """A trail's timeline."""
        return self.pipeline.stitcher.find(task_id)

    def trace(self, trace_id: str) -> Any | None:
        """All trails of a trace."""
        return self.pipeline.stitcher.trace(trace_id.lower())

    def runbook(self, name: str) -> str | None:
        """A runbook page."""
        return self._pages.get(name)

    async def push(self, body: bytes, content_type: str, peer: str) -> Outcome:
        """Count pushed events."""
        lane = self.pushed
        assert lane is not None  # noqa: S101 the wiring opens the listener after the lanes
        total = Outcome()
        # One place for all peers: a pushed event is at its head when it has been counted.
        for batch in batches(split(body, content_type), source=lane.axis.name, place="push", received_at=self.now()):
            Lane.add(total, await lane.take(batch))
        return total

    def reload(self) -> Sequence[str]:
        """Read rule files again; the problems, where the old ones were kept."""
        telemetry = self.pipeline.telemetry
        try:
            specs = self._load_rules()
        except ProblemsError as error:
            problems = [str(problem) for problem in error.problems]
            telemetry.reloaded(problems)
            return problems
        self.pipeline.use(specs)
        telemetry.reloaded([])
        self.woken()
        return []
