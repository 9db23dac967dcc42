"""The running daemon: the loop that moves the frontier, and what the listener may ask. Glue; decides nothing.

One asyncio loop owns all state. A turn of `tick` walks to the instant that is complete, in steps between which
everyone else has a turn, and hands what is ripe to delivery.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from collector.alerting.budget import BETWEEN_SLOTS
from collector.alerting.group import Group
from collector.alerting.rule import Rule
from collector.alerting.rulefile import GroupSpec
from collector.deadletter.ledger import Ledger
from collector.deadletter.record import DeadLetter, Verdict
from collector.keeping.archive import Archive
from collector.keeping.keeper import Keeper
from collector.model.alert import Alert
from collector.model.clock import Clock
from collector.model.contract import Contracts
from collector.model.errors import ProblemsError
from collector.model.record import Outcome, Refusal, Refusals
from collector.routing.desk import Desk
from collector.series.expose import families
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.coverage import Coverage, coverage
from collector.shell.delivery import Delivery
from collector.shell.fullness import used
from collector.shell.gate import Gate
from collector.shell.heartbeat import Signs, late
from collector.shell.intake import Lane
from collector.shell.pipeline import Pipeline
from collector.shell.telemetry import EXPOSED, Rejected
from collector.shell.ticker import target
from collector.sources import push_spans
from collector.sources.push import PLACE, batches, split
from collector.trail.listing import Page, Wanted
from collector.web.exposition import pieces

STEP = 0.005
"""Seconds of one uninterrupted step of evaluation, as far as single stops allow."""
BETWEEN_TURNS = 0.02
"""Seconds between two turns: a batch wakes the loop at once, a stream of them this often."""
ALONG_A_BACKLOG = 0.1
"""The same while catching up: nothing there is news, and the time is better spent on reading."""
LONGEST_REST = 1.0
INTRODUCED_AFTER = 5.0
"""Seconds after the start at which it is said what each source has delivered."""
KEPT_SECONDS = 5.0
"""So long an answer to what people decide waits for the disk."""
STUCK = 10.0
"""Seconds without a step after which the loop is not healthy."""
PATIENCE = 10.0
"""Seconds after the start in which sources may say where they stand, before rules are evaluated without them."""


class Daemon:
    """The parts of a running process, and their one loop."""

    def __init__(  # noqa: PLR0913, PLR0917  all that it drives is given to it
        self,
        pipeline: Pipeline,
        delivery: Delivery,
        clock: Clock,
        pages: Mapping[str, str],
        load_rules: Callable[[], Sequence[GroupSpec]],
        keeper: Keeper | None = None,
        load_contracts: Callable[[], Contracts | None] = lambda: None,
    ) -> None:
        self._keeper = keeper or Keeper(None, pipeline, clock)
        self.pipeline = pipeline
        self.archive = Archive(pipeline, clock)
        self.delivery = delivery
        self.lanes: list[Lane] = []
        self.pushed: Lane | None = None
        self.started_at = clock.now()
        self.gate = Gate()
        self._clock = clock
        self._pages = pages
        self._load_rules = load_rules
        self._load_contracts = load_contracts
        self._wake = asyncio.Event()
        self._moved_at = clock.monotonic()
        self._patience_until = clock.now() + PATIENCE
        self._introduce_at = clock.monotonic() + INTRODUCED_AFTER
        self._fresh: tuple[Sequence[GroupSpec], Contracts | None] | None = None
        """Rules and contracts that were read again."""
        self._sampled_at = -math.inf

    # The loop

    def woken(self) -> None:
        """A batch was counted."""
        self._wake.set()

    async def tick(self) -> None:
        """Turn for ever."""
        while True:
            self._wake.clear()
            is_live = await self.turn()
            # A rule that was held back gets its turn to the millisecond: its reader has waited long enough.
            held = self.pipeline.ticker.held_until - self._clock.now()
            await asyncio.sleep(min(max(0.0, held), BETWEEN_TURNS) if is_live else ALONG_A_BACKLOG)
            if not self._wake.is_set():
                try:
                    async with asyncio.timeout(self._rest()):
                        await self._wake.wait()
                except TimeoutError:
                    pass

    async def turn(self) -> bool:
        """Walk to the instant that is complete, and say what is ripe. True where that is the present."""
        clock, telemetry = self._clock, self.pipeline.telemetry
        await self.gate.passed()
        if self._fresh is not None:
            (specs, contracts), self._fresh = self._fresh, None
            self.pipeline.promise(contracts)
            self.pipeline.use(specs)
            self._keeper.rules_changed()
        now = clock.now()
        self._keeper.settle()
        until = target(self.pipeline.axes, now, self.pipeline.grace, self._patience_until)
        self._sample(now)
        self.pipeline.desk.tend(now)
        self.pipeline.grouping.heed(self.delivery.broken(), now)
        began = self._moved_at = clock.monotonic()
        for _ in self.pipeline.advance(until, now):
            spent = clock.monotonic() - began
            if spent > STEP:
                telemetry.stalled(spent)
                self.say()
                await asyncio.sleep(0)
                await self.gate.passed()
                began = self._moved_at = clock.monotonic()
        self.say()
        telemetry.stalled(clock.monotonic() - began)
        return until.is_live

    async def finish(self) -> None:
        """The last turns: a rule that is held back between slots is evaluated too, as nobody will come back for it."""
        await self.turn()
        if self.pipeline.ticker.held_until < math.inf:
            await asyncio.sleep(BETWEEN_SLOTS)
            await self.turn()
        while (due := self.pipeline.grouping.next_due()) is not None and due <= self._clock.now():
            self.say()
            await asyncio.sleep(0)

    def say(self) -> None:
        """Hand what is ripe to delivery, and all that was decided to the disk."""
        for notification in self.pipeline.notifications(self._clock.now()):
            self.delivery.submit(notification)
        self._keeper.flush()

    def _rest(self) -> float:
        ticker, now = self.pipeline.ticker, self._clock.now()
        dues = (self.pipeline.grouping.next_due(), self.pipeline.desk.next_due())
        stop = min([ticker.next_stop(), ticker.held_until, *(due for due in dues if due is not None)])
        return min(LONGEST_REST, max(0.0, stop - now))

    def _sample(self, now: float) -> None:
        """Once a second, let rules see our own numbers.

        At the wall's time, also along a backlog: a rule about ourselves must not take the backlog's hour for its own.
        """
        since = self._clock.monotonic()
        if since - self._sampled_at < 1.0:
            return
        self._sampled_at = since
        telemetry, pipeline = self.pipeline.telemetry, self.pipeline
        self._keeper.watch(self.delivery)
        if since >= self._introduce_at:
            self._introduce_at = math.inf
            for axis in pipeline.axes:
                telemetry.source_seen(axis.name, axis.totals.read)
        telemetry.clock(self._clock.ahead)
        for axis in pipeline.axes:
            telemetry.lagging(axis.name, axis.lag_seconds(now))
        left = {**pipeline.stitcher.evictions, **pipeline.store.evictions, **pipeline.undertaker.ledger.evictions}
        left |= self.archive.evictions
        telemetry.sizes(len(pipeline.stitcher), left)
        telemetry.fullness(used(pipeline, self.delivery.waiting(), self.delivery.settings.queue_size))
        desk, outside = pipeline.desk, len(pipeline.desk.external)
        telemetry.desk(len(desk.grouping.firing) - outside, outside, len(desk.silences), len(desk.acks))
        pipeline.undertaker.write(round(now, 3))  # how long dead letters have waited, too
        for name, labels, value in telemetry.samples():
            pipeline.store.put(name, labels, now, value)

    # What the listener asks

    @property
    def desk(self) -> Desk:
        """Silences, acks, alerts from outside, drills."""
        return self.pipeline.desk

    @property
    def is_ready(self) -> bool:
        """Whether every source was tried once."""
        return all(lane.axis.was_tried for lane in self.lanes)

    @property
    def trouble(self) -> str:
        """What is wrong with our own loop or writer, or nothing."""
        still = self._clock.monotonic() - self._moved_at
        return f"the loop has not moved for {still:.0f} s" if still > STUCK else self._keeper.trouble

    @property
    def axes(self) -> Sequence[Axis]:
        """The sources."""
        return self.pipeline.axes

    @property
    def rejected(self) -> Iterable[Rejected]:
        """The last records that could not be used."""
        return self.pipeline.telemetry.rejected

    @property
    def store(self) -> Store:
        """The series."""
        return self.pipeline.store

    @property
    def groups(self) -> Sequence[Group]:
        """The rule groups."""
        return self.pipeline.ticker.groups

    def signs(self) -> Signs:
        """What the heartbeat is judged by."""
        now = self.now()
        grouping, silences, stuck = self.desk.grouping, self.desk.silences, self.delivery.broken()
        blind = [alert for alert, _ in grouping.firing.values() if ("alertname", "SourceBlind") in alert.labels]
        return Signs(
            trouble=self.trouble,
            blind=frozenset(axis.name for axis in self.axes if axis.was_tried and not axis.is_up),
            told=frozenset(
                dict(alert.labels).get("source", "")
                for alert in blind
                if grouping.heard(alert.fingerprint) or silences.of(alert.fingerprint, alert.labels, now)
            ),
            # On sender's time rules rest while nothing happens: of them only the loop can be judged.
            late=()
            if any(axis.clock == "event" for axis in self.axes)
            else late([(one.name, one.interval, one.evaluated_at) for one in self.groups], self.started_at, now),
            stuck=stuck if len(stuck) == len(self.delivery.waiting()) else frozenset(),
        )

    def is_blind(self, rule: Rule) -> bool:
        """Whether a source that the rule reads cannot be believed now."""
        return self.pipeline.is_blind(rule)

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return self._clock.monotonic()

    def alerts(self) -> Sequence[Alert]:
        """Pending and firing alerts."""
        return [alert for alert in self.pipeline.alerts() if alert.state != "resolved"]

    def metrics(self, *, with_created: bool) -> Iterator[Metric]:
        """Everything for /metrics."""
        self.pipeline.ingest.observe()
        started_at = self.started_at if with_created else None
        for family in families(self.pipeline.store):
            if family.name not in EXPOSED:  # in the store these are samples for rules
                yield from pieces(family, started_at)
        yield from self.pipeline.telemetry.collect(started_at)

    async def task(self, task_id: str) -> Any | None:
        """A trail's timeline."""
        return await self.archive.task(task_id)

    async def trace(self, trace_id: str) -> Any | None:
        """All trails of a trace."""
        return await self.archive.trace(trace_id.lower())

    def listing(self, wanted: Wanted) -> Iterator[Page | None]:
        """Trails by filter."""
        return self.pipeline.stitcher.listing.pages(wanted)

    async def with_kept(self, wanted: Wanted, page: Page) -> Page:
        """The same with those that memory has forgotten."""
        return await self.archive.page(wanted, page)

    def coverage(self) -> Iterator[Coverage | None]:
        """What of the tasks that were seen nobody has declared."""
        rules = [rule for group in self.groups for rule in group.rules]
        contracts = self.pipeline.grouping.dressing.contracts
        for seen in self.pipeline.stitcher.listing.seen():
            if seen is None:
                yield None
            else:
                yield from coverage(seen, contracts, rules)

    @property
    def ledger(self) -> Ledger:
        """The dead letters."""
        return self.pipeline.undertaker.ledger

    def judge(self, name: str, verdict: Verdict) -> DeadLetter:
        """Take a verdict down."""
        return self.pipeline.undertaker.judge(name, verdict, self.now())

    async def unkept(self) -> str:
        """Why what was decided is not on the disk."""
        return await self._keeper.unkept(KEPT_SECONDS)

    def runbook(self, name: str) -> str | None:
        """A runbook page."""
        return self._pages.get(name)

    async def push(self, body: bytes, content_type: str) -> tuple[Outcome, Refusals]:
        """Count pushed events; what became of them, and what could not be used. Raises TooManyError."""
        lane = self.pushed_to()
        total, refusals = Outcome(), Refusals()
        # One place for all peers: a pushed event is at its head when it has been counted.
        for batch in batches(split(body, content_type), source=lane.axis.name, place=PLACE, received_at=self.now()):
            total.add(await lane.take(batch, refusals))
        return total, refusals

    async def push_traces(self, body: bytes, content_type: str) -> tuple[Outcome, Refusals]:
        """Count the messaging spans of an OTLP export; what became of them, as `push` says it. Raises TooManyError."""
        lane, total, refusals = self.pushed_to(), Outcome(), Refusals()
        export = push_spans.taken_apart(body, is_json="json" in content_type)
        too_large = Refusal(0, "too_large", f"a span of more than {push_spans.LARGEST_SPAN} bytes")
        for beginning in export.too_large if export else ():
            lane.refuse(PLACE, beginning, too_large.reason, too_large.detail)
            refusals.add(too_large)
            total.add(Outcome(read=1, malformed=1))
        name, now = lane.axis.name, self.now()
        for batch in push_spans.batches(export, body, content_type, source=name, received_at=now):
            total.add(await lane.take(batch, refusals))
        return total, refusals

    def refuse(self, first_bytes: bytes, reason: str, detail: str) -> None:
        """Count a pushed body that could not be read whole."""
        lane = self.pushed_to()
        lane.refuse(PLACE, first_bytes, reason, detail)

    def pushed_to(self) -> Lane:
        """The lane of the push endpoint."""
        lane = self.pushed
        assert lane is not None  # noqa: S101 the wiring opens the listener after the lanes
        return lane

    def reload(self) -> Sequence[str]:
        """Read the files of rules and contracts again. New ones hold from the next turn on.

        Gives the problems, where the old ones were kept: of both, whichever of them has one.
        """
        telemetry = self.pipeline.telemetry
        found: list[Any] = []
        problems: list[str] = []
        for load in (self._load_rules, self._load_contracts):
            try:
                found.append(load())
            except ProblemsError as error:
                problems += map(str, error.problems)
        telemetry.reloaded(problems)
        if problems:
            return problems
        self._fresh = found[0], found[1]
        self.woken()
        return []
