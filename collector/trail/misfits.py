"""Events that do not fit their trail's slots: repeats, the next attempt of a chain, what only `tally` can decide."""

from __future__ import annotations

from collector.model.event import Event
from collector.trail.bend import cut, fill, is_repeat, promote, repeats, roll, tell
from collector.trail.keep import Keep
from collector.trail.lifecycle import IS_FAILURE
from collector.trail.rows import Errors, Rows, Texts
from collector.trail.settle import Settler
from collector.trail.trail import M_IRREGULAR, Fact, Trail
from collector.trail.transitions import Transitions

_LIVES = 3
"""Earlier lives than the last three are let go after the horizon."""
REGULAR, ACCEPTED, DUPLICATE_FACT = range(3)
"""What became of such an event; REGULAR: the slots are ready for it now."""


class Misfits:
    """The slow way of an event, for one stitcher."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one stitcher
        self, rows: Rows, errors: Errors, texts: Texts, settler: Settler, keep: Keep, grace: float
    ) -> None:
        self._rows = rows
        self._errors = errors
        self._texts = texts
        self._settler = settler
        self._keep = keep
        self._grace = grace
        self.decided = 0.0
        """The axis time up to which what rests on missing facts is decided."""

    def take(  # noqa: PLR0913, PLR0917 - columns of the hot loop, not objects
        self, trail: Trail, event: Event, kind: int, row: int, channel: int, time: float, at: float, out: Transitions
    ) -> int:
        """An event that does not fit the slots: a repeat, the next attempt (slots are made ready), or for `tally`."""
        if trail.marks & M_IRREGULAR:
            if repeats(trail.facts, kind, event, time, channel):
                return self._repeat(trail, event, kind)
        elif channel == trail.source:
            if is_repeat(trail, kind, event, time, at, self._grace):
                return self._repeat(trail, event, kind)
            if row == trail.row and roll(trail, kind, event, time, at):
                return REGULAR
        self._keep.irregular_facts -= len(trail.facts or ())
        facts = promote(trail)
        facts.append(self._fact(trail, event, kind, row, channel, time, at))
        self._keep.irregular_facts += len(facts)
        before = trail.distinct
        self.settle(trail, out)
        return ACCEPTED if trail.distinct > before else DUPLICATE_FACT

    def _repeat(self, trail: Trail, event: Event, kind: int) -> int:
        """A fact that came again only fills in what was missing."""
        fill(trail, event, self._texts)
        if IS_FAILURE[kind]:
            if event.error and not trail.error and not trail.marks & M_IRREGULAR:
                trail.error = self._errors.intern(event.error)
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

    def settle(self, trail: Trail, out: Transitions) -> None:
        """Bring an irregular trail's counts up to date, see to its next decision, and keep it small."""
        keep = self._keep
        due = trail.due
        lives = self._settler.settle(trail, self.decided, out)
        if trail.due and trail.due != due:
            keep.decisions.arm(trail, trail.due)
        held = len(trail.facts or ())
        if held > keep.bounds.trail_facts:
            settled = lives[-1].order[-1].fact.at - self._grace
            if dropped := cut(trail, lives, 2 * keep.bounds.trail_facts // 3, settled):
                keep.evictions["trail_facts"] += dropped
        elif len(lives) > _LIVES:
            settled = lives[-1].order[0].fact.at - keep.bounds.horizon_seconds
            cut(trail, lives, len(lives[-1].order) + len(lives[-2].order), settled)
        keep.irregular_facts += len(trail.facts or ()) - held
