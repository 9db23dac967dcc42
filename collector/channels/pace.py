"""How often a service may be written to: a burst at once, and then no more than it takes."""

from __future__ import annotations

from collections import deque

import msgspec

from collector.model.clock import Clock


class Pace(msgspec.Struct, frozen=True):
    """At most `count` messages in any span of `seconds`."""

    count: int
    seconds: float


class Pacer:
    """Remembers when messages were sent, no further back than the pace asks."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self._pace = pace
        self._clock = clock
        self._starts: deque[float] = deque(maxlen=pace.count)

    def started(self) -> None:
        """A message is sent now."""
        self._starts.append(self._clock.monotonic())

    def spacing(self) -> float:
        """If a message starts now, for how many seconds no other may."""
        now = self._clock.monotonic()
        starts = [*self._starts, now]
        if len(starts) < self._pace.count:
            return 0.0
        return max(0.0, starts[-self._pace.count] + self._pace.seconds - now)
