"""Looks at trails when something about them may be due, and finds each thing once.

Costs nothing while trails are regular and no contract asks: a look is armed by what is seldom (a failed try, an
irregular trail, a worker that is gone), by a contract's limits, or comes with the round that looks at old trails.
Emits into its own `out`. What was found stays on the trail; a loss is made good by what is seen after it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

from collector.model.contract import Contracts
from collector.trail.bend import land, promote
from collector.trail.evidence import Notes
from collector.trail.findings.asked import asks, first_look, is_plain, is_strict, next_look
from collector.trail.findings.crew import Crew
from collector.trail.findings.holes import Holes
from collector.trail.findings.hunt import Hunt
from collector.trail.findings.late import LEAST_SECONDS
from collector.trail.findings.lost import after
from collector.trail.findings.saved import SavedFindings
from collector.trail.findings.schedule import Schedules, Turn
from collector.trail.findings.sight import Departure, Sight, Verdict
from collector.trail.findings.skew import skew
from collector.trail.findings.storm import Storms
from collector.trail.findings.table import KINDS, Kind
from collector.trail.findings.usual import Usual
from collector.trail.keep import Keep
from collector.trail.lifecycle import LOST, REQUEUED
from collector.trail.rows import Errors, Rows
from collector.trail.settle import Settler
from collector.trail.tally import Life, Placed, lives_of
from collector.trail.terms import Terms
from collector.trail.trail import M_END, M_IRREGULAR, M_SENT, M_STARTED, UNKNOWN_LINE, Found, Trail, facts_of
from collector.trail.transitions import FINDINGS, MEASURES, RECOVERED, STRIDE, WAIT, Array, Transitions
from collector.trail.transitions import LOST as FACT_LOST

_LIVES = 2
"""So many of the latest lives are looked at."""
_SKIMMED = 50
_MOST = 32
"""Findings of one trail."""
_LOOK = 16
"""What a judgement costs, counted in trails that are only passed by."""
_FORGET_SECONDS = 60.0


class Findings:
    """What one stitcher's trails are found to be."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one stitcher
        self, rows: Rows, errors: Errors, keep: Keep, settler: Settler, notes: Notes, holes: Holes, grace: float
    ) -> None:
        self.is_asked = False
        """Whether a contract has something to hold new trails against."""
        self.out = Transitions()
        """What was found since it was last cleared."""
        self.unseen = 0
        """What was not judged: too much was open, or the trail overlaps a hole."""
        self.holes = holes
        self.usual = Usual(grace)
        self.crew = Crew(self.holes, grace)
        self.schedules = Schedules(self.holes, grace)
        self.storms = Storms(notes, grace)
        self._rows = rows
        self._errors = errors
        self._keep = keep
        self._settler = settler
        self._notes = notes
        self._grace = grace
        self._terms = Terms(rows)
        self._telling: dict[str, float] = {}
        """Source → since when it tells of starts."""
        self._forgot_at = 0.0
        self._heap: list[tuple[float, int, str]] = []
        self._hunts: list[Hunt] = []
        self._held: list[Trail] = []
        """What workers had in hand that may be gone."""
        self._decided = 0.0
        keep.overlook, keep.farewell = self.overlook, self.farewell
        settler.retried = self.storms.retried

    def use(self, contracts: Contracts | None) -> None:
        """Hold trails against these from now on."""
        self.is_asked = any(map(asks, self._terms.use(contracts)))

    # What the stitcher tells

    def welcome(self, trails: list[Trail]) -> None:
        """New trails: those that a contract limits are looked at when they may have reached a limit."""
        for trail in trails:
            terms = self._terms.of(trail.row)
            if terms.period is not None and trail.marks & M_SENT:
                turn = Turn(trail.row, terms.period, trail.sent_at, trail.task_id, trail.home)
                self.schedules.sent(self._rows.names(trail.row), turn)
            if terms.time_limit is not None or terms.deadline is not None:
                wait = max(0.0, trail.eta - (trail.sent_time or trail.born)) if trail.eta else 0.0
                self.arm(trail, trail.born + wait + first_look(terms, self.usual, trail) + self._grace)
            if trail.attempt > 1 and is_strict(terms):
                self.soon(trail, trail.born)

    def soon(self, trail: Trail, at: float) -> None:
        """Something seldom happened to a trail at `at`: look at it when all that was overtaken by it is there."""
        if self.is_asked and is_strict(self._terms.of(trail.row)):
            self.arm(trail, at + self._grace)

    def settled(self, trail: Trail, lives: list[Life]) -> None:
        """An irregular trail has one more fact."""
        if trail.findings or self.is_asked or any(kind == REQUEUED for kind, _ in lives[-1].groups):
            self.arm(trail, lives[-1].order[-1].fact.at + self._grace)

    def watch(self, source: str, codes: Array, seconds: Array, ats: list[float]) -> None:
        """Learn what a batch of a source measured."""
        first = min(ats)
        self.usual.learn(codes, seconds, ats, first)
        since = self._telling.get(source, inf)
        if first < since:
            waits = (codes % len(MEASURES) == WAIT).nonzero()[0].tolist()
            self._telling[source] = min((ats[place] for place in waits), default=since)

    def arm(self, trail: Trail, due: float) -> None:
        """Look at a trail at `due`, or before."""
        if trail.look_at and trail.look_at <= due:
            return
        if len(self._heap) >= self._keep.bounds.deadlines:
            self.unseen += 1
            return
        trail.look_at = due
        heapq.heappush(self._heap, (due, trail.home, trail.task_id))

    def overlook(self, trail: Trail, at: float) -> None:
        """The round came by an open trail that is not over: whether it waits or runs too long for its kind."""
        due = -inf if trail.marks & M_IRREGULAR else next_look(trail, self._terms.of(trail.row), self.usual, at)
        if trail.marks & (M_STARTED | M_END) == M_STARTED and self.crew.idle(
            trail.home, trail.worker, trail.started_at
        ):
            due = -inf
        if due + self._grace <= at:
            self._look(trail)
        elif due < inf:
            self.arm(trail, due + self._grace)

    def farewell(self, trail: Trail) -> None:
        """A trail is frozen or goes: what is due of it is found now."""
        if trail.look_at or trail.marks & M_IRREGULAR or trail.end_at - trail.born > LEAST_SECONDS:
            trail.look_at = 0.0
            if not self._is_plain(trail):
                self._judge_and_note(trail)

    def _is_plain(self, trail: Trail) -> bool:
        return is_plain(trail, self._terms.of(trail.row), self.usual)

    # What time brings

    def expire(self, at: float, most: int) -> int:
        """Find what is due by `at`, about so many looks' worth; gives how many were used."""
        self._decided = max(self._decided, at)
        self.usual.roll(at)
        if at >= self._forgot_at + _FORGET_SECONDS:
            self._forgot_at = at
            self.crew.forget(at)
        self._beyond(at)
        used = self._hunt(at, most)
        if not self._hunts:
            used += _LOOK * self.holes.look(max(0, most - used) // _LOOK)
        while used < most and not self._hunts and self._held:
            trail = self._held.pop()
            used += _LOOK
            if self._keep.holds(trail):
                self._look(trail)
        while used < most and not self._hunts and self._heap and self._heap[0][0] <= at:
            due, index, task_id = heapq.heappop(self._heap)
            one = self._keep.homes[index].open.get(task_id)
            used += 1
            if one is not None and one.look_at == due:
                one.look_at = 0.0
                if not self._is_plain(one):
                    used += _LOOK
                    self._look(one)
        return used

    def next_due(self) -> float | None:
        """When something may be found next, axis time; of what is over, some is passed by."""
        for _ in range(_SKIMMED):
            if not self._heap or not self._is_stale(*self._heap[0]):
                break
            heapq.heappop(self._heap)
        dues = (self.crew.next_due(), self.schedules.next_due(), self.storms.next_due())
        least = min((due for due in dues if due is not None), default=inf)
        if self._hunts or self._held or self.holes.is_ready:
            least = min(least, self._decided)
        least = min(least, self._heap[0][0] if self._heap else inf)
        return None if least == inf else least

    def _is_stale(self, due: float, index: int, task_id: str) -> bool:
        trail = self._keep.homes[index].open.get(task_id)
        if trail is None or trail.look_at != due:
            return True
        if self._is_plain(trail):
            trail.look_at = 0.0
            return True
        return False

    def _beyond(self, at: float) -> None:
        """What no single trail shows."""
        for turn, due in self.schedules.missed(at):
            self._count("missed_schedule", turn.row, due, turn.home, turn.task_id)
        for row, error, due in self.storms.found(at):
            home, task_id = self._notes.latest(row, error) or (0, "")
            self._count("retry_storm", row, due, home, task_id)
        skewed, self.crew.skewed = self.crew.skewed, []
        for worker, when in skewed:
            seconds = skew(worker.offsets)
            said = f"worker {worker.name}: {abs(seconds):.3g} s {'ahead' if seconds > 0 else 'behind'}"
            self._count("skew", self._rows.row("", "", worker.source), when, worker.home, said)

    def _count(self, name: str, row: int, at: float, home: int, task_id: str) -> None:
        error, code = self._errors.intern(name, is_ours=True), row * STRIDE + FINDINGS
        self.out.errors.append((code, error, at))
        self._notes.note(code, at, home, task_id, error)

    def _hunt(self, at: float, most: int) -> int:
        """Go through the trails of homes whose workers may be gone; gives how many were passed by."""
        suspects = self.crew.suspects(at)
        for index in {worker.home for worker in suspects}:
            workers = [worker for worker in suspects if worker.home == index]
            self._hunts.append(Hunt(self._keep.homes[index], workers, self._grace))
        used = 0
        while self._hunts and used < most:
            hunt = self._hunts[0]
            used += hunt.step(most - used)
            if hunt.is_over:
                del self._hunts[0]
                for worker in hunt.workers:
                    self.crew.judge(worker, hunt.active[worker.name], at)
                self._held += hunt.held
        return used

    # The verdict

    def _look(self, trail: Trail) -> None:
        """Find what can be found of a trail, and see to the rest when it is due."""
        due = self._judge_and_note(trail)
        if due < inf:
            self.arm(trail, due)

    def _look_again(self, index: int, task_id: str) -> None:
        """A source is believed again that something of a trail may have been missing from."""
        trail = self._keep.homes[index].open.get(task_id)
        if trail is not None:
            self._look(trail)

    def _judge_and_note(self, trail: Trail) -> float:
        before = trail.findings
        due = self._judge(trail)
        if trail.findings is not before and self._keep.is_saved:
            self._keep.homes[trail.home].touched[trail.task_id] = True
        return due

    def _judge(self, trail: Trail) -> float:
        """Find what can be found of a trail; gives when to look again, infinity: not for anything known."""
        lives = lives_of(facts_of(trail), self._grace)
        due = inf
        for life in lives[-_LIVES:]:
            first = -inf if life is lives[0] else life.order[0].when
            span = first, inf if life is lives[-1] else life.order[-1].when
            due = min(due, self._judge_life(trail, life, span))
        return min(due, self._follow(trail, lives))

    def _judge_life(self, trail: Trail, life: Life, span: tuple[float, float]) -> float:
        """The same of one life; `span` is from when to when facts are its own, by their `when`."""
        row = next((p.fact.row for p in life.order if p.fact.row >= 0), trail.row)
        if row < 0:
            return inf
        due = inf
        sight, seen = self._sight(trail, life, row, span), trail.findings
        for kind in KINDS:
            if trail.findings is not seen:
                sight, seen = self._sight(trail, life, row, span), trail.findings
            for verdict in kind.find(sight):
                if verdict.at > self._decided:
                    due = min(due, verdict.at)
                elif verdict.about is not None and not self._is_found(trail, span, kind, verdict.about):
                    due = min(due, self._find(trail, kind, verdict, verdict.about, row))
        return due

    def _sight(self, trail: Trail, life: Life, row: int, span: tuple[float, float]) -> Sight:
        return Sight(
            life=life,
            is_latest=span[1] == inf,
            telling_since=self._telling.get(self._rows.names(row)[2], inf),
            row=row,
            terms=self._terms.of(row),
            usual=self.usual,
            decided=self._decided,
            grace=self._grace,
            error=self._errors.name,
            departure=self._departure(trail.home),
            idle=lambda start: self.crew.idle(trail.home, start.fact.worker, start.fact.at),
            found=tuple(one for one in trail.findings or () if span[0] <= one.key <= span[1]),
        )

    def _departure(self, home: int) -> Callable[[Placed, float], Departure | None]:
        return lambda start, limit: self.crew.departure(home, start, limit)

    @staticmethod
    def _is_found(trail: Trail, span: tuple[float, float], kind: Kind, about: Placed) -> bool:
        """Whether it was found before, or could not be judged."""
        same = [one for one in trail.findings or () if one.name == kind.name or one.is_unknown(kind.name)]
        if kind.once == "fact":
            return any(one.key == about.when for one in same)
        return any(kind.once == "trail" or span[0] <= one.key <= span[1] for one in same)

    def _find(self, trail: Trail, kind: Kind, verdict: Verdict, about: Placed, row: int) -> float:
        """Put it on record; gives when to look again where that cannot be done yet."""
        if len(trail.findings or ()) >= _MOST:
            self.unseen += 1
            return inf
        if about.fact.row >= 0:
            row = about.fact.row
        source = self._settler.sources[about.fact.source]
        found = Found(kind.name, about.when, verdict.at, row, verdict.detail)
        if kind.is_absence and not self.holes.is_known(source):
            self.unseen += not self.holes.wait(source, self._look_again, trail.home, trail.task_id)
            return inf
        holes = [self.holes] * kind.is_absence + [self.crew.untold] * kind.is_of_start
        if kind.is_unknown or any(one.over(source, about.fact.at, verdict.at) is not None for one in holes):
            found = Found(UNKNOWN_LINE, about.when, verdict.at, row, kind.name)
            self.unseen += not kind.is_unknown
            if kind.is_unknown:
                self._bend(trail)
                self._settler.land(land(trail, about.when), verdict.at, self.out)
                if any(one.key == about.when and LOST in {one.name, one.detail} for one in trail.findings or ()):
                    return inf  # all that is new of it is that it runs no more
        elif kind.fact == FACT_LOST:
            self.out.count(row, FACT_LOST, verdict.at)
            self._notes.note(row * STRIDE + FACT_LOST, verdict.at, trail.home, trail.task_id, 0)
            self._bend(trail)
        else:
            error, code = self._errors.intern(kind.name, is_ours=True), row * STRIDE + kind.fact
            self.out.errors.append((code, error, verdict.at))
            self._notes.note(code, verdict.at, trail.home, trail.task_id, error)
        trail.findings = [*(trail.findings or ()), found]
        return inf

    def _bend(self, trail: Trail) -> None:
        """What becomes of a lost trail must be seen: as an irregular one it comes by at each fact."""
        if not trail.marks & M_IRREGULAR:
            held = len(trail.facts or ())
            self._keep.irregular_facts += len(promote(trail)) - held
            self._settler.settle(trail, self._decided, self.out)
            if trail.due:
                self._keep.decisions.arm(trail, trail.due)

    def _follow(self, trail: Trail, lives: list[Life]) -> float:
        """A loss is made good by whatever its task does after it; gives when to look again."""
        due = inf
        for one in trail.findings or ():
            at = after(lives, one) if one.name == LOST and not one.recovered_at else None
            if at is None:
                continue
            if at + self._grace > self._decided:
                due = min(due, at + self._grace)
                continue
            one.recovered_at = max(one.at, at)
            trail.findings = [*(trail.findings or ())]
            code = one.row * STRIDE + RECOVERED
            self.out.errors.append((code, self._errors.intern(LOST, is_ours=True), one.recovered_at))
        return due

    # Over a restart

    def saved(self) -> SavedFindings:
        """All but what is on the trails."""
        turns = [(self._rows.names(turn.row), turn) for turn in self.schedules.turns.values()]
        workers, prompt = list(self.crew.all.values()), self.crew.prompt
        return SavedFindings(workers, self.usual.saved(), turns, sorted(self.storms.now), self._telling, prompt)

    def restore(self, saved: SavedFindings) -> None:
        """Go on with what was saved, after the trails were restored: look at each when it was to be looked at."""
        self.crew.restore(saved.workers, saved.prompt)
        self.usual.restore(saved.usual)
        self._telling.update(saved.telling)
        for names, turn in saved.turns:
            self.schedules.sent(names, turn)
        self.storms.now.update(saved.storms)
        for home in self._keep.homes:
            for trail in home.open.values():
                if trail.look_at:
                    heapq.heappush(self._heap, (trail.look_at, trail.home, trail.task_id))
