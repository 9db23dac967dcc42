"""Lists of dead letters: what a filter lets through, newest first, a page at a time; and their causes, counted."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from fnmatch import fnmatchcase

import msgspec

from collector.deadletter.fingerprint import normalised
from collector.deadletter.ledger import Ledger, walk
from collector.deadletter.record import ENDED, DeadLetter

STEP = 500
"""Records per step."""
MOST_LISTED = 1_000
"""Records per page."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which records. Empty texts and sets let everything through."""

    states: frozenset[str] = frozenset()
    task: str = ""
    """A glob, as queue, source and owner are."""
    queue: str = ""
    source: str = ""
    owner: str = ""
    error: str = ""
    """A part of the error class, or a glob on it."""
    fingerprint: str = ""
    task_id: str = ""
    since: float = float("-inf")
    """It did not die earlier."""
    after: tuple[float, str] | None = None
    """The last of the page before."""
    limit: int = 100

    def takes(self, one: DeadLetter) -> bool:
        """Whether a record is let through, on whichever page."""
        return (
            (not self.states or one.state in self.states)
            and (not self.fingerprint or one.fingerprint == self.fingerprint)
            and (not self.task_id or one.task_id == self.task_id)
            and one.at >= self.since
            and (not self.task or fnmatchcase(one.task, self.task))
            and (not self.queue or fnmatchcase(one.queue, self.queue))
            and (not self.source or fnmatchcase(one.source, self.source))
            and (not self.owner or fnmatchcase(one.owner, self.owner))
            and (not self.error or self.error in one.error or fnmatchcase(one.error, self.error))
        )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list, newest first, and where the next one begins: None at the end."""

    records: list[DeadLetter]
    after: tuple[float, str] | None


class Cause(msgspec.Struct, kw_only=True):
    """The dead letters of one root cause. Times in Unix seconds."""

    fingerprint: str
    task: str
    error: str
    message: str
    """Without what differs from one to the next."""
    frame: str
    owner: str
    total: int = 0
    open: int = 0
    """Those of which something is owed."""
    first_at: float = float("inf")
    last_at: float = float("-inf")


def pages(ledger: Ledger, wanted: Wanted) -> Iterator[Page | None]:
    """None after each short step, and at last the page."""
    most = max(1, min(wanted.limit, MOST_LISTED))
    found: list[tuple[float, str]] = []
    for one in walk(ledger, STEP):
        if one is None:
            yield None
            continue
        place = one.at, one.id
        if (wanted.after is not None and place >= wanted.after) or (len(found) > most and place < found[0]):
            continue
        if wanted.takes(one):
            (heapq.heappush if len(found) <= most else heapq.heappushpop)(found, place)
    found.sort(reverse=True)
    records = [ledger.records[name] for _, name in found[:most] if name in ledger.records]
    yield Page(records=records, after=found[most - 1] if len(found) > most else None)


def causes(ledger: Ledger, wanted: Wanted) -> Iterator[list[Cause] | None]:
    """None after each short step, and at last the causes of what the filter lets through, the largest first."""
    found: dict[str, Cause] = {}
    for one in walk(ledger, STEP):
        if one is None:
            yield None
        elif wanted.takes(one):
            cause = found.get(one.fingerprint)
            if cause is None:
                cause = found[one.fingerprint] = Cause(
                    fingerprint=one.fingerprint,
                    task=one.task,
                    error=one.error,
                    message=normalised(one.message),
                    frame=one.found.frame,
                    owner=one.owner,
                )
            cause.total += 1
            cause.open += one.state not in ENDED
            cause.first_at, cause.last_at = min(cause.first_at, one.at), max(cause.last_at, one.at)
    yield sorted(found.values(), key=lambda cause: (-cause.open, -cause.total, cause.fingerprint))
