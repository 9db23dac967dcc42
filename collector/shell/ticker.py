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

from collector.alerting import budget
from collector.alerting.group import Group, next_slot
from collector.alerting.lifecycle import AlertRule, Steps
from collector.alerting.rule import Rule
from collector.model.alert import Alert
from collector.series.sampled import LOOK_BACK
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.telemetry import Telemetry
from collector.trail.stitcher import Stitcher

MOST_MISSED = 1000
"""Slots that a live group may be behind before the missed ones are skipped and counted."""


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """Where the rules stand that follow the frontier."""

    changed_at: float
    """When anything last changed."""
    slots: list[tuple[str, str, float]]
    """File and name of each group, and when it is evaluated next."""


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
    is_free: bool
    """Whether it reads nothing that sources deliver."""
    version: int = -1
    at: float = -math.inf


class Timetable(msgspec.Struct):
    """The rules of a group that keep to one time, and their next slot."""

    group: Group
    rules: tuple[Rule, ...]
    is_free: bool
    """Whether they read nothing that sources deliver."""
    memory: float
    """How long after the last change they or their alerts can still change, seconds."""
    slot: float = -math.inf

    @property
    def cost(self) -> float:
        """CPU seconds of all of them."""
        return sum(rule.pace.cost for rule in self.rules)


