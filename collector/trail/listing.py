"""Lists of trails: those that a filter lets through, newest first, a page at a time; and what each task is seen to do.

Walks from where the page begins, in short steps, so that whoever asks does not hold up the loop.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby, islice, repeat
from math import inf
from operator import itemgetter
from typing import TypeAlias

import msgspec

from collector.trail.calendar import QUARTERS, Quarter, quarter_of
from collector.trail.keep import Home, Keep
from collector.trail.lifecycle import DEAD_LETTERED, FAILED, RETRIED, SENT, SUCCEEDED
from collector.trail.rows import Errors, Rows
from collector.trail.tally import Life, lives_of, tries
from collector.trail.timeline import Timeline, findings_of, names_of, view
from collector.trail.trail import BITS, Trail, facts_of, may_be, newest

STEP = 5_000
"""What a step costs, counted in open trails that are passed by: about two milliseconds."""
_CHUNK = 1_000
"""Ids that are looked up at once."""
_QUARTER, _THAWED, _LIVES, _VIEW = 10, 4, 40, 150
"""What it costs to go to a quarter, to look also among finished trails, to count lives, and to make a timeline, in the
same."""
_ALL = -1
_MOST_COST = 40_000
"""After so much, besides what it shows, a page ends."""
MOST_LISTED = 1_000
"""Trails per page."""
_DURATIONS = 1_000
"""Durations of a task that are looked at for its quantile."""


Mark: TypeAlias = tuple[float, str, str]
"""Where a trail stands in a list: when it was first seen (axis time), its home's name, its id."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which trails. Empty texts and sets let everything through."""

    states: frozenset[str] = frozenset()
    task: str = ""
    """A glob on the task's name."""
    queue: str = ""
    error: str = ""
    """A part of the error class, or a glob on it."""
    since: float = float("-inf")
    """Axis time: the newest fact is not older."""
    after: Mark | None = None
    """The last of the page before."""
    limit: int = 100


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One trail in a list. Times are axis times."""

    task_id: str
    task: str
    queue: str
    state: str
    attempts: int
    worker: str
    error: str
    caller: str
    trace_id: str
    first_at: float
    last_at: float
    findings: list[str]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list, and where the next one begins: None at the end."""

    tasks: list[Listed]
    after: Mark | None
    marks: list[Mark]
    """Where each of `tasks` stands."""


class Seen(msgspec.Struct, kw_only=True):
    """What the remembered trails of one task name did."""

    task: str
    queues: set[str]
    trails: int = 0
    attempts: int = 0
    """The most that one trail had."""
    retried: Counter[str] = msgspec.field(default_factory=Counter)
    failed: Counter[str] = msgspec.field(default_factory=Counter)
    is_dead_lettered: bool = False
    totals: list[float] = []
    """Seconds from sent to success of some of them."""


class Listing:
    """Lists what one stitcher keeps."""

    def __init__(self, keep: Keep, rows: Rows, errors: Errors, grace: float) -> None:
        self._keep = keep
        self._rows = rows
        self._errors = errors
        self._grace = grace

    def pages(self, wanted: Wanted) -> Iterator[Page | None]:
        """None after each short step, and at last the page.

        Where few are let through a page may be short, or empty, with more to come behind its `after`.
        """
        found: list[tuple[Mark, Listed]] = []
        most = max(1, min(wanted.limit, MOST_LISTED))
        asked = _Filter(wanted, self._rows, self._errors)
        walk = _Walk(self._keep, asked, wanted.after, _MOST_COST + most * _VIEW)
        for one in walk.steps():
            if one is None:
                yield None
                continue
            mark, trail = one
            timeline = view(trail, self._rows, self._errors, self._grace, [])
            walk.cost += _VIEW
            if _matches(timeline, wanted):
                found.append((mark, listed(timeline, trail)))
                if len(found) > most:
                    break
        page = page_of(found, most)
        yield page if page.after is not None else msgspec.structs.replace(page, after=walk.reached)

    def holds(self, mark: Mark) -> bool:
        """Whether the trail that stands there is remembered."""
        home = self._keep.by_name(mark[1])
        trail = None if home is None else self._keep.look(home, mark[2])
        return trail is not None and trail.born == mark[0]

    def seen(self) -> Iterator[dict[str, Seen] | None]:
        """None after each short step, and at last what was seen of each task name."""
        tasks: dict[str, Seen] = {}
        walk = _Walk(self._keep, _Filter(Wanted(), self._rows, self._errors), None, inf)
        for step in walk.steps():
            if step is None:
                yield None
                continue
            walk.cost += _LIVES
            task, queue = names_of(step[1], self._rows)
            if task:
                one = tasks.get(task) or tasks.setdefault(task, Seen(task=task, queues=set()))
                one.queues.add(queue)
                self._look(one, lives_of(facts_of(step[1]), self._grace))
        yield tasks

    def _look(self, one: Seen, lives: Sequence[Life]) -> None:
        """Note what the lives of one trail show."""
        one.trails += 1
        one.attempts = max([one.attempts, *(attempt for life in lives[-1:] for attempt, _, _ in tries(life))])
        first: dict[int, float] = {}
        for placed in (placed for life in lives for placed in life.order):
            first.setdefault(placed.kind, placed.when)
            if placed.fact.error and placed.kind in {RETRIED, FAILED}:
                (one.retried if placed.kind == RETRIED else one.failed)[self._errors.name(placed.fact.error)] += 1
        one.is_dead_lettered |= DEAD_LETTERED in first
        took = first.get(SUCCEEDED, -inf) - first.get(SENT, inf)
        if took >= 0 and len(one.totals) < _DURATIONS:
            one.totals.append(took)


