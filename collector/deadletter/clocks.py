"""How long the dead letters of each task have waited, and until when they are kept: the oldest and the next, at once.

Takes records as they come and change; gives ages and times per task, queue and source. Pure; what has changed since it
was noted is passed over when its turn comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from collector.deadletter.record import UNREVIEWED, DeadLetter, offset_of

Names: TypeAlias = tuple[str, str, str]
"""Task, queue, source."""
_Heap: TypeAlias = list[tuple[float, str]]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one task, queue and source. None: there is none, or it is not known."""

    lying: int
    """How many have a message somewhere, and no end."""
    unreviewed_since: float | None
    lying_since: float | None
    expires_at: float | None
    """When the first of them is deleted."""


def is_lying(one: DeadLetter) -> bool:
    """Whether its message is somewhere, and something is owed of it."""
    return not one.is_ended and not one.is_virtual and one.state != "expired"


class _Group:
    """The clocks of one task, queue and source."""

    def __init__(self) -> None:
        self.lying: set[str] = set()
        self.unreviewed: _Heap = []
        self.oldest: _Heap = []
        self.expiring: _Heap = []


class Clocks:
    """The clocks of one ledger, whose records it looks up by id."""

    def __init__(self, records: Mapping[str, DeadLetter]) -> None:
        self._records = records
        self.asked: set[str] = set()
        """Sources that are asked for as long as this process lives."""
        self._groups: dict[Names, _Group] = {}
        self._places: dict[tuple[str, str], set[str]] = {}
        """Source and place that is asked how long it keeps what lies there → what does."""
        self._expiring: _Heap = []

    def note(self, one: DeadLetter) -> None:
        """A record that came or changed; it is in the ledger already."""
        names = one.task, one.queue, one.source
        group = self._groups.get(names)
        if group is None:
            group = self._groups[names] = _Group()
        if one.state in UNREVIEWED:
            heapq.heappush(group.unreviewed, (one.at, one.id))
        if not is_lying(one):
            self.forget(one)
            return
        if offset_of(one.found) is not None:
            self._places.setdefault((one.found.read_by, one.found.place), set()).add(one.id)
        if one.id not in group.lying:
            group.lying.add(one.id)
            heapq.heappush(group.oldest, (one.at, one.id))
        if one.found.expires_at is not None:
            heapq.heappush(group.expiring, (one.found.expires_at, one.id))
            heapq.heappush(self._expiring, (one.found.expires_at, one.id))

    def forget(self, one: DeadLetter) -> None:
        """A record that left the ledger, or lies nowhere any more."""
        place = one.found.read_by, one.found.place
        if place in self._places:
            self._places[place].discard(one.id)
            if not self._places[place]:
                del self._places[place]
        group = self._groups.get((one.task, one.queue, one.source))
        if group is not None:
            group.lying.discard(one.id)

    def standings(self) -> Iterator[tuple[Names, Standing]]:
        """Every task, queue and source that has had any; those of which none is left are given once more, as such."""
        for names, group in list(self._groups.items()):
            unreviewed = self._first(group.unreviewed, lambda one: one.state in UNREVIEWED)
            standing = Standing(
                lying=len(group.lying),
                unreviewed_since=unreviewed,
                lying_since=self._first(group.oldest, is_lying),
                expires_at=self._first(group.expiring, is_lying, by_expiry=True),
            )
            if not group.lying and unreviewed is None and self._groups.get(names) is group:
                del self._groups[names]
            yield names, standing

    def places(self, source: str) -> list[str]:
        """Where something lies, of the places that a source is asked about."""
        return [place for name, place in self._places if name == source]

    def lying(self, source: str, place: str) -> list[str]:
        """What lies in one of them."""
        return list(self._places.get((source, place), ()))

    def expired(self, at: float) -> Iterator[DeadLetter]:
        """Those whose message should be gone by now, each once; a place that is asked says so itself.

        Of a source that was renamed or whose probe is off nobody asks any more: the time that was known then holds.
        """
        while self._expiring and self._expiring[0][0] <= at:
            due, name = heapq.heappop(self._expiring)
            one = self._records.get(name)
            if one is None or not is_lying(one) or one.found.expires_at != due:
                continue
            if one.found.read_by not in self.asked or offset_of(one.found) is None:
                yield one

    def _first(self, heap: _Heap, holds: Callable[[DeadLetter], bool], *, by_expiry: bool = False) -> float | None:
        while heap:
            at, name = heap[0]
            one = self._records.get(name)
            if one is not None and holds(one) and (not by_expiry or one.found.expires_at == at):
                return at
            heapq.heappop(heap)
        return None
