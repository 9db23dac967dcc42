"""Unit tests of rules: promtool's file format and what Tasktrail adds to it, read whole.

Takes a file's text; gives tests with everything compiled, or every problem at its place. Nothing is run here: times
are seconds after a test's start. Beyond promtool: `input_events`, `input_tasks`, `evaluate_on_events` and
`notification_test`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Literal, TypeAlias

import msgspec

from collector.alerting.expression import Compiler, Expression
from collector.alerting.notation import HISTOGRAM, NAME, NotationError, parse_metric, parse_values
from collector.alerting.rulefile import GroupSpec
from collector.alerting.testevents import EventDocument, TasksDocument, TimedEvent, events_of
from collector.documents import Duration, Place, read
from collector.model.errors import Problem, ProblemsError, TasktrailError
from collector.model.event import EARLIEST
from collector.model.labels import Labels, labels_of

DEFAULT_INTERVAL = 60.0
RECEIVER = "default"
"""The receiver of the built-in route."""


class _Series(msgspec.Struct, kw_only=True):
    place: Place
    series: str
    values: str = ""


class _ExpectedAlert(msgspec.Struct, kw_only=True):
    exp_labels: dict[str, str] = {}
    exp_annotations: dict[str, str] = {}


class _AlertTest(msgspec.Struct, kw_only=True):
    place: Place
    eval_time: Duration = Duration(0)
    alertname: str
    exp_alerts: list[_ExpectedAlert] = []


class _ExpectedSample(msgspec.Struct, kw_only=True):
    place: Place
    labels: str = ""
    value: float = 0.0
    histogram: str = ""


class _PromqlTest(msgspec.Struct, kw_only=True):
    place: Place
    expr: str
    eval_time: Duration = Duration(0)
    exp_samples: list[_ExpectedSample] = []


class _ExpectedNotification(msgspec.Struct, kw_only=True):
    at: Duration | None = None
    status: Literal["firing", "resolved"] = "firing"
    group_labels: dict[str, str] | None = None
    firing: list[dict[str, str]] | None = None
    resolved: list[dict[str, str]] | None = None
    title: str | None = None


class _NotificationTest(msgspec.Struct, kw_only=True):
    place: Place
    eval_time: Duration = Duration(0)
    receiver: str = RECEIVER
    exp_notifications: list[_ExpectedNotification] = []


class _TestDocument(msgspec.Struct, kw_only=True):
    place: Place
    name: str = ""
    interval: Duration = Duration(0)
    input_series: list[_Series] = []
    input_events: list[EventDocument] = []
    input_tasks: list[TasksDocument] = []
    evaluate_on_events: bool | None = None
    alert_rule_test: list[_AlertTest] = []
    promql_expr_test: list[_PromqlTest] = []
    notification_test: list[_NotificationTest] = []
    external_labels: dict[str, str] = {}
    external_url: str = ""
    start_timestamp: str = ""


class _FileDocument(msgspec.Struct, kw_only=True):
    place: Place
    rule_files: list[str] = []
    route_file: str = ""
    evaluation_interval: Duration = Duration(0)
    group_eval_order: list[str] = []
    fuzzy_compare: bool = False
    evaluate_on_events: bool = False
    tests: list[_TestDocument] = []


class InputSeries(msgspec.Struct, frozen=True):
    """A series that is written into the store: `values` one interval apart, from the start; None is no sample."""

    name: str
    labels: Labels
    values: tuple[float | None, ...]


class PromqlCase(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression gives at a time."""

    place: Place
    eval_time: float
    expr: Expression
    expected: tuple[tuple[Labels, float], ...]
    """Labels with `__name__`."""


class AlertCase(msgspec.Struct, frozen=True, kw_only=True):
    """Which alerts of a name fire at a time."""

    place: Place
    eval_time: float
    alertname: str
    expected: tuple[tuple[Labels, Labels], ...]
    """Labels with `alertname`, and annotations; empty ones as they are written."""


class ExpectedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """One notification; what is None may be anything."""

    at: float | None
    status: str
    group_labels: Labels | None
    firing: tuple[Labels, ...] | None
    resolved: tuple[Labels, ...] | None
    title: str | None


