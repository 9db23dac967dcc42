"""From what a trail's facts amount to (tally) to transitions: emits what was not counted yet, and nothing twice.

What was counted is remembered on the facts themselves, so counters never go down. What rests on a missing fact waits
until the decided time reaches the fact's axis time plus grace, and is counted there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TypeAlias

from collector.trail import tally
from collector.trail.durations import Duration, runs, total, waits
from collector.trail.evidence import NOTABLE, Notes
from collector.trail.lifecycle import (
    DEAD_LETTERED,
    IS_FAILURE,
    IS_FINAL,
    IS_TRY_END,
    KIND_COUNT,
    RETRIED,
    SENT,
    STARTED,
    SUCCEEDED,
)
from collector.trail.memory import Generations
from collector.trail.rows import Rows
from collector.trail.tally import Group, Life, Placed
from collector.trail.trail import (
    COUNTED,
    DEAD_DOWN,
    DEAD_UP,
    DOWN,
    DUPLICATE,
    JUDGED,
    RAN,
    REDELIVERED,
    TOTALLED,
    UP,
    WAITED,
    Fact,
    Trail,
    is_flying,
)
from collector.trail.transitions import (
    DEAD_DOWN as FACT_DEAD_DOWN,
)
from collector.trail.transitions import (
    DEAD_UP as FACT_DEAD_UP,
)
from collector.trail.transitions import (
    DUPLICATE_SUCCESS,
    FLIGHT_DOWN,
    FLIGHT_UP,
    RUN,
    STRIDE,
    TOTAL,
    WAIT,
    Transitions,
)
from collector.trail.transitions import (
    REDELIVERED as FACT_REDELIVERED,
)

Died: TypeAlias = tuple[Trail, Life, Fact, bool]
"""A dead letter was opened: of which trail and life, by which fact, and whether that is the second time."""
Ended: TypeAlias = tuple[int, str, float, bool]
"""A dead letter was closed: home, task id, axis time, and whether by a success."""


class Settler:
    """Settles irregular trails. Shares names, notes and the memory of dead letters and keys with the stitcher."""

    def __init__(self, rows: Rows, notes: Notes, keys: Generations[str], dead_limit: int, grace: float) -> None:
        self._rows = rows
        self._notes = notes
        self._keys = keys
        self._dead_limit = dead_limit
        self._grace = grace
        self.sources: list[str] = []
        """Names of the sources by index."""
        self.dead: dict[str, dict[int, int]] = {}
        """Open dead letters: task id -> home -> row. Outlives the trail."""
        self.touched_dead: dict[str, None] | None = None
        """Where somebody saves: ids whose open dead letters changed."""
        self.touched_keys: dict[str, None] | None = None
        """The same for idempotency keys."""
        self.dead_overflow = 0
        self.keys_early = 0
        self.turns: list[Died | Ended] | None = None
        """Dead letters that were opened and closed, since whoever asks has looked last."""
        self.died: Callable[[int, str], float | None] | None = None
        """Whether somebody remembers when the open dead letter of a home and task id died, by the sender's time."""
        self.retried: Callable[[int, float], None] = lambda _row, _at: None
        """Told of each try that will be made again: row, axis time."""
        self.is_must: Callable[[int], bool] | None = None
        """Whether what is counted under a row must be completed: where it failed for good, it is a dead letter."""

    def settle(self, trail: Trail, decided: float, out: Transitions) -> list[Life]:
        """Bring the counts of an irregular trail up to date with its facts, as of the decided axis time.

        Sets `due`, `distinct` and `end_at` of the trail; gives its lives.
        """
        lives = tally.lives_of(trail.facts or (), self._grace)
        self._name(trail)
        if trail.dead_row >= 0:
            self._close_forgotten(trail, out)
        due, is_flying = inf, False
        for life in lives:
            due = min(due, self._groups(trail, life, decided, out))
            due = min(due, self._redeliveries(trail, life, decided, out))
            is_flying |= self._flights(life, out)
            self._dead_letter(trail, life, out)
            self._durations(trail, life, out)
        trail.due = 0.0 if due == inf else due
        trail.distinct = sum(group.distinct for life in lives for group in life.groups.values())
        is_over = bool(lives) and lives[-1].final_when is not None and not is_flying and due == inf
        trail.end_at = max(fact.at for fact in trail.facts or ()) if is_over else 0.0
        return lives

    @staticmethod
    def land(facts: Iterable[Fact], at: float, out: Transitions) -> None:
        """Take down whatever of these facts, which leave, is still in flight."""
        for fact in facts:
            if is_flying(fact):
                fact.flags |= DOWN
                out.count(fact.row, FLIGHT_DOWN, max(at, fact.at))

    def emit(  # noqa: PLR0913, PLR0917 - the columns of one transition
        self, trail: Trail, fact: int, row: int, at: float, error: int, out: Transitions
    ) -> None:
        """Count one fact, with its error class where it is a failure, and note it where evidence may need it."""
        code = row * STRIDE + fact
        if fact < KIND_COUNT and IS_FAILURE[fact]:
            out.errors.append((code, error, at))
            if fact == RETRIED:
                self.retried(row, at)
        else:
            out.codes.append(code)
            out.ats.append(at)
        if fact in NOTABLE:
            self._notes.note(code, at, trail.home, trail.task_id, error)

    def emit_finding(  # noqa: PLR0913, PLR0917 - the columns of one transition
        self, task_id: str, home: int, fact: int, row: int, at: float, out: Transitions
    ) -> None:
        """Count what was found about a trail, and note it where evidence may need it."""
        out.count(row, fact, at)
        if fact in NOTABLE:
            self._notes.note(row * STRIDE + fact, at, home, task_id, 0)

    def is_first_success(self, trail: Trail, at: float) -> bool:
        """Whether this is the first success for the trail's idempotency key; from now on it has one."""
        if not trail.key:
            return True
        if self._keys.get(trail.key) is not None:
            return False
        self.keys_early += self._keys.put(trail.key, trail.task_id, at)
        if self.touched_keys is not None:
            self.touched_keys[trail.key] = None
        return True

    def _name(self, trail: Trail) -> None:
        """Give a trail the names that its facts have between them, once both are known."""
        if trail.row < 0:
            facts = trail.facts or ()
            task = next((fact.task for fact in facts if fact.task), "")
            queue = next((fact.queue for fact in facts if fact.queue), "")
            if task and queue:
                trail.row = self._rows.row(task, queue, self.sources[trail.source])

    def _row(self, trail: Trail, fact: Fact, decided: float) -> tuple[int, bool]:
        """The row that a fact counts under, or -1 while a name may still come; and whether that was waited for."""
        if fact.row >= 0:
            return fact.row, False
        task, queue = fact.task, fact.queue
        if trail.row >= 0:
            names = self._rows.names(trail.row)
            task, queue = task or names[0], queue or names[1]
        else:
            for other in trail.facts or ():
                task, queue = task or other.task, queue or other.queue
        usual = (self._rows.queues.get(task) or "") if task and not queue else ""
        is_missing = not task or bool(usual)
        if is_missing and decided < fact.at + self._grace:
            return -1, True
        fact.row = self._rows.row(task, queue or usual, self.sources[fact.source])
        return fact.row, is_missing

    def _groups(self, trail: Trail, life: Life, decided: float, out: Transitions) -> float:
        """Count what is to count by its own kind; gives when the next of them is due."""
        due = inf
        grace = self._grace
        for (kind, _), group in life.groups.items():
            if len(group.facts) > len(group.counted):
                _migrate(group)
            if kind == SUCCEEDED:
                continue
            # A second end counts because its attempt has a second start: that may yet turn out to be another life's.
            is_further = IS_TRY_END[kind] and any(placed.fact.flags & COUNTED for placed in group.counted)
            for placed in group.counted:
                fact = placed.fact
                if fact.flags & COUNTED:
                    continue
                row, is_late = self._row(trail, fact, decided)
                is_late |= is_further
                if row < 0 or (is_late and decided < fact.at + grace):
                    due = min(due, fact.at + grace)
                    continue
                fact.flags |= COUNTED
                is_further = IS_TRY_END[kind]
                self.emit(trail, kind, row, fact.at + grace if is_late else fact.at, fact.error, out)
        return min(due, self._successes(trail, life, decided, out))

    def _successes(self, trail: Trail, life: Life, decided: float, out: Transitions) -> float:
        """The first success of a life is one, every further one a duplicate, once no `sent` can lie between them."""
        successes = life.of(SUCCEEDED)
        if not successes:
            return inf
        has_first = any(p.fact.flags & (COUNTED | DUPLICATE) == COUNTED for p in life.order if p.kind == SUCCEEDED)
        due = inf
        for placed in successes:
            fact = placed.fact
            if fact.flags & COUNTED:
                continue
            row, is_late = self._row(trail, fact, decided)
            is_late |= has_first
            if row < 0 or (is_late and decided < fact.at + self._grace):
                due = min(due, fact.at + self._grace)
                continue
            is_first = not has_first and self.is_first_success(trail, fact.at)
            at = fact.at + self._grace if is_late else fact.at
            fact.flags |= COUNTED if is_first else COUNTED | DUPLICATE
            has_first = True
            self.emit(trail, SUCCEEDED if is_first else DUPLICATE_SUCCESS, row, at, 0, out)
        return due

    def _redeliveries(self, trail: Trail, life: Life, decided: float, out: Transitions) -> float:
        due = inf
        for placed in tally.redelivered(life):
            fact = placed.fact
            if fact.flags & REDELIVERED:
                continue
            if decided < fact.at + self._grace or not fact.flags & COUNTED:
                due = min(due, fact.at + self._grace)
                continue
            fact.flags |= REDELIVERED
            self.emit(trail, FACT_REDELIVERED, fact.row, fact.at + self._grace, 0, out)
        return due

    def _flights(self, life: Life, out: Transitions) -> bool:
        """Bring starts up and ends down; gives whether anything is still in flight.

        An end that came before the start it belongs to may have taken another one down: the two then change places.
        """
        running = tally.executions(life)
        landed = [start.fact for start, end_at in running if end_at is None and start.fact.flags & DOWN]
        is_flying = False
        for start, end_at in running:
            fact = start.fact
            if not fact.flags & COUNTED or (fact.flags & DOWN and end_at is not None):
                continue
            if end_at is None:
                is_flying = True
            elif end_at <= fact.at and not fact.flags & UP and not landed:
                fact.flags |= UP | DOWN
                continue
            if not fact.flags & UP:
                fact.flags |= UP
                out.count(fact.row, FLIGHT_UP, fact.at)
            if end_at is not None:
                fact.flags |= DOWN
                if landed:
                    landed.pop().flags &= ~DOWN
                else:
                    out.count(fact.row, FLIGHT_DOWN, max(end_at, fact.at))
        for fact in landed:
            fact.flags &= ~DOWN
            out.count(fact.row, FLIGHT_UP, life.order[-1].fact.at)
        return is_flying

    def _dead_letter(self, trail: Trail, life: Life, out: Transitions) -> None:
        """Open the dead letter of a life, and close it at a later success or when a newer life begins.

        What must be completed and failed for good is one too, although nothing keeps its message.
        """
        found = tally.dead_letter(life, self.is_must)
        if found is None:
            return
        first, closed_at = found
        dead = (p.fact for p in life.order if p.fact.flags & DEAD_UP)
        fact = next(dead, first.fact)
        if not fact.flags & COUNTED:
            return
        if fact.flags & JUDGED:
            if closed_at is not None and not fact.flags & DEAD_DOWN:
                fact.flags |= DEAD_DOWN
                self._ended(trail, max(closed_at, fact.at), is_success=closed_at != life.closed_at)
            return
        if not fact.flags & DEAD_UP and trail.dead_row == fact.row:
            fact.flags |= DEAD_UP  # the same dead letter, told again after its trail was forgotten
            trail.dead_row = -1
        if not fact.flags & DEAD_UP or (closed_at is None and fact.flags & DEAD_DOWN):
            # In the second case what closed it was taken for a part of its life, and turned out to be of another.
            if self.turns is not None:
                self.turns.append((trail, life, fact, bool(fact.flags & DEAD_DOWN)))
            fact.flags = fact.flags & ~DEAD_DOWN | DEAD_UP
            out.count(fact.row, FACT_DEAD_UP, fact.at)
            if fact.kind != DEAD_LETTERED:  # evidence looks for dead letters, whether or not there is a message
                code = fact.row * STRIDE + DEAD_LETTERED
                self._notes.note(code, fact.at, trail.home, trail.task_id, fact.error)
            self.hold_dead(trail.task_id, trail.home, fact.row)
        if closed_at is not None and not fact.flags & DEAD_DOWN:
            fact.flags |= DEAD_DOWN
            out.count(fact.row, FACT_DEAD_DOWN, max(closed_at, fact.at))
            self._ended(trail, max(closed_at, fact.at), is_success=closed_at != life.closed_at)
            self.forget_dead(trail.task_id, trail.home)

    def _close_forgotten(self, trail: Trail, out: Transitions) -> None:
        """A new life or a success of an id whose dead letter outlived its trail."""
        died = None if self.died is None else self.died(trail.home, trail.task_id)
        after = -inf if died is None else died  # what is older belongs to the life that died, and is told again
        closing = next((f for f in trail.facts or () if f.kind in (SENT, SUCCEEDED) and (f.time or f.at) > after), None)
        if closing is not None:
            out.count(trail.dead_row, FACT_DEAD_DOWN, closing.at)
            trail.dead_row = -1
            self._ended(trail, closing.at, is_success=closing.kind == SUCCEEDED)
            self.forget_dead(trail.task_id, trail.home)

    def _ended(self, trail: Trail, at: float, *, is_success: bool) -> None:
        if self.turns is not None:
            self.turns.append((trail.home, trail.task_id, at, is_success))

    def _touch_dead(self, task_id: str) -> None:
        if self.touched_dead is not None:
            self.touched_dead[task_id] = None

    def hold_dead(self, task_id: str, home: int, row: int) -> None:
        """Remember an open dead letter; where there are too many, the oldest is forgotten, and stays counted."""
        self.dead.setdefault(task_id, {})[home] = row
        self._touch_dead(task_id)
        if len(self.dead) > self._dead_limit:
            oldest = next(iter(self.dead))
            del self.dead[oldest]
            self._touch_dead(oldest)
            self.dead_overflow += 1

    def forget_dead(self, task_id: str, home: int) -> None:
        """A dead letter is open no longer."""
        self._touch_dead(task_id)
        rows = self.dead.get(task_id, {})
        if rows.pop(home, None) is not None and not rows:
            del self.dead[task_id]

    def _durations(self, trail: Trail, life: Life, out: Transitions) -> None:
        """Observe each duration once; what was observed is flagged on any fact of the same kind and attempt."""
        for duration in waits(life):
            self._observe(trail, life, duration, WAIT, WAITED, out)
        for duration in runs(life):
            self._observe(trail, life, duration, RUN, RAN, out)
        whole = total(life)
        if whole is not None:
            self._observe(trail, life, whole, TOTAL, TOTALLED, out)

    @staticmethod
    def _observe(  # noqa: PLR0913, PLR0917 - the columns of one observation
        trail: Trail, life: Life, duration: Duration, measure: int, flag: int, out: Transitions
    ) -> None:
        placed, seconds, at = duration
        if placed.fact.row < 0 or any(p.fact.flags & flag and _tells(p, placed, measure) for p in life.order):
            return
        placed.fact.flags |= flag
        out.measure(placed.fact.row, measure, seconds, at, trail.task_id)


def _tells(other: Placed, placed: Placed, measure: int) -> bool:
    """Whether a flag on one fact speaks for the duration that another tells: of one life, or of one attempt."""
    if measure == TOTAL:
        return IS_FINAL[other.kind]
    is_kind = other.kind == STARTED if measure == WAIT else IS_TRY_END[other.kind]
    return is_kind and other.attempt == placed.attempt


def _migrate(group: Group) -> None:
    """Move what a fact was counted for to the facts that count now, so that the same thing is not counted again."""
    counting = {id(placed) for placed in group.counted}
    spare = [placed.fact for placed in group.counted if not placed.fact.flags & COUNTED]
    for placed in group.facts:
        fact = placed.fact
        if spare and fact.flags & COUNTED and id(placed) not in counting:
            heir = spare.pop(0)
            heir.flags |= fact.flags
            heir.row = fact.row
            fact.flags = 0
