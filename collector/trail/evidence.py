"""Which tasks an alert is about: small rings of recent ids per row and notable fact, and the slowest of late.

Takes notes while stitching, gives offenders when asked. Bounded per row and fact; a note costs the hot path nothing
but for failures and for the few durations that beat the slowest of their minute.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from heapq import heappush, heappushpop

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
_SLOT_SECONDS = 15.0
_SLOTS = 240
_SLOWEST = 5
_MINUTES = 5
_MINUTE = 60.0

Note = tuple[float, int, str, int]
"""Axis time, home, task id, error id."""


class Notes:
    """What happened of late that an alert may have to name."""

    def __init__(self) -> None:
        self._rings: dict[int, deque[Note]] = {}
        self._errors: dict[int, deque[tuple[float, Counter[int]]]] = {}
        self._slow: deque[tuple[float, dict[int, list[tuple[float, float, int, str]]]]] = deque(maxlen=_MINUTES)
        self._floors: Array = np.zeros(0)
        """By the code of a measure: what is slower may be among the slowest of this minute."""

    def note(self, code: int, at: float, home: int, task_id: str, error: int) -> None:
        """Remember a notable fact under its code (row and fact)."""
        ring = self._rings.get(code)
        if ring is None:
            ring = self._rings[code] = deque(maxlen=_RING)
        ring.append((at, home, task_id, error))
        if error:
            self._count_error(code, at, error)

    def _count_error(self, code: int, at: float, error: int) -> None:
        slots = self._errors.get(code)
        if slots is None:
            slots = self._errors[code] = deque(maxlen=_SLOTS)
        start = at - at % _SLOT_SECONDS
        if not slots or slots[-1][0] < start:
            slots.append((start, Counter()))
        slots[-1][1][error] += 1

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
            if len(slowest) < _SLOWEST:
                heappush(slowest, one)
            else:
                heappushpop(slowest, one)
                self._floors[measure] = slowest[0][0]

    def recent(self, rows: Iterable[int], facts: Iterable[str], since: float) -> list[Note]:
        """Notes of these rows and facts, newest first, one per task id."""
        codes = [row * STRIDE + FACT_CODE[fact] for fact in facts if fact in FACT_CODE for row in rows]
        notes = [note for code in codes for note in self._rings.get(code, ()) if note[0] > since]
        newest: dict[tuple[int, str], Note] = {}
        for note in sorted(notes, reverse=True):
            newest.setdefault((note[1], note[2]), note)
        return list(newest.values())

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
        counts: Counter[int] = Counter()
        for fact in facts:
            for row in rows:
                for start, errors in self._errors.get(row * STRIDE + FACT_CODE.get(fact, STRIDE), ()):
                    if start + _SLOT_SECONDS > since:
                        counts.update(errors)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SLOWEST]