class NotificationCase(msgspec.Struct, frozen=True, kw_only=True):
    """All that a receiver was sent from the start up to a time, in order."""

    place: Place
    eval_time: float
    receiver: str
    expected: tuple[ExpectedNotification, ...]


Case: TypeAlias = PromqlCase | AlertCase | NotificationCase


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test: what goes in, and what is to come out."""

    name: str
    interval: float
    """Seconds between two values of a series."""
    series: tuple[InputSeries, ...]
    events: tuple[TimedEvent, ...]
    """In the order of their times."""
    start: float | None
    """Unix seconds, where the file says when the test begins."""
    evaluate_on_events: bool
    external_labels: dict[str, str]
    external_url: str
    cases: tuple[Case, ...]
    """Those of alerts, then of expressions, then of notifications, each as written."""


class TestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A test file without problems."""

    path: str
    rule_files: tuple[tuple[str, Place], ...]
    """Paths or patterns, relative to the file, and where they are written."""
    route_file: tuple[str, Place] | None = None
    """What notifications go by, relative to the file; without one the built-in route holds."""
    evaluation_interval: float
    group_order: dict[str, int]
    """The rank of a group by its name; groups that are not named have 0, as in promtool."""
    fuzzy_compare: bool
    tests: tuple[Test, ...]


def load(path: str, text: str, compile_expr: Compiler) -> TestFile:
    """The tests of a file. Raises ProblemsError with every problem in it."""
    document, problems = read(path, text, _FileDocument)
    reader = _Reader(compile_expr, problems)
    interval = document.evaluation_interval or DEFAULT_INTERVAL
    tests = tuple(reader.test(number, test, document, interval) for number, test in enumerate(document.tests))
    order = reader.group_order(document)
    if problems:
        raise ProblemsError(problems)
    return TestFile(
        path=path,
        rule_files=tuple((name, document.place.at("rule_files", i)) for i, name in enumerate(document.rule_files)),
        route_file=(document.route_file, document.place.at("route_file")) if document.route_file else None,
        evaluation_interval=interval,
        group_order=order,
        fuzzy_compare=document.fuzzy_compare,
        tests=tests,
    )


