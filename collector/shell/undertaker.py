"""Dead letters from trails to the ledger: each once, with what its place tells, who answers for it, and its clocks.

Stands between the stitcher, which knows when one is there and when it is over, and the ledger, which knows what was
decided. Where the two differ after a restart, a verdict holds, and what nobody has decided is open. Glue; synchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from collector.deadletter.clocks import Names, Standing
from collector.deadletter.ledger import MOST_EXPIRED, Bounds, Ledger
from collector.deadletter.record import DeadLetter, Found, Verdict, dated, joined, topic_of
from collector.formats import Decoded
from collector.model.contract import Contracts
from collector.model.death import SUCCEEDED_LATER, Death, Ending
from collector.model.event import Event
from collector.model.keeping import Keeping, Kept
from collector.model.labels import labels_of
from collector.model.personal import masked
from collector.model.record import Batch
from collector.model.stale import STALE
from collector.series.store import Store
from collector.shell import dead_places
from collector.shell.axis import Axis
from collector.trail.deaths import Deaths
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import Transitions

UNREVIEWED_AGE = "dead_letters_unreviewed_age_seconds"
LENGTH, OLDEST_AGE, EXPIRES = "dead_letter_length", "dead_letter_oldest_age_seconds", "dead_letter_expires_seconds"
WRITE_SECONDS = 5.0
"""How often their ages are written for rules."""
LONGEST_MESSAGE = 300
"""Characters; masked before it is cut."""
MOST_WRITTEN = 500
"""Tasks whose ages are written in one step."""
MOST_FOLLOWED = 200
"""Redriven ones that are looked for in one step."""
MOST_RECOUNTED = 10_000
"""Records that are counted again in one step."""
MOST_UNOPENED = 10_000
"""Details that wait until their trail says that it is dead; the oldest go."""


class Undertaker:
    """The dead letters of one pipeline."""

    def __init__(self, stitcher: Stitcher, store: Store, contracts: Callable[[], Contracts | None]) -> None:
        self.ledger = Ledger(Bounds())
        self.out = Transitions()
        """What verdicts and restarts changed in the counts, since it was last observed."""
        self._deaths = Deaths(stitcher.parts, self._died)
        self._store = store
        self._contracts = contracts
        self._unopened: dict[tuple[str, str], Found] = {}
        self._kept: dict[tuple[str, str], Kept] = {}
        """Source and topic → how long it keeps what lies there, as far as it was asked."""
        self._round: Iterator[tuple[Names, Standing]] | None = None
        """What is still to be written of this round."""
        self._recount: Iterator[str] | None = None
        """The records that are still to be counted again."""
        self._written: dict[Names, frozenset[str]] = {}
        self._write_at = float("-inf")

    # What is counted

    def told(self, axis: Axis, batch: Batch, decoded: Decoded, ats: Sequence[float]) -> None:
        """A batch was stitched: take down what it tells of dead letters."""
        told = self._deaths.told()
        if told:
            home = f"={axis.application}" if axis.application else axis.name
            wanted = set(map(id, told))
            places = {one: number for number, one in enumerate(map(id, decoded.events)) if one in wanted}
            for event in told:
                if (number := places.get(id(event))) is not None:
                    index = number if decoded.sources is None else decoded.sources[number]
                    found = self._dated(dead_places.found(batch, index, event, ats[number]))
                    waiting = self._unopened.get((home, event.task_id), found)
                    self._unopened[home, event.task_id] = joined(waiting, found)
        self.turned()
        for event in told:
            known = self.ledger.latest(home, event.task_id)
            if known is not None and not known.is_ended:  # else its trail may still wait for its names
                found = self._unopened.pop((home, event.task_id), Found())
                self.ledger.fill(home, event.task_id, _with_error(found, event, known))
        while len(self._unopened) > MOST_UNOPENED:
            del self._unopened[next(iter(self._unopened))]

    def _dated(self, found: Found) -> Found:
        return dated(found, self._kept.get((found.read_by, topic_of(found.place))))

    def keep(self, source: str, keeping: Keeping, at: float) -> Iterator[None]:
        """A source's cluster says how long its topics keep what lies there; None after each short step."""
        self._kept |= {(source, topic): kept for topic, kept in keeping.kept.items()}
        return self.ledger.keep(source, keeping, at)

    def turned(self) -> None:
        """Trails have opened and closed dead letters: take that down too."""
        for turn in self._deaths.turns():
            if isinstance(turn, Death):
                self._open(turn)
            else:
                self.ledger.end(turn)

    def _died(self, home: str, task_id: str) -> float | None:
        known = self.ledger.latest(home, task_id)
        return None if known is None or known.is_ended else known.when

    def _open(self, death: Death) -> None:
        contract = (self._contracts() or Contracts()).of(death.task, death.queue)
        found = self._unopened.pop((death.home, death.task_id), None) or Found()
        if self.ledger.open(death, found, contract.owner, contract.review_within) == "ended":
            self._deaths.judge(death.home, death.task_id, death.at, self.out, death.when)

    # What people decide

    def judge(self, name: str, verdict: Verdict, at: float) -> DeadLetter:
        """Take a verdict down. `at`: now, Unix seconds. Raises KeyError for no such record, and ValueError."""
        if self.ledger.judge(name, verdict, at):
            one = self.ledger.records[name]
            self._deaths.judge(one.home, one.task_id, max(one.at, self._store.frontier), self.out)
        return self.ledger.records[name]

    # A restart

    def resume(self) -> None:
        """The ledger was restored: bring what the trails count as open in line with it, and it with them."""
        for death in list(self._deaths.open()):
            known = self.ledger.latest(death.home, death.task_id)
            if known is None:
                self._open(death)
            elif known.is_ended:
                self._deaths.judge(death.home, death.task_id, death.at, self.out)

    def recount(self) -> bool:
        """The sources have told again what they had told since the last checkpoint: what is open then counts.

        Some at a time: to be called until it is True.
        """
        if self._recount is None:
            self._recount = iter(list(self.ledger.records))
        part = list(islice(self._recount, MOST_RECOUNTED))
        for one in filter(None, map(self.ledger.records.get, part)):
            if not one.is_ended:
                self._deaths.hold(_death_of(one), self.out)
        if len(part) == MOST_RECOUNTED:
            return False
        self._recount = None
        return True

    # What rules read

    def write(self, at: float) -> None:
        """Write ages and times as samples, where their time has come; of many tasks some at a time."""
        if self._round is None:
            if at < self._write_at:
                return
            is_more = len(self.ledger.expire(at)) >= MOST_EXPIRED
            self._write_at = at if is_more else at + WRITE_SECONDS
            self._round = self.ledger.clocks.standings()
            self._follow(at)
        part = list(islice(self._round, MOST_WRITTEN))
        if len(part) < MOST_WRITTEN:
            self._round = None
        for names, standing in part:
            self._sample(names, standing, at)

    def _follow(self, at: float) -> None:
        """See what became of some that were redriven, also of those whose trail was forgotten before."""
        for one in self.ledger.followed(at, MOST_FOLLOWED):
            done = self._deaths.succeeded(one.home, one.task_id, one.at)
            if done is not None:
                self.ledger.end(Ending(one.home, one.task_id, done, SUCCEEDED_LATER))

    def _sample(self, names: Names, standing: Standing, at: float) -> None:
        labels = labels_of(dict(zip(("task", "queue", "source"), names, strict=True)))
        values = {
            UNREVIEWED_AGE: _since(standing.unreviewed_since, at),
            LENGTH: float(standing.lying) if standing.lying else None,
            OLDEST_AGE: _since(standing.lying_since, at),
            EXPIRES: None if standing.expires_at is None else max(0.0, standing.expires_at - at),
        }
        there = frozenset(name for name, value in values.items() if value is not None)
        for name, value in values.items():
            if value is not None:
                self._store.put(name, labels, at, value)
            elif name in self._written.get(names, ()):
                self._store.put(name, labels, at, STALE)
        if there:
            self._written[names] = there
        else:
            self._written.pop(names, None)


def _death_of(one: DeadLetter) -> Death:
    return Death(
        home=one.home,
        task_id=one.task_id,
        task=one.task,
        queue=one.queue,
        source=one.source,
        at=one.at,
        when=one.when,
    )


def _with_error(found: Found, event: Event, known: DeadLetter) -> Found:
    """With what the event says of the error, where it is not known yet."""
    error = "" if known.error else masked(found.error or event.error or "")
    message = "" if known.message else masked(event.error_message or "")[:LONGEST_MESSAGE]
    return found if (error, message) == ("", "") else msgspec.structs.replace(found, error=error, message=message)


def _since(start: float | None, at: float) -> float | None:
    return None if start is None else max(0.0, at - start)
