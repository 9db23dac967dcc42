"""Traces: which trails belong together, by trace id and by parent and root id.

An index in generations beside the trails: an id that is looked at again (long open, finished) moves to the newest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from collector.trail.timeline import Timeline
from collector.trail.trail import Trail

Key = tuple[int, str]
"""Home and task id."""
Members = dict[str, "str | list[str]"]

MOST_MEMBERS = 1_001
"""Trails of one trace, and children of one parent, that are remembered in one generation: one more than is shown, so
that whoever looks sees that there are more."""
_GENERATIONS = 5
_LET_GO = 4_000


class TraceView(msgspec.Struct, kw_only=True):
    """All trails that one request caused, for people: parents before their children."""

    trace_id: str
    tasks: list[Timeline]
    truncated: bool = False
    """There are more than a view holds."""


class Links:
    """Ids of one home that point at trails, for at least `seconds` after a trail was last added."""

    def __init__(self, seconds: float, limit: int) -> None:
        self._span = seconds / (_GENERATIONS - 1)
        self._share = max(1, limit // _GENERATIONS)
        self._began = float("-inf")
        self._waiting: deque[tuple[float, list[Trail]]] = deque()
        self._parts: list[tuple[Members, Members]] = [({}, {})]
        """Newest first: by trace id, by parent or root id."""

    def welcome(self, trails: list[Trail], at: float) -> None:
        """The new trails of a batch.

        Those with a parent are indexed. Of the others only whoever asks for a trace needs the index, and most are over
        before anyone does: they wait until they are looked at again anyway.
        """
        self._waiting.append((at, trails))
        for trail in trails:
            if trail.parent_id or trail.root_id:
                self.add(trail, at)

    def looked_at(self, until: float) -> None:
        """All trails that came by `until` have been looked at again since, and were indexed then.

        They are let go some thousands a call: with this reference goes the trail, and a minute's trails take long.
        """
        left = _LET_GO
        while left > 0 and self._waiting and self._waiting[0][0] <= until:
            left -= len(self._waiting.popleft()[1])

    def add(self, trail: Trail, at: float) -> None:
        """Index a trail under the trace and the parents that it knows."""
        traces, parents = self._part(at)
        if trail.trace_id:
            _link(traces, trail.trace_id, trail.task_id)
        if trail.parent_id:
            _link(parents, trail.parent_id, trail.task_id)
        root_id = trail.root_id
        if root_id and root_id not in (trail.parent_id, trail.task_id):
            _link(parents, root_id, trail.task_id)

    def _part(self, at: float) -> tuple[Members, Members]:
        """The newest generation, after a turn where its time or its room is over."""
        traces, parents = self._parts[0]
        if at >= self._began + self._span or len(traces) > self._share or len(parents) > self._share:
            return self._turn(at)
        return traces, parents

    def index(self) -> bool:
        """Index some of those that wait; whether there are more."""
        left = _LET_GO
        while left > 0 and self._waiting:
            at, trails = self._waiting.popleft()
            left -= len(trails)
            for trail in trails:
                if trail.trace_id:
                    self.add(trail, at)
        return bool(self._waiting)

    def of_trace(self, trace_id: str) -> list[str]:
        """Task ids of a trace that are indexed by now, as all that are over are; oldest first."""
        return list(dict.fromkeys(self._find(0, trace_id)))

    def under(self, task_id: str) -> list[str]:
        """Task ids that name this one as parent or root, oldest first."""
        return list(dict.fromkeys(self._find(1, task_id)))

    def _find(self, kind: int, key: str) -> Iterator[str]:
        for part in reversed(self._parts):
            found = part[kind].get(key)
            if isinstance(found, str):
                yield found
            elif found:
                yield from found

    def _turn(self, at: float) -> tuple[Members, Members]:
        self._began = at
        fresh: tuple[Members, Members] = ({}, {})
        self._parts.insert(0, fresh)
        del self._parts[_GENERATIONS:]
        return fresh


def _link(members: Members, key: str, task_id: str) -> None:
    found = members.get(key)
    if found is None:
        members[key] = task_id
    elif isinstance(found, str):
        if found != task_id:
            members[key] = [found, task_id]
    elif len(found) < MOST_MEMBERS and task_id not in found[-8:]:
        found.append(task_id)
