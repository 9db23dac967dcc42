"""Which tasks an alert is about: small rings of recent ids per row and notable fact, and the slowest of late.

Takes notes while stitching, gives offenders when asked. Bounded per row and fact; a note costs the hot path nothing
but for failures and for the few durations that beat the slowest of their minute.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from heapq import heappush, heappushpop

import msgspec
import numpy as np

from collector.trail.transitions import FACT_CODE, MEASURES, STRIDE, Array, Transitions

NOTABLE = frozenset(
    FACT_CODE[fact]
    for fact in (
        "failed",
        "retried",
        "dead_lettered",
        "rejected",
        "requeued",
        "revoked",
        "expired",
        "redelivered",
        "duplicate_success",
        "overdue",
    )
)
_RING = 16
SLOT_SECONDS = 15.0
_SLOTS = 240
_SLOWEST = 5
_MINUTES = 5
_MINUTE = 60.0

Note = tuple[float, int, str, int]
"""Axis time, home, task id, error id."""


class Touched:
    """What has changed in the notes: codes, and parts of their pasts."""

    def __init__(self) -> None:
        self.rings: set[int] = set()
        self.errors: set[tuple[int, float]] = set()
        self.slow: set[tuple[float, int]] = set()


class Saved(msgspec.Struct, array_like=True):
    """Notes as they are saved: later ones take the place of earlier ones."""

    rings: list[tuple[int, list[Note]]] = []
    """Code, its ring."""
    errors: list[tuple[int, float, dict[int, int]]] = []
    """Code, beginning of a slot, counts by error id."""
    slow: list[tuple[float, int, list[tuple[float, float, int, str]]]] = []
    """Beginning of a minute, code of a measure, its slowest."""


class Notes:
    """What happened of late that an alert may have to name."""

    def __init__(self) -> None:
        self._rings: dict[int, deque[Note]] = {}
        self._errors: dict[int, deque[tuple[float, Counter[int]]]] = {}
        self._slow: deque[tuple[float, dict[int, list[tuple[float, float, int, str]]]]] = deque(maxlen=_MINUTES)
        self._floors: Array = np.zeros(0)
        """By the code of a measure: what is slower may be among the slowest of this minute."""
        self.touched: Touched | None = None
        """What has changed, where somebody saves."""

    def note(self, code: int, at: float, home: int, task_id: str, error: int) -> None:
        """Remember a notable fact under its code (row and fact)."""
        ring = self._rings.get(code)
        if ring is None:
            ring = self._rings[code] = deque(maxlen=_RING)
        ring.append((at, home, task_id, error))
        if self.touched is not None:
            self.touched.rings.add(code)
        if error:
            self._count_error(code, at, error)

    def _count_error(self, code: int, at: float, error: int) -> None:
        slots = self._errors.get(code)
        if slots is None:
            slots = self._errors[code] = deque(maxlen=_SLOTS)
        start = at - at % SLOT_SECONDS
        if not slots or slots[-1][0] < start:
            slots.append((start, Counter()))
        slots[-1][1][error] += 1
        if self.touched is not None:
            self.touched.errors.add((code, slots[-1][0]))

    def watch(self, out: Transitions, codes: Array, seconds: Array, home: int) -> None:
        """Keep the slowest of each minute from what a batch measured: `measures` and `seconds` of `out` as arrays."""
        at = out.measured_ats[-1]
        highest = int(codes.max())
        if not self._slow or at >= self._slow[-1][0] + _MINUTE:
            self._slow.append((at, {}))
            self._floors = np.full(highest + 1, -1.0)
        elif highest >= len(self._floors):
            self._floors = np.append(self._floors, np.full(2 * highest + 2 - len(self._floors), -1.0))
        kept = self._slow[-1][1]
        for index in np.flatnonzero(seconds > self._floors.take(codes)).tolist():
            measure = out.measures[index]
            one = (out.seconds[index], out.measured_ats[index], home, out.witnesses[index])
            slowest = kept.setdefault(measure, [])
            if self.touched is not None:
                self.touched.slow.add((self._slow[-1][0], measure))
            if len(slowest) < _SLOWEST:
                heappush(slowest, one)
            else:
                heappushpop(slowest, one)
                self._floors[measure] = slowest[0][0]

    def recent(
        self, rows: Iterable[int], facts: Iterable[str], since: float, wanted: Callable[[int], bool] | None = None
    ) -> list[Note]:
        """Notes of these rows and facts (and error ids that are `wanted`), newest first, one per task id."""
        codes = [row * STRIDE + FACT_CODE[fact] for fact in facts if fact in FACT_CODE for row in rows]
        notes = [note for code in codes for note in self._rings.get(code, ()) if note[0] > since]
        if wanted is not None:
            notes = [note for note in notes if wanted(note[3])]
        newest: dict[tuple[int, str], Note] = {}
        for note in sorted(notes, reverse=True):
            newest.setdefault((note[1], note[2]), note)
        return list(newest.values())

    def latest(self, row: int, error: int) -> tuple[int, str] | None:
        """Home and id of the last task of a row that was retried after this error."""
        ring = self._rings.get(row * STRIDE + FACT_CODE["retried"], ())
        return next(((home, task_id) for _, home, task_id, other in reversed(ring) if other == error), None)

    def slowest(self, rows: Iterable[int], measures: Iterable[str], since: float) -> list[Note]:
        """The tasks with the longest durations of these rows, longest first."""
        codes = {row * 3 + MEASURES.index(measure) for measure in measures if measure in MEASURES for row in rows}
        minutes = [kept for _, kept in self._slow]
        found = [one for kept in minutes for code in codes & kept.keys() for one in kept[code] if one[1] > since]
        longest: dict[tuple[int, str], Note] = {}
        for _, at, home, task_id in sorted(found, reverse=True):
            longest.setdefault((home, task_id), (at, home, task_id, 0))
        return list(longest.values())[:_SLOWEST]

    def top_errors(self, rows: Iterable[int], facts: Iterable[str], since: float) -> list[tuple[int, int]]:
        """The commonest error ids with their counts, to 15 seconds."""
        counts = self.errors(rows, facts, since, math.inf)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SLOWEST]

    def errors(self, rows: Iterable[int], facts: Iterable[str], since: float, until: float) -> Counter[int]:
        """Error ids with their counts, in slots that end after `since` and begin no later than `until`; of an hour."""
        counts: Counter[int] = Counter()
        rows = tuple(rows)
        for fact in facts:
            for row in rows:
                for start, errors in self._errors.get(row * STRIDE + FACT_CODE.get(fact, STRIDE), ()):
                    if since < start + SLOT_SECONDS and start <= until:
                        counts.update(errors)
        return counts

    # Over a restart

    def changes(self) -> Saved:
        """What has changed since this was last asked; at first everything."""
        touched, self.touched = self.touched, Touched()
        if touched is None:
            touched = Touched()
            touched.rings.update(self._rings)
            touched.errors.update((code, start) for code, slots in self._errors.items() for start, _ in slots)
            touched.slow.update((at, measure) for at, minute in self._slow for measure in minute)
        codes = {code for code, _ in touched.errors}
        slots = {(code, start): counts for code in codes for start, counts in self._errors[code]}
        minutes = dict(self._slow)
        return Saved(
            [(code, list(self._rings[code])) for code in touched.rings],
            [(*key, slots[key]) for key in touched.errors if key in slots],
            [(at, measure, minutes[at][measure]) for at, measure in touched.slow if at in minutes],
        )

    def restore(self, saved: Iterable[Saved]) -> None:
        """Go on with what was saved, oldest first. Only while there is nothing."""
        errors: dict[tuple[int, float], dict[int, int]] = {}
        slow: dict[float, dict[int, list[tuple[float, float, int, str]]]] = {}
        for one in saved:
            self._rings.update((code, deque(ring, maxlen=_RING)) for code, ring in one.rings)
            errors.update(((code, start), counts) for code, start, counts in one.errors)
            for at, measure, kept in one.slow:
                slow.setdefault(at, {})[measure] = kept
        for (code, start), counts in sorted(errors.items()):
            self._errors.setdefault(code, deque(maxlen=_SLOTS)).append((start, Counter(counts)))
        self._slow.extend(sorted(slow.items()))
        if self._slow:
            newest = self._slow[-1][1]
            self._floors = np.full(max(newest) + 1, -1.0)
            for measure, kept in newest.items():
                if len(kept) == _SLOWEST:
                    self._floors[measure] = kept[0][0]