class _Filter:
    """What can be told of a trail without its history."""

    def __init__(self, wanted: Wanted, rows: Rows, errors: Errors) -> None:
        self.states = _ALL
        """BITS of those that are wanted."""
        if wanted.states:
            self.states = sum(BITS[state] for state in wanted.states)
        self.since = wanted.since
        self._wanted = wanted
        self._names = rows.names
        self._error = errors.name
        self._rows: dict[int, bool] = {-1: True}
        self._errors: dict[int, bool] = {0: False}

    def may_be_in(self, quarter: Quarter) -> bool:
        """Whether a finished trail of a quarter may be wanted."""
        return bool(quarter.states & self.states)

    def lets_through(self, trail: Trail) -> bool:
        """Whether a trail may be wanted."""
        if self.states != _ALL and not may_be(trail) & self.states:
            return False
        if trail.born < self.since and newest(trail) < self.since:
            return False
        if (is_wanted := self._rows.get(trail.row)) is None:
            is_wanted = self._rows[trail.row] = _is_named(self._names(trail.row), self._wanted)
        return is_wanted and (not self._wanted.error or self._has_error(trail))

    def _has_error(self, trail: Trail) -> bool:
        for error in (trail.error, *(fact.error for fact in trail.facts or ())):
            if (is_wanted := self._errors.get(error)) is None:
                is_wanted = self._errors[error] = _is_error(self._error(error), self._wanted)
            if is_wanted:
                return True
        return False


class _Walk:
    """Goes through what a filter lets through, newest first, and stops between two quarters when it cost enough.

    Cost is counted in open trails that are passed by.
    """

    def __init__(self, keep: Keep, asked: _Filter, after: Mark | None, most: float) -> None:
        self.cost = self._told = 0
        self.reached: Mark | None = None
        """Where it stopped, unless at the end."""
        self._keep = keep
        self._asked = asked
        self._after = after
        self._most = most

    def steps(self) -> Iterator[tuple[Mark, Trail] | None]:
        """Each trail with its mark; None after each short step."""
        for number, homes in self._quarters():
            found: dict[Mark, Trail] = {}
            for home in homes:
                yield from self._gather(home, number, found)
            for mark in sorted(found, reverse=True):
                if self._is_step():
                    yield None
                if self._after is None or mark < self._after:
                    yield mark, found[mark]
            if self.cost >= self._most:
                self.reached = number / QUARTERS, "", ""
                return

    def _gather(self, home: Home, number: int, found: dict[Mark, Trail]) -> Iterator[None]:
        """What began then and may be wanted goes into `found`."""
        self.cost += _QUARTER
        quarter = home.calendar.of(number)
        look: Callable[[str], Trail | None] = home.open.get
        cost = 1
        if self._asked.may_be_in(quarter):
            look, cost = partial(self._keep.look, home, since=self._asked.since), _THAWED
        ids = iter([*quarter.ids])
        while chunk := list(islice(ids, _CHUNK)):
            trails = [trail for task_id in chunk if (trail := look(task_id)) is not None]
            self.cost += cost * len(chunk)
            found |= {
                (trail.born, home.name, trail.task_id): trail
                for trail in filter(self._asked.lets_through, trails)
                if quarter_of(trail.born) == number
            }
            if self._is_step():
                yield None

    def _is_step(self) -> bool:
        """Whether it cost enough since this was last so."""
        is_step = self.cost >= self._told + STEP
        if is_step:
            self._told = self.cost
        return is_step

    def _quarters(self) -> Iterator[tuple[int, list[Home]]]:
        """Each quarter in which something began, newest first, and where."""
        last = sys.maxsize
        if self._after is not None:
            at, home_name, _ = self._after
            last = quarter_of(at) if home_name else quarter_of(at) - 1  # `reached` is where its quarter begins
        spans = [zip(reversed(home.calendar.before(last)), repeat(home)) for home in self._keep.homes]
        for number, placed in groupby(heapq.merge(*spans, key=itemgetter(0), reverse=True), key=itemgetter(0)):
            yield number, [home for _, home in placed]


def page_of(found: list[tuple[Mark, Listed]], most: int) -> Page:
    """The first so many of what was found, which is in order."""
    shown = found[:most]
    after = shown[-1][0] if len(found) > most else None
    return Page(tasks=[one for _, one in shown], after=after, marks=[mark for mark, _ in shown])


def _fits(name: str, glob: str) -> bool:
    return not glob or fnmatchcase(name, glob)


def _is_named(names: Sequence[str], wanted: Wanted) -> bool:
    """Whether task and queue are as wanted."""
    return _fits(names[0], wanted.task) and _fits(names[1], wanted.queue)


def _is_error(name: str, wanted: Wanted) -> bool:
    """Whether an error class is as wanted; "" is none."""
    error = wanted.error if set(wanted.error) & set("*?[") else f"*{wanted.error}*"
    return not wanted.error or fnmatchcase(name, error)


def _matches(timeline: Timeline, wanted: Wanted) -> bool:
    if wanted.states and timeline.state not in wanted.states:
        return False
    return _is_named((timeline.task, timeline.queue), wanted) and _is_error(timeline.error, wanted)


def listed(timeline: Timeline, trail: Trail) -> Listed:
    """A trail's line in a list."""
    workers = [attempt.worker for attempt in timeline.attempts if attempt.worker]
    return Listed(
        task_id=timeline.task_id,
        task=timeline.task,
        queue=timeline.queue,
        state=timeline.state,
        attempts=max((attempt.attempt for attempt in timeline.attempts), default=0),
        worker=workers[-1] if workers else "",
        error=timeline.error,
        caller=timeline.caller,
        trace_id=timeline.trace_id,
        first_at=trail.born,
        last_at=newest(trail),
        findings=findings_of(trail),
    )
