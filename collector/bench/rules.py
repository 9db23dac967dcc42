"""What evaluating rules costs, and how that grows: real rules on a real store in which events go on.

Each rule reads the series of one queue in ten, over 5 minutes; it is evaluated as at a slot, alerts and all.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator

import numpy as np

from collector.alerting.group import Group, Surroundings
from collector.alerting.rulefile import load
from collector.promql import compile_expr
from collector.series.observe import METRICS
from collector.series.store import Store
from collector.trail.rows import Errors, Rows
from collector.trail.transitions import FACT_CODE, MEASURES, STRIDE

QUEUES = 10
STARTED_AT = 1_790_000_000.0
FILLED_SECONDS = 330
"""Long enough for a window of 5 minutes to be full, and to lose as much as it gains."""
ROUNDS = 20
EVENTS = 2_000
"""Facts of each kind between two evaluations."""

_SELECT = '{queue="q%d"}[5m]'
COUNTS = "sum by (task) (increase(task_started_total@)) > 1e6"
RATIOS = "sum by (task) (rate(task_received_total@)) / sum by (task) (rate(task_started_total@)) > 1e6"
QUANTILES = "histogram_quantile(0.95, sum by (task, le) (rate(task_run_seconds_bucket@))) > 1e6"


class Busy:
    """A store with so many series of each metric, in which events go on."""

    def __init__(self, series: int) -> None:
        rows = Rows(cap=2 * series)
        self.store = Store(METRICS, rows, Errors(), cap=10 * series)
        self.at = STARTED_AT
        numbers = (rows.row(f"task{n // QUEUES}", f"q{n % QUEUES}", "s") for n in range(series))
        self._rows = np.fromiter(numbers, np.int64, series)
        self._chance = np.random.default_rng(1)
        self._happen(self._rows)
        for _ in range(FILLED_SECONDS):
            self.go_on(1.0, EVENTS // 10)

    def go_on(self, seconds: float, events: int) -> None:
        """So many facts of each kind, and the frontier behind them."""
        self._happen(self._chance.choice(self._rows, events), seconds)

    def _happen(self, rows: np.typing.NDArray[np.int64], seconds: float = 1.0) -> None:
        ats = self.at + np.sort(self._chance.random(len(rows))) * seconds
        for fact in ("received", "started"):
            self.store.count(rows * STRIDE + FACT_CODE[fact], ats)
        durations = self._chance.lognormal(0.0, 1.0, len(rows))
        self.store.measure(rows * len(MEASURES) + MEASURES.index("run"), durations, ats)
        self.at += seconds
        self.store.advance(self.at)


def evaluation(busy: Busy, expr: str, rules: int) -> float:
    """CPU seconds of one evaluation of so many rules: the median over slots, 15 s and some thousand events apart."""
    text = "groups:\n- name: bench\n  rules:\n" + "".join(
        f"  - alert: A{number}\n    expr: '{expr.replace('@', _SELECT % (number % QUEUES))}'\n"
        for number in range(rules)
    )
    (spec,) = load("bench.yaml", text, compile_expr).groups
    group = Group(spec, Surroundings(compile_expr=compile_expr, put=busy.store.put))
    for rule in group.rules:
        for selector in rule.selectors:
            busy.store.keep(selector.reach, selector.name)
    gc.collect()
    costs: list[float] = []
    for number in range(ROUNDS):
        busy.go_on(15.0, EVENTS)
        began = time.process_time()
        group.evaluate(busy.store, busy.at)
        if number >= ROUNDS // 4:  # the first evaluations work out what is grouped with what
            costs.append(time.process_time() - began)
    assert not any(rule.last_error for rule in group.rules), group.rules[0].last_error  # noqa: S101 it would be cheap
    return statistics.median(costs)


def report() -> Iterator[str]:
    """The figures, as lines."""
    rules, series = 100, 10_000
    busy, small = Busy(series), Busy(series // 10)
    counts = evaluation(busy, COUNTS, rules)
    yield (
        f"{rules} rules, each reading {series // QUEUES:,} of {series:,} series with 5 m windows: "
        f"one evaluation of all: {counts * 1e3:.1f} ms of CPU"
    )
    ratios, quantiles = (evaluation(busy, expr, rules) for expr in (RATIOS, QUANTILES))
    yield f"  as ratios of two such windows: {ratios * 1e3:.1f} ms; as quantiles: {quantiles * 1e3:.1f} ms"
    few, short = evaluation(busy, COUNTS, rules // 10), evaluation(small, COUNTS, rules)
    yield f"  10x the rules: {counts / few:.1f}x the time; 10x the series: {counts / short:.1f}x"
