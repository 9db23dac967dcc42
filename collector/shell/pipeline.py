"""All synchronous parts wired together: what `run`, `replay`, `demo` and `bench` drive, each with its own hands.

Takes batches (`ingest.count`) and the instant that is complete (`advance`); gives notifications. The order of the parts
is the order of the data. No asyncio, no clock: `now` is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from collector.alerting.checks import Ground, Known
from collector.alerting.checks.result_labels import kept_labels
from collector.alerting.dependencies import connect
from collector.alerting.expression import Selector
from collector.alerting.group import Group, Surroundings
from collector.alerting.lifecycle import AlertRule
from collector.alerting.rule import Rule
from collector.alerting.rulefile import GroupSpec
from collector.model.alert import Alert, Notification
from collector.model.contract import Contracts
from collector.model.labels import Labels, labels_of
from collector.model.saved import SavedPast
from collector.promql import compile_expr
from collector.promql.syntax import parse
from collector.routing.desk import Desk
from collector.routing.group import Target as Receiver
from collector.routing.keeping import Keep
from collector.routing.message import Wording
from collector.routing.routefile import Routing
from collector.series import celery
from collector.series.declared import Declared
from collector.series.fleet import Fleet
from collector.series.observe import METRICS
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.casebook import Casebook
from collector.shell.ingest import Ingest
from collector.shell.probing import Unseen
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target, Ticker
from collector.shell.undertaker import Undertaker
from collector.trail.arguments import Arguments
from collector.trail.keep import Bounds
from collector.trail.rows import OVERFLOW, Errors, Rows
from collector.trail.stitcher import Stitcher

PAST_SECONDS = 30.0
"""What was decided for an instant so long ago is told as the past, not as news."""

SHORTEST_EVIDENCE = 60.0
"""Evidence is looked for at least so far back, seconds: a gauge's rule has no window."""

PAGING_METRICS = frozenset({"task_dead_lettered_total", "dead_letters_open", "task_lost_total", "task_overdue_total"})
"""Alerts of rules that read these page like new ones, also when the daemon was away."""

# metric name → the facts or durations that feed it: what evidence is looked up by
FED_BY: dict[str, tuple[str, ...]] = {metric.name: metric.feeds for metric in METRICS}
SHOWN_BY = {
    "dead_up": "dead_lettered",
    "dead_down": "dead_lettered",
    "flight_down": "flight_up",
    "late_up": "overdue",
    "late_down": "overdue",
}
"""Facts of gauges → the fact whose tasks are shown for them."""
SUFFIXES = ("_bucket", "_count", "_sum")
ROW_LABELS = ("task", "queue", "source")
_FED = Known(labels=frozenset(ROW_LABELS))
_GROUND = Ground(metrics={name + suffix: _FED for name in FED_BY for suffix in ("", *SUFFIXES)})

TOLD_AT_ONCE = 50
"""Alerts that are looked up and grouped in one step of the loop."""

REMOVED = "the rule was taken out of the rule files"

LONGEST_LAG = 10.0
"""A source that lags by more blinds the rules that read it, seconds."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is bounded in memory, and how long disorder is waited for."""

    bounds: Bounds = msgspec.field(default_factory=Bounds)
    grace: float = 5.0
    rows: int = 10_000
    series: int = 100_000
    celery_exporter: bool = False
    """Whether celery-exporter's names are counted from the beginning, and shown on /metrics."""
    idle_seconds: float = 90_000.0
    deploy_labels: tuple[str, ...] = ()
    """Keys of events' labels whose shares are compared when an alert fires."""
    show_arguments: bool = False
    """Whether timelines and evidence say what tasks were called with."""


class Witness(msgspec.Struct, frozen=True):
    """What the evidence of an alerting rule's alerts is looked up by, and where it is kept."""

    rule: AlertRule
    facts: tuple[str, ...]
    metrics: tuple[str, ...]
    window: float
    pages: bool
    is_celery: bool
    """Whether it reads celery-exporter's names, and its alerts have that exporter's labels."""
    apart: frozenset[str]
    """The ROW_LABELS that it leaves as they are: an alert without one of them is about what has none."""

    def about(self, alert: Alert) -> dict[str, str]:
        """What an alert's labels say of the tasks that it is about; one over the group's limit is about all."""
        known = {} if alert.stands_for_many else dict.fromkeys(self.apart, "")
        return known | (celery.own_labels(dict(alert.labels)) if self.is_celery else dict(alert.labels))


