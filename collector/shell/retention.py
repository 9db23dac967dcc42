"""Asks a source's cluster how long its dead letters are kept, and lets the ledger know. Shell: no decisions of its own.

Asked only while something lies there: when it is the first of its topic, and then seldom, because settings change.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.model.keeping import Keeping
from collector.model.secret import mask
from collector.shell.telemetry import Telemetry
from collector.shell.undertaker import Undertaker

LOOKS = 6
"""It is asked at every so manieth look, unless a topic is new."""


class Asks(Protocol):
    """Whoever knows how long places keep what lies in them."""

    async def ask(self, places: list[str]) -> Keeping:
        """What is known of them. Raises SourceError."""
        ...


class Retention(msgspec.Struct, kw_only=True):
    """Of one source."""

    source: str
    asks: Asks
    every: float
    """Seconds between two looks at what lies there."""
    undertaker: Undertaker
    telemetry: Telemetry
    clock: Clock
    known: set[str] = set()
    """Places that were asked about."""
    looks: int = 0
    says: str = ""

    def __post_init__(self) -> None:
        """From now on this one says what is gone there, and no clock does."""
        self.undertaker.ledger.clocks.asked.add(self.source)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self.every)

    async def look(self) -> None:
        """See what lies there, and ask where it is time to."""
        self.looks += 1
        places = self.undertaker.ledger.clocks.places(self.source)
        if not places or (self.looks % LOOKS and self.known.issuperset(places)):
            return
        try:
            keeping = await self.asks.ask(places)
        except SourceError as error:
            self._tell(f"when dead letters are deleted is not known: {mask(str(error))}")
            return
        self.known = set(places)
        self._tell(keeping.says)
        for _ in self.undertaker.keep(self.source, keeping, self.clock.now()):
            await asyncio.sleep(0)

    def _tell(self, line: str) -> None:
        """Say a line for people when it changes."""
        if line != self.says:
            self.telemetry.said("source %s: %s", self.source, line or "when dead letters are deleted is known again")
        self.says = line
