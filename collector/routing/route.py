"""Routes: which receivers an alert goes to, and how its group speaks. Labels in, routes out, as in Alertmanager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from collector.documents import Place
from collector.model.labels import Labels, Matcher
from collector.routing.intervals import Intervals, covering


class Step(msgspec.Struct, frozen=True):
    """Who is told, too, when nobody has acked so many seconds after a group began to fire."""

    after: float
    receiver: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the routing tree. Defaults are Alertmanager's; durations are in seconds."""

    receiver: str
    group_by: tuple[str, ...] | None = ()
    """Label names; () makes one group of everything, None one group per label set (Alertmanager's `...`)."""
    group_wait: float = 30.0
    group_interval: float = 300.0
    repeat_interval: float = 14_400.0
    matchers: tuple[Matcher, ...] = ()
    continues: bool = False
    """Whether siblings after this one are tried too."""
    routes: tuple[Route, ...] = ()
    key: str = "{}"
    """The place in the tree as Alertmanager writes it: the matchers of every node down to this one, joined by `/`."""
    mute_intervals: tuple[str, ...] = ()
    """Names of time intervals in which the route says nothing."""
    active_intervals: tuple[str, ...] = ()
    """Names of time intervals outside of which it says nothing; without any it always may speak."""
    escalate: tuple[Step, ...] = ()
    place: Place | None = None

    def group_labels(self, labels: Labels) -> Labels:
        """The labels that an alert shares with the other alerts of its group."""
        if self.group_by is None:
            return labels
        return tuple(pair for pair in labels if pair[0] in self.group_by or pair[0] == DRILL)


BUILT_IN = Route(
    receiver="default",
    group_by=("alertname", "task", "queue"),
    group_wait=0.0,
    group_interval=10.0,
    repeat_interval=14_400.0,
)
"""Holds where no routes file is given."""


def match(route: Route, labels: Labels) -> tuple[Route, ...]:
    """The routes that take an alert with these labels, in file order: the deepest that match, else the parent itself.

    Empty only where the route's own matchers do not hold.
    """
    return tuple(_match(route, dict(labels)))


def _match(route: Route, values: Mapping[str, str]) -> list[Route]:
    if not all(matcher.matches(values.get(matcher.name, "")) for matcher in route.matchers):
        return []
    found: list[Route] = []
    for child in route.routes:
        taken = _match(child, values)
        found += taken
        if taken and not child.continues:
            break
    return found or [route]


WATCHDOG = "Watchdog"
"""The alert that always fires, so that somebody outside can tell that alerts still come."""
DRILL = "tasktrail_drill"
"""A label with the id of a drill: such an alert is a group of its own."""


def is_watchdog(labels: Labels) -> bool:
    """Whether an alert with these labels only says that alerts still come: nobody is to be called for it."""
    return ("alertname", WATCHDOG) in labels and ("severity", "none") in labels


def drill_of(labels: Labels) -> str:
    """The id of the drill that an alert belongs to; "" for a real one."""
    return next((value for name, value in labels if name == DRILL), "")


def destinations(route: Route, labels: Labels) -> tuple[Route, ...]:
    """The routes by which an alert is told: those that match; for the watchdog only those that were written for some.

    The route at the top takes what nobody else does, and would page somebody every repeat_interval for ever.
    """
    return tuple(one for one in match(route, labels) if one is not route or not is_watchdog(labels))


def muted(route: Route, intervals: Intervals, at: float) -> str:
    """Why a route says nothing at an instant, Unix seconds; "" where it may speak."""
    if route.active_intervals and not covering(route.active_intervals, intervals, at):
        return f"outside of the active time intervals {', '.join(route.active_intervals)}"
    name = covering(route.mute_intervals, intervals, at)
    return f"muted by the time interval {name}" if name else ""


def walk(route: Route) -> Iterator[Route]:
    """The route and all below it, in file order."""
    yield route
    for child in route.routes:
        yield from walk(child)
