"""Route files: Alertmanager's configuration format, read whole. Text in; a routing, or every problem at its place, out.

What Alertmanager refuses is refused, with all that is wrong at once. Beyond its format: `escalate` on a route, and
`apprise_configs` and `alertmanager_configs` in a receiver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import msgspec

from collector.documents import Duration, Place, read
from collector.documents.reader import Plain, unknown
from collector.model.errors import Problem, ProblemsError
from collector.model.labels import Matcher
from collector.routing.inhibition import InhibitRule
from collector.routing.intervals import NamedDocument, TimeInterval, interval_of
from collector.routing.kinds_more import ReceiverDocument
from collector.routing.matchers import Op, is_classic_name, matcher, order, parse_matchers, written
from collector.routing.original import masked
from collector.routing.receivers import GlobalDocument, Receiver, receivers_of
from collector.routing.route import Route, Step

ALL = "..."
"""In `group_by`: every label, so that each alert is a group of its own."""
ONLY_INSIDE = ("matchers", "match", "match_re", "mute_time_intervals", "active_time_intervals")
"""What the route at the top must not have."""
_UNREAD = "a matcher that cannot be read"
"""A label that no other route has: beside its matchers, so that nobody concludes from them what the route takes."""
UNDONE = {
    "tracing": "`tracing` is not done here: remove it; /metrics has the times of deliveries",
    "event_recorder": "`event_recorder` is not done here: remove it, and take notifications from `replay --json`",
}
"""What a file may ask for at its top, and does not get."""


class _StepDocument(msgspec.Struct, kw_only=True):
    place: Place
    after: Duration
    receiver: str = ""


class _RouteDocument(msgspec.Struct, kw_only=True, rename={"continues": "continue"}):
    place: Place
    receiver: str = ""
    group_by: list[str] | None = None
    group_wait: Duration | None = None
    group_interval: Duration | None = None
    repeat_interval: Duration | None = None
    matchers: list[str] = []
    match: dict[str, str] = {}
    match_re: dict[str, str] = {}
    continues: bool = False
    mute_time_intervals: list[str] = []
    active_time_intervals: list[str] = []
    labels: dict[str, str] = {}
    routes: list[_RouteDocument] = []
    escalate: list[_StepDocument] = []


class _InhibitDocument(msgspec.Struct, kw_only=True):
    place: Place
    name: str = ""
    source_matchers: list[str] = []
    source_match: dict[str, str] = {}
    source_match_re: dict[str, str] = {}
    target_matchers: list[str] = []
    target_match: dict[str, str] = {}
    target_match_re: dict[str, str] = {}
    equal: list[str] = []


class _FileDocument(msgspec.Struct, kw_only=True, rename={"shared": "global"}):
    place: Place
    shared: GlobalDocument = msgspec.field(default_factory=GlobalDocument)
    route: _RouteDocument | None = None
    receivers: list[ReceiverDocument] = []
    inhibit_rules: list[_InhibitDocument] = []
    time_intervals: list[NamedDocument] = []
    mute_time_intervals: list[NamedDocument] = []
    templates: list[str] = []
    tracing: Plain | None = None
    event_recorder: Plain | None = None


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """A route file without problems, compiled."""

    path: str
    route: Route
    receivers: Mapping[str, Receiver]
    inhibit_rules: tuple[InhibitRule, ...] = ()
    intervals: Mapping[str, tuple[TimeInterval, ...]] = {}
    interval_places: Mapping[str, Place] = {}
    templates: tuple[str, ...] = ()
    """Paths or patterns, as written."""
    resolve_timeout: float = 300.0
    original: str = ""
    """The file's text without its secrets."""
    undone: tuple[Problem, ...] = ()
    """What the file asks for outside of its receivers, and is not done: each with what to write instead."""


def load(path: str, text: str) -> Routing:
    """The routing of a file. Raises ProblemsError with every problem in it."""
    routing, problems = load_parts(path, text)
    if problems:
        raise ProblemsError(problems)
    return routing


