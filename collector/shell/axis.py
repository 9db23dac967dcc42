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

SILENCE = 3.0
"""Seconds without a word after which a tailed place is no longer known to be read to its end."""
MOST_GAPS = 100
"""Holes of one source that are on record, the newest."""


class Place(msgspec.Struct):
    """One partition, stream, file or peer: the newest axis time read from it, and whether it was read to its end."""

    newest: float = -math.inf
    is_head: bool = False
    position: Receipt | None = None
    heard_at: float = -math.inf
    """Wall clock of its last batch, also of an empty one."""

    @property
    def is_placed(self) -> bool:
        """Whether it is known how far it has been read, and the source has said that it goes on from there."""
        return self.newest > -math.inf and self.heard_at > -math.inf


class SavedAxis(msgspec.Struct, array_like=True):
    """One source as a checkpoint keeps it."""

    name: str
    places: list[tuple[str, float, Receipt | None]]
    """Name, newest axis time, position."""
    totals: Outcome
    gaps: list[Gap]
    read_at: float


class Axis(msgspec.Struct, kw_only=True):
    """One source as the daemon sees it."""

    name: str
    application: str
    clock: ClockName = "broker"
    places: dict[str, Place] = {}
    restored: dict[str, Place] = {}
    """Places as a former process left them, until the source asks for them: some may be read no more."""
    totals: Outcome = msgspec.field(default_factory=Outcome)
    gaps: list[Gap] = []
    is_up: bool = False
    was_tried: bool = False
    is_pushed: bool = False
    """Others send to it: it keeps no past that has to be read before the present is complete."""
    is_tailed: bool = False
    """While it is up it says every second that it is at its end: one that falls silent is no longer known to be."""
    is_fleeting: bool = False
    """Its broker keeps nothing for it: what is published while it is away is lost."""
    detail: str = ""
    error: str = ""
    read_at: float = -math.inf
    """Wall clock of the last batch that held a record."""
    filled: float = 0.0
    """How full its bound on connections is, from 0 to 1, where it has one."""

    def place(self, name: str) -> Place:
        """The place of this name. One that was only asked for counts as not read yet."""
        place = self.places.get(name)
        if place is None:
            place = self.places[name] = self.restored.pop(name, Place())
        return place

    def restore(self, saved: SavedAxis) -> None:
        """Go on where a former process was. What is pushed keeps no past, so there is nowhere to go on from."""
        self.totals, self.gaps, self.read_at = saved.totals, saved.gaps, saved.read_at
        if not self.is_pushed:
            self.read_on(saved)

    def read_on(self, saved: SavedAxis) -> None:
        """Read its places from where they were read to."""
        self.restored |= {name: Place(newest=newest, position=at) for name, newest, at in saved.places}

    def miss(self, gap: Gap) -> None:
        """Put a hole on record. One that goes on where one of the same place and reason ended is one with it."""
        for old in self.gaps:
            if (old.place, old.reason) == (gap.place, gap.reason) and old.start <= gap.start <= old.end:
                self.gaps.remove(old)
                size = None if old.estimate is None or gap.estimate is None else old.estimate + gap.estimate
                gap = msgspec.structs.replace(
                    gap,
                    start=old.start,
                    end=max(old.end, gap.end),
                    estimate=size,
                    is_rough=old.is_rough or gap.is_rough,
                )
                break
        self.gaps.append(gap)
        del self.gaps[:-MOST_GAPS]

    def saved(self) -> SavedAxis:
        """What a checkpoint keeps of it."""
        places = [(name, place.newest, place.position) for name, place in (self.restored | self.places).items()]
        return SavedAxis(self.name, places, self.totals, self.gaps, self.read_at)

    def times(self, batch: Batch, events: Sequence[Event], indexes: Sequence[int] | None, now: float) -> list[float]:
        """The axis time of each event, never ahead of `now`."""
        arrival = min(batch.received_at, now)
        broker = batch.times
        if broker is not None and indexes is not None:
            broker = [broker[index] for index in indexes]
        if self.clock == "event":
            return self._event_times(batch.place, events, broker or [arrival] * len(events), now)
        if self.clock == "arrival" or broker is None:
            return [arrival] * len(events)
        return [min(t, now) for t in broker] if broker and max(broker) > now else broker

    def _event_times(self, place: str, events: Sequence[Event], others: Sequence[float], now: float) -> list[float]:
        """The sender's times.

        An event without one happened with the one before it: another clock must not push the watermark. Where nothing
        came before it, it takes the record's time.
        """
        times = [now if event.time is None else event.time for event in events]
        if max(times, default=now) < now:
            return times  # all have one
        newest = self.place(place).newest
        for index, (event, other) in enumerate(zip(events, others, strict=True)):
            if event.time is not None:
                times[index] = min(event.time, now)
                newest = max(newest, times[index])
            else:
                times[index] = newest if newest > -math.inf else min(other, now)
        return times

    def advance(self, batch: Batch, ats: Sequence[float]) -> None:
        """A batch was counted."""
        place = self.place(batch.place)
        if ats:
            newest = max(ats)
            place.newest = max(place.newest, newest)
        elif batch.bodies and self.clock != "event":  # none of them could be used, but they were read
            place.newest = max(place.newest, *(batch.times or (batch.received_at,)))
        place.is_head, place.heard_at = batch.is_head, batch.received_at
        if batch.position is not None:
            place.position = batch.position
        if batch.bodies:
            self.read_at = max(self.read_at, batch.received_at)

    def complete_until(self, now: float, grace: float) -> float | None:
        """The instant up to which everything is known, or None where the source says nothing about that.

        One that is down says nothing: rules go on without it, and those that read it are blind.

        With sender's time as the axis an instant is complete when the lowest watermark has passed it by `grace`; a
        place read to its end does not hold it back, and a source that is idle at its end has nothing older to say.
        """
        if not self.is_up or not self.places:
            return None
        lateness = grace if self.clock == "event" else 0.0
        behind = [place.newest for place in self.places.values() if not place.is_head]
        if behind:
            return min(behind) - lateness
        if self.clock == "event" and (now - self.read_at < grace or self._silent(now)):
            return max(place.newest for place in self.places.values()) - lateness
        return now - lateness

    @property
    def has_said(self) -> bool:
        """Whether it is known where the source stands; of one that is down, and of one that is pushed to, at once."""
        if self.is_pushed or (self.was_tried and not self.is_up):
            return True
        places = self.places.values()
        return bool(places) and all(place.is_head or (self.is_up and place.is_placed) for place in places)

    @property
    def is_at_head(self) -> bool:
        """Whether it is up and read to its end; what is pushed to has none."""
        return self.is_pushed or (self.is_up and bool(self.places) and all(p.is_head for p in self.places.values()))

    def is_read_past(self, at: float) -> bool:
        """Whether everything up to an instant was read, as far as is known."""
        return bool(self.places) and min(place.newest for place in self.places.values()) >= at

    def lag_seconds(self, now: float) -> float:
        """How far behind its head the source is being read; of one that fell silent, since when nothing was heard."""
        behind = [place.newest for place in self.places.values() if not place.is_head and place.newest > -math.inf]
        return max(0.0, now - min(behind + self._silent(now), default=now))

    def _silent(self, now: float) -> list[float]:
        """When the places were last heard that were at their end, and fell silent."""
        if not self.is_tailed:
            return []
        return [place.heard_at for place in self.places.values() if place.is_head and now - place.heard_at > SILENCE]
