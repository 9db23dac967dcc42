"""Moves the frontier: folds what was counted into the windows, and evaluates rules along the way.

Takes the instant up to which everything is known; gives changed alerts. Three kinds of stops on the way: aligned slots
of rule groups (everything is decided there), instants at which the inputs of a rule changed (alerts may only start
there), and instants at which a trail has something to decide. Live, the way is from the last tick to now; along a
backlog, in a replay, and with sender's time as the axis it is walked stop by stop, so that the same facts give the same
alerts whatever way they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from collector.alerting.group import Group, next_slot
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


def target(axes: Iterable[Axis], now: float, grace: float) -> Target:
    """The instant up to which all sources are complete.

    Sources that were read to their end make the present complete, and then a backlog elsewhere is late facts; only when
    every source that delivers is behind (or on sender's time) are rules evaluated along the backlog.
    """
    limits = [limit for axis in axes if (limit := axis.complete_until(now, grace)) is not None]
    if not limits or any(limit >= now for limit in limits):
        return Target(instant_of(now), is_live=True)
    return Target(min(limits), is_live=False)


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


class Ticker:
    """Walks the frontier. Owns the rule groups; everything else is told to it."""

    def __init__(
        self,
        store: Store,
        stitcher: Stitcher,
        expire: Callable[[float], bool],
        is_blind: Callable[[Rule], bool],
    ) -> None:
        self._store = store
        self._stitcher = stitcher
        self._expire = expire
        self._is_blind = is_blind
        self._changed_at = -math.inf
        self._memory = 0.0
        self._watched: list[Watched] = []
        self._slots: list[float] = []
        self.groups: list[Group] = []
        self.slots_missed = 0

    def use(self, groups: Sequence[Group]) -> None:
        """Evaluate these groups from now on."""
        self.groups = list(groups)
        self._slots = [-math.inf] * len(groups)
        rules = [(group, rule) for group in groups for rule in group.rules]
        self._watched = [Watched(group, rule) for group, rule in rules if isinstance(rule, AlertRule)]
        for _, rule in rules:
            for window in rule.windows:
                self._store.keep(window)
        self._memory = max((_memory(rule) for _, rule in rules), default=0.0)

    def next_stop(self) -> float:
        """The next aligned slot, or the next decision of a trail; Unix seconds."""
        due = self._stitcher.next_due()
        return min(min(self._slots, default=math.inf), math.inf if due is None else due)

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
        changed: list[Alert] = []
        for number, group in enumerate(self.groups):
            if self._slots[number] <= stop:
                changed += group.evaluate(self._store, stop, blind=self._is_blind)
                self._slots[number] = next_slot(stop, group.interval)
        return changed + self._start(stop)

    def _start(self, at: float) -> list[Alert]:
        """Between slots a rule whose inputs changed may start an alert, and nothing else."""
        changed: list[Alert] = []
        version = self._store.version
        for watched in self._watched:
            if version == watched.version or at - watched.at < BETWEEN_SLOTS - 1e-6:
                continue
            if self._reads_change(watched.rule, watched.version):
                is_blind = self._is_blind(watched.rule)
                changed += watched.group.evaluate_rule(watched.rule, self._store, at, is_blind=is_blind)
                watched.at = at
            watched.version = version
        return changed

    def _reads_change(self, rule: Rule, since: int) -> bool:
        store = self._store
        return any(
            store.changed(series, since)
            for selector in rule.inputs
            for series in store.select(selector.name, selector.matchers)
        )

    def _first_slots(self, at: float) -> None:
        for number, group in enumerate(self.groups):
            if self._slots[number] == -math.inf:
                self._slots[number] = next_slot(at - group.interval, group.interval)

    def _skip(self, latest: float, *, is_live: bool) -> None:
        """Slots at which nothing can change need no visit.

        Along a backlog: all that a rule can remember lies behind. Live: the process was stopped for long.
        """
        for number, group in enumerate(self.groups):
            slot = self._slots[number]
            is_quiet = not is_live and slot > self._changed_at + self._memory + group.interval
            is_late = is_live and latest - slot > MOST_MISSED * group.interval
            if (is_quiet or is_late) and (later := next_slot(latest - group.interval, group.interval)) > slot:
                self.slots_missed += round((later - slot) / group.interval) if is_late else 0
                self._slots[number] = later


def _memory(rule: Rule) -> float:
    """How long after the last change a rule's result or its alerts can still change, seconds."""
    spec = rule.spec
    return max(rule.windows, default=0.0) + spec.hold + spec.keep_firing_for
