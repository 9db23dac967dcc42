"""Bounded memories in generations: to forget is to drop a dict, never to walk one.

`Generations` keeps values for at least `seconds` unless there are too many; what leaves early is counted by the caller.
Time is the axis time that the caller names.
"""

from __future__ import annotations

from math import inf
from typing import Generic, TypeAlias, TypeVar

V = TypeVar("V")
Stamp: TypeAlias = tuple[int, float | None, list[float]]
"""A memory's youngest generation by number, when it began, and when each of the others was closed, newest first."""
_PARTS = 4
_DISMANTLE = 2_000
_DISMANTLE_BESIDE = 2
"""With each new value: what was dropped is gone before as much is dropped again."""


class Generations(Generic[V]):
    """key -> value, forgotten by age; a dropped generation is taken apart in small steps."""

    def __init__(self, seconds: float, limit: int) -> None:
        self._span = seconds / (_PARTS - 1)
        self._share = max(1, limit // _PARTS)
        self._limit = limit
        self._young: dict[str, V] = {}
        self._old: list[tuple[float, dict[str, V]]] = []
        """Newest first, with the time at which each was closed."""
        self._began: float | None = None
        self._doomed: list[dict[str, V]] = []
        self._seconds = seconds
        self.size = 0
        self._parts: list[dict[str, V]] = [self._young]
        """All dicts, newest first: what a look-up goes through."""
        self.serial = 0
        """The number of the youngest generation; those before it have the numbers before it."""

    def __len__(self) -> int:
        return self.size

    def put(self, key: str, value: V, at: float) -> int:
        """Remember a value; gives how many others had to leave early for it."""
        young = self._young
        if self._doomed:
            self._dismantle(_DISMANTLE_BESIDE)
        if key not in young:
            self.size += 1
            young[key] = value
            if self._began is None:
                self._began = at
            elif len(young) > self._share or at >= self._began + self._span:
                self._turn(at)
            return self._shed() if self.size > self._limit else 0
        young[key] = value
        return 0

    def get(self, key: str, since: float = -inf) -> V | None:
        """The newest value of a key; none of a generation that was closed before `since`."""
        if key in self._young:
            return self._young[key]
        for closed, part in self._old:
            if closed < since:
                break
            if key in part:
                return part[key]
        return None

    def take(self, key: str) -> V | None:
        """The value of a key, which is then no longer remembered."""
        for part in self._parts:
            if key in part:
                self.size -= 1
                return part.pop(key)
        return None

    def forget(self, at: float) -> None:
        """Drop the generations whose time is over, and take apart a little of what was dropped."""
        if self._began is not None and at >= self._began + self._span:
            self._turn(at)
        while self._old and self._old[-1][0] + self._seconds <= at:
            self._drop()
        self._dismantle(_DISMANTLE)

    def _dismantle(self, left: int) -> None:
        """Take so much apart of what was dropped."""
        while self._doomed and left:
            part = self._doomed[-1]
            while part and left:
                part.popitem()
                left -= 1
            if not part:
                self._doomed.pop()

    # Over a restart

    def place(self, key: str) -> tuple[int, V] | None:
        """The number of the generation that a key is in, and its value."""
        for age, part in enumerate(self._parts):
            if key in part:
                return self.serial - age, part[key]
        return None

    @property
    def stamp(self) -> Stamp:
        """The youngest generation's number and beginning, and when each of the others was closed, newest first."""
        return self.serial, self._began, [closed for closed, _ in self._old]

    def restore(self, stamp: Stamp, parts: dict[int, dict[str, V]]) -> None:
        """Begin with these generations by number; what has left by the stamp is left out. Only while it is empty."""
        self.serial, self._began, closed = stamp
        self._young = parts.get(self.serial, {})
        self._old = [(at, parts.get(self.serial - age, {})) for age, at in enumerate(closed, 1)]
        self._parts = [self._young, *(part for _, part in self._old)]
        self.size = sum(map(len, self._parts))

    def generations(self) -> list[dict[str, V]]:
        """All generations, oldest first; to be looked at only."""
        return self._parts[::-1]

    def remembered(self) -> list[str]:
        """Every key remembered, oldest generation first."""
        return [key for part in reversed(self._parts) for key in part]

    def shed(self) -> int:
        """Drop the oldest generation before its time; gives how many leave."""
        if not self._old:
            self._turn(self._began or 0.0)
        return self._drop() if self._old else 0

    def _shed(self) -> int:
        left = 0
        while self.size > self._limit and (self._old or self._young):
            left += self.shed()
        return left

    def _turn(self, at: float) -> None:
        if self._young:
            self.serial += 1
            self._old.insert(0, (at, self._young))
            self._young = {}
            self._parts = [self._young, *(part for _, part in self._old)]
        self._began = None

    def _drop(self) -> int:
        part = self._old.pop()[1]
        self._parts.pop()
        self.size -= len(part)
        self._doomed.append(part)
        return len(part)
