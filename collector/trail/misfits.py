"""The slow ways of an event: what is seldom enough, or costs enough, for a call of its own.

Most of all events that do not fit their trail's slots: repeats, the next attempt of a chain, what only `tally` can
decide.
"""

from __future__ import annotations

from collector.model.event import Event
from collector.trail.bend import beyond, cut, fill, is_repeat, promote, repeated, roll, tell
from collector.trail.findings.judge import Findings
from collector.trail.keep import Home, Keep
from collector.trail.lifecycle import DEAD_LETTERED, FAILED, IS_FAILURE, RETRIED, STARTED
from collector.trail.promises import Promises
from collector.trail.rows import Errors, Rows, Texts
from collector.trail.settle import Settler
from collector.trail.tally import Life
from collector.trail.trail import (
    M_FINAL,
    M_IRREGULAR,
    M_STARTED,
    M_TOTALLED,
    M_WAITED,
    Fact,
    Trail,
    origin,
)
from collector.trail.transitions import TOTAL, WAIT, Transitions

_LIVES = 3
"""Earlier lives than the last three are let go after the horizon."""
_CROWD = 32
"""A trail with more facts is settled once per batch: each time all of them are gone through."""
_HARD = 2
"""So many times the bound on facts a trail never exceeds, whatever is still running, or may be overtaken."""
REGULAR, ACCEPTED, DUPLICATE_FACT = range(3)
"""What became of such an event; REGULAR: the slots are ready for it now."""


class Crowd:
    """A trail with many facts, and how many of them wait for the end of the batch."""

    __slots__ = ("repeats", "trail", "waiting")

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self.waiting = 0
        self.repeats = 0
        """Of those that waited, how many turned out to be no facts of their own."""


