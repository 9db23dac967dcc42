"""Deadlines: a wheel of one-second lists for what may be late by seconds, a heap for decisions that may not be.

Entries are never removed; the caller looks whether what comes out is still due (lazy re-arming).
"""

from __future__ import annotations

import heapq

from collector.trail.trail import Trail


class Wheel:
    """Trails by the second in which to look at them again."""

    def __init__(self) -> None:
        self._seconds: dict[int, list[Trail]] = {}
        self._order: list[int] = []
        """The same seconds as a heap: along a backlog there are thousands, and each step asks for the first."""
        self._last: list[Trail] = []
        self._last_second = -1

    def arm(self, trail: Trail, at: float) -> None:
        """Look at this trail again in the second after `at`."""
        self._bucket(at).append(trail)

    def arm_all(self, trails: list[Trail], at: float) -> None:
        """The same for many."""
        self._bucket(at).extend(trails)

    def _bucket(self, at: float) -> list[Trail]:
        second = int(at) + 1
        if second != self._last_second:
            bucket = self._seconds.get(second)
            if bucket is None:
                bucket = self._seconds[second] = []
                heapq.heappush(self._order, second)
            self._last = bucket
            self._last_second = second
        return self._last

    def next_due(self) -> float | None:
        """The earliest second that has anything in it."""
        return float(self._order[0]) if self._order else None

    def take(self, at: float, most: int) -> list[Trail]:
        """Up to `most` trails whose second has come, oldest second first."""
        taken: list[Trail] = []
        while len(taken) < most and self._order and self._order[0] <= at:
            second = self._order[0]
            bucket = self._seconds[second]
            left = most - len(taken)
            if len(bucket) <= left:
                taken += bucket
                del self._seconds[heapq.heappop(self._order)]
                self._last_second = -1
            else:
                taken += bucket[-left:]
                del bucket[-left:]
        return taken


class Decisions:
    """Trails by the exact axis time at which something about them is decided."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Trail]] = []
        self._count = 0

    def arm(self, trail: Trail, due: float) -> None:
        """Decide about this trail at `due`, if that is still its time then."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, trail))

    def next_due(self) -> float | None:
        """The earliest decision; it may turn out to be none."""
        return self._heap[0][0] if self._heap else None

    def take(self, at: float) -> Trail | None:
        """The next trail that is still due by `at`, or None."""
        while self._heap and self._heap[0][0] <= at:
            due, _, trail = heapq.heappop(self._heap)
            if trail.due == due:
                return trail
        return None


def earliest(*dues: float | None) -> float | None:
    """The first of these times; None where there is none."""
    return min((due for due in dues if due is not None), default=None)
