"""Keeps sources running: hands their batches to the loop, and rebuilds a lost one for ever.

One task per source. A source is judged by what it delivers: its back-off starts again from the first step after any
delivered record, and only then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from collector.formats import Decode, Reject
from collector.formats.decoded import FIRST_BYTES
from collector.formats.recognise import part
from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.model.record import Batch, Gap, Outcome, Receipt, Refusals, Source
from collector.model.secret import mask
from collector.shell.axis import Axis
from collector.shell.gate import Gate
from collector.shell.ingest import CHUNK, EVENTS, INTERNAL_ERROR, Ingest, chunks
from collector.shell.suspects import GUILTY_AFTER, Suspects
from collector.shell.telemetry import Telemetry

FIRST_WAIT = 0.5
LONGEST_WAIT = 15.0
LONGEST_LOSS = 2.0
"""The longest wait of a source whose broker keeps nothing for it: what is published meanwhile is lost."""
DOUBLINGS = 10
"""After so many the longest wait is reached; a float has no room for as many as an outage of a day makes."""
STEP_SECONDS = 0.01
"""CPU that a step should cost at most: a dead letter costs 20 times what another event costs."""
FIRST_STEP, SHORTEST_STEP = 100, 50
"""Records: of a place of which nothing is known yet, and at least."""
FIRST_PART, SHORTEST_PART = 50, 10
"""The same of the events of a record that holds many."""
FADES = 0.8
"""What is left of a step's cost after the next one: dear records come among cheap ones."""
MOST_PLACES = 10_000
"""Places whose cost is remembered; the one that was noted longest ago goes first."""


_OVER = object()


class Pace:
    """How many records (or events) of each place one step may take, by what those of the steps before have cost."""

    def __init__(self, first: int = FIRST_STEP, shortest: int = SHORTEST_STEP, most: int = CHUNK) -> None:
        self._first, self._shortest, self._most = first, shortest, most
        self._costs: dict[str, float] = {}

    def size(self, place: str) -> int:
        """How many."""
        cost = self._costs.get(place)
        if cost is None:
            return self._first
        return self._most if cost * self._most <= STEP_SECONDS else max(self._shortest, int(STEP_SECONDS / cost))

    def note(self, place: str, count: int, seconds: float) -> None:
        """A step of so many is done. `seconds`: of CPU."""
        if count:
            self._costs[place] = max(seconds / count, FADES * self._costs.pop(place, 0.0))
            if len(self._costs) > MOST_PLACES:
                del self._costs[next(iter(self._costs))]


