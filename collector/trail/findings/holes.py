"""Holes of sources: what is missing may lie in one, so nothing is found from absence across it.

Nor while a source cannot be believed: what is to be looked at then waits, and is looked at as soon as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

MOST = 100
"""Holes of one source that are remembered; what is judged long after them is judged without them."""
MOST_WAITING = 1_000_000


class Holes:
    """When which source could not be believed, and what waits until it can."""

    def __init__(self) -> None:
        self.is_known: Callable[[str], bool] = lambda _source: True
        """Whether a source has told all up to now: what it does not say is not missing else."""
        self._all: dict[str, list[tuple[float, float]]] = {}
        """By source."""
        self._waiting: dict[str, dict[tuple[Callable[..., None], tuple[Any, ...]], None]] = {}
        self._believed: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def add(self, source: str, start: float, end: float) -> None:
        """A source has a hole, axis time. What touches the one before is one with it."""
        known = self._all.setdefault(source, [])
        if known and known[-1][0] <= end and start <= known[-1][1]:
            before = known.pop()
            start, end = min(start, before[0]), max(end, before[1])
        known.append((start, end))
        del known[:-MOST]

    def over(self, source: str, start: float, end: float) -> float | None:
        """When the last hole of a source ended that overlaps this time; None where there is none."""
        found = (over for begin, over in self._all.get(source, ()) if begin <= end and start <= over)
        return max(found, default=None)

    def wait(self, source: str, look: Callable[..., None], *about: Hashable) -> bool:
        """Look again, once, as soon as a source is believed; False where too much waits."""
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            return False
        self._waiting.setdefault(source, {})[look, about] = None
        return True

    @property
    def is_ready(self) -> bool:
        """Whether the wait of anything is over."""
        return bool(self._believed) or any(map(self.is_known, self._waiting))

    def look(self, most: int) -> int:
        """Look at so much whose wait is over; gives how much it was."""
        for source in list(filter(self.is_known, self._waiting)):
            self._believed += self._waiting.pop(source)
        looked = 0
        while looked < most and self._believed:
            look, about = self._believed.pop()
            look(*about)
            looked += 1
        return looked
