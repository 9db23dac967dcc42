"""Retry storms: most starts of a task are retries after one and the same error, so that its dependency gets no rest.

Looked at every 15 s of the axis while anything is retried. One storm is found once, until it is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from collector.trail.evidence import SLOT_SECONDS, Notes

_WINDOW = 8 * SLOT_SECONDS
_FEWEST = 20
"""Retries after one error within the window."""
_SHARE, _OVER = 0.5, 0.25
"""Retries per start at which a storm begins, and below which it is over."""


class Storms:
    """Which rows are in a storm, by error."""

    def __init__(self, notes: Notes, grace: float) -> None:
        self.starts: Callable[[int, float, float], float] = lambda _row, _since, _until: 0.0
        """How many starts a row had in a time, axis; the series know."""
        self.now: set[tuple[int, int]] = set()
        """Row and error of the storms that are not over."""
        self._notes = notes
        self._grace = grace
        self._rows: dict[int, float] = {}
        """When each row was last retried."""
        self._due: float | None = None

    def retried(self, row: int, at: float) -> None:
        """A try of this row failed and will be tried again."""
        self._rows[row] = max(at, self._rows.get(row, at))
        if self._due is None:
            self._due = math.floor(at / SLOT_SECONDS + 1.0) * SLOT_SECONDS + self._grace

    def next_due(self) -> float | None:
        """When to look next."""
        return self._due

    def found(self, at: float) -> list[tuple[int, int, float]]:
        """Row, error and time of the storms that have begun by an instant."""
        found: list[tuple[int, int, float]] = []
        while self._due is not None and self._due <= at:
            until = self._due - self._grace
            for row in list(self._rows):
                found += [(row, error, self._due) for error in self._look(row, until)]
                if self._rows[row] < until - _WINDOW:
                    del self._rows[row]
            self._due = self._due + SLOT_SECONDS if self._rows else None
        return found

    def _look(self, row: int, until: float) -> list[int]:
        since = until - _WINDOW
        counts = self._notes.errors((row,), ("retried",), since, until - SLOT_SECONDS)
        starts = self.starts(row, since, until) if max(counts.values(), default=0) >= _FEWEST else 0.0
        raging = {error for error, count in counts.items() if count >= _FEWEST and 0 < starts <= count / _SHARE}
        begun = [error for error in raging if (row, error) not in self.now]
        self.now.update((row, error) for error in begun)
        for one in [one for one in self.now if one[0] == row]:
            starts = starts or self.starts(row, since, until)
            if counts[one[1]] < _OVER * max(starts, 1.0):
                self.now.discard(one)
        return sorted(begun)
