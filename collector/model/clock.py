"""The only place that asks the system for the time. Everything else is told."""

from __future__ import annotations

import math
import time
from typing import Protocol

SLOWER = 0.9
"""How fast a steady clock goes while the machine's catches up with it."""


class Clock(Protocol):
    """Wall time places events and alerts; monotonic time measures waits and deadlines; CPU time what work costs."""

    @property
    def ahead(self) -> float:
        """Seconds by which the wall time is ahead of what the machine says."""
        ...

    def go_on_from(self, at: float) -> None:
        """A former process has come so far: a clock that is never set back begins there at the earliest."""
        ...

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    def cpu(self) -> float:
        """CPU seconds that this thread has spent."""
        ...


class SystemClock:
    """The machine's clock."""

    ahead = 0.0

    def go_on_from(self, at: float) -> None:
        """It is what it is."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since boot."""
        return time.monotonic()

    def cpu(self) -> float:
        """CPU seconds of this thread: the loop, and nobody who runs beside it."""
        return time.thread_time()


class SteadyClock:
    """A clock whose wall time is never set back: what was decided up to an instant is decided.

    Where the machine's is set back, this one goes on, a little slower, until that has caught up. One thread asks it.
    """

    def __init__(self, machine: Clock | None = None) -> None:
        self._machine = machine or SystemClock()
        self._at, self._tick = -math.inf, 0.0
        self.ahead = 0.0

    def go_on_from(self, at: float) -> None:
        """Not to be before what a former process has come to."""
        self._at = max(self.now(), at)

    def now(self) -> float:
        """Unix seconds."""
        wall, tick = self._machine.now(), self._machine.monotonic()
        self._at = max(wall, self._at + SLOWER * (tick - self._tick))
        self._tick = tick
        self.ahead = self._at - wall
        return self._at

    def monotonic(self) -> float:
        """Seconds since boot."""
        return self._machine.monotonic()

    def cpu(self) -> float:
        """CPU seconds of this thread."""
        return self._machine.cpu()


class ManualClock:
    """A clock that stands where it was put: tests move it by hand."""

    ahead = 0.0

    def __init__(self, at: float = 0.0) -> None:
        self.at = at
        self.spent = 0.0

    def go_on_from(self, at: float) -> None:
        """It stands where it was put."""

    def now(self) -> float:
        """Unix seconds, as last set."""
        return self.at

    def monotonic(self) -> float:
        """The same hand; a manual clock only moves forward."""
        return self.at

    def cpu(self) -> float:
        """CPU seconds, as last set."""
        return self.spent
