"""Dead letters as trails know them, told as plain values; and verdicts, taken into the trails.

Asks the parts of one stitcher. What was opened and closed since it last looked is given once, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collector.model.death import SENT_AGAIN, SUCCEEDED_LATER, Death, Ending
from collector.model.event import Event
from collector.model.personal import mask_personal
from collector.trail.lifecycle import DEAD_LETTERED, IS_FAILURE, SENT, SUCCEEDED
from collector.trail.saving import Parts
from collector.trail.settle import Died
from collector.trail.tally import Life, Placed
from collector.trail.trail import JUDGED, Trail, facts_of, is_dead
from collector.trail.transitions import DEAD_DOWN as FACT_DEAD_DOWN
from collector.trail.transitions import DEAD_UP as FACT_DEAD_UP
from collector.trail.transitions import Transitions


class Deaths:
    """The dead letters of one stitcher. From now on it keeps what is opened and closed until it is asked."""

    def __init__(self, parts: Parts, died: Callable[[str, str], float | None] = lambda _home, _id: None) -> None:
        """`died`: when the open dead letter of a home and task id died, where that is remembered."""
        self._of = parts
        parts.settler.died = lambda home, task_id: died(parts.keep.homes[home].name, task_id)
        self._turns = parts.settler.turns = []
        self._told = parts.misfits.told = []

    def told(self) -> list[Event]:
        """The events of dead letters that were stitched since this was last asked, repeated ones too."""
        if not self._told:
            return self._told
        told = list(self._told)
        self._told.clear()
        return told

    def turns(self) -> Iterator[Death | Ending]:
        """What was opened and closed since this was last asked."""
        if not self._turns:
            return
        turns = list(self._turns)
        self._turns.clear()
        for turn in turns:
            if isinstance(turn[0], Trail):
                yield self._death(turn)
            else:
                home, task_id, at, is_success = turn
                why = SUCCEEDED_LATER if is_success else SENT_AGAIN
                yield Ending(self._of.keep.homes[home].name, task_id, at, why)

    def judge(self, home: str, task_id: str, at: float, out: Transitions, when: float | None = None) -> bool:
        """A verdict ends the open dead letter of a task: it counts as open no longer. False where none is.

        `when`: only the one that died then; the task may have begun anew since, and died again.
        """
        of = self._of
        index = of.keep.home(home).index
        row = of.settler.dead.get(task_id, {}).get(index)
        if row is None:
            return False
        held = of.keep.homes[index]
        trail = held.open.get(task_id) or of.keep.thaw(held, task_id, at)
        dead = [fact for fact in (trail.facts or ()) if is_dead(fact)] if trail is not None else []
        if when is not None and dead and all((fact.time or fact.at) != when for fact in dead):
            return False
        for fact in dead:
            fact.flags |= JUDGED
            at = max(at, fact.at)
        if trail is not None:
            trail.dead_row = -1
            if of.keep.is_saved:
                held.touched[task_id] = True
        of.settler.forget_dead(task_id, index)
        out.count(row, FACT_DEAD_DOWN, at)
        return True

    def succeeded(self, home: str, task_id: str, after: float) -> float | None:
        """When a task succeeded that died at `after`; None where that is not so, or not known. Times of the axis."""
        trail = self._of.keep.look(self._of.keep.home(home), task_id)
        facts = [] if trail is None else facts_of(trail)
        return min((fact.at for fact in facts if fact.kind == SUCCEEDED and fact.at > after), default=None)

    def hold(self, death: Death, out: Transitions) -> None:
        """A dead letter that is open by what was kept elsewhere, and that no trail knows of: it counts again."""
        of = self._of
        home = of.keep.home(death.home)
        if home.index not in of.settler.dead.get(death.task_id, {}) and of.keep.look(home, death.task_id) is None:
            row = of.rows.row(death.task, death.queue, death.source)
            of.settler.hold_dead(death.task_id, home.index, row)
            out.count(row, FACT_DEAD_UP, death.at)

    def open(self) -> Iterator[Death]:
        """Every dead letter that counts as open, as far as is known of it."""
        of = self._of
        for task_id, rows in list(of.settler.dead.items()):
            for index, row in list(rows.items()):
                home = of.keep.homes[index]
                trail = of.keep.look(home, task_id)
                fact = next((f for f in (trail.facts or ()) if is_dead(f)), None) if trail is not None else None
                if trail is None or fact is None:
                    task, queue, source = of.rows.names(row)
                    at = of.misfits.decided
                    yield Death(home=home.name, task_id=task_id, task=task, queue=queue, source=source, at=at, when=at)
                else:
                    yield self._death((trail, _life(trail), fact, False))

    def _death(self, died: Died) -> Death:
        trail, life, fact, is_again = died
        of = self._of
        task, queue, source = of.rows.names(fact.row)
        failures = [p for p in life.order if IS_FAILURE[p.kind]]
        named = next((p.fact.error for p in reversed(failures) if p.fact.error), 0)
        worker = next((p.fact.worker for p in reversed(failures) if p.fact.worker), "")
        sent = next((p for p in life.order if p.kind == SENT), None)
        return Death(
            home=of.keep.homes[trail.home].name,
            task_id=trail.task_id,
            task=task,
            queue=queue,
            source=source,
            at=fact.at,
            when=fact.time or fact.at,
            is_virtual=fact.kind != DEAD_LETTERED,
            is_again=is_again,
            attempts=life.attempts,
            error=of.errors.name(fact.error or named),
            message=mask_personal(trail.message),
            worker=fact.worker or worker,
            trace_id=trail.trace_id or "",
            sent_at=None if sent is None else sent.when,
            first_failed_at=min((p.when for p in failures), default=None),
            last_failed_at=max((p.when for p in failures), default=None),
        )


def _life(trail: Trail) -> Life:
    """All facts of a trail as one life: near enough for what is only shown."""
    life = Life()
    life.order = [Placed(fact, fact.time or fact.at) for fact in trail.facts or ()]
    for placed in life.order:
        placed.attempt = placed.attempt or 1
    return life
