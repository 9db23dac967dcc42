"""The only place that asks the system for the time. Everything else is told."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time places events and alerts; monotonic time measures waits and deadlines; CPU time what work costs."""

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

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since boot."""
        return time.monotonic()

    def cpu(self) -> float:
        """CPU seconds of this thread: the loop, and nobody who runs beside it."""
        return time.thread_time()


class ManualClock:
    """A clock that stands where it was put: tests move it by hand."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at
        self.spent = 0.0

    def now(self) -> float:
        """Unix seconds, as last set."""
        return self.at

    def monotonic(self) -> float:
        """The same hand; a manual clock only moves forward."""
        return self.at

    def cpu(self) -> float:
        """CPU seconds, as last set."""
        return self.spent