class Pipeline:
    """Sources' events in, notifications out."""

    def __init__(  # noqa: PLR0913  the surroundings of the whole
        self,
        limits: Limits,
        specs: Sequence[GroupSpec],
        *,
        telemetry: Telemetry,
        routing: Routing | None = None,
        receivers: Mapping[str, Sequence[Receiver]] | None = None,
        wording: Wording | None = None,
        external_labels: Mapping[str, str] | None = None,
        cpu: Callable[[], float] = lambda: 0.0,
        keep: Keep | None = None,
        contracts: Contracts | None = None,
    ) -> None:
        self.grace = limits.grace
        self.telemetry = telemetry
        self.axes: list[Axis] = []
        self.unseen = Unseen()
        self.rows = Rows(limits.rows)
        self.errors = Errors()
        self.stitcher = Stitcher(self.rows, self.errors, limits.bounds, limits.grace)
        self.stitcher.parts.keep.arguments = Arguments() if limits.show_arguments else None
        self.store = Store(METRICS, self.rows, self.errors, cap=limits.series, idle_seconds=limits.idle_seconds)
        if limits.celery_exporter:
            self.store.count_by_host()
            self.store.hosts.is_exposed = True
        self.casebook = Casebook(self.store, self.stitcher.reader)
        self.ingest = Ingest(self.stitcher, self.store, telemetry, limits.deploy_labels)
        self.undertaker = Undertaker(self.stitcher, self.store, lambda: self.grouping.dressing.contracts)
        self.ingest.undertaker = self.undertaker
        self.stitcher.findings.holes.is_known = self._knows
        self.stitcher.findings.storms.starts = self._starts
        self.declared = Declared(self.store, self.rows)
        self.fleet = Fleet(self.store, self.stitcher.findings.crew.seen, self._knows)
        self.ticker = Ticker(self.store, self.stitcher, self._decide, self.is_blind, reads_sources, telemetry)
        self.wording = wording or Wording()
        self.desk = Desk(routing, receivers, self.wording, keep=keep, say=lambda line: telemetry.said("%s", line))
        self.grouping = self.desk.grouping
        self.grouping.dressing.newest = self._newest
        self._external_labels = external_labels or {}
        self._cpu = cpu
        self._witnesses: dict[str, Witness] = {}
        self._was_past = False
        self._until = Target(0.0)
        self._now = 0.0
        self.promise(contracts)
        self.use(specs)

    def promise(self, contracts: Contracts | None) -> None:
        """Hold the tasks to these contracts from now on; None: nothing is declared.

        A deadline holds for what is sent from then on, an owner for what begins to fire.
        """
        self.stitcher.promises.use(contracts)
        self.stitcher.findings.use(contracts)
        self.stitcher.sieve.use(contracts)
        self.ingest.keyed.use(contracts)
        self.declared.use(contracts)
        self.grouping.dressing.contracts = contracts

    def _decide(self, at: float) -> bool:
        """Let trails decide what was waiting for `at`, and write what is declared. True while there is more to do."""
        at_sample = round(at, 3)  # samples are of whole milliseconds, as instants are
        self.declared.write(at_sample)
        self.undertaker.write(at_sample)
        more = self.ingest.expire(at)
        self.fleet.write(at_sample, self.stitcher.findings.crew.version)
        return more

    def use(self, specs: Sequence[GroupSpec]) -> None:
        """Evaluate these rule groups from now on. Rules that were there before keep their alerts; those of others end.

        Not while `advance` is under way.
        """
        surroundings = Surroundings(
            compile_expr=compile_expr,
            put=self.store.put,
            external_url=self.wording.external_url,
            external_labels=self._external_labels,
            cpu=self._cpu,
            now=lambda: self._now,
        )
        groups = [Group(spec, surroundings) for spec in specs]
        rules = [rule for group in groups for rule in group.rules]
        connect(rules)
        self._witnesses = {rule.place: _witness(rule) for rule in rules if isinstance(rule, AlertRule)}
        self.expect([selector for rule in rules for selector in rule.selectors])
        former = {(group.spec.file, group.name): group for group in self.ticker.groups}
        for group in groups:
            if twin := former.get((group.spec.file, group.name)):
                group.adopt(twin)
        for group in former.values():
            for alert in group.retire(self.store.frontier, REMOVED):
                self.turned(alert)
                self.grouping.insert([alert], self._now)
        self.ticker.use(groups)

    def expect(self, selectors: Iterable[Selector]) -> None:
        """Let series exist that rules name in full, so that they begin with 0."""
        for selector in selectors:
            fixed = {matcher.name: matcher.value for matcher in selector.matchers if matcher.op == "="}
            if selector.name and {"task", "queue"} <= fixed.keys():
                self.store.expect(selector.name, labels_of(fixed))

    def alerts(self) -> list[Alert]:
        """Pending and firing alerts, and those that resolved in the last 15 minutes, with their evidence."""
        return [alert for group in self.ticker.groups for alert in group.alerts()]

    def advance(
        self, until: Target, clock: float | None = None, before: Callable[[float], None] = lambda _: None
    ) -> Iterator[list[Alert]]:
        """Walk to an instant, in short steps; each gives alerts that changed, which are on their way to the groups.

        `clock` is the wall's time; without one now is always the instant that is evaluated, and nothing is the past.
        `before` is told now before the groups learn of changes: what was ripe earlier knew nothing of them.
        """
        self.ingest.observe()
        self._until, self._now = until, until.at if clock is None else clock
        for changed in self.ticker.walk(until, clock):
            now = self._now = self.store.frontier if clock is None else clock
            is_past = False
            if not self.ticker.is_apart:
                is_past = now - self.store.frontier > PAST_SECONDS
                if self._was_past and not is_past:
                    self.grouping.go_live(now)
                self._was_past = is_past
            if changed:
                before(now)
            for start in range(0, len(changed) or 1, TOLD_AT_ONCE):
                part = changed[start : start + TOLD_AT_ONCE]
                for alert in part:
                    self._told(alert, now, is_live=not is_past)
                yield part

    def resume_past(self, saved: Sequence[SavedPast]) -> None:
        """Go on along a backlog that a former process did not read to its end."""
        self.grouping.restore_past(saved)
        self._was_past = self._was_past or bool(saved)

    def notifications(self, now: float) -> list[Notification]:
        """What is ripe to be said, or the first of it: `grouping.next_due` tells whether there is more."""
        return self.grouping.due(now, TOLD_AT_ONCE)

    def _told(self, alert: Alert, now: float, *, is_live: bool) -> None:
        if alert.state == "pending":
            return
        witness = self._witnesses[alert.rule]
        if self.ticker.instant in {alert.fired_at, alert.resolved_at}:
            self.turned(alert)
            self._look(alert, witness)
        self.grouping.insert([alert], now, live=is_live, pages=witness.pages)

    def turned(self, alert: Alert) -> None:
        """Say that an alert began to fire or ended, with the labels that it is about to be told with."""
        self.telemetry.alert_turned(alert.state, self.grouping.dressing.labels(alert))

    def _newest(self, alert: Alert, own: Labels) -> Alert | None:
        """A firing alert, by its rule's labels, in the words and with the evidence of now; None where it has them."""
        witness = self._witnesses.get(alert.rule)
        if witness is None or self.ticker.instant == alert.fired_at:
            return None
        newest = witness.rule.newest(own)
        if newest is None or newest.active_at != alert.active_at:
            return None
        self._look(newest, witness)
        return newest

    def _look(self, alert: Alert, witness: Witness) -> None:
        """Put together what the alert is about, as it is now."""
        since = alert.active_at - max(witness.window, SHORTEST_EVIDENCE)
        rows = matching_rows(self.rows, witness.about(alert))
        alert.evidence = self.casebook.evidence(
            alert, rows, witness.facts, witness.metrics, since, self.ticker.instant, witness.rule.went
        )
        witness.rule.show(alert.labels, alert.evidence)

    def is_blind(self, rule: Rule) -> bool:
        """Whether a source that the rule reads cannot be believed at the instant that is evaluated."""
        patience = min(LONGEST_LAG, min(rule.windows, default=2 * LONGEST_LAG) / 2)
        silent = [axis for axis in self.axes if not self._is_seen(axis, patience)]
        is_silent = any(_reads(selector, axis.name) for axis in silent for selector in rule.inputs)
        return is_silent or any(map(self.unseen.hides, rule.inputs))

    def queues(self, source: str) -> list[str]:
        """The queues of a source that events have named."""
        named = (self.rows.names(row) for row in range(len(self.rows)))
        return sorted({queue for _, queue, of in named if of == source and queue not in {"", OVERFLOW}})

    def _knows(self, source: str) -> bool:
        """Whether a source has told all up to the instant that is evaluated; one that is no more never will."""
        return all(self._is_seen(axis, LONGEST_LAG) for axis in self.axes if axis.name == source)

    def _starts(self, row: int, since: float, until: float) -> float:
        """How many starts a row had in a time."""
        series = self.store.of_rows("task_started_total", [row])
        return 0.0 if series is None else float(self.store.increase(series, since, until).sum())

    def _is_seen(self, axis: Axis, patience: float) -> bool:
        """Live, a source must be up and not lag; along a backlog, it must have been read past the instant."""
        if self._until.is_live:
            return axis.is_up and axis.lag_seconds(self._now) <= patience
        return axis.is_up or axis.is_read_past(self.store.frontier)


