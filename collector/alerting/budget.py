"""How much of the loop each rule may take: what is slow is evaluated less often, so that the others keep their times.

Takes what evaluations have cost, CPU seconds; gives for each rule the least time between two evaluations. While all
rules fit into what they may take together, nobody is held back. Beyond that those that take most are cut to the same
share, and the small ones are left alone. It bites first where nothing is lost, between slots, and then at slots.

What it cannot do: one expression is one step. A rule that takes a second holds everyone up for that second; only how
often it does is bounded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

BETWEEN_SLOTS = 0.1
"""A rule is evaluated between slots at most this often, seconds."""

SHARE_AT_SLOTS, SHARE_BETWEEN = 0.25, 0.25
"""Of one core: what evaluations at slots may take together, and what those between slots may."""

REPEATEDLY = 3
"""A rule costs what the cheapest of its last so many evaluations did: one hiccup holds nobody back."""


class Pace:
    """What one rule costs, and how often it is evaluated therefore."""

    def __init__(self) -> None:
        self.stride = 1
        """It is evaluated at every so many slots of its group."""
        self.pause = BETWEEN_SLOTS
        """The least time between two evaluations between slots, seconds."""
        self.not_before = -math.inf
        """It is its turn again at the first slot from here on."""
        self.missed = 0
        """Slots at which it was left out."""
        self.cost = 0.0
        """CPU seconds of an evaluation; 0 until there were enough of them to tell."""
        self._costs: deque[float] = deque(maxlen=REPEATEDLY)

    def spent(self, seconds: float) -> None:
        """An evaluation cost so much."""
        self._costs.append(seconds)
        if len(self._costs) == REPEATEDLY:
            self.cost = min(self._costs)


def settle(at_slots: Sequence[tuple[Pace, float]], between: Sequence[Pace]) -> None:
    """Set how often each is evaluated: at slots, every so many seconds if nothing holds it back; and between them."""
    loads = [pace.cost / interval for pace, interval in at_slots]
    most = share(loads, SHARE_AT_SLOTS)
    for (pace, _), load in zip(at_slots, loads, strict=True):
        pace.stride = max(1, math.ceil(load / most))
    most = share([pace.cost / BETWEEN_SLOTS for pace in between], SHARE_BETWEEN)
    for pace in between:
        pace.pause = max(BETWEEN_SLOTS, pace.cost / most)


def share(loads: Sequence[float], whole: float) -> float:
    """The most that each may take so that all together take no more than the whole; infinite where they do anyway."""
    if sum(loads) <= whole:
        return math.inf
    left, ordered = whole, sorted(loads)
    for index, load in enumerate(ordered):
        part = left / (len(ordered) - index)
        if load > part:
            return part
        left -= load
    return ordered[-1]
