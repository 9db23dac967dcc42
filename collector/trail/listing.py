"""Lists of trails: those that a filter lets through, newest first, a page at a time; and what each task is seen to do.

Walks everything that is remembered, in short steps, so that whoever asks does not hold up the loop.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from collector.trail.keep import Home, Keep
from collector.trail.rows import Errors, Rows
from collector.trail.timeline import Timeline, findings_of, view
from collector.trail.trail import Trail, facts_of

STEP = 100
"""Trails per step."""
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
        """None after each short step, and at last the page."""
        found: list[tuple[Mark, Listed]] = []
        most = max(1, min(wanted.limit, MOST_LISTED))
        for trail in self._walk():
            if trail is None:
                yield None
                continue
            place = trail.born, self._keep.homes[trail.home].name, trail.task_id
            if (wanted.after is not None and place >= wanted.after) or not self._may_match(trail, wanted):
                continue
            if len(found) > most and place < found[0][0]:
                continue  # on a later page
            timeline = view(trail, self._rows, self._errors, self._grace, [])
            if _matches(timeline, wanted):
                one = listed(timeline, trail)
                (heapq.heappush if len(found) <= most else heapq.heappushpop)(found, (place, one))
        found.sort(key=lambda one: one[0], reverse=True)
        yield page_of(found, most)

    def holds(self, mark: Mark) -> bool:
        """Whether the trail that stands there is remembered."""
        home = self._keep.by_name(mark[1])
        trail = None if home is None else self._keep.look(home, mark[2])
        return trail is not None and trail.born == mark[0]

    def seen(self) -> Iterator[dict[str, Seen] | None]:
        """None after each short step, and at last what was seen of each task name."""
        tasks: dict[str, Seen] = {}
        for trail in self._walk():
            if trail is None:
                yield None
                continue
            timeline = view(trail, self._rows, self._errors, self._grace, [])
            if timeline.task:
                one = tasks.setdefault(timeline.task, Seen(task=timeline.task, queues=set()))
                _look(one, timeline)
        yield tasks

    def _walk(self) -> Iterator[Trail | None]:
        """Every trail that is remembered, with None after so many."""
        looked = 0
        for home in self._keep.homes:
            yield None
            for task_id in [*home.finished.remembered(), *home.open]:
                looked += 1
                if looked % STEP == 0:
                    yield None
                trail = self._trail(home, task_id)
                if trail is not None:
                    yield trail

    def _trail(self, home: Home, task_id: str) -> Trail | None:
        return self._keep.look(home, task_id)

    def _may_match(self, trail: Trail, wanted: Wanted) -> bool:
        """What can be told without the trail's history."""
        if trail.row >= 0 and (wanted.task or wanted.queue):
            task, queue, _ = self._rows.names(trail.row)
            if not _fits(task, wanted.task) or not _fits(queue, wanted.queue):
                return False
        return _newest(trail) >= wanted.since


def page_of(found: list[tuple[Mark, Listed]], most: int) -> Page:
    """The first so many of what was found, which is in order."""
    shown = found[:most]
    after = shown[-1][0] if len(found) > most else None
    return Page(tasks=[one for _, one in shown], after=after, marks=[mark for mark, _ in shown])


def _newest(trail: Trail) -> float:
    return max((fact.at for fact in facts_of(trail)), default=trail.born)


def _fits(name: str, glob: str) -> bool:
    return not glob or fnmatchcase(name, glob)


def _matches(timeline: Timeline, wanted: Wanted) -> bool:
    if wanted.states and timeline.state not in wanted.states:
        return False
    error = wanted.error if set(wanted.error) & set("*?[") else f"*{wanted.error}*"
    is_named = _fits(timeline.task, wanted.task) and _fits(timeline.queue, wanted.queue)
    return is_named and (not wanted.error or fnmatchcase(timeline.error, error))


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
        last_at=_newest(trail),
        findings=findings_of(trail),
    )


def _look(one: Seen, timeline: Timeline) -> None:
    one.trails += 1
    one.queues.add(timeline.queue)
    one.attempts = max([one.attempts, *(attempt.attempt for attempt in timeline.attempts)])
    for event in timeline.events:
        one.is_dead_lettered |= event.kind == "dead_lettered"
        if event.error and event.kind in {"retried", "failed"}:
            (one.retried if event.kind == "retried" else one.failed)[event.error] += 1
    sent = next((event.time for event in timeline.events if event.kind == "sent"), None)
    done = next((event.time for event in timeline.events if event.kind == "succeeded"), None)
    if sent is not None and done is not None and done >= sent and len(one.totals) < _DURATIONS:
        one.totals.append(done - sent)