class Lane:
    """One source's way in; what `collector.model.record.Intake` promises to a source."""

    def __init__(  # noqa: PLR0913, PLR0917  all that it touches is given to it
        self,
        axis: Axis,
        decode: Decode,
        ingest: Ingest,
        clock: Clock,
        telemetry: Telemetry,
        counted: Callable[[], None],
        gate: Gate | None = None,
    ) -> None:
        self.axis = axis
        self._decode = decode
        self._ingest = ingest
        self._clock = clock
        self._telemetry = telemetry
        self._counted = counted
        self._gate = gate or Gate()
        self._pace, self._events = Pace(), Pace(FIRST_PART, SHORTEST_PART, EVENTS)
        self.suspects: Suspects | None = None
        """Who notes what is being read, where there is a disk to note it on."""
        telemetry.source_named(axis.name)

    def position(self, place: str) -> Receipt | None:
        """Where reading of this place goes on."""
        return self.axis.place(place).position

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        """The source reaches its broker."""
        self.axis.is_up = self.axis.was_tried = True
        self.axis.detail, self.axis.error = detail, ""
        self._telemetry.source_connected(self.axis.name, detail, is_deaf=is_deaf)

    async def take(self, batch: Batch, refusals: Refusals | None = None) -> Outcome:
        """Count a batch, in steps between which everyone else has a turn; what cannot be used goes into `refusals`."""
        total = Outcome()
        self._place_in_our_time(batch)
        await self._gate.passed()
        with self._gate.inside():
            suspects = self.suspects if batch.bodies and batch.position is not None else None
            is_careful = suspects is not None and suspects.wants_care(batch)
            parts = chunks(batch, lambda: 1 if is_careful else self._pace.size(batch.place))
            turns = self._turns(parts, len(batch.bodies), suspects, total, refusals)
            try:
                for _ in turns:
                    await asyncio.sleep(0)
            finally:  # also where it is cancelled, what was begun is finished: its position stands at its end
                for _ in turns:
                    pass
        if batch.bodies:
            await asyncio.sleep(0)
        return total

    def _place_in_our_time(self, batch: Batch) -> None:
        """Where our clock is ahead of the machine's, which was set back, what comes now has happened now all the same.

        Brokers go by a clock of their own that is right, or by the one that was set back: both come to the present.
        """
        now = self._clock.now()
        if ahead := self._clock.ahead:
            batch.received_at = min(now, batch.received_at + ahead)
            batch.times = batch.times and [min(now, at + ahead) for at in batch.times]

    def _turns(
        self, pieces: Iterable[Batch], left: int, suspects: Suspects | None, total: Outcome, refusals: Refusals | None
    ) -> Iterator[None]:
        """Count pieces of so many records; others have a turn at each step of this but the last one."""
        for piece in pieces:
            yield from self._step(piece, suspects, total, refusals)
            left -= len(piece.bodies)
            if left:
                yield

    def _step(
        self, piece: Batch, suspects: Suspects | None, total: Outcome, refusals: Refusals | None
    ) -> Iterator[None]:
        """Count a piece; where it ends the process, the next one knows. `suspects`: None for what is not read again."""
        if suspects is None:
            yield from self.count(piece, total, refusals)
            return
        if len(piece.bodies) == 1 and suspects.is_guilty(piece, piece.receipts[0]):
            why = f"record {piece.receipts[0]}: the process has ended {GUILTY_AFTER} times while it was read"
            self.refuse(piece.place, piece.bodies[0][:FIRST_BYTES], INTERNAL_ERROR, why)
            total.add(Outcome(read=1, malformed=1))
            empty = part(piece, 0, 0)
            empty.is_head, empty.position = piece.is_head, piece.position
            yield from self.count(empty, total)
            return
        steps, is_over = self.count(piece, total, refusals), False
        while not is_over:
            suspects.begin(piece)  # again after each turn of others, who note what they read
            try:
                is_over = next(steps, _OVER) is _OVER
            except BaseException:
                suspects.fail()
                raise
            suspects.end()
            if not is_over:
                yield

    def count(self, batch: Batch, total: Outcome, refusals: Refusals | None = None) -> Iterator[None]:
        """One step, or several for records of very many events."""
        began, spent = self._clock.cpu(), 0.0
        size = partial(self._events.size, batch.place)
        for events in self._ingest.steps(self.axis, self._decode, batch, self._clock.now(), total, refusals, size):
            cost = self._clock.cpu() - began
            spent += cost
            self._events.note(batch.place, events, cost)
            yield
            began = self._clock.cpu()
        self._pace.note(batch.place, len(batch.bodies), spent + self._clock.cpu() - began)
        if batch.bodies:
            self._counted()

    def refuse(self, place: str, first_bytes: bytes, reason: str, detail: str) -> None:
        """A record that could not even be taken in whole: one malformed event."""
        self._ingest.refuse(self.axis, place, first_bytes, Reject(0, reason, detail), self._clock.now())

    def gap(self, gap: Gap) -> None:
        """Put a hole on record."""
        self.axis.miss(gap)
        self._telemetry.gap(gap)
        self._ingest.gap(gap)

    def filled(self, part: float) -> None:
        """How full the source's bound on connections is."""
        self.axis.filled = part

    def mute(self) -> list[str]:
        """The workers that work and tell nothing of it."""
        return self._ingest.mute(self.axis.name)

    async def supervise(self, build: Callable[[], Source]) -> None:
        """Run a source until it ends or this task is cancelled; rebuild it whenever it is lost."""
        failures = 0
        while True:
            read_before = self.axis.totals.read
            try:
                await build().run(self)
            except SourceError as error:
                failures = 0 if self.axis.totals.read > read_before else failures
                await self._wait_after(error, failures)
                failures += 1
            else:
                self._telemetry.source_ended(self.axis.name)
                return

    async def _wait_after(self, error: SourceError, failures: int) -> None:
        """The source was lost, so many times in a row before without a record in between."""
        self.axis.is_up, self.axis.was_tried, self.axis.error = False, True, mask(str(error))
        for place in self.axis.places.values():
            place.is_head = False  # what was the end is no longer known to be
        longest = LONGEST_LOSS if self.axis.is_fleeting else LONGEST_WAIT
        most = min(longest, FIRST_WAIT * 2.0 ** min(failures, DOUBLINGS))
        wait = random.uniform(0.5, 1.0) * most  # noqa: S311 spreads load
        self._telemetry.source_lost(self.axis.name, self.axis.error, wait)
        await asyncio.sleep(wait)
