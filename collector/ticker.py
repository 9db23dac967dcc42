"""Moves the frontier: folds what was counted into the windows, and evaluates rules along the way.

Takes the instant up to which everything is known; gives changed alerts. Three kinds of stops on the way: aligned slots
of rule groups (everything is decided there), instants at which the inputs of a rule changed (alerts may only start
there), and instants at which a trail has something to decide. Live, the way is from the last tick to now; along a
backlog, in a replay, and with sender's time as the axis it is walked stop by stop, so that the same facts give the same
alerts whatever way they came.

Rules that read no events, but only our own numbers (is a source up, does it lag), are evaluated apart, at now: it is
when nothing comes and the frontier stands that they have something to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from collector.alerting.group import Failure, Group, next_slot
from collector.alerting.lifecycle import AlertRule
from collector.alerting.rule import Rule
from collector.axis import Axis
from collector.model.alert import Alert
from collector.series.store import Store
from collector.trail.stitcher import Stitcher

BETWEEN_SLOTS = 0.1
"""A rule is evaluated between slots at most this often, seconds."""

MOST_MISSED = 1000
"""Slots that a live group may be behind before the missed ones are skipped and counted."""


class Target(msgspec.Struct, frozen=True):
    """How far the frontier may go, and whether that is the present."""

    at: float
    is_live: bool


def target(axes: Sequence[Axis], now: float, grace: float) -> Target | None:
    """The instant up to which all sources are complete; None while that is not known of any.

    Sources that were read to their end make the present complete, and then a backlog elsewhere is late facts; only when
    every source that delivers is behind (or on sender's time) are rules evaluated along the backlog. A source that is
    down holds nobody back but itself.
    """
    if not all(axis.was_tried for axis in axes):
        return None  # a source that was not tried may have anything to say
    limits = [(axis.is_up, limit) for axis in axes if (limit := axis.complete_until(now, grace)) is not None]
    limits = [pair for pair in limits if pair[0]] or limits
    if any(limit >= now for _, limit in limits):
        return Target(instant_of(now), is_live=True)
    if limits:
        lowest = min(limit for _, limit in limits)
        return Target(lowest, is_live=False) if lowest > -math.inf else None
    return None if any(axis.may_have_a_past for axis in axes) else Target(instant_of(now), is_live=True)


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


class _Course:
    """Rules that are evaluated together, with where their groups stand."""

    def __init__(self, groups: Sequence[Group], holds: Callable[[Rule], bool]) -> None:
        self.holds = holds
        self.groups = [group for group in groups if any(map(holds, group.rules))]
        self.slots = [-math.inf] * len(self.groups)
        self.watched = [
            Watched(group, rule)
            for group in groups
            for rule in group.rules
            if isinstance(rule, AlertRule) and holds(rule)
        ]

    def next_slot(self) -> float:
        """The next slot of any of the groups; Unix seconds."""
        return min(self.slots, default=math.inf)


class Ticker:
    """Walks the frontier. Owns the rule groups; everything else is told to it."""

    def __init__(
        self,
        store: Store,
        stitcher: Stitcher,
        expire: Callable[[float], bool],
        is_blind: Callable[[Rule], bool],
        is_apart: Callable[[Rule], bool] = lambda _: False,
    ) -> None:
        """`is_apart`: rules that `watch` evaluates at now; `walk` takes the others along."""
        self._store = store
        self._stitcher = stitcher
        self._expire = expire
        self._is_blind = is_blind
        self._is_apart = is_apart
        self._changed_at = -math.inf
        self.at = -math.inf
        """The instant of the last evaluation."""
        self.use([])
        self.slots_missed = 0

    def use(self, groups: Sequence[Group]) -> None:
        """Evaluate these groups from now on."""
        self.groups = list(groups)
        self.failures: list[tuple[Group, Failure]] = []
        """What went wrong since somebody cleared this list."""
        self._walked = _Course(groups, lambda rule: not self._is_apart(rule))
        self._apart = _Course(groups, self._is_apart)
        rules = [rule for group in groups for rule in group.rules]
        for rule in rules:
            for window in rule.windows:
                self._store.keep(window)
        self._memory = max(map(_memory, rules), default=0.0)

    def next_stop(self) -> float:
        """The next aligned slot, or the next decision of a trail; Unix seconds."""
        due = self._stitcher.next_due()
        return min(self._walked.next_slot(), math.inf if due is None else due)

    def next_start(self) -> float:
        """When the first rule may be evaluated whose inputs have changed since it last was, too short a while ago."""
        version = self._store.version
        held = (watched.at for watched in self._walked.watched if watched.version != version)
        return min(held, default=math.inf) + BETWEEN_SLOTS

    def next_watch(self) -> float:
        """The next slot of the rules apart; Unix seconds."""
        return self._apart.next_slot()

    def watch(self, now: float) -> Iterator[list[Alert]]:
        """Evaluate the rules apart: at the slots that have come, and at now. Of missed slots only the last is visited."""
        apart = self._apart
        for number, group in enumerate(apart.groups):
            apart.slots[number] = max(apart.slots[number], next_slot(now - group.interval, group.interval))
        while (slot := apart.next_slot()) <= now:
            yield self._evaluate(apart, slot)
        yield self._start(apart.watched, instant_of(now))

    def walk(self, until: Target) -> Iterator[list[Alert]]:
        """Move the frontier to `until`, stop by stop; gives the alerts that changed at each stop."""
        upcoming = iter([] if until.is_live else self._store.pending_instants(until.at))
        instant = next(upcoming, math.inf)
        self._first_slots(min(instant, until.at))
        while True:
            while instant <= self._store.frontier:
                instant = next(upcoming, math.inf)
            self._skip(min(instant, until.at), is_live=until.is_live)
            stop = min(self.next_stop(), instant)
            if stop > until.at:
                break
            yield self._stop_at(max(instant_of(stop), self._store.frontier))
        if until.is_live and until.at > self._store.frontier:
            yield self._stop_at(until.at)

    def _stop_at(self, stop: float) -> list[Alert]:
        while self._expire(stop + 2 * FUZZ):  # what `instant_of` put to this instant is due at it, not a hair later
            pass
        before = self._store.version
        self._store.advance(stop)
        if self._store.version != before:
            self._changed_at = stop
        return self._evaluate(self._walked, stop)

    def _evaluate(self, course: _Course, at: float) -> list[Alert]:
        """What is due of a course at an instant."""
        changed: list[Alert] = []
        self.at = at
        for number, group in enumerate(course.groups):
            if course.slots[number] <= at:
                changed += group.evaluate(self._store, at, blind=self._is_blind, only=course.holds)
                course.slots[number] = next_slot(at, group.interval)
                self._note_failures(group)
        return changed + self._start(course.watched, at)

    def _start(self, course: Sequence[Watched], at: float) -> list[Alert]:
        """Between slots a rule whose inputs changed may start an alert, and nothing else."""
        changed: list[Alert] = []
        self.at = at
        version = self._store.version
        for watched in course:
            if version == watched.version or at - watched.at < BETWEEN_SLOTS - 1e-6:
                continue
            if self._reads_change(watched.rule, watched.version):
                is_blind = self._is_blind(watched.rule)
                changed += watched.group.evaluate_rule(watched.rule, self._store, at, is_blind=is_blind)
                watched.at = at
                self._note_failures(watched.group)
            watched.version = version
        return changed

    def _note_failures(self, group: Group) -> None:
        self.failures += [(group, failure) for failure in group.failures]

    def _reads_change(self, rule: Rule, since: int) -> bool:
        store = self._store
        return any(
            store.changed(series, since)
            for selector in rule.inputs
            for series in store.select(selector.name, selector.matchers)
        )

    def _first_slots(self, at: float) -> None:
        slots = self._walked.slots
        for number, group in enumerate(self._walked.groups):
            if slots[number] == -math.inf:
                slots[number] = next_slot(at - group.interval, group.interval)

    def _skip(self, latest: float, *, is_live: bool) -> None:
        """Slots at which nothing can change need no visit.

        Along a backlog: all that a rule can remember lies behind. Live: the process was stopped for long.
        """
        slots = self._walked.slots
        for number, group in enumerate(self._walked.groups):
            slot = slots[number]
            is_quiet = not is_live and slot > self._changed_at + self._memory + group.interval
            is_late = is_live and latest - slot > MOST_MISSED * group.interval
            if (is_quiet or is_late) and (later := next_slot(latest - group.interval, group.interval)) > slot:
                self.slots_missed += round((later - slot) / group.interval) if is_late else 0
                slots[number] = later


def _memory(rule: Rule) -> float:
    """How long after the last change a rule's result or its alerts can still change, seconds."""
    spec = rule.spec
    return max(rule.windows, default=0.0) + spec.hold + spec.keep_firing_for