class Ticker:
    """Walks the frontier. Owns the rule groups; everything else is told to it."""

    def __init__(  # noqa: PLR0913, PLR0917  all that it touches is given to it
        self,
        store: Store,
        stitcher: Stitcher,
        expire: Callable[[float], bool],
        is_blind: Callable[[Rule], bool],
        reads_sources: Callable[[Rule], bool],
        telemetry: Telemetry,
    ) -> None:
        self._store = store
        self._stitcher = stitcher
        self._expire = expire
        self._is_blind = is_blind
        self._reads_sources = reads_sources
        self._telemetry = telemetry
        self._changed_at = -math.inf
        self._watched: list[Watched] = []
        self._tables: list[Timetable] = []
        self._former: dict[tuple[str, str], float] = {}
        self._held = {True: math.inf, False: math.inf}
        self.groups: list[Group] = []
        """The rule groups."""
        self.instant = -math.inf
        """What was last evaluated."""
        self.is_apart = False
        """Whether that lies ahead of the frontier: rules that read nothing of it."""

    @property
    def held_until(self) -> float:
        """When a rule may be evaluated between slots that was held back, on the clock of `Target.wall`."""
        return min(self._held.values())

    def use(self, groups: Sequence[Group]) -> None:
        """Evaluate these groups from now on. Not while a walk is under way."""
        self.groups = list(groups)
        self._tables, self._watched = [], []
        for group in groups:
            kinds: dict[bool, list[Rule]] = {True: [], False: []}
            for rule in group.rules:
                is_free = not self._reads_sources(rule)
                kinds[is_free].append(rule)
                if isinstance(rule, AlertRule):
                    self._watched.append(Watched(group, rule, is_free))
                for selector in rule.selectors:
                    self._store.keep(selector.reach, selector.name)
            for is_free, rules in kinds.items():
                if rules or not is_free:
                    self._tables.append(Timetable(group, tuple(rules), is_free, max(map(_memory, rules), default=0.0)))

    def next_stop(self) -> float:
        """The next aligned slot, or the next decision of a trail; Unix seconds."""
        due = self._stitcher.next_decision()
        return min([math.inf if due is None else due, *(table.slot for table in self._tables)])

    def walk(self, until: Target, clock: float | None = None) -> Iterator[list[Alert]]:
        """Move the frontier to `until`, stop by stop, in short steps; each gives the alerts that changed in it.

        `clock` is the wall's time, for the rules that do not follow the frontier; without one all do.
        """
        if clock is not None and not until.is_live:
            yield from self._walk_apart(instant_of(clock))
        if until.at < self._store.frontier:
            return
        is_recorded = until.wall is None
        changes = iter(() if until.is_live else self._store.pending_instants(until.at))
        change = next(changes, math.inf)
        self._first_slots(self._tables, min(change, until.at), is_live=until.is_live)
        watched = self._watched if clock is None or until.is_live else [one for one in self._watched if not one.is_free]
        while True:
            while change <= self._store.frontier:
                change = next(changes, math.inf)
            self._skip(self._tables, min(change, until.at), is_live=until.is_live)
            stop = min(self.next_stop(), change, self._held[False]) if is_recorded else self.next_stop()
            if stop > until.at:
                break
            stop = max(instant_of(stop), self._store.frontier)
            yield from self._stop_at(stop)
            yield []  # thousands of decisions may follow each other without a slot between them
            if until.wall is None:
                yield from self._start(watched, stop, stop)
        if until.wall is not None:
            if until.at > self._store.frontier:
                yield from self._stop_at(until.at)
            yield from self._start(watched, until.at, until.wall)

    def _walk_apart(self, at: float) -> Iterator[list[Alert]]:
        """What is free of the frontier goes on to the wall's time."""
        self.is_apart = True
        try:
            tables = [table for table in self._tables if table.is_free]
            self._first_slots(tables, at, is_live=True)
            self._skip(tables, at, is_live=True)
            while (stop := min((table.slot for table in tables), default=math.inf)) <= at:
                yield from self._at_slots(tables, stop)
            yield from self._start([one for one in self._watched if one.is_free], at, at, is_apart=True)
        finally:
            self.is_apart = False

    def _stop_at(self, stop: float) -> Iterator[list[Alert]]:
        while self._expire(stop + 2 * FUZZ):  # what `instant_of` put to this instant is due at it, not a hair later
            yield []
        before = self._store.version
        self._store.advance(stop)
        if self._store.version != before:
            self._changed_at = stop
        yield from self._at_slots(self._tables, stop)

    def _at_slots(self, tables: Sequence[Timetable], stop: float) -> Iterator[list[Alert]]:
        """Evaluate the groups whose slot has come, those that take long after the others."""
        self.instant = stop
        due = sorted((table for table in tables if table.slot <= stop), key=lambda table: table.cost)
        for table in due:
            table.slot = next_slot(stop, table.group.interval)
            rules = [rule for rule in table.rules if rule.pace.not_before <= stop]
            if len(rules) < len(table.rules):
                self._miss(table, [rule for rule in table.rules if rule.pace.not_before > stop], 1, "slow")
            steps = table.group.steps(self._store, stop, blind=self._is_blind, rules=rules)
            yield from self._taken(table.group, steps)
        if any(table.cost for table in due):
            self._settle_budgets(due, stop)

    def _settle_budgets(self, due: Sequence[Timetable], stop: float) -> None:
        """Say how often each rule is evaluated from now on; of those of `due` it was the turn at `stop`."""
        budget.settle(
            [(rule.pace, table.group.interval) for table in self._tables for rule in table.rules],
            [watched.rule.pace for watched in self._watched],
        )
        for table in due:
            for rule in table.rules:
                if rule.pace.not_before <= stop:
                    rule.pace.not_before = stop + (rule.pace.stride - 0.5) * table.group.interval

    def _miss(self, table: Timetable, rules: Sequence[Rule], slots: int, reason: str) -> None:
        for rule in rules:
            rule.pace.missed += slots
        self._telemetry.slots_missed(table.group.name, [rule.name for rule in rules], reason, slots)

    def _start(
        self, among: Sequence[Watched], at: float, pace: float, *, is_apart: bool = False
    ) -> Iterator[list[Alert]]:
        """Between slots a rule whose inputs changed may start an alert, and nothing else."""
        self.instant = at
        version = self._store.version
        self._held[is_apart] = math.inf
        for watched in among:
            pause = watched.rule.pace.pause
            if version == watched.version or not self._reads_change(watched.rule, watched.version):
                watched.version = version
            elif pace - watched.at < pause - 1e-6:
                self._held[is_apart] = min(self._held[is_apart], watched.at + pause)
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
                    self._telemetry.rule_failed(group.name, failure.rule.name, failure.message, failure.trace)
                yield end.value
                return
            yield []

    def _reads_change(self, rule: Rule, since: int) -> bool:
        store = self._store
        try:
            return any(
                store.changed(series, since)
                for selector in rule.inputs
                for series in store.select(selector.name, selector.matchers)
            )
        except Exception:  # noqa: BLE001 our own bug: the evaluation meets it too, and says whose it is
            return True

    def standing(self) -> Standing:
        """What a checkpoint keeps."""
        slots = [
            (table.group.spec.file, table.group.name, table.slot)
            for table in self._tables
            if not table.is_free and table.slot > -math.inf
        ]
        return Standing(self._changed_at, slots)

    def restore(self, standing: Standing) -> None:
        """Go on where a former process was, if what comes first is a backlog."""
        self._changed_at = standing.changed_at
        self._former = {(file, group): slot for file, group, slot in standing.slots}

    def _first_slots(self, tables: Sequence[Timetable], at: float, *, is_live: bool) -> None:
        """Where rules that were never evaluated begin."""
        for table in tables:
            if table.slot == -math.inf:
                interval = table.group.interval
                beginning = next_slot(at - interval, interval)
                if table.is_free:
                    table.slot = beginning
                    continue
                former = self._former.pop((table.group.spec.file, table.group.name), beginning)
                table.slot = beginning if is_live else former

    def _skip(self, tables: Sequence[Timetable], latest: float, *, is_live: bool) -> None:
        """Slots at which nothing can change need no visit.

        Along a backlog: all that a rule can remember lies behind. Live: the process was stopped for long.
        """
        for table in tables:
            interval = table.group.interval
            is_quiet = not is_live and table.slot > self._changed_at + table.memory + interval
            is_late = is_live and latest - table.slot > MOST_MISSED * interval
            if (is_quiet or is_late) and (later := next_slot(latest - interval, interval)) > table.slot:
                if is_late:
                    self._miss(table, table.rules, round((later - table.slot) / interval), "standstill")
                table.slot = later


def _memory(rule: Rule) -> float:
    """How long after the last change a rule's result or its alerts can still change, seconds."""
    if any(one.reads_clock for one in (rule, *rule.recordings)):
        return math.inf
    spec = rule.spec
    reach = sum(max(one.windows, default=0.0) + LOOK_BACK for one in rule.recordings)
    return max(rule.windows, default=0.0) + reach + spec.hold + spec.keep_firing_for