class Misfits:
    """The slow ways of one stitcher."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one stitcher
        self,
        rows: Rows,
        errors: Errors,
        texts: Texts,
        settler: Settler,
        keep: Keep,
        promises: Promises,
        findings: Findings,
        grace: float,
    ) -> None:
        self._rows = rows
        self._errors = errors
        self._texts = texts
        self._settler = settler
        self._keep = keep
        self._promises = promises
        self._findings = findings
        self._grace = grace
        self.failed: list[Trail] = []
        """What failed for good in this batch, and must not."""
        self.crowds: dict[tuple[int, str], Crowd] = {}
        """Trails with many facts that had more in this batch."""
        self.told: list[Event] | None = None
        """Events that told of dead letters, since whoever asks has looked last."""
        self.decided = 0.0
        """The axis time up to which what rests on missing facts is decided."""

    def enter(  # noqa: PLR0913, PLR0917 - columns of the hot loop, not objects
        self, home: Home, channel: int, source: str, event: Event, row: int, at: float
    ) -> Trail:
        """A new trail for an id that is not remembered, of an event that is not simply sent."""
        task_id = event.task_id
        marks = 0
        if row >= 0:
            if row < self._rows.cap:
                self._rows.queues[event.task] = event.queue
        elif event.task and event.task not in self._rows.queues:
            row = self._rows.row(event.task, "", source)
        else:
            row, marks = -1, M_IRREGULAR
        trail = home.open[task_id] = Trail(
            marks, row, event.attempt or 1, task_id=task_id, home=home.index, source=channel, born=at
        )
        fill(trail, event, self._texts)
        dead_row = self._settler.dead.get(task_id, {}).get(home.index)
        if dead_row is not None:
            trail.dead_row = dead_row
            trail.marks = M_IRREGULAR
        return trail

    def fits(self, trail: Trail, event: Event) -> bool:
        """Whether what an event names of task and queue is what its trail is named."""
        if trail.row < 0:
            return False
        task, queue, _ = self._rows.names(trail.row)
        return (not event.task or event.task == task) and (not event.queue or event.queue == queue)

    def take(  # noqa: PLR0913, PLR0917 - columns of the hot loop, not objects
        self, trail: Trail, event: Event, kind: int, row: int, channel: int, time: float, at: float, out: Transitions
    ) -> int:
        """An event that does not fit the slots: a repeat, the next attempt (slots are made ready), or for `tally`."""
        if event.queue and event.task and row < self._rows.cap:  # the first to name it may be a stored result
            self._rows.queues[event.task] = event.queue
        if self.told is not None and (kind == DEAD_LETTERED or (kind == FAILED and self._settler.is_must is not None)):
            self.told.append(event)
        if event.parent_id and not trail.parent_id:  # told late: its parent does not know of it yet
            fill(trail, event, self._texts)
            self._keep.homes[trail.home].links.add(trail, at)
        told = repeated(trail.facts, kind, event, time, channel)
        if trail.marks & M_IRREGULAR:
            if told is not None:
                return self._repeat(trail, event, kind, told)
        elif channel == trail.source:
            if told is not None or is_repeat(trail, kind, event, time, at, self._grace):
                return self._repeat(trail, event, kind, told)
            held = len(trail.facts or ())
            if row == trail.row and held < self._keep.bounds.trail_facts and roll(trail, kind, event, time, at):
                self._keep.irregular_facts += len(trail.facts or ()) - held
                if kind == STARTED:
                    self._findings.soon(trail, at)
                return REGULAR
        self._keep.irregular_facts -= len(trail.facts or ())
        facts = promote(trail)
        facts.append(self._fact(trail, event, kind, row, channel, time, at))
        self._keep.irregular_facts += len(facts)
        return self._grown(trail, len(facts), out)

    def _grown(self, trail: Trail, held: int, out: Transitions) -> int:
        """A trail has one more fact: count it, at the end of the batch where each settling costs much."""
        if held > _CROWD:
            crowd = self.crowds.setdefault((trail.home, trail.task_id), Crowd(trail))
            crowd.waiting += 1
            if held > _HARD * self._keep.bounds.trail_facts:
                self._settle_crowd(crowd, out)
            return ACCEPTED
        return ACCEPTED if self.settle(trail, out) else DUPLICATE_FACT

    def settle_crowds(self, out: Transitions) -> int:
        """Settle what waited for the end of the batch; gives how many were accepted that are duplicates."""
        crowds, self.crowds = self.crowds, {}
        for crowd in crowds.values():
            self._settle_crowd(crowd, out)
        return sum(crowd.repeats for crowd in crowds.values())

    def _settle_crowd(self, crowd: Crowd, out: Transitions) -> None:
        if crowd.waiting:
            crowd.repeats += crowd.waiting - min(crowd.waiting, self.settle(crowd.trail, out))
            crowd.waiting = 0

    def _repeat(self, trail: Trail, event: Event, kind: int, told: Fact | None) -> int:
        """A fact (`told`, else that of the slot) that came again only fills in what was missing.

        Of two error classes it is always the same one that is believed in the timeline; `task_failed_total` and the
        like have counted the one that came first, and keep it.
        """
        fill(trail, event, self._texts)
        if IS_FAILURE[kind]:
            error = self._errors.intern(event.error)
            if told is not None:
                told.error = self._errors.either(told.error, error)
            elif not trail.marks & M_IRREGULAR:
                trail.error = self._errors.either(trail.error, error)
            if event.error_message and not trail.message:
                tell(trail, event.error_message)
        return DUPLICATE_FACT

    def _fact(  # noqa: PLR0913, PLR0917 - as above
        self, trail: Trail, event: Event, kind: int, row: int, channel: int, time: float, at: float
    ) -> Fact:
        """An event as a fact of an irregular trail, which learns from it what it did not know."""
        texts = self._texts
        fill(trail, event, texts)
        if event.error_message and IS_FAILURE[kind]:
            tell(trail, event.error_message)
        if row >= 0 and (trail.row < 0 or self._rows.names(trail.row)[1] == ""):
            trail.row = row
        return Fact(
            kind,
            event.attempt or 0,
            time,
            at,
            texts.intern(event.worker) if event.worker else "",
            channel,
            row,
            0,
            self._errors.intern(event.error) if IS_FAILURE[kind] else 0,
            -1.0 if event.run_seconds is None else event.run_seconds,
            event.eta or 0.0,
            texts.intern(event.task) if event.task else "",
            texts.intern(event.queue) if event.queue else "",
        )

    def fail(  # noqa: PLR0913, PLR0917 - as above
        self, trail: Trail, event: Event, kind: int, row: int, at: float, out: Transitions
    ) -> None:
        """Count a failed or retried try in its slot."""
        trail.error = self._errors.intern(event.error)
        if event.error_message:
            tell(trail, event.error_message)
        if kind == RETRIED:
            trail.next_eta = event.eta or 0.0
        elif self._settler.is_must is not None and self._settler.is_must(row):
            self.failed.append(trail)
            if self.told is not None:
                self.told.append(event)
        self._settler.emit(trail, kind, row, at, trail.error, out)
        self._findings.soon(trail, at)

    def open_dead_letters(self, out: Transitions) -> None:
        """What failed for good and must be completed is a dead letter, which only irregular trails can have."""
        failed, self.failed = self.failed, []
        for trail in failed:
            if not trail.marks & M_IRREGULAR:
                held = len(trail.facts or ())
                self._keep.irregular_facts += len(promote(trail)) - held
            self.settle(trail, out)

    def is_first_success(self, trail: Trail, event: Event, at: float) -> bool:
        """Whether a success is the first for its idempotency key, which the event may be the one to name."""
        fill(trail, event, self._texts)
        return self._settler.is_first_success(trail, at)

    def sent_late(self, trail: Trail, event: Event, marks: int, out: Transitions) -> int:
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

    def settle(self, trail: Trail, out: Transitions) -> int:
        """Bring an irregular trail's counts up to date, see to its next decision, and keep it small.

        Gives how many facts of their own it has more than before.
        """
        keep = self._keep
        due, known = trail.due, trail.distinct
        lives = self._settler.settle(trail, self.decided, out)
        gained = trail.distinct - known
        if self._promises.is_asked:
            self._promises.judge(trail)
        if over := self._over(trail, lives, out):
            cut(trail, over)
            keep.irregular_facts -= len(over)
            lives = self._settler.settle(trail, self.decided, out)
        if trail.due and trail.due != due:
            keep.decisions.arm(trail, trail.due)
        self._findings.settled(trail, lives)
        return max(0, gained)

    def _over(self, trail: Trail, lives: list[Life], out: Transitions) -> list[Fact]:
        """What has to leave a trail: more facts than the bound, or lives that are long over."""
        bound, held = self._keep.bounds.trail_facts, len(trail.facts or ())
        if held <= bound:
            if len(lives) <= _LIVES:
                return []
            settled = lives[-1].order[0].fact.at - self._keep.bounds.horizon_seconds
            return beyond(trail, lives, len(lives[-1].order) + len(lives[-2].order), settled)
        newest = lives[-1].order[-1].fact.at
        over = beyond(trail, lives, 2 * bound // 3, newest - self._grace)
        if held > _HARD * bound:  # no one task does this much: what is left to decide about its oldest is decided now
            over = beyond(trail, lives, 2 * bound // 3)
            self._settler.settle(trail, max(fact.at for fact in over) + self._grace, out)
            self._settler.land(over, newest, out)
        elif len(over) < bound // 6:  # not yet worth the while
            return []
        self._keep.evictions["trail_facts"] += len(over)
        return over
