"""Runs rule tests: series and events go into the real store, trails and groups, at times counted from a test's start.

Takes a test file as it was read and the rules that it names; gives what became of every case. Synchronous, no clock.

Where a test has only series, everything is as promtool does it: time begins at 0 unless `start_timestamp` says when,
groups are evaluated at every `evaluation_interval`, series are seen up to the last evaluation, and expressions are
looked at in the end. Where it has events, too, time begins at BASE or `start_timestamp`, and an expression is looked
at when its time has come: what is counted later is not seen.
"""

from __future__ import annotations

import glob
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from collector.alerting import verdict
from collector.alerting.dependencies import connect
from collector.alerting.expression import RuleError, Selector, rows_of
from collector.alerting.group import Group, Surroundings
from collector.alerting.lifecycle import AlertRule
from collector.alerting.rulefile import GroupSpec
from collector.alerting.ruletest import AlertCase, Case, NotificationCase, PromqlCase, Test, TestFile, as_written
from collector.alerting.verdict import Item, Outcome, TestResult, duration_text
from collector.config import rulefiles
from collector.config.routefiles import receivers
from collector.formats import native
from collector.model.alert import Alert, Notification
from collector.model.errors import Problem, TasktrailError
from collector.model.event import EARLIEST, Event
from collector.model.labels import Labels
from collector.model.record import Batch
from collector.model.shown import counted
from collector.model.stale import STALE
from collector.promql import compile_expr
from collector.routing.message import Wording
from collector.routing.routefile import Routing
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import FUZZ, instant_of

BASE = EARLIEST
"""When tests with events begin, unless they say it: 2000-01-01T00:00:00Z. Trails know no time before it."""
SOURCE = "test"
GRID_MILLISECONDS = 100
"""Between slots a rule is evaluated at most this often, where a test asks for it."""

_encode = msgspec.json.Encoder().encode


def rules_of(file: TestFile) -> tuple[list[GroupSpec], list[Problem]]:
    """The groups that a test file is about, in their order; and a problem for each name that no file has.

    Raises ProblemsError with every problem of every rule file.
    """
    missing: list[Problem] = []
    paths: dict[str, None] = {}
    for name, place in file.rule_files:
        found = sorted(glob.glob(str(Path(file.path).parent / name), include_hidden=True))  # noqa: PTH207 an absolute pattern is one, too
        if not found:
            missing.append(place.problem(f"there is no file `{name}` beside this one: check the path"))
        paths |= dict.fromkeys(found)
    specs = rulefiles.read(map(Path, paths))
    return sorted(specs, key=lambda spec: file.group_order.get(spec.name, 0)), missing


def run(file: TestFile, specs: Sequence[GroupSpec], routing: Routing | None = None) -> Iterator[TestResult]:
    """The file's tests, one after the other; none knows of another."""
    for test in file.tests:
        yield _Run(file, test, specs, routing).result()


class _Samples:
    """Where rules write: as the store, but two different values for one instant are an error, as in Prometheus."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: dict[tuple[str, Labels], tuple[float, float]] = {}

    def put(self, name: str, labels: Labels, at: float, value: float) -> None:
        """Write a sample. Raises RuleError where it cannot stand beside what was written."""
        newest_at, newest = self._newest.get((name, labels), (-math.inf, math.nan))
        if at <= newest_at:
            if value is STALE:  # who ended the series does not matter where somebody goes on with it
                return
            if at < newest_at or (value != newest and not (math.isnan(value) and math.isnan(newest))):
                raise RuleError(f"`{name}` has another value for this instant already: something else writes it, too")
        self._newest[name, labels] = at, value
        self._store.put(name, labels, at, value)


class _Watched(msgspec.Struct):
    """An alerting rule, and the store's version that it has seen."""

    group: Group
    rule: AlertRule
    version: int = -1


