"""Groups of a former process, gone on with: each with its clocks, its alerts and what its targets were told.

Takes what was saved; puts groups back where their route still is. A group whose route is no more gives its alerts, and
what was told of them, to its receiver's group of now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TypeAlias

from collector.model.alert import Alert
from collector.model.labels import Labels
from collector.model.saved import SavedGroup, SavedMember
from collector.routing.group import Group, Log
from collector.routing.ladder import hang, of_step
from collector.routing.route import Route, destinations, walk

SavedGroups: TypeAlias = Sequence[tuple[SavedGroup, Sequence[SavedMember]]]


class Resumption:
    """Works on the groups of a grouping: `groups` by receiver and key; `made` gives the group of a route and labels."""

    def __init__(
        self,
        route: Route,
        groups: MutableMapping[tuple[str, str], Group],
        made: Callable[[Route, Labels, float], Group],
        schedule: Callable[[Group, float], None],
    ) -> None:
        self._route = route
        self._groups = groups
        self._made = made
        self._schedule = schedule

    def resume(self, saved: SavedGroups, now: float) -> list[tuple[str, str]]:
        """Put them back. Gives receiver and key of those that are no more."""
        routes = {(route.receiver, route.key): route for route in reversed(list(walk(self._route)))}
        gone: list[tuple[SavedGroup, Sequence[SavedMember]]] = []
        for one, members in sorted(saved, key=lambda each: each[0].step_of is not None):  # steps after their groups
            parent = self._parent(one, routes)
            route = routes.get((one.receiver, one.route)) if one.step_of is None else _of_step(parent, one)
            if route is None or (not one.away and one.step_of is None and _differs(route, one, members)):
                gone.append((one, members))
                continue
            group = Group(route, one.labels, one.key, away=one.away)
            group.restore(one, members)
            if parent is not None:
                hang(group, parent, one.number)
            self._groups[one.receiver, one.key] = group
            self._schedule(group, one.flush_at)
        for one, members in gone:  # into groups that are there again by now
            self._move(one, members, now)
        return [(one.receiver, one.key) for one, _ in gone]

    def _parent(self, saved: SavedGroup, routes: Mapping[tuple[str, str], Route]) -> Group | None:
        """The group that escalates to a step; one without alerts where it is over, and the step still has to say so."""
        if saved.step_of is None or saved.step_of in self._groups:
            return self._groups.get(saved.step_of) if saved.step_of else None
        receiver, key = saved.step_of
        route = routes.get((receiver, saved.route))
        return None if route is None else Group(route, saved.labels, key, away=False)

    def _move(self, saved: SavedGroup, members: Sequence[SavedMember], now: float) -> None:
        """A group whose route is no more: its receiver's group of now takes its alerts, and what was told of them."""
        for member in members:
            alert = member.later or member.alert
            if alert is None or saved.away:
                continue
            for route in destinations(self._route, alert.labels):
                if route.receiver != saved.receiver:
                    continue
                group = self._made(route, route.group_labels(alert.labels), now)
                group.put(alert.fingerprint, alert)
                for target, log in saved.logs.items():
                    group.logs.setdefault(target, Log()).inherit(log, alert.fingerprint)


def _of_step(parent: Group | None, saved: SavedGroup) -> Route | None:
    """The route of a step of an escalation; None where there is nobody who would escalate to it any more."""
    if parent is None or saved.number >= len(parent.route.escalate):
        return None
    receiver = parent.route.escalate[saved.number].receiver
    return of_step(parent.route, receiver) if receiver == saved.receiver else None


def held(saved: SavedGroups) -> dict[str, Alert]:
    """What groups of a former process have as firing, by fingerprint: of its end, if there was one, they know nothing.

    Summaries of a backlog are passed over: they speak of episodes, not of what is.
    """
    return {
        member.alert.fingerprint: member.alert
        for one, members in saved
        if not one.away
        for member in members
        if member.alert is not None and member.alert.state == "firing" and member.later is None
    }


def _differs(route: Route, saved: SavedGroup, members: Sequence[SavedMember]) -> bool:
    """Whether the route groups otherwise than it did."""
    return any(member.alert and route.group_labels(member.alert.labels) != saved.labels for member in members)