class _Reader:
    """What the format's types cannot say: metrics, values, expressions, and what goes together."""

    def __init__(self, compile_expr: Compiler, problems: list[Problem]) -> None:
        self.compile_expr = compile_expr
        self.problems = problems

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(place.problem(message))

    def group_order(self, document: _FileDocument) -> dict[str, int]:
        order: dict[str, int] = {}
        for rank, name in enumerate(document.group_eval_order):
            if name in order:
                place = document.place.at("group_eval_order", rank)
                self.wrong(place, f"the group `{name}` is named twice in the order: keep one")
            order.setdefault(name, rank)
        return order

    def test(self, number: int, document: _TestDocument, file: _FileDocument, interval: float) -> Test:
        place = document.place
        on_events = document.evaluate_on_events
        return Test(
            name=document.name or f"unnamed#{number}",
            interval=document.interval or interval,
            series=self.series(document),
            events=events_of(document.input_events, document.input_tasks, self.problems),
            start=self.start(place.at("start_timestamp"), document),
            evaluate_on_events=file.evaluate_on_events if on_events is None else on_events,
            external_labels=document.external_labels,
            external_url=document.external_url,
            cases=(
                *map(self.alert_case, document.alert_rule_test),
                *(case for one in document.promql_expr_test if (case := self.promql_case(one))),
                *map(_notification_case, document.notification_test),
            ),
        )

    def start(self, place: Place, document: _TestDocument) -> float | None:
        text = document.start_timestamp
        if not text:
            return None
        start = _timestamp(text)
        if start is None:
            self.wrong(place, f"`{text}` is no time: write Unix seconds, or RFC 3339 as 2026-01-31T12:00:00Z")
        elif start < EARLIEST and (document.input_events or document.input_tasks):
            self.wrong(place, f"`{text}` is before the year 2000, and events so old are refused: begin later")
        return start

    def series(self, document: _TestDocument) -> tuple[InputSeries, ...]:
        """The series by their labels: the last of two equal ones holds, as in promtool."""
        found: dict[tuple[str, Labels], InputSeries] = {}
        for one in document.input_series:
            metric = self.metric(one.place.at("series"), one.series)
            try:
                values = tuple(parse_values(one.values))
            except NotationError as error:
                self.wrong(one.place.at("values"), str(error))
                values = ()
            if metric is None:
                continue
            if not any(metric.values()):
                self.wrong(one.place.at("series"), 'a series needs a name or a label: write it as name{label="value"}')
            name = metric.pop(NAME, "")
            labels = labels_of(metric)
            found[name, labels] = InputSeries(name, labels, values)
        return tuple(found.values())

    def metric(self, place: Place, text: str) -> dict[str, str] | None:
        try:
            return parse_metric(text)
        except NotationError as error:
            self.wrong(place, str(error))
            return None

    def alert_case(self, document: _AlertTest) -> AlertCase:
        if not document.alertname:
            self.wrong(document.place.at("alertname"), "the test names no alert: write `alertname: Name`")
        named = {"alertname": document.alertname}
        return AlertCase(
            place=document.place,
            eval_time=document.eval_time,
            alertname=document.alertname,
            expected=tuple(
                (as_written({**one.exp_labels, **named}), as_written(one.exp_annotations))
                for one in document.exp_alerts
            ),
        )

    def promql_case(self, document: _PromqlTest) -> PromqlCase | None:
        expected = []
        for sample in document.exp_samples:
            if sample.histogram:
                self.wrong(sample.place.at("histogram"), HISTOGRAM)
            metric = self.metric(sample.place.at("labels"), sample.labels)
            expected.append((labels_of(metric or {}), sample.value))
        start = document.place.at("expr").content()
        try:
            expr = self.compile_expr(document.expr)
        except TasktrailError as error:
            self.wrong(start, f"the expression cannot be used: {' '.join(str(error).split())}")
            return None
        if expr.type in {"matrix", "string"}:
            gives = "a range vector" if expr.type == "matrix" else "text"
            self.wrong(start, f"the expression gives {gives}: a test needs an instant vector or a scalar")
        return PromqlCase(place=document.place, eval_time=document.eval_time, expr=expr, expected=tuple(expected))


def unknown_alerts(file: TestFile, specs: Sequence[GroupSpec]) -> list[Problem]:
    """Each alert that is tested and that no rule gives: such a test can only say that nothing fires."""
    names = sorted({rule.name for spec in specs for rule in spec.rules if rule.kind == "alert"})
    return [
        case.place.at("alertname").problem(_no_alert(case.alertname, names))
        for test in file.tests
        for case in test.cases
        if isinstance(case, AlertCase) and case.alertname not in names
    ]


def _no_alert(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    meant = f"did you mean `{close[0]}`?" if close else "check the name, and `rule_files`"
    return f"no rule in the files that are tested gives the alert `{name}`: {meant}"


def as_written(pairs: dict[str, str]) -> Labels:
    """Sorted, with empty values: a label that is expected to be empty is not one that is not there."""
    return tuple(sorted(pairs.items()))


def _notification_case(document: _NotificationTest) -> NotificationCase:
    def sets(written: Sequence[dict[str, str]] | None) -> tuple[Labels, ...] | None:
        return None if written is None else tuple(sorted(map(labels_of, written)))

    return NotificationCase(
        place=document.place,
        eval_time=document.eval_time,
        receiver=document.receiver,
        expected=tuple(
            ExpectedNotification(
                at=one.at,
                status=one.status,
                group_labels=None if one.group_labels is None else labels_of(one.group_labels),
                firing=sets(one.firing),
                resolved=sets(one.resolved),
                title=one.title,
            )
            for one in document.exp_notifications
        ),
    )


def _timestamp(text: str) -> float | None:
    """Unix seconds, whole milliseconds; None for what is neither a number nor RFC 3339."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if moment.tzinfo is None:
            return None
        seconds = moment.timestamp()
    return round(seconds * 1000) / 1000 if math.isfinite(seconds) else None
