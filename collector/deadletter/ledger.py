"""The ledger: every dead letter that is remembered, what was decided of it, and all that ever happened to it.

Takes deaths and endings as trails tell them, details as places tell them, and verdicts as people give them. Gives
records, and what changed since it was last asked. Pure: time is an argument, and nothing is written here.

One death is one record, however often and over however many channels it is told, and whichever process hears of it:
its id derives from the task's id and the time of the death alone. What has ended stays ended when it is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from collector.deadletter.clocks import Clocks, is_lying
from collector.deadletter.record import (
    FOLLOWING,
    OBSERVED,
    DeadLetter,
    Entry,
    Found,
    State,
    Verdict,
    checked,
    dated,
    filled,
    offset_of,
    record,
    topic_of,
)
from collector.model.death import SUCCEEDED_LATER, Death, Ending
from collector.model.keeping import Keeping

REASONS: tuple[str, ...] = (
    "ledger_ended",  # more records than the bound: the first to end left before its time
    "ledger_open",  # the same, where none had ended: the oldest open record left
)
DIED = "dead-lettered"
DIED_ONCE_MORE = "its task died once more"
DIED_AGAIN = "what had ended it was of another life"
DELETED = "the place where it lay keeps it no longer"
GONE = "the place where it lay is there no longer"
MOST_EXPIRED = 1_000
"""In one step."""
MOST_FOLLOWED = 10_000
"""Redriven ones whose outcome is waited for; those that wait longest are waited for no more."""
FOLLOWED_SECONDS = 86_400.0
STEP = 500
"""Records that are dated in one step."""
SAME_DEATH = 0.001
"""Seconds within which two times are the same: they are written with milliseconds."""
OUTCOMES = frozenset((SUCCEEDED_LATER, DIED_ONCE_MORE))
"""What becomes of a redriven one."""
Told: TypeAlias = Literal["new", "known", "ended"]
"""What a death is to the ledger."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept."""

    records: int = 100_000
    ended_seconds: float = 30 * 86_400.0
    """How long a record stays after its end."""
    entries: int = 100
    """Of one record's history: past it no verdict is taken, and nothing is added but what ends it."""


class Changes(msgspec.Struct, frozen=True):
    """What changed: records as they are now, entries that are new, ids that left."""

    records: list[DeadLetter]
    entries: list[Entry]
    gone: list[str]


