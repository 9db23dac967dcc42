"""Workers by their signs of life: heartbeats, online, offline. Who is there, and who is gone since when.

A worker is gone when three heartbeats are missing (10 s at least), when it begins again under its name, or for good
after it said that it leaves. One that never gave a sign of life is never gone. What its tasks do is a sign of life,
too, which is looked for before it is believed gone.

One that says it has begun tasks, and tells of none, may have in hand whatever else was sent: where it is heard, nothing
is found from a start that is missing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

import msgspec

from collector.model.event import WORKER_KINDS, Event
from collector.trail.findings.holes import Holes
from collector.trail.findings.sight import Departure
from collector.trail.findings.skew import BEHIND, SEEN, skew
from collector.trail.tally import Placed

MISSED = 3
LEAST_SECONDS = 10.0
LEAVING_SECONDS = 60.0
"""How long a worker that said it leaves may still finish what it has."""
_UNTOLD = 60.0
"""Seconds between two heartbeats, where only one was seen."""
_BEATS = 6
_SIGNS_KEPT = 16
_ONLINES = 4
MOST = 20_000
FORGOTTEN = 3_600.0
"""Seconds after which nobody asks for a worker that is gone."""
_SKIMMED = 50
_SIGNS = frozenset(WORKER_KINDS)
_UNBELIEVABLE = 16
"""Digits of a number of tasks."""
_SURE = 2
"""Heartbeats without a word of what was begun, after which a worker is called mute: its events may be on their way."""


class Worker(msgspec.Struct, array_like=True):
    """One worker. Times are axis times, lists of them sorted and short."""

    home: int
    name: str
    source: str
    """Which of the sources tells of it."""
    signs: list[float] = []
    """Its last signs of life; the first one is there from the beginning."""
    beats: list[float] = []
    """Its last heartbeats."""
    onlines: list[tuple[float, float]] = []
    """When it began: by its own clock where it named a time, and on the axis."""
    silences: list[tuple[float, float]] = []
    """When it was seen last before it was believed gone without a word, and up to when that was waited for."""
    offline_at: float = 0.0
    due: float = 0.0
    """When to look after it next."""
    handled: float = 0.0
    """Up to when it was looked after."""
    active: int = -1
    """Tasks that it said it has in hand; -1: it does not say."""
    offsets: list[float] = []
    """Its clock minus the axis, of its last heartbeats."""
    is_skewed: bool = False
    is_unseen: bool = False
    """Whether it is not looked after until its source can be believed."""
    every: float = 0.0
    """Seconds from one heartbeat to the next, by its own word; 0.0: it does not say."""
    returns: list[tuple[float, float, bool]] = []
    """Of each silence after which it was heard again: when it was seen before and after, and whether it had restarted.

    Told only of those whose restarts can be seen. One that had not restarted sends no heartbeats while it works.
    """
    idle_since: float = 0.0
    """Since when all its heartbeats say that it has nothing in hand; 0.0: they do not."""
    begun: int = -1
    """Tasks that it said it has begun; -1: it does not say."""
    untold_since: float = 0.0
    """The heartbeat since which it has begun tasks without a word of any; 0.0: it tells of them."""
    untold_beats: int = 0
    """How many heartbeats ago that was noticed."""

    @property
    def is_mute(self) -> bool:
        """Whether it certainly works without telling of it."""
        return self.untold_beats >= _SURE

    @property
    def is_up(self) -> bool:
        """Whether it is believed to be there."""
        return not self.offline_at and not (self.silences and self.silences[-1][0] >= self.signs[-1])

    @property
    def heard_at(self) -> float:
        """When it said something last. The last of `signs` may be up to when it was waited for instead."""
        return max((*self.beats[-1:], *(at for _, at in self.onlines[-1:])), default=0.0)

    def patience(self, seen: float) -> float:
        """Seconds without a sign of life after which it was gone that was last seen then: by its habits until then."""
        beats = [at for at in self.beats if at <= seen]
        gaps = [
            later - before
            for before, later in pairwise(beats[-_BEATS:])
            if not any(before <= gone < later for gone, _ in self.silences)
        ]
        outlived = [
            back - gone for gone, back, is_anew in self.returns if not is_anew and back <= seen < back + FORGOTTEN
        ]
        return max(LEAST_SECONDS, MISSED * max((*gaps, *outlived), default=self.every or _UNTOLD))

    def note_returns(self) -> None:
        """See whether it was heard again after it was believed gone."""
        if not (self.every or self.onlines):
            return
        known = {gone: (gone, back, is_anew) for gone, back, is_anew in self.returns}
        for gone, _ in self.silences:
            back = min((sign for sign in self.signs if sign > gone), default=inf)
            if back < (known[gone][1] if gone in known else inf):
                known[gone] = gone, back, any(gone < at <= back for _, at in self.onlines)
        self.returns = [known[gone] for gone, _ in self.silences if gone in known]

    def silence(self) -> tuple[float, float] | None:
        """Since when and until when it was silent too long, that was not looked after yet; the end may lie ahead."""
        if not (self.beats or self.every) or self.offline_at:
            return None
        for seen, following in pairwise((*self.signs, inf)):
            if following - seen > LEAST_SECONDS and all(seen != gone for gone, _ in self.silences):
                until = seen + self.patience(seen)
                if following > until:
                    return seen, until
        return None


class Crew:
    """All workers of one stitcher."""

    def __init__(self, holes: Holes, grace: float) -> None:
        self.all: dict[tuple[int, str], Worker] = {}
        self.skewed: list[tuple[Worker, float]] = []
        """Whose clocks were found wrong since this was last emptied, and when."""
        self.version = 0
        """Changes with anything that a gauge of workers says."""
        self.untold = Holes()
        """When which source had workers that told nothing of what they began."""
        self._quiet: dict[int, dict[str, Worker]] = {}
        """By home and name: who says how much it has begun, and has told of no task since its last heartbeat."""
        self._holes = holes
        self._grace = grace
        self._heap: list[tuple[float, int, str]] = []
        self.prompt: dict[str, float] = {}
        """Source → when a heartbeat came last that was not late by its sender's clock."""
        self._decided = 0.0

    def take(self, home: int, source: str, events: Iterable[Event], ats: Iterable[float]) -> None:
        """Signs of life among the events of a batch."""
        for event, at in zip(events, ats, strict=True):
            if event.worker and event.kind in _SIGNS and "dropped" not in (event.labels or {}):
                self._sign(self._worker(home, source, event.worker, at), event, at)

    def listen(self, home: int, events: Iterable[Event]) -> None:
        """Who tells of tasks, by a batch of what workers tell themselves. Costs nothing while everybody does."""
        quiet = self._quiet.get(home, {})
        for name in quiet.keys() & {event.worker for event in events if event.task_id} if quiet else ():
            worker = quiet.pop(name)
            worker.untold_since, worker.untold_beats = 0.0, 0

    def mute(self, source: str) -> list[str]:
        """The workers of a source that work and tell nothing of it."""
        return sorted(one.name for one in self.all.values() if one.is_mute and one.source == source and one.is_up)

    def _worker(self, home: int, source: str, name: str, at: float) -> Worker:
        worker = self.all.get((home, name))
        if worker is None:
            if len(self.all) >= MOST:
                self._drop(min(self.all, key=lambda key: self.all[key].signs[-1]))
            worker = self.all[home, name] = Worker(home, name, source, [at])
            self.version += 1
        return worker

    def _sign(self, worker: Worker, event: Event, at: float) -> None:
        was_up, was_active, newest = worker.is_up, worker.active, worker.heard_at
        labels = event.labels or {}
        worker.every = _interval(labels.get("every", "")) or worker.every
        told, begun = _number(labels.get("active", "")), _number(labels.get("begun", ""))
        worker.signs = _with(worker.signs, at)
        if event.kind == "offline":
            worker.offline_at = max(worker.offline_at, at if at >= newest else 0.0)
        elif at > worker.offline_at:
            worker.offline_at = 0.0
        if event.kind == "online" and told <= 0:  # with work in hand it has only come back to its broker
            self._online(worker, event.time or at, at)
        elif event.kind == "heartbeat":
            worker.beats = _with(worker.beats, at)
            if at >= newest:
                worker.idle_since = (worker.idle_since or at) if told == 0 else 0.0
            if event.time is not None:
                worker.offsets = [*worker.offsets, event.time - at][-SEEN:]
                self._compare(worker, at)
        if at >= newest:
            worker.active = told
            if begun >= 0:
                self._weigh(worker, begun, newest, at)
        if worker.silences:
            worker.note_returns()
        self.version += (was_up, was_active) != (worker.is_up, worker.active)
        self.look_after(worker)

    def _weigh(self, worker: Worker, begun: int, before: float, at: float) -> None:
        """Hold what a worker says it has begun against what it told of since its sign of life at `before`."""
        quiet = self._quiet.setdefault(worker.home, {})
        if begun < worker.begun:  # another process, which knows nothing of the one before
            worker.untold_since, worker.untold_beats = 0.0, 0
        elif not worker.untold_since:
            worker.untold_since = before if 0 <= worker.begun < begun and worker.name in quiet else 0.0
        elif not worker.is_mute and self._holes.over(worker.source, worker.untold_since, at) is not None:
            worker.untold_since, worker.untold_beats = 0.0, 0  # what it told may have been missed
        else:
            worker.untold_beats += 1
            self.untold.add(worker.source, worker.untold_since, at)
        worker.begun, quiet[worker.name] = begun, worker

    def _online(self, worker: Worker, when: float, at: float) -> None:
        if all(abs(when - other) > self._grace for other, _ in worker.onlines):  # else two channels tell of one
            worker.onlines = sorted([*worker.onlines, (when, at)])[-_ONLINES:]

    def _compare(self, worker: Worker, at: float) -> None:
        seconds = skew(worker.offsets)
        if worker.offsets[-1] >= -BEHIND:
            self.prompt[worker.source] = at
        # who is late together with all others of its source may have a clock as good as theirs: the way is slow
        is_skewed = seconds > 0.0 or (seconds < 0.0 and self.prompt.get(worker.source, -inf) >= worker.beats[0])
        if is_skewed and not worker.is_skewed:
            self.skewed.append((worker, at))
        worker.is_skewed = is_skewed or (worker.is_skewed and seconds != 0.0)

    # Who is gone

    def look_after(self, worker: Worker) -> None:
        """Note when to look after a worker, where it is not noted that it is looked after before."""
        due = self._due(worker)
        if due and (not worker.due or due < worker.due):
            worker.due = due
            heapq.heappush(self._heap, (due, worker.home, worker.name))

    def _due(self, worker: Worker) -> float:
        dues = [at + self._grace for _, at in worker.onlines]
        if worker.offline_at:
            dues.append(worker.offline_at + LEAVING_SECONDS + self._grace)
        dues = [due for due in dues if due > worker.handled]
        if (silence := worker.silence()) is not None:
            dues.append(silence[1] + self._grace)
        return min(dues, default=0.0)

    def next_due(self) -> float | None:
        """When somebody is to be looked after next; of those that gave signs since, some are put off."""
        for _ in range(_SKIMMED):
            if not self._heap or not self._put_off():
                break
        return self._heap[0][0] if self._heap else None

    def _put_off(self) -> bool:
        """Whether the first entry was of no use."""
        due, home, name = self._heap[0]
        worker = self.all.get((home, name))
        if worker is not None and worker.due == due:
            later = self._due(worker)
            if later <= due:
                return False
            worker.due = 0.0
            self.look_after(worker)
        heapq.heappop(self._heap)
        return True

    def suspects(self, at: float) -> list[Worker]:
        """Those whose tasks must be looked at, because they may be lost by `at`."""
        self._decided = at
        found: list[Worker] = []
        while (due := self.next_due()) is not None and due <= at:
            _, home, name = heapq.heappop(self._heap)
            worker = self.all[home, name]
            if not self._holes.is_known(worker.source):
                worker.is_unseen, worker.due = True, 0.0
                self._holes.wait(worker.source, self._seen_again, home, name)
                continue
            if worker.is_unseen:
                self._wait_anew(worker, at)
                continue
            silence = worker.silence()
            over = None if silence is None else self._holes.over(worker.source, *silence)
            if silence is not None and over is not None and over > silence[0]:
                self._wait_anew(worker, over)
            else:
                worker.handled, worker.due = due, 0.0
                found.append(worker)
        return found

    def _seen_again(self, home: int, name: str) -> None:
        """The source of a worker is believed again."""
        worker = self.all.get((home, name))
        if worker is not None:
            self._wait_anew(worker, self._decided)

    def _wait_anew(self, worker: Worker, at: float) -> None:
        """Its signs until then may have been missed: it has the time anew."""
        worker.signs = [at, *(sign for sign in worker.signs if sign > at)]
        worker.is_unseen, worker.due = False, 0.0
        self.look_after(worker)

    def judge(self, worker: Worker, active: Iterable[float], at: float) -> None:
        """All tasks of a suspect were looked at, with their facts at `active`: it is gone, or it is not."""
        silence = worker.silence()
        if silence is not None and silence[1] + self._grace <= at:
            seen, until = silence
            newest = max((sign for sign in active if seen < sign <= until), default=None)
            if newest is None:
                worker.silences = [*worker.silences, silence][-_ONLINES:]
                worker.signs = [sign for sign in worker.signs if sign >= seen]
                worker.note_returns()
                if not worker.is_up:
                    worker.active = -1
                    self.version += 1
            else:
                worker.signs = _with(worker.signs, newest)
        self.look_after(worker)

    def departure(self, home: int, start: Placed, limit: float) -> Departure | None:
        """How a start's worker left after it, and when that is sure; `limit` is its longest run in seconds."""
        worker = self.all.get((home, start.fact.worker))
        if worker is None:
            return None
        grace = self._grace
        found = [Departure(at + grace, "restarted") for when, at in worker.onlines if when > start.when][:1]
        if worker.offline_at >= start.fact.at:
            found.append(Departure(worker.offline_at + max(LEAVING_SECONDS, limit) + grace, "offline"))
        found += [Departure(until + grace, "silent") for seen, until in worker.silences if seen >= start.fact.at]
        return min(found, default=None)

    def idle(self, home: int, name: str, started_at: float) -> float | None:
        """When it is sure that what a worker started then is over, though it told no end: it says that it does nothing.

        Three heartbeats must say so, as many as make a silence. None: it does not say so, or not often enough yet.
        """
        worker = self.all.get((home, name))
        if worker is None or not worker.idle_since:
            return None
        since = max(worker.idle_since, started_at)
        sure = since + worker.patience(worker.beats[-1])  # of the beats before the start none may be known any more
        return sure + self._grace if worker.beats[-1] >= sure else None

    def forget(self, at: float) -> None:
        """Let go of those who are gone for long."""
        gone = [key for key, one in self.all.items() if not one.is_up and one.signs[-1] < at - FORGOTTEN]
        for key in gone:
            self._drop(key)
            self.version += 1

    def _drop(self, key: tuple[int, str]) -> None:
        del self.all[key]
        self._quiet.get(key[0], {}).pop(key[1], None)

    def seen(self) -> list[tuple[str, str, bool, int]]:
        """Each worker: source, name, whether it is up, and its tasks in hand, -1 where it does not say."""
        return [(one.source, one.name, one.is_up, one.active) for one in self.all.values()]

    # Over a restart

    def restore(self, workers: Sequence[Worker], prompt: dict[str, float]) -> None:
        """Go on with these workers, and what was in `prompt`."""
        self.prompt.update(prompt)
        for worker in workers:
            self.all[worker.home, worker.name] = worker
            worker.due = 0.0
            self.look_after(worker)
        self.version += 1


def _with(times: list[float], at: float) -> list[float]:
    """Sorted times with one more; the newest of them."""
    return times if at in times else sorted([*times, at])[-_SIGNS_KEPT:]


def _number(told: str) -> int:
    """A number of tasks, in a label; -1 where it does not say so."""
    return int(told) if told.isdecimal() and len(told) < _UNBELIEVABLE else -1


def _interval(told: str) -> float:
    """Seconds between two heartbeats, in a label; 0.0 where it does not say so."""
    try:
        seconds = float(told)
    except ValueError:
        return 0.0
    return seconds if 0.0 < seconds <= FORGOTTEN else 0.0