def matching_rows(rows: Rows, labels: Mapping[str, str]) -> list[int]:
    """The rows that an alert with these labels can be about: a label that is not there stands for all."""
    wanted = tuple(map(labels.get, ROW_LABELS))
    return [
        row
        for row in (range(len(rows)) if wanted[0] is None else rows.of_task(wanted[0]))
        if all(value is None or value == name for value, name in zip(wanted, rows.names(row), strict=True))
    ]


def metric_of(name: str | None) -> str | None:
    """The event-fed metric behind a selector's name, or None where it reads something else."""
    name = celery.ours(name)
    if name is None or name in FED_BY:
        return name
    return next((base for suffix in SUFFIXES if (base := name.removesuffix(suffix)) != name and base in FED_BY), None)


def reads_sources(rule: Rule) -> bool:
    """Whether anything that sources deliver can change a rule's result, itself or through what is recorded of it."""
    return any(selector.name is None or metric_of(selector.name) is not None for selector in rule.inputs)


def _witness(rule: AlertRule) -> Witness:
    kept = kept_labels(parse(rule.spec.expr.text), _GROUND) - {name for name, _ in rule.spec.labels}
    names = [metric for selector in rule.inputs if (metric := metric_of(selector.name))]
    facts = tuple(dict.fromkeys(fact for selector in rule.inputs for fact in _facts(selector)))
    return Witness(
        rule,
        facts,
        tuple(dict.fromkeys(names)),
        max(rule.windows, default=0.0),
        pages=not PAGING_METRICS.isdisjoint(names),
        is_celery=any(selector.name in celery.NAMES for selector in rule.inputs),
        apart=kept.intersection(ROW_LABELS),
    )


def _facts(selector: Selector) -> list[str]:
    """The facts that feed what a selector reads; of findings only the kind that it asks for, as `findings:stuck`."""
    name = metric_of(selector.name)
    kinds = [m.value for m in selector.matchers if m.op == "=" and m.name in {"finding", "policy"}]
    facts = [SHOWN_BY.get(fact, fact) for fact in FED_BY[name]] if name else []
    return [f"{fact}:{kinds[0]}" if kinds and fact in {"findings", "policy_violations"} else fact for fact in facts]


def _reads(selector: Selector, source: str) -> bool:
    """Whether a selector can match an event-fed series of a source."""
    if selector.name is not None and metric_of(selector.name) is None:
        return False
    return all(matcher.matches(source) for matcher in selector.matchers if matcher.name == "source")
