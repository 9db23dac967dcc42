"""A source's time axis: which time places its events, how far each of its places has been read, and whether it is up.

Takes batches as they are counted; gives axis times, and the instant up to which the source is complete. Pure: every
`now` is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from collector.model.event import Event
from collector.model.record import Batch, ClockName, Gap, Outcome, Receipt


class Place(msgspec.Struct):
    """One partition, stream, file or peer: the newest axis time read from it, and whether it was read to its end."""

    newest: float = -math.inf
    is_head: bool = False
    position: Receipt | None = None


class Axis(msgspec.Struct, kw_only=True):
    """One source as the daemon sees it."""

    name: str
    application: str
    clock: ClockName = "broker"
    places: dict[str, Place] = {}
    totals: Outcome = msgspec.field(default_factory=Outcome)
    gaps: list[Gap] = []
    is_up: bool = False
    was_tried: bool = False
    is_finite: bool = False
    """A file, standard input or a push endpoint: silence is not an outage."""
    detail: str = ""
    error: str = ""
    read_at: float = -math.inf
    """Wall clock of the last batch that held a record."""

    def times(self, batch: Batch, events: Sequence[Event], indexes: Sequence[int] | None, now: float) -> list[float]:
        """The axis time of each event, never ahead of `now`."""
        fallback = min(batch.received_at, now)
        broker = batch.times
        if self.clock == "event":
            # `complete` events carry float seconds; one without a time takes the record's.
            own = [event.time for event in events]
            if broker is not None:
                spread = broker if indexes is None else [broker[index] for index in indexes]
                return [min(now, t if t.__class__ is float else b) for t, b in zip(own, spread, strict=True)]  # type: ignore[type-var, misc]
            return [min(now, t) if t.__class__ is float else fallback for t in own]  # type: ignore[type-var]
        if self.clock == "arrival" or broker is None:
            return [fallback] * len(events)
        spread = broker if indexes is None else [broker[index] for index in indexes]
        return [t if t < now else now for t in spread] if spread and max(spread) > now else spread

    def advance(self, batch: Batch, ats: Sequence[float]) -> None:
        """A batch was counted."""
        place = self.places.get(batch.place)
        if place is None:
            place = self.places[batch.place] = Place()
        if ats:
            place.newest = max(place.newest, max(ats))
        elif batch.times and self.clock != "event":  # else the record's time is another axis
            place.newest = max(place.newest, max(batch.times))
        place.is_head = batch.is_head
        if batch.position is not None:
            place.position = batch.position
        if batch.bodies:
            self.read_at = max(self.read_at, batch.received_at)

    def complete_until(self, now: float, grace: float) -> float | None:
        """The instant up to which everything is known; None where the source has no place yet; -inf: it has, unread.

        With sender's time as the axis an instant is complete when the lowest watermark has passed it by `grace`; a
        place read to its end does not hold it back, and a source that is idle at its end has nothing older to say.
        """
        if not self.places:
            return None
        lateness = grace if self.clock == "event" else 0.0
        behind = [place.newest for place in self.places.values() if not place.is_head]
        if behind:
            return min(behind) - lateness
        if self.clock == "event" and now - self.read_at < grace:
            return max(place.newest for place in self.places.values()) - lateness
        return now - lateness

    @property
    def may_have_a_past(self) -> bool:
        """Whether it may still begin with what is older than now: it is down, or its axis is the sender's time."""
        return not self.places and (not self.is_up or self.clock == "event")

    def lag_seconds(self, now: float) -> float:
        """How far behind its head the source is being read."""
        behind = [place.newest for place in self.places.values() if not place.is_head and place.newest > -math.inf]
        return max(0.0, now - min(behind)) if behind else 0.0