class Ledger:
    """All records, by id, in the order in which they were opened."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.records: dict[str, DeadLetter] = {}
        self.history: dict[str, list[Entry]] = {}
        self.clocks = Clocks(self.records)
        self.evictions = dict.fromkeys(REASONS, 0)
        self._latest: dict[tuple[str, str], str] = {}
        self._ended: dict[str, float] = {}
        """When each ended record ended; the order is that of the ends."""
        self._number = 0
        self._followed: dict[str, None] = {}
        """Those that were redriven and have neither succeeded nor died since; the next to look at is first."""
        self._touched: dict[str, None] = {}
        self._entries: list[Entry] = []
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self.records)

    # What trails and places tell

    def open(self, death: Death, found: Found, owner: str, review_within: float | None) -> Told:
        """A life died. What is known already gets no second record; `ended`: whoever counts it should not."""
        known = self.latest(death.home, death.task_id)
        if known is not None and (not known.is_ended or abs(known.when - death.when) < SAME_DEATH):
            if known.is_ended and death.is_again and known.actor == OBSERVED:
                self._turn(known, "open", death.at, OBSERVED, DIED_AGAIN)
            else:
                self._put(filled(known, found), known)
            return "ended" if self.records[known.id].is_ended else "known"
        one = record(death, found, owner, review_within)
        if one.id in self.records:
            return "ended" if self.records[one.id].is_ended else "known"
        if known is not None and known.id in self._followed:
            del self._followed[known.id]
            self._enter(known.id, death.at, known.state, OBSERVED, DIED_ONCE_MORE)
        self._put(one, None)
        self._latest[one.home, one.task_id] = one.id
        self._enter(one.id, one.at, "open", OBSERVED, DIED)
        self._bound()
        return "new"

    def fill(self, home: str, task_id: str, found: Found) -> None:
        """A place tells of a dead letter that is known: what was missing is filled in."""
        known = self.latest(home, task_id)
        if known is not None:
            self._put(filled(known, found), known)

    def end(self, ending: Ending) -> None:
        """Something ended a dead letter by itself; after a verdict it is only written into the history."""
        known = self.latest(ending.home, ending.task_id)
        if known is None or ending.at < known.at:
            return  # told again after a restart: it ended the one before
        if any((entry.reason, entry.at) == (ending.why, ending.at) for entry in self.history.get(known.id, ())[-2:]):
            return  # told again, after a restart or by two who know
        if ending.why in OUTCOMES:
            self._followed.pop(known.id, None)
        if not known.is_ended:
            self._turn(known, "redriven", ending.at, OBSERVED, ending.why)
        elif len(self.history.get(known.id, ())) < self.bounds.entries:
            self._enter(known.id, ending.at, known.state, OBSERVED, ending.why)

    def followed(self, at: float, most: int) -> list[DeadLetter]:
        """Some of those whose outcome is waited for, in turn: whoever knows that one has succeeded says so by `end`."""
        found = [self.records[name] for name in islice(self._followed, most)]
        for one in found:
            del self._followed[one.id]
            if one.state_at + FOLLOWED_SECONDS > at:
                self._followed[one.id] = None
        return found

    def expire(self, at: float, most: int = MOST_EXPIRED) -> list[DeadLetter]:
        """Note which messages should be gone by now, and let records go that ended long ago. Gives the former.

        At most so many of both: where as many are given, there may be more.
        """
        gone = list(islice(self.clocks.expired(at), most))
        for one in gone:
            self._turn(one, "expired", one.found.expires_at or at, OBSERVED, one.found.expires_by or DELETED)
        for _ in range(min(most, len(self._ended))):
            name, ended_at = next(iter(self._ended.items()))
            if ended_at + self.bounds.ended_seconds > at:
                break
            self._forget(name)
        return gone

    def keep(self, source: str, keeping: Keeping, at: float) -> Iterator[None]:
        """Places that a source is asked about say how long they keep what lies there. None after each short step."""
        for place in self.clocks.places(source):
            kept, begin = keeping.kept.get(topic_of(place)), keeping.begins.get(place, 0)
            for number, name in enumerate(self.clocks.lying(source, place), 1):
                one = self.records.get(name)
                if one is None or not is_lying(one):
                    continue
                offset = offset_of(one.found)
                if place in keeping.gone:
                    self._turn(one, "expired", at, OBSERVED, GONE)
                elif offset is not None and offset < begin:
                    self._turn(one, "expired", at, OBSERVED, one.found.expires_by or DELETED)
                elif (found := dated(one.found, kept)) != one.found:
                    self._put(msgspec.structs.replace(one, found=found), one)
                if number % STEP == 0:
                    yield
            yield

    # What people decide

    def judge(self, name: str, verdict: Verdict, at: float) -> bool:
        """Take a verdict down; whether it ends what was open. Raises KeyError for no such record, and ValueError."""
        one, given = self.records[name], checked(verdict)
        if given.state not in FOLLOWING[one.state]:
            raise ValueError(f"{name} is {one.state}, and cannot become {given.state}")
        if len(self.history.get(name, ())) >= self.bounds.entries:
            raise ValueError(f"{name} has {self.bounds.entries} entries in its history, and takes no more")
        self._turn(one, given.state, at, given.actor, given.reason, given.ticket)
        return not one.is_ended and self.records[name].is_ended

    def latest(self, home: str, task_id: str) -> DeadLetter | None:
        """The newest record of a task id."""
        return self.records.get(self._latest.get((home, task_id), ""))

    # What outlives the process

    def changes(self) -> Changes | None:
        """What changed since this was last asked; None: nothing."""
        if not (self._touched or self._entries or self._gone):
            return None
        found = Changes(
            [self.records[name] for name in self._touched if name in self.records],
            [entry for entry in self._entries if entry.id in self.records],
            list(self._gone),
        )
        self._touched, self._entries, self._gone = {}, [], {}
        return found

    def touch_all(self) -> None:
        """Everything is to be written anew."""
        self._touched = dict.fromkeys(self.records)
        self._entries = sorted((one for each in self.history.values() for one in each), key=_number)

    def restore(self, records: Iterable[DeadLetter], entries: Iterable[Entry]) -> None:
        """Go on with what a former process has written. Only while there is nothing."""
        for one in sorted(records, key=_opened):
            self.records[one.id] = one
            self._latest[one.home, one.task_id] = one.id
            self.clocks.note(one)
        for entry in sorted(entries, key=_number):
            self._number = max(self._number, entry.number)
            if entry.id in self.records:
                self.history.setdefault(entry.id, []).append(entry)
        for one in self.records.values():
            if one.state == "redriven" and not any(entry.reason in OUTCOMES for entry in self.history.get(one.id, ())):
                self._follow(one.id)
        ended = [one for one in self.records.values() if one.is_ended]
        self._ended = {one.id: one.state_at for one in sorted(ended, key=_ended)}

    # Inside

    def _put(self, one: DeadLetter, before: DeadLetter | None) -> None:
        if one is before:
            return
        self.records[one.id] = one
        self._touched[one.id] = None
        self.clocks.note(one)

    def _turn(  # noqa: PLR0913, PLR0917 - the columns of one entry
        self, one: DeadLetter, state: State, at: float, actor: str, reason: str, ticket: str = ""
    ) -> None:
        changed = msgspec.structs.replace(one, state=state, state_at=at, actor=actor, reason=reason, ticket=ticket)
        self._put(changed, one)
        self._ended.pop(one.id, None)
        if changed.is_ended:
            self._ended[one.id] = at
        self._followed.pop(one.id, None)
        if state == "redriven" and reason not in OUTCOMES:
            self._follow(one.id)
        self._enter(one.id, at, state, actor, reason, ticket)

    def _enter(  # noqa: PLR0913, PLR0917 - as above
        self, name: str, at: float, state: State, actor: str, reason: str, ticket: str = ""
    ) -> None:
        self._number += 1
        entry = Entry(number=self._number, id=name, at=at, state=state, actor=actor, reason=reason, ticket=ticket)
        self.history.setdefault(name, []).append(entry)
        self._entries.append(entry)

    def _follow(self, name: str) -> None:
        self._followed[name] = None
        if len(self._followed) > MOST_FOLLOWED:
            del self._followed[next(iter(self._followed))]

    def _bound(self) -> None:
        while len(self.records) > self.bounds.records:
            ended = next(iter(self._ended), None)
            self.evictions["ledger_open" if ended is None else "ledger_ended"] += 1
            self._forget(next(iter(self.records)) if ended is None else ended)

    def _forget(self, name: str) -> None:
        one = self.records.pop(name)
        self.history.pop(name, None)
        self._ended.pop(name, None)
        self._followed.pop(name, None)
        self._touched.pop(name, None)
        self._gone[name] = None
        if self._latest.get((one.home, one.task_id)) == name:
            del self._latest[one.home, one.task_id]
        self.clocks.forget(one)


def _number(entry: Entry) -> int:
    return entry.number


def _opened(one: DeadLetter) -> tuple[float, str]:
    return one.at, one.id


def _ended(one: DeadLetter) -> float:
    return one.state_at


def walk(ledger: Ledger, step: int) -> Iterator[DeadLetter | None]:
    """All records, and None after each short step: whoever is in a walk does not hold up the others."""
    for number, one in enumerate(list(ledger.records.values()), 1):
        yield one
        if number % step == 0:
            yield None
