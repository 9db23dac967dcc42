"""The hot loop: a batch of events becomes transitions, whatever order the events come in.

`stitch` is one flat function over the regular path: a trail whose events fit its slots (each kind at most once per
attempt, one channel, one worker, nothing later than the end). Its conditions are exactly those under which `tally`
would give the same; everything else goes through `tally` (settle.py), and stays there for this trail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.model.alert import Evidence
from collector.model.event import KIND_CODE, Event
from collector.trail.bend import fill, tell
from collector.trail.evidence import Notes
from collector.trail.keep import Bounds, Home, Keep
from collector.trail.lifecycle import KIND_COUNT, RECEIVED, RETRIED, STARTED, SUCCEEDED
from collector.trail.memory import Generations
from collector.trail.misfits import DUPLICATE_FACT, Misfits
from collector.trail.reader import Reader
from collector.trail.rows import NAMELESS, Errors, Rows, Texts
from collector.trail.settle import Settler
from collector.trail.timeline import Timeline
from collector.trail.trace import TraceView
from collector.trail.trail import (
    EXPLICIT_SHIFT,
    FLAT_KINDS,
    M_DOWN,
    M_DUPLICATE,
    M_END,
    M_FINAL,
    M_IRREGULAR,
    M_RAN,
    M_RECEIVED,
    M_SENT,
    M_STARTED,
    M_TOTALLED,
    M_UP,
    M_WAITED,
    NAMED_SHIFT,
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

# Compiled for the hot loop. Per kind: the marks with which an event of it does not fit the slots (the kinds beyond have
# none), those whose facts it must not be later or earlier than, and the bits it sets by what it names.
_ENDING = M_IRREGULAR | M_END
MISFIT = (M_IRREGULAR | M_SENT, M_IRREGULAR | M_RECEIVED, M_IRREGULAR | M_STARTED, _ENDING, _ENDING, _ENDING)
ORDERED = (M_FINAL, 0, M_END, M_STARTED, M_STARTED, M_STARTED)
SEEN = tuple(1 << kind for kind in range(FLAT_KINDS))
NAMED = tuple(bit | bit << NAMED_SHIFT for bit in SEEN)
EXPLICIT = tuple(bit | bit << EXPLICIT_SHIFT for bit in SEEN)
TOLD = tuple(bit | bit << NAMED_SHIFT | bit << EXPLICIT_SHIFT for bit in SEEN)

_OTHERS = M_RECEIVED | M_STARTED | M_END

_DECISION = 16
"""What a decision costs, counted in trails that are only looked at."""
NEW = 0
"""The marks of a new trail; a test sets M_IRREGULAR to send everything through `tally`."""
_OTHERS = M_RECEIVED | M_STARTED | M_END

_DECISION = 16
"""What a decision costs, counted in trails that are only looked at."""
NEW = 0
"""The marks of a new trail; a test sets M_IRREGULAR to send everything through `tally`."""
_LIVES = 3
"""Earlier lives than the last three are let go after the horizon."""
_REGULAR, _ACCEPTED, _DUPLICATE = range(3)


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
        self._misfits = Misfits(rows, errors, self._texts, self._settler, self._keep, grace)
        self._reader = Reader(self._keep, rows, errors, self._notes, grace)
        self._channels: dict[str, int] = {}
        self._horizon = bounds.horizon_seconds

    def stitch(  # noqa: C901, PLR0912, PLR0915 - one flat loop: a call per step costs more than the step
        self, source: str, application: str, events: Sequence[Event], ats: Sequence[float], out: Transitions
    ) -> tuple[int, int, int]:
        """Take a batch of one source, with the axis time of each event; gives (accepted, duplicate, ignored).

        `application` joins the ids of several sources; "" keeps them apart. Appends to `out`.
        """
        home = self._keep.home(f"={application}" if application else source)
        channel = self._channel(source)
        find_trail = home.open.get
        rows_of = self._rows.tables(source)
        workers, intern = self._texts.known, self._texts.intern
        kinds, misfit, ordered = KIND_CODE, MISFIT, ORDERED
        seen, named, explicit, told = SEEN, NAMED, EXPLICIT, TOLD
        count, count_at = out.codes.append, out.ats.append
        measure, measure_seconds = out.measures.append, out.seconds.append
        measure_at, witness = out.measured_ats.append, out.witnesses.append
        fresh: list[Trail] = []
        duplicates = ignored = 0
        at = 0.0
        for event, at in zip(events, ats, strict=True):
            kind = kinds[event.kind]
            if kind >= KIND_COUNT:
                ignored += 1
                continue
            task_id = event.task_id
            try:
                row = rows_of[event.task][event.queue]
            except KeyError:
                row = self._rows.lookup(event.task, event.queue, source)
            trail = find_trail(task_id)
            if trail is None:
                trail = self._enter(home, channel, source, event, row, at, fresh)
            elif not trail.trace_id and event.trace_id is not None:
                fill(trail, event, self._texts)
                fresh.append(trail)  # it is indexed under the trace it now knows
            if row < 0 and channel == trail.source and (row == NAMELESS or self._fits(trail, event)):
                row = trail.row
            time = event.time
            if time is None:
                time = 0.0
            marks = trail.marks
            attempt = event.attempt
            worker = event.worker
            known_worker = trail.worker
            if (
                kind > RETRIED
                or row != trail.row  # also: another source
                or marks & misfit[kind]
                or (attempt != trail.attempt and (attempt is not None or trail.attempt != 1))
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
                    trail.worker = workers.get(worker) or intern(worker)
            else:
                marks |= seen[kind] if attempt is None else explicit[kind]
            code = row * STRIDE + kind

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
                        count(code)
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
                    if (trail.key or event.idempotency_key) and not self._is_first_success(trail, event, at):
                        marks |= M_DUPLICATE
                        self._settler.emit(trail, DUPLICATE_SUCCESS, row, at, 0, out)
                    elif marks & M_UP and not marks & M_DOWN and at >= trail.started_at:
                        marks |= M_DOWN
                        count(row * STRIDE + SUCCEEDED_DOWN)
                        count_at(at)
                    else:
                        count(code)
                        count_at(at)
                else:
                    self._fail(trail, event, kind, row, at, out)
                run = event.run_seconds
                if run is not None:
                    trail.run = run
                elif marks & M_STARTED and time and trail.started_time:
                    run = time - trail.started_time
                if run is not None:
                    marks |= M_RAN
                    measure(row * 3 + RUN)
                    measure_seconds(run)
                    measure_at(at if trail.run >= 0.0 or at > trail.started_at else trail.started_at)
                    witness(task_id)
                if marks & M_UP and not marks & M_DOWN:
                    marks |= M_DOWN
                    count(row * STRIDE + FLIGHT_DOWN)
                    count_at(at if at > trail.started_at else trail.started_at)
                if kind != RETRIED:
                    sent_time, sent_at = (trail.sent_time, trail.sent_at) if not trail.facts else origin(trail)
                    if sent_time and time >= sent_time:
                        marks |= M_TOTALLED
                        measure(row * 3 + TOTAL)
                        measure_seconds(time - sent_time)
                        measure_at(at if at > sent_at else sent_at)
                        witness(task_id)
            elif kind == RECEIVED:
                trail.received_time = time
                trail.received_at = at
                count(code)
                count_at(at)
            else:
                trail.sent_time = time
                trail.sent_at = at
                count(code)
                count_at(at)
                if event.eta is not None or trail.eta:
                    trail.eta = event.eta or 0.0
                if marks & _OTHERS:
                    marks = self._sent_late(trail, event, marks, out)
                    fresh.append(trail)
            trail.marks = marks
        if fresh:
            self._keep.welcome(home, fresh, at)
        self._keep.bound(at, out)
        return len(events) - duplicates - ignored, duplicates, ignored

    def watch(self, source: str, application: str, out: Transitions, codes: Array, seconds: Array) -> None:
        """Look at what a batch measured (`codes` and `seconds` of `out`, as arrays) for the slowest of late."""
        self._notes.watch(out, codes, seconds, self._keep.home(f"={application}" if application else source).index)

    def expire(self, at: float, out: Transitions, most: int = 2_000) -> bool:
        """Decide and let go what is due by the axis time `at`; True: more is due, call again.

        At most `most` trails in one call, fewer where decisions cost more than a look.
        """
        keep, misfits = self._keep, self._misfits
        misfits.decided = max(misfits.decided, at)
        left = most
        while left > 0 and (trail := keep.decisions.take(at)) is not None:
            left -= _DECISION
            misfits.settle(trail, out)
        for trail in keep.wheel.take(at, left):
            keep.revisit(trail, at, out)
        keep.forget(at)
        self._keys.forget(at)
        due = self.next_due()
        return due is not None and due <= at

    def next_due(self) -> float | None:
        """The axis time at which `expire` next has something to do, or None."""
        dues = [due for due in (self._keep.decisions.next_due(), self._keep.wheel.next_due()) if due is not None]
        return min(dues, default=None)

    def next_decision(self) -> float | None:
        """The axis time at which `expire` next may count something, or None."""
        return self._keep.decisions.next_due()

    def find(self, task_id: str) -> Timeline | None:
        """The timeline of a task id, open or finished, of whichever application."""
        return self._reader.find(task_id)

    def trace(self, trace_id: str) -> TraceView | None:
        """All trails of a trace id, with what they are parents of."""
        return self._reader.trace(trace_id)

    def trails(self) -> Iterator[Timeline]:
        """The timelines of everything that is remembered: finished ones first, then open ones."""
        return self._reader.trails()

    def evidence(self, rows: Iterable[int], facts: Iterable[str], since: float) -> Evidence:
        """Up to five tasks, newest first, that had these facts on these rows after `since`, and the top error classes.

        Of `facts`, `wait run total` ask for the slowest, `flight_up` for the oldest in flight.
        """
        return self._reader.evidence(list(rows), list(facts), since)

    @property
    def evictions(self) -> dict[str, int]:
        """How many left before their time, by reason of REASONS."""
        evictions = self._keep.evictions
        evictions["dead_letters"] = self._settler.dead_overflow
        evictions["keys_early"] = self._settler.keys_early
        return evictions

    def __len__(self) -> int:
        return self._keep.count()

    def _channel(self, source: str) -> int:
        channel = self._channels.get(source)
        if channel is None:
            channel = self._channels[source] = len(self._channels)
            self._settler.sources.append(source)
        return channel

    def _enter(  # noqa: PLR0913, PLR0917 - columns of the hot loop, not objects
        self, home: Home, channel: int, source: str, event: Event, row: int, at: float, fresh: list[Trail]
    ) -> Trail:
        """The trail of an id that is not open: thawed where it is remembered, else new and among the `fresh` ones."""
        task_id = event.task_id
        if home.finished.size:
            thawed = self._keep.thaw(home, task_id, at)
            if thawed is not None:
                return thawed
        marks = NEW
        if row >= 0:
            if row < self._rows.cap:
                self._rows.queues[event.task] = event.queue
        elif event.task and event.task not in self._rows.queues:
            row = self._rows.row(event.task, "", source)
        else:
            row, marks = -1, M_IRREGULAR
        caller = event.caller
        if caller is not None:
            caller = self._texts.intern(caller)
        trail = home.open[task_id] = Trail(
            marks,
            row,
            event.attempt or 1,
            "",
            event.trace_id or "",
            task_id=task_id,
            home=home.index,
            source=channel,
            born=at,
            caller=caller or "",
            parent_id=event.parent_id or "",
        )
        if event.idempotency_key is not None or event.root_id is not None:
            fill(trail, event, self._texts)
        dead = self._settler.dead
        if dead and (home.index, task_id) in dead:
            trail.dead_row = dead[home.index, task_id]
            trail.marks = M_IRREGULAR
        fresh.append(trail)
        return trail

    def _fits(self, trail: Trail, event: Event) -> bool:
        """Whether what an event names of task and queue is what its trail is named."""
        if trail.row < 0:
            return False
        task, queue, _ = self._rows.names(trail.row)
        return (not event.task or event.task == task) and (not event.queue or event.queue == queue)

    def _is_first_success(self, trail: Trail, event: Event, at: float) -> bool:
        fill(trail, event, self._texts)
        return self._settler.is_first_success(trail, at)

    def _fail(  # noqa: PLR0913, PLR0917 - as above
        self, trail: Trail, event: Event, kind: int, row: int, at: float, out: Transitions
    ) -> None:
        """Count a failed or retried try in its slot."""
        trail.error = self._errors.intern(event.error)
        if event.error_message:
            tell(trail, event.error_message)
        if kind == RETRIED:
            trail.next_eta = event.eta or 0.0
        self._settler.emit(trail, kind, row, at, trail.error, out)

    def _sent_late(self, trail: Trail, event: Event, marks: int, out: Transitions) -> int:
        """`sent` was overtaken: what waited for it is measured now. Gives the marks."""
        fill(trail, event, self._texts)
        ready = max(trail.sent_time, trail.eta)
        if marks & M_STARTED and not marks & M_WAITED and 0.0 < ready <= trail.started_time:
            marks |= M_WAITED
            at = max(trail.sent_at, trail.started_at)
            out.measure(trail.row, WAIT, trail.started_time - ready, at, trail.task_id)
        if marks & M_FINAL and not marks & M_TOTALLED:
            sent_time, sent_at = origin(trail)
            if 0.0 < sent_time <= trail.end_time:
                marks |= M_TOTALLED
                at = max(sent_at, trail.end_at)
                out.measure(trail.row, TOTAL, trail.end_time - sent_time, at, trail.task_id)
        return marks