def load_parts(path: str, text: str) -> tuple[Routing, list[Problem]]:
    """What of a file can be looked at, and every problem in it; with any it is not to be routed by.

    Raises ProblemsError where there is no route to look at.
    """
    document, problems = read(path, text, _FileDocument)
    reader = _Reader(problems)
    receivers = receivers_of(document.receivers, document.shared, document.place, problems)
    named = [*document.mute_time_intervals, *document.time_intervals]
    intervals = reader.intervals(named)
    rules = tuple(reader.inhibition(rule) for rule in document.inhibit_rules)
    if document.route is None:
        if not document.place.has("route"):
            problems.append(document.place.problem("the file has no route: add `route:` with at least a `receiver`"))
        raise ProblemsError(problems)
    reader.check_root(document.route)
    route = reader.route(document.route, Route(receiver=""), key="")
    reader.check_names(document.route, receivers, intervals)
    routing = Routing(
        path=path,
        route=route,
        receivers=receivers,
        inhibit_rules=rules,
        intervals=intervals,
        interval_places={one.name: one.place for one in named},
        templates=tuple(document.templates),
        resolve_timeout=document.shared.resolve_timeout,
        original="" if problems else masked(text),
        undone=(
            *(document.place.key(key).problem(text) for key, text in UNDONE.items() if document.place.has(key)),
            *reader.undone,
        ),
    )
    return routing, problems


