"""The one loop that every event goes through: decode, stitch, observe. Synchronous; paid per batch.

Takes batches, gives outcomes. The law of failures: a record that cannot be decoded is counted by its reason and
stepped over; a record that makes our own code fail is set aside as `internal_error` with its traceback, and stepped
over too. Nothing here waits, and nothing is decided here.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

from collector.formats import Decode, Decoded, Reject, beginning
from collector.formats.recognise import append, part
from collector.model.event import Event
from collector.model.record import Batch, Gap, Outcome, Refusal, Refusals
from collector.model.secret import mask
from collector.series.observe import observe
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.telemetry import Rejected, Telemetry
from collector.trail.deploys import Deploys
from collector.trail.keyed import Keyed
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import Transitions

CHUNK = 1000
"""Records per uninterrupted step at most: 3 to 4 ms of what is not dear, so that the loop is never held for long."""
CHUNK_BYTES = 1024 * 1024
"""The same for their bytes; a record that is longer is a step by itself."""
MOST_TOLD = 100
"""Rejects of one step that are kept with where they stood; further ones are only counted, by their reason."""

EVENTS = 500
"""Events per uninterrupted step at most, where records hold several: 3 to 4 ms of what is not dear."""

OBSERVED_AT_ONCE = 4000
"""Transitions that may wait until they are observed: numpy costs by the call. Whoever reads the series lets them in."""

INTERNAL_ERROR = "internal_error"

LONGEST_COUNT = 9
"""Digits of the number of events that a worker says it dropped; more is nonsense."""


def chunks(batch: Batch, size: Callable[[], int] = lambda: CHUNK) -> Iterator[Batch]:
    """The batch in pieces of at most `size` records; only the last one is the head and holds the position.

    `size` is asked before each piece, so that one that took long makes the next ones shorter.
    """
    total, start = len(batch.bodies), 0
    while True:
        end = _end(batch.bodies, start, size())
        if start == 0 and end >= total:
            yield batch
            return
        piece = part(batch, start, end)
        piece.is_head = batch.is_head and end >= total
        piece.position = batch.position if end >= total else None
        yield piece
        if end >= total:
            return
        start = end


def _end(bodies: Sequence[bytes], start: int, size: int) -> int:
    """Where a piece ends, of at most `size` records and `CHUNK_BYTES`."""
    end = min(start + size, len(bodies))
    lengths = list(map(len, bodies[start:end]))
    if sum(lengths) <= CHUNK_BYTES:
        return end
    held = 0
    for index, length in enumerate(lengths, start):
        held += length
        if held > CHUNK_BYTES and index > start:
            return index
    return end


def _parts(decoded: Decoded, size: Callable[[], int]) -> Iterator[Decoded]:
    """What was decoded: itself, or in pieces where there may be more events than records; first of these an empty one.

    `size`: as of `chunks`.
    """
    events, sources, channels = decoded.events, decoded.sources, decoded.channels
    if sources is None or len(events) <= size():
        yield decoded
        return
    start = end = 0
    while start < len(events):
        part = slice(start, end)
        yield Decoded(events[part], sources[part], [], None if channels is None else channels[part])
        start, end = end, end + size()


class Buries(Protocol):
    """Who takes dead letters down."""

    out: Transitions

    def told(self, axis: Axis, batch: Batch, decoded: Decoded, ats: Sequence[float]) -> None:
        """A batch was stitched."""
        ...

    def turned(self) -> None:
        """Trails have decided something."""
        ...


class Ingest:
    """Counts batches into trails and series."""

    def __init__(
        self, stitcher: Stitcher, store: Store, telemetry: Telemetry, deploy_labels: Sequence[str] = ()
    ) -> None:
        """`deploy_labels`: keys of events' labels that name the deploy of a task."""
        self._deploys = Deploys(stitcher.parts.keep, stitcher.parts.texts, deploy_labels) if deploy_labels else None
        self._stitcher = stitcher
        self.keyed = Keyed(stitcher.parts.rows.queues)
        self._store = store
        self._telemetry = telemetry
        self._out = Transitions()
        self._axis: Axis | None = None
        """Whose transitions wait in `_out`."""
        self.undertaker: Buries | None = None
        self._refusals: Refusals | None = None
        """Who wants to hear what is rejected of the batch under way."""

    def count(self, axis: Axis, decode: Decode, batch: Batch, now: float, refusals: Refusals | None = None) -> Outcome:
        """Make a batch part of the state. `now` bounds axis times (infinity in a replay). Never raises for a record.

        What cannot be used is added to `refusals` too, where somebody waits for an answer; receipts count from 1 then.
        """
        total = Outcome()
        for _ in self.steps(axis, decode, batch, now, total, refusals):
            pass
        return total

    def steps(  # noqa: PLR0913, PLR0917 - what `count` is given, and where what became of it is added up
        self,
        axis: Axis,
        decode: Decode,
        batch: Batch,
        now: float,
        total: Outcome,
        refusals: Refusals | None = None,
        size: Callable[[], int] = lambda: EVENTS,
    ) -> Iterator[int]:
        """The same, with a turn for others wherever a record holds so many events that they are too much for one.

        `size`: how many are not, asked before each step. Gives how many a step has counted: first none, for to decode
        is a step by itself then.
        """
        self._refusals = refusals
        decoded = self._decoded(axis, decode, batch)
        self.keyed.name(decoded.events)
        rejected = len(decoded.rejects)
        outcome = Outcome(read=rejected + decoded.ignored, malformed=rejected, ignored=decoded.ignored)
        newest: list[float] = []
        for step in _parts(decoded, size):
            ats = axis.times(batch, step.events, step.sources, now)
            if ats:
                self._stitch(axis, batch, step, ats, outcome)
                newest.append(max(ats))
            if step is not decoded:
                self._add(axis, outcome, total)
                yield len(step.events)
                self._refusals, outcome = refusals, Outcome()
        axis.advance(batch, newest)
        self._add(axis, outcome, total)

    def _add(self, axis: Axis, outcome: Outcome, total: Outcome) -> None:
        total.add(outcome)
        axis.totals.add(outcome)
        self._telemetry.batch_counted(axis.name, outcome)

    def _stitch(self, axis: Axis, batch: Batch, decoded: Decoded, ats: Sequence[float], outcome: Outcome) -> None:
        """Make events part of the state, and add what became of them."""
        events = decoded.events
        outcome.read += len(events)
        if axis is not self._axis:
            self.observe()
            self._axis = axis
        if self._out.notes is None and self._store.hosts.families:
            self.observe()
            self._out.notes = []
        try:
            if decoded.channels is None:
                counts = self._stitcher.stitch(axis.name, axis.application, events, ats, self._out)
            else:
                counts = self._by_channel(axis, decoded, decoded.channels, ats)
        except Exception:  # noqa: BLE001 our own bug, on one record: find it, set it aside, go on
            counts = self._one_by_one(axis, batch, decoded, ats, outcome)
        outcome.accepted, outcome.duplicate = counts[:2]
        outcome.ignored += counts[2]
        if self.undertaker is not None:
            self.undertaker.told(axis, batch, decoded, ats)
        if self._deploys is not None:
            self._deploys.note(axis.name, axis.application, events)
        if counts[2]:
            self._tell_drops(axis, batch, events)
        if len(self._out.codes) >= OBSERVED_AT_ONCE:
            self.observe()

    def _decoded(self, axis: Axis, decode: Decode, batch: Batch) -> Decoded:
        """What the format gives, its rejects told, and what it says of arguments noted."""
        try:
            decoded = decode(batch)
        except Exception:  # noqa: BLE001 our own bug, on one record: find it, set it aside, go on
            return self._decoded_one_by_one(axis, decode, batch)
        rejects = decoded.rejects
        for reject in rejects[:MOST_TOLD]:
            self._reject(axis, batch, reject)
        if len(rejects) > MOST_TOLD:
            self._count_only(axis, Counter(reject.reason for reject in rejects[MOST_TOLD:]))
        keep = self._stitcher.parts.keep
        if decoded.arguments and keep.arguments is not None:
            home = keep.home(f"={axis.application}" if axis.application else axis.name)
            keep.arguments.note(home.index, decoded.arguments)
        return decoded

    def _decoded_one_by_one(self, axis: Axis, decode: Decode, batch: Batch) -> Decoded:
        """The batch again, record by record.

        What a decoder tells a second time are duplicates; one that remembers may keep to itself what it told in vain.
        """
        out = Decoded([], [], [], [])
        for index in range(len(batch.bodies)):
            trace = ""
            try:
                one = decode(part(batch, index, index + 1))
            except Exception as error:  # noqa: BLE001 the culprit
                one, trace = Decoded([], None, [Reject(0, INTERNAL_ERROR, repr(error))]), traceback.format_exc()
            append(out, one, index)
            for reject in out.rejects[len(out.rejects) - len(one.rejects) :]:
                self._reject(axis, batch, reject, trace)
        return out

    def _by_channel(
        self, axis: Axis, decoded: Decoded, channels: Sequence[str], ats: Sequence[float]
    ) -> tuple[int, int, int]:
        """The batch in runs of events that came over one channel; what `stitch` gives, summed up."""
        total = (0, 0, 0)
        start = 0
        for channel, run in groupby(channels):
            end = start + sum(1 for _ in run)
            counts = self._stitcher.stitch(
                axis.name, axis.application, decoded.events[start:end], ats[start:end], self._out, channel
            )
            total = (total[0] + counts[0], total[1] + counts[1], total[2] + counts[2])
            start = end
        return total

    def observe(self) -> None:
        """Let the series know all that was counted. To be called before they are read, or time goes on in them."""
        out, axis = self._out, self._axis
        measured = observe(out, self._store)
        if measured is not None and axis is not None:
            self._stitcher.watch(axis.name, axis.application, out, *measured)
        out.clear()
        self._observe_found()

    def _observe_found(self) -> None:
        others = () if self.undertaker is None else (self.undertaker.out,)
        for found in (self._stitcher.promises.out, self._stitcher.findings.out, *others):
            if found.codes or found.errors or found.measures:
                observe(found, self._store)
                found.clear()

    def expire(self, at: float) -> bool:
        """Let the trails decide what was waiting for `at`. True while there is more to do at this instant."""
        self.observe()
        more = self._stitcher.expire(at, self._out)
        observe(self._out, self._store)
        self._out.clear()
        if self.undertaker is not None:
            self.undertaker.turned()
        self._observe_found()
        return more

    def gap(self, gap: Gap) -> None:
        """A source has a hole: what is missing in it is no finding."""
        self._stitcher.findings.holes.add(gap.source, gap.start, gap.end)

    def mute(self, source: str) -> list[str]:
        """The workers of a source that work and tell nothing of it."""
        return self._stitcher.findings.crew.mute(source)

    def _tell_drops(self, axis: Axis, batch: Batch, events: Sequence[Event]) -> None:
        """A worker's hook says by the label `dropped` of a heartbeat how many events it had no room for: a hole."""
        for event in events:
            dropped = (event.labels or {}).get("dropped", "") if event.kind == "heartbeat" else ""
            if dropped.isdecimal() and len(dropped) <= LONGEST_COUNT:
                start = axis.read_at if axis.read_at > 0 else batch.received_at
                place = f"{batch.place} from {event.worker or 'a worker'}"
                gap = Gap(
                    source=axis.name,
                    place=place,
                    start=start,
                    end=batch.received_at,
                    estimate=int(dropped),
                    reason="dropped_by_worker",
                )
                axis.miss(gap)
                self._telemetry.gap(gap)
                self.gap(gap)

    def _one_by_one(
        self,
        axis: Axis,
        batch: Batch,
        decoded: Decoded,
        ats: Sequence[float],
        outcome: Outcome,
    ) -> tuple[int, int, int]:
        """The batch again, event by event.

        What was counted before the failure is known as a duplicate now: it counts no more, and is reported as accepted.
        """
        accepted = duplicate = ignored = culprits = 0
        for number, (event, at) in enumerate(zip(decoded.events, ats, strict=True)):
            try:
                channel = decoded.channels[number] if decoded.channels else ""
                counts = self._stitcher.stitch(axis.name, axis.application, [event], [at], self._out, channel)
            except Exception as error:  # noqa: BLE001 the culprit
                index = number if decoded.sources is None else decoded.sources[number]
                self._reject(axis, batch, Reject(index, INTERNAL_ERROR, repr(error)), traceback.format_exc())
                culprits += 1
                continue
            accepted, ignored = accepted + counts[0], ignored + counts[2]
            if culprits:
                duplicate += counts[1]
            else:
                accepted += counts[1]
        outcome.malformed += culprits
        return accepted, duplicate, ignored

    def refuse(self, axis: Axis, place: str, beginning: bytes, reject: Reject, at: float) -> None:
        """Count a record of which no more than the beginning is there."""
        self._refusals = None
        batch = Batch(source=axis.name, place=place, bodies=[beginning], receipts=[0], received_at=at)
        self._reject(axis, batch, reject)
        outcome = Outcome(read=1, malformed=1)
        axis.totals.add(outcome)
        self._telemetry.batch_counted(axis.name, outcome)

    def _count_only(self, axis: Axis, reasons: Mapping[str, int]) -> None:
        """Rejects of whose kind enough is told."""
        for reason, count in reasons.items():
            self._telemetry.records_rejected(axis.name, reason, count)
            if self._refusals is not None:
                self._refusals.count(reason, count)

    def _reject(self, axis: Axis, batch: Batch, reject: Reject, trace: str = "") -> None:
        if self._refusals is not None:
            index = int(batch.receipts[reject.index]) - 1
            self._refusals.add(Refusal(index, reject.reason, mask(reject.detail)))
        # What our own code says of a failure may quote the event.
        self._telemetry.record_rejected(
            Rejected(
                source=axis.name,
                place=batch.place,
                receipt=str(batch.receipts[reject.index]),
                reason=reject.reason,
                detail=mask(reject.detail),
                first_bytes=beginning(batch, reject.index),
                at=batch.received_at,
                traceback=mask(trace),
            )
        )
