"""The hot loop: a batch of events becomes transitions, whatever order the events come in.

`stitch` is one flat function over the regular path: a trail whose events fit its slots (each kind at most once per
attempt, one channel, one worker, nothing later than the end). Its conditions are exactly those under which `tally`
would give the same; everything else goes through `tally` (settle.py), and stays there for this trail.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from collector.model.event import KIND_CODE, Event
from collector.trail.bend import fill
from collector.trail.evidence import Notes
from collector.trail.findings.judge import Findings
from collector.trail.keep import Bounds, Keep
from collector.trail.lifecycle import KIND_COUNT, RECEIVED, RETRIED, SENT, STARTED, SUCCEEDED
from collector.trail.listing import Listing
from collector.trail.memory import Generations
from collector.trail.misfits import DUPLICATE_FACT, Misfits
from collector.trail.promises import Promises
from collector.trail.reader import Reader
from collector.trail.rows import NAMELESS, Errors, Rows, Texts
from collector.trail.saving import Parts
from collector.trail.settle import Settler
from collector.trail.sieve import Sieve
from collector.trail.slots import EXPLICIT, MISFIT, NAMED, ORDERED, SEEN, TOLD
from collector.trail.trail import (
    M_DOWN,
    M_DUPLICATE,
    M_END,
    M_RAN,
    M_RECEIVED,
    M_STARTED,
    M_TOTALLED,
    M_UP,
    M_WAITED,
    Trail,
    origin,
)
from collector.trail.transitions import (
    DUPLICATE_SUCCESS,
    FLIGHT_DOWN,
    RUN,
    STARTED_UP,
    STRIDE,
    SUCCEEDED_DOWN,
    TOTAL,
    WAIT,
    Array,
    Transitions,
)
from collector.trail.wheel import earliest

_OTHERS = M_RECEIVED | M_STARTED | M_END
_FLYING = M_UP | M_DOWN

_task_id = attrgetter("task_id")

_DECISION = 16
"""What a decision costs, counted in trails that are only looked at."""
NEW = 0
"""The marks of a new trail; a test sets M_IRREGULAR to send everything through `tally`."""


class Stitcher:
    """All trails of all sources. One asyncio loop owns it; time comes in as `at` on each source's axis."""

    def __init__(self, rows: Rows, errors: Errors, bounds: Bounds, grace: float = 5.0) -> None:
        self.grace = grace
        self._rows = rows
        self._errors = errors
        self._texts = Texts()
        self._notes = Notes()
        keys: Generations[str] = Generations(bounds.finished_seconds, bounds.keys)
        self._settler = Settler(rows, self._notes, keys, bounds.dead_letters, grace)
        self._keep = Keep(bounds, self._settler)
        self._keys = keys
        self.promises = Promises(rows, errors, self._keep, self._settler, grace)
        self.findings = Findings(rows, errors, self._keep, self._settler, self._notes, self.promises.holes, grace)
        self._misfits = Misfits(
            rows, errors, self._texts, self._settler, self._keep, self.promises, self.findings, grace
        )
        self.reader = Reader(self._keep, rows, errors, self._notes, grace)
        self.listing = Listing(self._keep, rows, errors, grace)
        self.sieve = Sieve(self._keep, rows, errors, self.findings.usual, grace)
        self._channels: dict[tuple[str, str], int] = {}
        self.parts = Parts(
            rows, errors, self._texts, self._notes, self._settler, self._keep, keys, self._misfits, self._channels,
            self.promises, self.findings,
        )  # fmt: skip
        """What a saver or a loader of it works on."""

    def stitch(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one flat loop: a call per step costs more than the step
        self,
        source: str,
        application: str,
        events: Sequence[Event],
        ats: Sequence[float],
        out: Transitions,
        channel_name: str = "",
    ) -> tuple[int, int, int]:
        """Take a batch of one source, with the axis time of each event; gives (accepted, duplicate, ignored).

        `application` joins the ids of several sources; "" keeps them apart. A fact that several channels tell of
        counts once: each source is one, or has several by name. Appends to `out`.
        """
        home = self._keep.home(f"={application}" if application else source)
        if self._keep.is_saved:
            home.touched.update(dict.fromkeys(map(_task_id, events), True))
        channel = self._channel(source, channel_name)
        opened, finished, dead, home_index = home.open, home.finished, self._settler.dead, home.index
        find_trail = opened.get
        rows_of, queues, row_cap = self._rows.tables(source), self._rows.queues, self._rows.cap
        known, intern = self._texts.known.get, self._texts.intern
        kinds, misfit, ordered = KIND_CODE, MISFIT, ORDERED
        seen, named, explicit, told = SEEN, NAMED, EXPLICIT, TOLD
        count, count_at = out.codes.append, out.ats.append
        measure, measure_seconds = out.measures.append, out.seconds.append
        measure_at, witness = out.measured_ats.append, out.witnesses.append
        fresh: list[Trail] = []
        duplicates = ignored = 0
        at = 0.0
        for event, at in zip(events if out.notes is None else out.noting(events), ats, strict=True):
            kind = kinds[event.kind]
            if kind >= KIND_COUNT:
                ignored += 1
                continue
            task_id = event.task_id
            try:
                row = rows_of[event.task][event.queue]
            except KeyError:
                row = self._rows.lookup(event.task, event.queue, source)
            time = event.time
            if time is None:
                time = 0.0
            attempt = event.attempt
            worker = event.worker
            trail = find_trail(task_id)
            if trail is None:
                if finished.size and (trail := self._keep.thaw(home, task_id, at)) is not None:
                    pass
                elif (
                    kind == SENT  # in good order: nothing to look at, everything to keep
                    and 0 <= row < row_cap
                    and not worker
                    and event.idempotency_key is None
                    and event.root_id is None
                    and task_id not in dead
                    and not NEW
                ):
                    queues[event.task] = event.queue
                    caller = event.caller
                    trail = opened[task_id] = Trail(
                        seen[SENT] if attempt is None else explicit[SENT],
                        row,
                        attempt or 1,
                        "",
                        event.trace_id,
                        task_id=task_id,
                        home=home_index,
                        source=channel,
                        born=at,
                        sent_time=time,
                        sent_at=at,
                        eta=event.eta or 0.0,
                        caller="" if caller is None else known(caller) or intern(caller),
                        parent_id=event.parent_id or "",
                    )
                    fresh.append(trail)
                    count(row * STRIDE + SENT)
                    count_at(at)
                    continue
                else:
                    trail = self._misfits.enter(home, channel, source, event, row, at)
                    trail.marks |= NEW
                    fresh.append(trail)
            elif trail.trace_id is None and event.trace_id is not None:
                fill(trail, event, self._texts)
                fresh.append(trail)  # it is indexed under the trace it now knows
            if row < 0 and channel == trail.source and (row == NAMELESS or self._misfits.fits(trail, event)):
                row = trail.row
            marks = trail.marks
            known_worker = trail.worker
            if (
                kind > RETRIED
                or row != trail.row  # also: another source
                or channel != trail.source
                or marks & misfit[kind]
                or (trail.attempt != 1 if attempt is None else attempt != trail.attempt)
                or (worker and worker != known_worker and known_worker)
                or (
                    marks & ordered[kind]
                    and (
                        (time or at) < (trail.started_time or trail.started_at)
                        if kind > STARTED
                        else (time or at) > (trail.end_time or trail.end_at)
                    )
                )
            ):
                verdict = self._misfits.take(trail, event, kind, row, channel, time, at, out)
                if verdict:
                    duplicates += verdict == DUPLICATE_FACT
                    continue
                marks = trail.marks
                known_worker = trail.worker

            if worker:
                marks |= named[kind] if attempt is None else told[kind]
                if not known_worker:
                    trail.worker = known(worker) or intern(worker)
            else:
                marks |= seen[kind] if attempt is None else explicit[kind]

            if kind == STARTED:
                trail.started_time = time
                trail.started_at = at
                count_at(at)
                ready = trail.sent_time
                if trail.eta > ready:
                    ready = trail.eta
                if ready and time >= ready:
                    marks |= M_WAITED
                    sent_at = trail.sent_at
                    measure(row * 3 + WAIT)
                    measure_seconds(time - ready)
                    measure_at(at if at > sent_at else sent_at)
                    witness(task_id)
                if not marks & M_END:
                    marks |= M_UP
                    count(row * STRIDE + STARTED_UP)
                else:
                    marks |= M_UP | M_DOWN
                    if trail.end_at > at:
                        count(row * STRIDE + STARTED_UP)
                        count(row * STRIDE + FLIGHT_DOWN)
                        count_at(trail.end_at)
                    else:
                        count(row * STRIDE + STARTED)
                    if not marks & M_RAN and time and trail.end_time:
                        marks |= M_RAN
                        measure(row * 3 + RUN)
                        measure_seconds(trail.end_time - time)
                        measure_at(at if at > trail.end_at else trail.end_at)
                        witness(task_id)
            elif kind > STARTED:
                trail.end_time = time
                trail.end_at = at
                if kind == SUCCEEDED:
                    if (trail.key or event.idempotency_key) and not self._misfits.is_first_success(trail, event, at):
                        marks |= M_DUPLICATE
                        self._settler.emit(trail, DUPLICATE_SUCCESS, row, at, 0, out)
                    elif marks & _FLYING == M_UP and at >= trail.started_at:
                        marks |= M_DOWN
                        count(row * STRIDE + SUCCEEDED_DOWN)
                        count_at(at)
                    else:
                        count(row * STRIDE + SUCCEEDED)
                        count_at(at)
                else:
                    self._misfits.fail(trail, event, kind, row, at, out)
                run = event.run_seconds
                if run is not None:
                    marks |= M_RAN
                    trail.run = run
                    measure(row * 3 + RUN)
                    measure_seconds(run)
                    measure_at(at)
                    witness(task_id)
                elif marks & M_STARTED and time and trail.started_time:
                    marks |= M_RAN
                    measure(row * 3 + RUN)
                    measure_seconds(time - trail.started_time)
                    measure_at(at if at > trail.started_at else trail.started_at)
                    witness(task_id)
                if marks & _FLYING == M_UP:
                    marks |= M_DOWN
                    count(row * STRIDE + FLIGHT_DOWN)
                    count_at(at if at > trail.started_at else trail.started_at)
                if kind != RETRIED:
                    sent_time, sent_at = trail.sent_time, trail.sent_at
                    if trail.facts:
                        sent_time, sent_at = origin(trail)
                    if sent_time and time >= sent_time:
                        marks |= M_TOTALLED
                        measure(row * 3 + TOTAL)
                        measure_seconds(time - sent_time)
                        measure_at(at if at > sent_at else sent_at)
                        witness(task_id)
            elif kind == RECEIVED:
                trail.received_time = time
                trail.received_at = at
                count(row * STRIDE + RECEIVED)
                count_at(at)
            else:
                trail.sent_time = time
                trail.sent_at = at
                count(row * STRIDE + SENT)
                count_at(at)
                if event.eta is not None or trail.eta:
                    trail.eta = event.eta or 0.0
                if marks & _OTHERS:
                    marks = self._misfits.sent_late(trail, event, marks, out)
                    fresh.append(trail)
            trail.marks = marks
        if fresh:
            self._keep.welcome(home, fresh, ats)
            if self.promises.is_asked:
                self.promises.welcome(fresh)
            if self.findings.is_asked:
                self.findings.welcome(fresh)
        if ignored:
            self.findings.crew.take(home_index, source, events, ats)
        if self._misfits.crowds:
            duplicates += self._misfits.settle_crowds(out)
        if self._misfits.failed:
            self._misfits.open_dead_letters(out)
        self._keep.bound(at, out)
        return len(events) - duplicates - ignored, duplicates, ignored

    def watch(self, source: str, application: str, out: Transitions, codes: Array, seconds: Array) -> None:
        """Look at what a batch measured (`codes` and `seconds` of `out`, as arrays) for the slowest of late."""
        home = self._keep.home(f"={application}" if application else source)
        self._notes.watch(out, codes, seconds, home.index)
        if self.promises.is_asked:
            self.promises.watch(codes, out.witnesses, home)
        self.findings.watch(source, codes, seconds, out.measured_ats)

    def expire(self, at: float, out: Transitions, most: int = 2_000) -> bool:
        """Decide and let go what is due by the axis time `at`, `most` looks' worth of it; True: call again."""
        keep, misfits = self._keep, self._misfits
        misfits.decided = max(misfits.decided, at)
        left = most
        while left > 0 and (trail := keep.decisions.take(at)) is not None:
            left -= _DECISION
            if keep.is_saved:
                keep.homes[trail.home].touched[trail.task_id] = True
            misfits.settle(trail, out)
        left -= _DECISION * self.promises.expire(at, max(0, left) // _DECISION)
        left -= self.findings.expire(at, max(0, left))
        for trail in keep.wheel.take(at, max(0, left)):
            keep.revisit(trail, at, out)
        keep.forget(at)
        self._keys.forget(at)
        return (due := self.next_due()) is not None and due <= at

    def next_due(self) -> float | None:
        """The axis time at which `expire` next has something to do, or None."""
        return earliest(self.next_decision(), self._keep.wheel.next_due())

    def next_decision(self) -> float | None:
        """The axis time at which `expire` next may count something, or None."""
        return earliest(self._keep.decisions.next_due(), self.promises.next_due(), self.findings.next_due())

    @property
    def evictions(self) -> dict[str, int]:
        """How many left before their time, by reason of REASONS."""
        early = {"dead_letters": self._settler.dead_overflow, "keys_early": self._settler.keys_early}
        self._keep.evictions |= early | {
            "deadlines": self.promises.unseen + self.findings.unseen,
            "names": self._rows.overflowed,
        }
        return self._keep.evictions

    def __len__(self) -> int:
        return self._keep.count()

    def _channel(self, source: str, name: str) -> int:
        channel = self._channels.get((source, name))
        if channel is None:
            channel = self._channels[source, name] = len(self._channels)
            self._settler.sources.append(source)
        return channel
