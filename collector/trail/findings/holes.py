"""Holes of sources: what is missing may lie in one, so nothing is found from absence across it."""

from __future__ import annotations

from collections.abc import Callable

MOST = 100
"""Holes that are remembered."""
LATER = 15.0
"""Seconds after which something is looked at again whose source could not be believed."""


class Holes:
    """When which source could not be believed."""

    def __init__(self) -> None:
        self.is_known: Callable[[str], bool] = lambda _source: True
        """Whether a source has told all up to now: what it does not say is not missing else."""
        self._all: list[tuple[str, float, float]] = []

    def add(self, source: str, start: float, end: float) -> None:
        """A source has a hole, axis time."""
        self._all.append((source, start, end))
        del self._all[:-MOST]

    def over(self, source: str, start: float, end: float) -> float | None:
        """When the last hole of a source ended that overlaps this time; None where there is none."""
        found = (over for name, begin, over in self._all if name == source and begin <= end and start <= over)
        return max(found, default=None)