class _Run:
    """One test on its way. Instants are whole milliseconds after its start."""

    def __init__(self, file: TestFile, test: Test, specs: Sequence[GroupSpec], routing: Routing | None) -> None:
        self.file = file
        self.test = test
        self.has_events = bool(test.events)
        base = test.start if test.start is not None else BASE if self.has_events else 0.0
        self.base = round(base * 1000)
        wording = Wording(external_url=test.external_url)
        told = receivers(routing)
        self.pipeline = Pipeline(Limits(), (), telemetry=Telemetry(), routing=routing, receivers=told, wording=wording)
        self.store = self.pipeline.store
        self.axis = Axis(name=SOURCE, application="", clock="event", is_up=True)
        self.samples = _Samples(self.store)
        self.groups = self.built(specs)
        self.watched = [
            _Watched(group, rule) for group in self.groups for rule in group.rules if isinstance(rule, AlertRule)
        ]
        self.announce()
        self.inputs = deque(self.input_samples())
        self.events = deque(test.events)
        self.asks_for_notifications = any(isinstance(case, NotificationCase) for case in test.cases)
        self.notifications: list[tuple[float, Notification]] = []
        self.waiting: deque[tuple[int, int, Case]] = deque()
        """Cases whose time has not come: instant, number, case."""
        self.late: list[tuple[int, PromqlCase]] = []
        """Expressions that are looked at in the end."""
        self.outcomes: dict[int, Outcome] = {}
        self.out = TestResult(name=test.name)

    # Getting ready

    def built(self, specs: Sequence[GroupSpec]) -> list[Group]:
        """The groups at work. All are evaluated at every step, whatever interval they have, as with promtool."""
        surroundings = Surroundings(
            compile_expr=compile_expr,
            put=self.samples.put,
            external_url=self.test.external_url,
            external_labels=self.test.external_labels,
            writes_alerts=True,
        )
        own = [msgspec.structs.replace(spec, interval=None) for spec in specs]
        groups = [Group(spec, surroundings, self.file.evaluation_interval) for spec in own]
        connect(rule for group in groups for rule in group.rules)
        return groups

    def announce(self) -> None:
        """Tell the store what will be read, so that nothing of it is let go."""
        selectors: list[Selector] = [one for group in self.groups for rule in group.rules for one in rule.selectors]
        selectors += [one for case in self.test.cases if isinstance(case, PromqlCase) for one in case.expr.selectors]
        self.store.sampled.reach = math.inf
        for selector in selectors:
            self.store.keep(selector.reach, selector.name)
        if self.has_events:
            self.pipeline.expect(selectors)

    def input_samples(self) -> list[tuple[int, str, Labels, float]]:
        """The samples of all series, by their times."""
        step = round(self.test.interval * 1000)
        found = [
            (number * step, one.name, one.labels, value)
            for one in self.test.series
            for number, value in enumerate(one.values)
            if value is not None
        ]
        return sorted(found, key=lambda sample: sample[0])

    def seconds(self, at: int) -> float:
        """Unix seconds of an instant."""
        return (self.base + at) / 1000

    # The walk

    def result(self) -> TestResult:
        """Walk to the last time that a case asks for."""
        cases = sorted(enumerate(self.test.cases), key=lambda one: one[1].eval_time)
        self.waiting = deque((round(case.eval_time * 1000), number, case) for number, case in cases)
        try:
            self.walk(self.waiting[-1][0] if self.waiting else 0)
        except _FailedError as error:
            self.out.error = str(error)
        for _, number, case in self.waiting:
            self.outcomes[number] = _outcome(case, error="not looked at: a rule failed before")
        for number, case in self.late:
            self.outcomes[number] = self.look(case, self.seconds(round(case.eval_time * 1000)))
        self.out.cases = [outcome for _, outcome in sorted(self.outcomes.items(), key=lambda one: one[0])]
        return self.out

    def walk(self, end: int) -> None:
        """Stop at every slot, at every time of a case, and where asked for, when something changes in between."""
        step, slot = round(self.file.evaluation_interval * 1000), 0
        while True:
            stops = [slot, self.waiting[0][0] if self.waiting else slot, *self.next_changes()]
            if (at := min(stops)) > end:
                return
            self.move(at, is_slot=at == slot)
            if at == slot:
                self.tell(at, self.evaluate(at))
                slot += step
            elif self.test.evaluate_on_events:
                self.tell(at, self.start(at))
            else:
                self.tell(at, [])
            while self.waiting and self.waiting[0][0] <= at:
                _, number, case = self.waiting.popleft()
                if isinstance(case, PromqlCase) and not self.has_events:
                    self.late.append((number, case))
                else:
                    self.outcomes[number] = self.look(case, self.seconds(at))

    def next_changes(self) -> Iterator[int]:
        """Where rules may be evaluated between slots next: on the grid after an event, and when trails decide."""
        if not self.test.evaluate_on_events:
            return
        if self.events:
            at = self.base + round(self.events[0].at * 1000)
            yield -(-at // GRID_MILLISECONDS) * GRID_MILLISECONDS - self.base
        if (due := self.pipeline.stitcher.next_decision()) is not None:
            yield round(instant_of(due) * 1000) - self.base

    def move(self, at: int, *, is_slot: bool) -> None:
        """Let everything up to an instant be counted. Without events, series are seen as far as the last slot only."""
        grace = round(self.pipeline.grace * 1000)
        while self.events and (first := round(self.events[0].at * 1000)) <= at:
            self.decide(self.seconds(first) - 2 * FUZZ)
            due = self.pipeline.stitcher.next_due()
            until = at if due is None else min(at, round(due * 1000) - self.base)
            self.count(max(first, min(until, first + grace)))
        self.decide(self.seconds(at) + 2 * FUZZ)
        while (is_slot or self.has_events) and self.inputs and self.inputs[0][0] <= at:
            instant, name, labels, value = self.inputs.popleft()
            self.samples.put(name, labels, self.seconds(instant), value)
        self.store.advance(self.seconds(at))

    def count(self, until: int) -> None:
        """Count the events up to an instant, by the way that every event takes."""
        bodies = []
        while self.events and (at := round(self.events[0].at * 1000)) <= until:
            bodies.append(_encode(self.dated(self.events.popleft().event, at)))
        batch = Batch(
            source=SOURCE, place=SOURCE, bodies=bodies, receipts=range(len(bodies)), received_at=self.seconds(until)
        )
        outcome = self.pipeline.ingest.count(self.axis, native.decode, batch, math.inf)
        if outcome.malformed:
            self.out.notes.append(f"refused up to {duration_text(until / 1000)}: {counted(outcome.malformed, 'event')}")

    def dated(self, event: Event, at: int) -> Event:
        """The event at its time; other times in it count from the test's start."""
        times = {
            name: self.base / 1000 + span for name in ("eta", "expires") if (span := getattr(event, name)) is not None
        }
        return msgspec.structs.replace(event, time=self.seconds(at), **times)

    def decide(self, at: float) -> None:
        """Let the trails decide what is due by an instant, in Unix seconds."""
        while self.pipeline.ingest.expire(at):
            pass

    # Rules

    def evaluate(self, at: int) -> list[Alert]:
        """All groups at a slot. Raises _FailedError with every rule that failed."""
        changed = [
            alert for group in self.groups for alert in self.noted(group, group.evaluate(self.store, self.seconds(at)))
        ]
        self.refuse_failures(at)
        return changed

    def start(self, at: int) -> list[Alert]:
        """Between slots a rule whose inputs changed may start an alert, and nothing else."""
        changed: list[Alert] = []
        for watched in self.watched:
            if self.store.version != watched.version and self.reads_change(watched):
                started = watched.group.evaluate_rule(watched.rule, self.store, self.seconds(at))
                changed += self.noted(watched.group, started)
            watched.version = self.store.version
        self.refuse_failures(at)
        return changed

    def reads_change(self, watched: _Watched) -> bool:
        return any(
            self.store.changed(series, watched.version)
            for selector in watched.rule.inputs
            for series in self.store.select(selector.name, selector.matchers)
        )

    def noted(self, group: Group, changed: list[Alert]) -> list[Alert]:
        """The alerts; what else went wrong than a rule as a whole is a note, once."""
        for failure in group.failures:
            note = f"{failure.rule.name}: {failure.message}"
            if failure.rule.health != "err" and note not in self.out.notes:
                self.out.notes.append(note)
        return changed

    def refuse_failures(self, at: int) -> None:
        failed = [
            f"{rule.place}: rule `{rule.name}` failed at {duration_text(at / 1000)}: {rule.last_error}"
            for group in self.groups
            for rule in group.rules
            if rule.health == "err"
        ]
        if failed:
            raise _FailedError("\n".join(failed))

    def tell(self, at: int, changed: list[Alert]) -> None:
        """Hand alerts to the route; what was ripe before them was said before, each at its own time."""
        if not self.asks_for_notifications:
            return
        now = self.seconds(at)
        self.say(math.nextafter(now, -math.inf))
        self.pipeline.grouping.insert(changed, now)
        self.say(now)

    def say(self, until: float) -> None:
        grouping = self.pipeline.grouping
        while (due := grouping.next_due()) is not None and due <= until:
            for notification in grouping.due(due):
                self.notifications.append((round(due * 1000 - self.base) / 1000, notification))
                grouping.confirm(notification, due)

    # Cases

    def look(self, case: Case, at: float) -> Outcome:
        """What became of one case, at Unix seconds."""
        if isinstance(case, AlertCase):
            return _outcome(case, verdict.alerts(list(self.firing(case.alertname)), case.expected))
        if isinstance(case, NotificationCase):
            said = [(when, one) for when, one in self.notifications if one.receiver == case.receiver]
            return _outcome(case, verdict.notifications(said, case.expected))
        try:
            rows = rows_of(case.expr.evaluate(self.store, at, self.file.evaluation_interval))
        except TasktrailError as error:
            return _outcome(case, error=str(error))
        return _outcome(case, verdict.samples(rows, case.expected, fuzzy=self.file.fuzzy_compare))

    def firing(self, name: str) -> Iterator[tuple[Labels, Labels]]:
        """Labels and annotations of the alerts of a name that fire; with annotations that came out empty."""
        for watched in self.watched:
            if watched.rule.name == name:
                empty = dict.fromkeys((key for key, _ in watched.rule.spec.annotations), "")
                for alert in watched.rule.alerts():
                    if alert.state == "firing":
                        yield alert.labels, as_written({**empty, **dict(alert.annotations)})


class _FailedError(TasktrailError):
    """A rule could not be evaluated: the test ends here."""


def _outcome(case: Case, sides: tuple[list[Item], list[Item], bool] = ([], [], False), error: str = "") -> Outcome:
    kind, name = _NAMED[type(case)]
    got, exp, ok = sides
    return Outcome(
        kind=kind,
        name=name(case),
        eval_time=case.eval_time,
        line=case.place.line,
        column=case.place.column,
        got=got,
        exp=exp,
        ok=ok,
        error=error,
    )


# what a case is called in results, and what it is about
_NAMED: dict[type[Case], tuple[Any, Callable[[Any], str]]] = {
    PromqlCase: ("promql", lambda case: case.expr.text),
    AlertCase: ("alert", lambda case: case.alertname),
    NotificationCase: ("notification", lambda case: case.receiver),
}
