"""How the value of a rule's expression went: its results at the last slots, before comparisons took rows out.

A comparison that filters leaves the values of a frame as they are, and only says which of them hold: so what a value
was before it alerted is there for the taking. Bounded by slots and by values; kept small, as single floats.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from collector.model.labels import Labels

SLOTS = 20
MOST_VALUES = 20_000
"""Of one rule: with many rows fewer slots are kept."""


class Past:
    """The results of one rule."""

    def __init__(self) -> None:
        self._slots: deque[tuple[tuple[Labels, ...], Any]] = deque(maxlen=SLOTS)
        self._count = 0

    def note(self, result: Any) -> None:
        """At a slot: a frame; what has no rows is passed over."""
        labels, values = getattr(result, "labels", None), getattr(result, "values", None)
        if labels is None or values is None:
            return
        if len(self._slots) == SLOTS:
            self._count -= len(self._slots[0][0])
        with np.errstate(all="ignore"):  # what does not fit is no number
            self._slots.append((labels, values.astype(np.float32)))
        self._count += len(labels)
        while self._count > MOST_VALUES:
            self._count -= len(self._slots.popleft()[0])

    def of(self, row: Labels) -> tuple[float, ...]:
        """The finite values of one row, oldest first, back to where it is not known, or was nothing.

        A series is there as soon as its first event was read, which along a backlog is before its time: of zeros that
        lie before everything else it is chance how many there are.
        """
        found: list[float] = []
        known, index = None, -1
        for labels, values in reversed(self._slots):
            if labels is not known:
                known, index = labels, _index(labels, row)
            if index < 0 or not math.isfinite(values[index]):
                break
            found.append(float(values[index]))
        while found and not found[-1]:
            found.pop()
        return tuple(reversed(found))


def _index(labels: tuple[Labels, ...], row: Labels) -> int:
    return next((index for index, one in enumerate(labels) if one == row), -1)
