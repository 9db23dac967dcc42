"""What is said of tasks that nobody declared."""

from __future__ import annotations

from collector.model.contract import Contract, Contracts
from collector.shell.coverage import STEP, Coverage, coverage
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.trail.listing import Seen
from tests.unit.parts import groups

RULES = """
groups:
- name: g
  rules:
  - {alert: Any, expr: 'increase(task_failed_total{queue="q"}[1m]) > 0'}
  - {alert: One, expr: 'increase(task_failed_total{task="t7"}[1m]) > 0'}
  - {alert: Two, expr: 'tasks_in_flight{task=~"t1.*",task!="t12"} > 9 or tasks_overdue{task="t7"} > 0'}
  - {alert: Rest, expr: 'increase(task_failed_total{task="t8"}[1m]) / sum(increase(task_sent_total[1m])) > 0'}
  - {alert: Other, expr: 'tasktrail_source_up == 0'}
  - {record: r, expr: 'task_failed_total'}
"""


def test_every_task_is_looked_at_in_short_steps() -> None:
    """Each is told by how many alerting rules it is watched, and nobody waits until all of thousands are."""
    made = Pipeline(Limits(), groups(RULES), telemetry=Telemetry())
    rules = [rule for group in made.ticker.groups for rule in group.rules]
    seen = {f"t{number}": Seen(task=f"t{number}", queues={"q"}) for number in range(3 * STEP)}
    declared = Contracts([Contract(match="t7", semantics="best_effort", owner="o")])
    *steps, last = coverage(seen, declared, rules)
    assert steps == [None] * 3
    assert isinstance(last, Coverage)
    counts = {row.task: row.rules for row in last.tasks}
    assert [counts[task] for task in ("t0", "t7", "t8", "t12", "t13")] == [2, 4, 2, 2, 3]
    assert [row.task for row in last.tasks] == sorted(seen)
    assert last.draft.count("- match:") == 3 * STEP - 1
