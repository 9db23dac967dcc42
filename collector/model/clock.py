"""The only place that asks the system for the time. Everything else is told."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time places events and alerts; monotonic time measures waits and deadlines."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since boot."""
        return time.monotonic()


class ManualClock:
    """A clock that stands where it was put: tests move it by hand."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def now(self) -> float:
        """Unix seconds, as last set."""
        return self.at

    def monotonic(self) -> float:
        """The same hand; a manual clock only moves forward."""
        return self.at