class _Reader:
    """What the format's types cannot say: matchers, names, and what goes together."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.misread = tuple(problems)
        self.undone: list[Problem] = []

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(place.problem(message))

    def route(self, document: _RouteDocument, parent: Route, key: str) -> Route:
        """The route, with what it takes over from its parent."""
        place = document.place
        self.check_timers(document)
        if document.labels:
            message = "`labels` of a route are not done here: remove it, and give alerts labels in their rules"
            self.undone.append(place.key("labels").problem(message))
        known = len(self.problems)
        is_read = not any(map(partial(_is_of, place), self.misread))
        found = (
            *self.equal(place, "match", document.match),
            *self.regular(place, "match_re", document.match_re),
            *self.texts(place, "matchers", document.matchers),
        )
        matchers = order(
            found if is_read and len(self.problems) == known else (*found, matcher(f"{_UNREAD} {place}", "=", ""))
        )
        key = f"{key}/{written(matchers)}" if key else written(matchers)
        own = msgspec.structs.replace(
            parent,
            receiver=document.receiver or parent.receiver,
            group_by=parent.group_by if document.group_by is None else self.group_by(document, document.group_by),
            **{
                name: float(value)
                for name in ("group_wait", "group_interval", "repeat_interval")
                if (value := getattr(document, name)) is not None
            },
            matchers=matchers,
            continues=document.continues,
            routes=(),
            key=key,
            mute_intervals=tuple(document.mute_time_intervals),
            active_intervals=tuple(document.active_time_intervals),
            escalate=tuple(Step(float(step.after), step.receiver) for step in document.escalate),
            place=place,
        )
        children = tuple(self.route(child, own, key) for child in document.routes)
        return msgspec.structs.replace(own, routes=children)

    def check_root(self, document: _RouteDocument) -> None:
        place = document.place
        if not document.receiver:
            self.wrong(
                place, "the route at the top has no receiver: add `receiver: ...`, it takes what nobody else does"
            )
        for key in ONLY_INSIDE:
            if getattr(document, key):
                message = f"the route at the top takes every alert and has no `{key}`: put it on a route under `routes`"
                self.wrong(place.key(key), message)
        if document.continues:
            self.wrong(place.key("continue"), "the route at the top has no sibling to continue with: remove `continue`")

    def check_timers(self, document: _RouteDocument) -> None:
        for name in ("group_interval", "repeat_interval"):
            if getattr(document, name) == 0:
                self.wrong(document.place.at(name), f"`{name}` is zero: write a time, or remove it")
        steps = [step.after for step in document.escalate]
        for number, (before, after) in enumerate(pairwise(steps), 1):
            if after <= before:
                place = document.escalate[number].place.at("after")
                self.wrong(place, "a step of `escalate` comes after the one above it: write them in the order of time")

    def group_by(self, document: _RouteDocument, names: Sequence[str]) -> tuple[str, ...] | None:
        place = document.place
        seen: set[str] = set()
        for index, name in enumerate(names):
            if not name:
                self.wrong(place.at("group_by", index), "a label in `group_by` has no name: remove it")
            elif name in seen and name != ALL:
                self.wrong(place.at("group_by", index), f"`{name}` is named twice in `group_by`: keep one")
            seen.add(name)
        if ALL in seen and len(seen) > 1:
            message = f"`{ALL}` in `group_by` stands for all labels: remove it, or the other names"
            self.wrong(place.at("group_by", names.index(ALL)), message)
        return None if ALL in seen else tuple(names)

    def check_names(
        self, document: _RouteDocument, receivers: Mapping[str, Receiver], intervals: Mapping[str, object]
    ) -> None:
        """Receivers and time intervals that routes name and nobody defines."""
        place = document.place
        named = [(document.receiver, place.at("receiver"))] if document.receiver else []
        for step in document.escalate:
            if step.receiver:
                named.append((step.receiver, step.place.at("receiver")))
            else:
                self.wrong(step.place, "the step has no receiver: add `receiver: ...`")
        for name, at in named:
            if name not in receivers:
                self.wrong(at, unknown("receiver", name, receivers) if receivers else _undefined("receiver", name))
        for key in ("mute_time_intervals", "active_time_intervals"):
            for index, name in enumerate(getattr(document, key)):
                if name not in intervals:
                    said = unknown("time interval", name, intervals) if intervals else _undefined("time interval", name)
                    self.wrong(place.at(key, index), said)
        for child in document.routes:
            self.check_names(child, receivers, intervals)

    def intervals(self, documents: Sequence[NamedDocument]) -> dict[str, tuple[TimeInterval, ...]]:
        found: dict[str, tuple[TimeInterval, ...]] = {}
        lines: dict[str, int] = {}
        for document in documents:
            name = document.name
            if not name:
                self.wrong(document.place, "the time interval has no name: add `name: ...`")
            elif name in found:
                message = f"two time intervals are named `{name}`, the first on line {lines[name]}: rename one"
                self.wrong(document.place.at("name"), message)
            lines.setdefault(name, document.place.at("name").line)
            found.setdefault(name, tuple(interval_of(one, self.problems) for one in document.time_intervals))
        return found

    def inhibition(self, document: _InhibitDocument) -> InhibitRule:
        place = document.place
        sides = {
            side: (
                *self.equal(place, f"{side}_match", getattr(document, f"{side}_match")),
                *self.regular(place, f"{side}_match_re", getattr(document, f"{side}_match_re")),
                *self.texts(place, f"{side}_matchers", getattr(document, f"{side}_matchers")),
            )
            for side in ("source", "target")
        }
        for index, name in enumerate(document.equal):
            if not name:
                self.wrong(place.at("equal", index), "a label in `equal` has no name: remove it")
        return InhibitRule(
            name=document.name,
            sources=sides["source"],
            targets=sides["target"],
            equal=tuple(dict.fromkeys(document.equal)),
            place=place,
        )

    # Matchers

    def texts(self, place: Place, key: str, texts: Sequence[str]) -> list[Matcher]:
        found: list[Matcher] = []
        for index, text in enumerate(texts):
            try:
                found += parse_matchers(text)
            except ValueError as error:
                self.wrong(place.at(key, index).content(), str(error))
        return found

    def equal(self, place: Place, key: str, pairs: Mapping[str, str]) -> list[Matcher]:
        return self.pairs(place, key, pairs, "=")

    def regular(self, place: Place, key: str, pairs: Mapping[str, str]) -> list[Matcher]:
        found = self.pairs(place, key, pairs, "=~")
        # Anchored twice, as Alertmanager has them in what it shows and in the keys of groups.
        return [matcher(one.name, "=~", f"^(?:{one.value})$") for one in found]

    def pairs(self, place: Place, key: str, pairs: Mapping[str, str], op: str) -> list[Matcher]:
        found = []
        for name, value in pairs.items():
            if not is_classic_name(name):
                self.wrong(place.at(key).key(name), f"`{name}` is no label name in `{key}`: use `matchers` for it")
                continue
            try:
                found.append(matcher(name, cast("Op", op), value))
            except ValueError as error:
                self.wrong(place.at(key, name).content(), str(error))
        return found


def _is_of(place: Place, problem: Problem) -> bool:
    """Whether a problem is of the route that stands here, and not of one below it."""
    return place.holds(problem) and not (place.has("routes") and place.at("routes").holds(problem))


def _undefined(what: str, name: str) -> str:
    section = {"receiver": "receivers", "time interval": "time_intervals"}[what]
    return f"there is no {what} `{name}`: define it under `{section}`"
