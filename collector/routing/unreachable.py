"""What of a routing never comes into play: unreachable routes, unused receivers and intervals, misspelt labels.

Only what can be proven is said. A route is unreachable where every alert that fulfils its matchers, and those above
it, is taken by a sibling before it that does not continue; or where its matchers exclude one another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from collector.model.errors import Problem
from collector.model.labels import Matcher
from collector.routing.matchers import written
from collector.routing.route import Route, walk
from collector.routing.routefile import Routing

_LITERALS = re.compile(r"[\w ,:/@#%&;<>~=-]*(?:\|[\w ,:/@#%&;<>~=-]*)*")
"""An alternation of plain texts."""
_NEAR = 0.85
"""How alike two names are where one is likely the other, misspelt."""


def unreachable(routing: Routing) -> list[Problem]:
    """Routes that take no alert, each with the reason."""
    return list(_below(routing.route, routing.route.matchers))


def unused(routing: Routing) -> list[Problem]:
    """Receivers and time intervals that are defined and not named by any route."""
    routes = list(walk(routing.route))
    told = {route.receiver for route in routes} | {step.receiver for route in routes for step in route.escalate}
    named = {name for route in routes for name in (*route.mute_intervals, *route.active_intervals)}
    found = [
        receiver.place.problem(f"no route names the receiver `{receiver.name}`")
        for receiver in routing.receivers.values()
        if receiver.name not in told and receiver.place is not None
    ]
    return found + [
        place.problem(f"no route names the time interval `{name}`")
        for name, place in routing.interval_places.items()
        if name not in named
    ]


def misspelt(routing: Routing, known: Collection[str]) -> list[Problem]:
    """Labels in `group_by` that are nearly, and not quite, of those that alerts are known to have.

    Whatever else stands there may come with alerts from outside.
    """
    return [
        route.place.at("group_by", index).problem(f"no rule or metric has a label `{name}`: did you mean `{near[0]}`?")
        for route in walk(routing.route)
        if route.place is not None and route.place.has("group_by")
        for index, name in enumerate(route.group_by or ())
        if name not in known and (near := _near(name, known))
    ]


def _near(name: str, known: Collection[str]) -> list[str]:
    """The names that were likely meant: two letters that changed places are one slip, however short the name."""
    swapped = (name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1))
    return get_close_matches(name, known, 1, _NEAR) or [one for one in swapped if one in known]


def _below(parent: Route, above: tuple[Matcher, ...]) -> Iterator[Problem]:
    before = _Before()
    for route in parent.routes:
        together = (*above, *route.matchers)
        reason = _reason(together, before)
        if reason and route.place is not None:
            yield route.place.problem(reason)  # what is below it is not reached either, and needs no word
        else:
            yield from _below(route, together)
        if not route.continues:
            before.add(route)


def _reason(together: tuple[Matcher, ...], before: _Before) -> str:
    clash = next((one for one in together if _excludes(together, one)), None)
    if clash is not None:
        return f"no alert reaches this route: {written((clash,))} and its other matchers exclude one another"
    for sibling in before.candidates(together):
        if all(_implies(together, one) for one in sibling.matchers):
            where = f" on line {sibling.place.line}" if sibling.place else ""
            return (
                f"no alert reaches this route: the one{where}, {written(sibling.matchers)}, takes all of them;"
                " put it before that one, or give that one `continue: true`"
            )
    return ""


class _Before:
    """The siblings before a route that do not continue, by what must be known of an alert before one can take it.

    A file of ten thousand routes is read by people who wait: nearly all of its siblings need not be looked at.
    """

    def __init__(self) -> None:
        self._listed: list[Route] = []
        self._by_value: dict[tuple[str, str], list[int]] = {}  # one of its matchers leaves a label only such values
        self._by_name: dict[str, list[int]] = {}  # its matchers ask something else of a label

    def add(self, route: Route) -> None:
        """One more stands before what follows."""
        number = len(self._listed)
        self._listed.append(route)
        listed = [
            [(one.name, value) for value in values] for one in route.matchers if (values := _fixed(one)) is not None
        ]
        if listed:  # under the one that sets it apart from most
            rarest = min(listed, key=lambda keys: max(len(self._by_value.get(key, ())) for key in keys))
            for key in dict.fromkeys(rarest):
                self._by_value.setdefault(key, []).append(number)
        else:
            self._by_name.setdefault(route.matchers[0].name if route.matchers else _NONE, []).append(number)

    def candidates(self, known: Sequence[Matcher]) -> list[Route]:
        """Those that may take whatever fulfils the known conditions, in their order."""
        found = set(self._by_name.get(_NONE, ()))
        for name in {one.name for one in known}:
            found.update(self._by_name.get(name, ()))
            values = _values(known, name)
            if values:  # whoever takes all of them takes the first
                found.update(self._by_value.get((name, values[0]), ()))
        return [self._listed[number] for number in sorted(found)]


_NONE = ""
"""In place of a label's name: the route has no matcher."""


def _implies(known: Sequence[Matcher], wanted: Matcher) -> bool:
    """Whether every label set that fulfils the known conditions is sure to fulfil the wanted one."""
    if any((one.name, one.op, one.value) == (wanted.name, wanted.op, wanted.value) for one in known):
        return True
    values = _values(known, wanted.name)
    return values is not None and all(map(wanted.matches, values))


def _excludes(known: Sequence[Matcher], one: Matcher) -> bool:
    """Whether a condition can never hold beside the others."""
    values = _values(known, one.name)
    return values is not None and not any(map(one.matches, values))


def _values(known: Sequence[Matcher], name: str) -> list[str] | None:
    """The values that a label can have, where the conditions leave it only certain ones."""
    sets = [found for one in known if one.name == name and (found := _fixed(one)) is not None]
    if not sets:
        return None
    rest = [one for one in known if one.name == name]
    return [value for value in sets[0] if all(one.matches(value) for one in rest)]


def _fixed(one: Matcher) -> list[str] | None:
    """All values that fulfil a condition by itself, where they can be listed."""
    if one.op == "=":
        return [one.value]
    if one.op == "=~" and _LITERALS.fullmatch(one.value):
        return one.value.split("|")
    return None
