"""What evaluating rules costs: 100 rules, each over 1,000 of 10,000 series, with the series themselves for free.

Run it by hand: `PYTHONPATH=. python tests/bench/promql.py`. Prints milliseconds of CPU for one evaluation of all 100
rules, the cost of the querier not included (it hands out ready arrays), and what a change of every selection costs.
"""

# ruff: noqa: ARG002, D101, D102, D103 - a script with a fake querier

from __future__ import annotations

import statistics
import time

import numpy as np

from collector.model.labels import labels_of
from collector.promql import compile_expr

QUEUES, TASKS, SOURCES = 10, 100, 10
RULES, ROUNDS = 100, 30


class Series:
    def __init__(self, name, kind, labels):
        self.name, self.kind, self.labels = name, kind, labels
        self.counts = np.random.default_rng(len(labels)).integers(0, 5, len(labels)).astype(float)


class Querier:
    """Every metric has 1,000 series in each of 10 queues; selections by queue are made once."""

    version = 0

    def __init__(self):
        self.sets = {}

    def select(self, name, matchers):
        key = (name, matchers[0].value)
        if key not in self.sets:
            kind = "histogram" if name.endswith("_bucket") else "counter"
            labels = tuple(
                labels_of({"task": f"task_{task}", "queue": matchers[0].value, "source": f"source_{source}"})
                for source in range(SOURCES)
                for task in range(TASKS)
            )
            self.sets[key] = (Series(name, kind, labels),)
        return self.sets[key]

    def grow(self, at):
        """One more series in every selection."""
        for key, (one,) in self.sets.items():
            fresh = labels_of({"task": f"task_{at % TASKS}", "queue": key[1], "source": f"new_{at}"})
            self.sets[key] = (Series(one.name, one.kind, (*one.labels, fresh)),)

    def shrink(self, at):
        """One series less in every selection, from the middle."""
        for key, (one,) in self.sets.items():
            middle = len(one.labels) // 2
            self.sets[key] = (Series(one.name, one.kind, (*one.labels[:middle], *one.labels[middle + 1 :])),)

    def increase(self, series, start, end):
        return series.counts

    def quantile(self, series, groups, count, q, start, end):
        return np.full(count, q)


def expressions():
    for rule in range(RULES):
        queue = f'{{queue="q{rule % QUEUES}"}}'
        ratio = (
            f"sum by (task) (rate(task_retried_total{queue}[5m])) / sum by (task) (rate(task_started_total{queue}[5m]))"
        )
        yield (
            f"sum by (task) (increase(task_failed_total{queue}[5m])) > 0",
            f"{ratio} > 0.2",
            f"histogram_quantile(0.95, sum by (task, le) (rate(task_run_seconds_bucket{queue}[5m]))) > 30",
        )[rule % 3]


def measured(rules, querier, before=None):
    costs = []
    for at in range(ROUNDS):
        if before is not None:
            before(at)
        started = time.process_time()
        for rule in rules:
            rule.evaluate(querier, 1_000_000.0 + at, 15.0)
        costs.append((time.process_time() - started) * 1000)
    return costs


def main():
    started = time.process_time()
    rules = [compile_expr(text) for text in expressions()]
    print(f"compile     {(time.process_time() - started) * 1000:8.2f} ms for {RULES} rules")
    querier = Querier()
    print(f"first       {measured(rules, querier)[0]:8.2f} ms (groups and matches are worked out)")
    steady = measured(rules, querier)
    print(f"steady      {statistics.median(steady):8.2f} ms for {RULES} rules over 1,000 series each (target 10)")
    for shape in range(3):
        costs = measured(rules[shape::3], querier)
        print(f"  {statistics.median(costs) / len(rules[shape::3]) * 1000:8.1f} us  {rules[shape].text}")
    grown = statistics.median(measured(rules, querier, querier.grow))
    print(f"new series  {grown:8.2f} ms, with a new series in every selection")
    shrunk = statistics.median(measured(rules, querier, querier.shrink))
    print(f"gone series {shrunk:8.2f} ms, with a series less in every selection")


if __name__ == "__main__":
    main()
