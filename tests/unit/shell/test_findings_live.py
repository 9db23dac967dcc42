"""Findings in the whole pipeline: they reach the series, fire rules, and their alerts name the tasks."""

from __future__ import annotations

import math

from collector.formats import native
from collector.model.contract import Contract, Contracts
from collector.series.expose import families, totals
from collector.shell.pipeline import Pipeline
from collector.shell.ticker import Target
from tests.unit.parts import T0, batch, event, pipeline

RULES = """
groups:
- name: g
  interval: 5s
  rules:
  - alert: Lost
    expr: sum by (task) (increase(task_lost_total[1m])) > 0
  - alert: Stuck
    expr: sum by (task) (increase(task_findings_total{finding="stuck"}[1m])) > 0
  - alert: Policy
    expr: sum by (task, policy) (increase(task_policy_violations_total[1m])) > 0
  - alert: Storm
    expr: sum by (task) (increase(task_findings_total{finding="retry_storm"}[1m])) > 0
"""
STRICT = Contract(match="a", semantics="best_effort", max_attempts=1, time_limit=20.0, objective=0.99, deadline=900.0)


def fed(*bodies: bytes) -> Pipeline:
    """A pipeline that was fed these events of a source on the sender's clock."""
    made = pipeline(RULES, contracts=Contracts((STRICT,)))
    made.axes[0].clock = "event"
    made.ingest.count(made.axes[0], native.decode, batch(bodies, is_head=True), math.inf)
    return made


def walk(made: Pipeline, seconds: int) -> dict[str, list[str]]:
    """Alert → the tasks that it names when it fires."""
    fired = {}
    for at in range(seconds):
        for changed in made.advance(Target(T0 + at, T0 + at), T0 + at):
            for alert in changed:
                if alert.state == "firing":
                    name = dict(alert.labels)["alertname"]
                    fired.setdefault(name, [one.task_id for one in alert.evidence.offenders])
    return fired


def test_findings_fire_rules_that_name_their_tasks() -> None:
    """A loss, a run beyond its limit, a try too many: each alert with its own tasks, once in the series."""
    beats = [event("heartbeat", "", T0 + at, worker="w1", task=None, queue=None) for at in range(0, 12, 2)]
    made = fed(
        *beats,
        event("started", "lost", T0 + 10, worker="w1", attempt=1),
        event("started", "long", T0 + 10, worker="w2", attempt=1),
        event("started", "often", T0 + 10, worker="w2", attempt=2),
        event("succeeded", "often", T0 + 11, worker="w2", attempt=2),
    )
    assert walk(made, 60) == {"Lost": ["lost"], "Stuck": ["long"], "Policy": ["often"]}
    assert {name: totals(made.store)["a"][name] for name in ("lost", "findings", "policy_violations")} == {
        "lost": 1,
        "findings": 1,
        "policy_violations": 1,
    }
    assert [one.values.tolist() for one in families(made.store) if one.name == "task_objective"] == [[0.99]]


def test_a_storm_is_measured_by_the_starts_that_were_counted() -> None:
    """Half of all starts are retries after one error; of another task with as many retries, one in ten is."""
    made = fed(
        *(
            event(kind, f"{task}{number}", T0 + number, task=task, attempt=1, **({"error": "E"} if error else {}))
            for number in range(50)
            for task, kind, error in (("a", "started", False), ("a", "retried", True))
        ),
        *(event("started", f"b{number}", T0 + number / 10, task="b", attempt=1) for number in range(500)),
        *(event("retried", f"b{number}", T0 + number, task="b", attempt=1, error="E") for number in range(50)),
    )
    fired = walk(made, 60)
    assert set(fired) >= {"Storm"}
    assert (totals(made.store)["a"]["findings"] > 0, totals(made.store)["b"]["findings"]) == (True, 0)
