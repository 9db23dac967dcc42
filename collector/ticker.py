"""Moves the frontier: folds what was counted into the windows, and evaluates rules along the way.

Takes the instant up to which everything is known; gives changed alerts. Three kinds of stops on the way: aligned slots
of rule groups (everything is decided there), instants at which the inputs of a rule changed (alerts may only start
there), and instants at which a trail has something to decide. Live, the way is from the last tick to now; along a
backlog, in a replay, and with sender's time as the axis it is walked stop by stop, so that the same facts give the same
alerts whatever way they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from collector.alerting.group import Group, next_slot
from collector.alerting.lifecycle import AlertRule, Steps
from collector.alerting.rule import Rule
from collector.axis import Axis
from collector.model.alert import Alert
from collector.series.sampled import LOOK_BACK
from collector.series.store import Store
from collector.trail.stitcher import Stitcher

BETWEEN_SLOTS = 0.1
"""A rule is evaluated between slots at most this often, seconds."""

MOST_MISSED = 1000
"""Slots that a live group may be behind before the missed ones are skipped and counted."""


class Target(msgspec.Struct, frozen=True):
    """How far the frontier may go, and what paces the evaluations between slots."""

    at: float
    wall: float | None = None
    """The wall's time. Between slots a rule is then evaluated at most ten times a second of it, at `at`.

    Without it recorded time is the only time: every 100 ms of it at which an input changed is a stop, so that the same
    facts give the same alerts whatever way they came.
    """

    @property
    def is_live(self) -> bool:
        """Whether `at` is the present."""
        return self.wall is not None and self.at >= self.wall


def target(axes: Sequence[Axis], now: float, grace: float, patience_until: float = -math.inf) -> Target:
    """The instant up to which all sources are complete.

    Sources that were read to their end make the present complete, and then a backlog elsewhere is late facts; only when
    every source that delivers is behind (or on sender's time) are rules evaluated along the backlog. Until
    `patience_until` nothing is, while a source has not said where it stands: it may have a backlog. Where sender's time
    alone could come, nothing is before the first event: it tells what time it is.
    """
    if now < patience_until and not all(axis.has_said for axis in axes):
        return Target(-math.inf, now)
    limits = [(limit, axis.clock) for axis in axes if (limit := axis.complete_until(now, grace)) is not None]
    if not limits and any(axis.clock == "event" for axis in axes) and all(axis.is_up for axis in axes):
        return Target(-math.inf, now)
    if not limits or any(limit >= now for limit, _ in limits):
        return Target(instant_of(now), now)
    is_recorded = any(clock == "event" for _, clock in limits)
    return Target(min(limit for limit, _ in limits), None if is_recorded else now)


FUZZ = 1e-6
"""Seconds that a time may lie behind a whole millisecond and still belong to it: floats of our age are no finer."""


def instant_of(at: float) -> float:
    """The first whole millisecond not before a time: PromQL knows no finer instants, and what came must be seen."""
    return math.ceil((at - FUZZ) * 1000) / 1000


class Watched(msgspec.Struct):
    """An alerting rule, and what it has seen: the store's version, and when it was last evaluated between slots."""

    group: Group
    rule: AlertRule
    version: int = -1
    at: float = -math.inf


class Timetable(msgspec.Struct):
    """A group, its next slot, and how long after the last change its rules or alerts can still change, seconds."""

    group: Group
    memory: float
    slot: float = -math.inf


class Ticker:
    """Walks the frontier. Owns the rule groups; everything else is told to it."""

    def __init__(
        self,
        store: Store,
        stitcher: Stitcher,
        expire: Callable[[float], bool],
        is_blind: Callable[[Rule], bool],
        failed: Callable[[str, str, str], None],
    ) -> None:
        self._store = store
        self._stitcher = stitcher
        self._expire = expire
        self._is_blind = is_blind
        self._failed = failed
        self._changed_at = -math.inf
        self._watched: list[Watched] = []
        self._tables: list[Timetable] = []
        self.held_until = math.inf
        """When a rule may be evaluated between slots that was held back, on the clock of `Target.wall`."""
        self.slots_missed = 0
        """Slots that were skipped because the process stood still for long."""

    @property
    def groups(self) -> list[Group]:
        """The rule groups."""
        return [table.group for table in self._tables]

    def use(self, groups: Sequence[Group]) -> None:
        """Evaluate these groups from now on. Not while a walk is under way."""
        self._tables = [Timetable(group, max(map(_memory, group.rules), default=0.0)) for group in groups]
        rules = [(group, rule) for group in groups for rule in group.rules]
        self._watched = [Watched(group, rule) for group, rule in rules if isinstance(rule, AlertRule)]
        for _, rule in rules:
            for selector in rule.selectors:
                self._store.keep(selector.reach, selector.name)

    def next_stop(self) -> float:
        """The next aligned slot, or the next decision of a trail; Unix seconds."""
        due = self._stitcher.next_decision()
        return min([math.inf if due is None else due, *(table.slot for table in self._tables)])

    def walk(self, until: Target) -> Iterator[list[Alert]]:
        """Move the frontier to `until`, stop by stop, in short steps; each gives the alerts that changed in it."""
        if until.at < self._store.frontier:
            return
        is_recorded = until.wall is None
        changes = iter(() if until.is_live else self._store.pending_instants(until.at))
        change = next(changes, math.inf)
        self._first_slots(min(change, until.at))
        while True:
            while change <= self._store.frontier:
                change = next(changes, math.inf)
            self._skip(min(change, until.at), is_live=until.is_live)
            stop = min(self.next_stop(), change, self.held_until) if is_recorded else self.next_stop()
            if stop > until.at:
                break
            stop = max(instant_of(stop), self._store.frontier)
            yield from self._stop_at(stop)
            if until.wall is None:
                yield from self._start(stop, stop)
        if until.wall is not None:
            if until.at > self._store.frontier:
                yield from self._stop_at(until.at)
            yield from self._start(until.at, until.wall)

    def _stop_at(self, stop: float) -> Iterator[list[Alert]]:
        while self._expire(stop + 2 * FUZZ):  # what `instant_of` put to this instant is due at it, not a hair later
            yield []
        before = self._store.version
        self._store.advance(stop)
        if self._store.version != before:
            self._changed_at = stop
        for table in self._tables:
            if table.slot <= stop:
                table.slot = next_slot(stop, table.group.interval)
                yield from self._taken(table.group, table.group.steps(self._store, stop, blind=self._is_blind))

    def _start(self, at: float, pace: float) -> Iterator[list[Alert]]:
        """Between slots a rule whose inputs changed may start an alert, and nothing else."""
        version = self._store.version
        self.held_until = math.inf
        for watched in self._watched:
            if version == watched.version or not self._reads_change(watched.rule, watched.version):
                watched.version = version
            elif pace - watched.at < BETWEEN_SLOTS - 1e-6:
                self.held_until = min(self.held_until, watched.at + BETWEEN_SLOTS)
            else:
                watched.version, watched.at = version, pace
                is_blind = self._is_blind(watched.rule)
                steps = watched.group.rule_steps(watched.rule, self._store, at, is_blind=is_blind)
                yield from self._taken(watched.group, steps)

    def _taken(self, group: Group, steps: Steps) -> Iterator[list[Alert]]:
        """One empty list per short step of an evaluation, then what changed in it."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                for failure in group.failures:
                    self._failed(group.name, failure.rule.name, failure.message)
                yield end.value
                return
            yield []

    def _reads_change(self, rule: Rule, since: int) -> bool:
        store = self._store
        return any(
            store.changed(series, since)
            for selector in rule.inputs
            for series in store.select(selector.name, selector.matchers)
        )

    def _first_slots(self, at: float) -> None:
        for table in self._tables:
            if table.slot == -math.inf:
                table.slot = next_slot(at - table.group.interval, table.group.interval)

    def _skip(self, latest: float, *, is_live: bool) -> None:
        """Slots at which nothing can change need no visit.

        Along a backlog: all that a rule can remember lies behind. Live: the process was stopped for long.
        """
        for table in self._tables:
            interval = table.group.interval
            is_quiet = not is_live and table.slot > self._changed_at + table.memory + interval
            is_late = is_live and latest - table.slot > MOST_MISSED * interval
            if (is_quiet or is_late) and (later := next_slot(latest - interval, interval)) > table.slot:
                self.slots_missed += round((later - table.slot) / interval) if is_late else 0
                table.slot = later


def _memory(rule: Rule) -> float:
    """How long after the last change a rule's result or its alerts can still change, seconds."""
    if any(one.reads_clock for one in (rule, *rule.recordings)):
        return math.inf
    spec = rule.spec
    reach = sum(max(one.windows, default=0.0) + LOOK_BACK for one in rule.recordings)
    return max(rule.windows, default=0.0) + reach + spec.hold + spec.keep_firing_for
