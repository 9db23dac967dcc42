"""Rule groups: evaluated whole at their slots, rule by rule between them. One bad rule never stops the others."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from collector.alerting.expression import Compiler, Put, Rows, rows_of
from collector.alerting.functions import Scene
from collector.alerting.lifecycle import AlertRule, Steps
from collector.alerting.overlay import Overlay
from collector.alerting.recording import RecordRule
from collector.alerting.rule import Rule
from collector.alerting.rulefile import GroupSpec
from collector.model.alert import Alert
from collector.model.errors import TasktrailError
from collector.model.labels import Labels
from collector.model.stale import STALE

DEFAULT_INTERVAL_SECONDS = 15.0
_MAX_QUERIES = 256


class Failure(msgspec.Struct, frozen=True):
    """Something that went wrong with one rule in one evaluation; the others were not touched."""

    rule: Rule
    message: str
    trace: str = ""
    """Where it was our own code that failed."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all groups of a process share."""

    compile_expr: Compiler
    """For the `query` function of templates."""
    put: Put
    external_url: str = ""
    external_labels: Mapping[str, str] = {}
    cpu: Callable[[], float] = lambda: 0.0
    """CPU seconds that were spent so far: measures what evaluations take, where anyone wants to know."""
    now: Callable[[], float] | None = None
    """The wall's time of an evaluation; without one it is the instant that is evaluated."""
    writes_alerts: bool = False
    """Whether the series `ALERTS` and `ALERTS_FOR_STATE` are written at slots: for rules and queries that read them."""


class Group:
    """One rule group at work."""

    def __init__(self, spec: GroupSpec, surroundings: Surroundings, interval: float = DEFAULT_INTERVAL_SECONDS) -> None:
        """`interval` (seconds) holds where the group sets none."""
        self.spec = spec
        self.name = spec.name
        self.interval = spec.interval or interval
        self.rules: tuple[Rule, ...] = tuple(
            AlertRule(rule, spec) if rule.kind == "alert" else RecordRule(rule, spec) for rule in spec.rules
        )
        self.evaluated_at: float | None = None
        """When it was last evaluated at a slot; the wall's time where there is one."""
        self.failures: list[Failure] = []
        """What went wrong in the last evaluation."""
        self._surroundings = surroundings
        self._queries: dict[str, Any] = {}
        self._written: dict[int, set[tuple[str, Labels]]] = {}

    def alerts(self) -> list[Alert]:
        """Copies of all alerts of all rules."""
        return [alert for rule in self.rules if isinstance(rule, AlertRule) for alert in rule.alerts()]

    def evaluate(self, querier: Any, at: float, *, blind: Callable[[Rule], bool] = lambda _: False) -> list[Alert]:
        """All rules in order at the slot `at` (Unix seconds); copies of the alerts that changed.

        An alert counts as changed where its state or blindness is another, and while it fires, where its value or
        annotations are.
        """
        return finish(self.steps(querier, at, blind=blind))

    def steps(
        self,
        querier: Any,
        at: float,
        *,
        blind: Callable[[Rule], bool] = lambda _: False,
        rules: Sequence[Rule] | None = None,
    ) -> Steps:
        """As `evaluate`, in short steps, where given only of some rules. No other of this group may come in between."""
        self.failures = []
        changed: list[Alert] = []
        for rule in self.rules if rules is None else rules:
            changed += yield from self._watched(rule, at, self._slot(rule, querier, at, is_blind=blind(rule)))
            yield
        self.evaluated_at = self._now(at)
        return changed

    def evaluate_rule(self, rule: AlertRule, querier: Any, at: float, *, is_blind: bool = False) -> list[Alert]:
        """One rule between slots: the alerts that it starts.

        The recording rules that it reads are evaluated before it, and what they give is seen by this evaluation only.
        """
        return finish(self.rule_steps(rule, querier, at, is_blind=is_blind))

    def rule_steps(self, rule: AlertRule, querier: Any, at: float, *, is_blind: bool = False) -> Steps:
        """As `evaluate_rule`, in short steps. No other evaluation of this group may come in between."""
        self.failures = []
        return (yield from self._watched(rule, at, self._between(rule, querier, at, is_blind=is_blind)))

    # when rule files are read again

    def adopt(self, former: Group) -> None:
        """Take over what rules of the same name and labels hold, as Prometheus does. Before the first evaluation."""
        twins: dict[tuple[str, str, Labels], list[Rule]] = {}
        for twin in former.rules:
            twins.setdefault(_identity(twin), []).append(twin)
        for rule in self.rules:
            if not (same := twins.get(_identity(rule))):
                continue
            twin = same.pop(0)
            if isinstance(rule, AlertRule) and isinstance(twin, AlertRule):
                rule.adopt(twin)
            self._written[id(rule)] = former._written.pop(id(twin), set())

    def retire(self, at: float, reason: str) -> list[Alert]:
        """End what no other group took over: stale markers for its series; copies of the alerts that it resolves."""
        ended: list[Alert] = []
        for rule in self.rules:
            self._write(rule, [], at)
            if isinstance(rule, AlertRule):
                ended += rule.retire(at, reason)
        return ended

    # one rule

    def _watched(self, rule: Rule, at: float, work: Steps) -> Steps:
        """Do the work, and keep how the rule is: its health, its last error, what it took.

        Whatever a rule's evaluation raises is that rule's trouble: the others, and the process, go on.
        """
        rule.complaints = []
        changed: list[Alert] = []
        trace = ""
        rule.evaluation_seconds = 0.0
        try:
            changed = yield from self._measured(rule, work)
            if not rule.complaints:
                rule.health, rule.last_error = "ok", ""
        except TasktrailError as error:
            rule.complain(str(error))
        except Exception as error:  # noqa: BLE001 our own bug, in one rule
            rule.complain(f"internal error: {error!r}")
            trace = traceback.format_exc()
            if isinstance(rule, AlertRule):  # what it had begun or ended before must still be told
                changed = [alert for alert in rule.alerts() if alert.state != "pending"]
        rule.pace.spent(rule.evaluation_seconds)
        rule.evaluated_at = self._now(at)
        self.failures += [Failure(rule, message, trace) for message in rule.complaints]
        return changed

    def _measured(self, rule: Rule, work: Steps) -> Steps:
        """The same work; what its own steps take is the rule's, not what others do in between."""
        cpu = self._surroundings.cpu
        while True:
            began = cpu()
            try:
                next(work)
            except StopIteration as end:
                changed: list[Alert] = end.value
                return changed
            finally:
                rule.evaluation_seconds += cpu() - began
            yield

    def _now(self, at: float) -> float:
        now = self._surroundings.now
        return at if now is None else now()

    def _slot(self, rule: Rule, querier: Any, at: float, *, is_blind: bool) -> Steps:
        result = self._result(rule, querier, at)
        rows = rows_of(result)
        written_at = at - self.spec.query_offset
        if isinstance(rule, RecordRule):
            series = rule.series(rows)
            self._write(rule, [(rule.name, labels, written_at, value) for labels, value in series.items()], written_at)
        if not isinstance(rule, AlertRule):
            return []
        rule.past.note(result)
        changed = yield from rule.evaluate(rows, at, self._scene(querier, at), is_blind=is_blind)
        if self._surroundings.writes_alerts:
            self._write(rule, rule.samples(written_at), written_at)
        return changed

    def _between(self, rule: AlertRule, querier: Any, at: float, *, is_blind: bool) -> Steps:
        source = querier
        if rule.recordings:
            source = Overlay(querier)
            for record in rule.recordings:
                if isinstance(record, RecordRule):
                    series = record.series(self._rows(record, source, at))
                    source.put(record.name, series, at - record.group.query_offset)
        return (yield from rule.start(self._rows(rule, source, at), at, self._scene(source, at), is_blind=is_blind))

    def _rows(self, rule: Rule, querier: Any, at: float) -> Rows:
        return rows_of(self._result(rule, querier, at))

    def _result(self, rule: Rule, querier: Any, at: float) -> Any:
        step = rule.group.interval or self.interval
        return rule.spec.expr.evaluate(querier, at - rule.group.query_offset, step)

    def _write(self, rule: Rule, samples: list[tuple[str, Labels, float, float]], at: float) -> None:
        """Write samples, and stale markers for the series that this rule wrote last time and not now."""
        put = self._surroundings.put
        now = {(name, labels) for name, labels, _, _ in samples}
        for name, labels in sorted(self._written.get(id(rule), set()) - now):
            put(name, labels, at, STALE)
        for sample in samples:
            put(*sample)
        self._written[id(rule)] = now

    def _scene(self, querier: Any, at: float) -> Scene:
        def query(text: str, instant: float) -> Rows:
            if text not in self._queries:
                if len(self._queries) >= _MAX_QUERIES:
                    self._queries.clear()
                self._queries[text] = self._surroundings.compile_expr(text)
            return rows_of(self._queries[text].evaluate(querier, instant, self.interval))

        return Scene(
            at=at,
            external_url=self._surroundings.external_url,
            external_labels=dict(self._surroundings.external_labels),
            query=query,
        )


def _identity(rule: Rule) -> tuple[str, str, Labels]:
    return rule.spec.kind, rule.name, rule.spec.written_labels


def finish(steps: Steps) -> list[Alert]:
    """Take all steps at once, and give what they give in the end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            changed: list[Alert] = end.value
            return changed


def next_slot(at: float, interval: float) -> float:
    """The first multiple of `interval` (seconds) after `at`."""
    step = round(interval * 1000)
    slot = (math.floor(at * 1000) // step + 1) * step / 1000
    return slot if slot > at else slot + step / 1000
