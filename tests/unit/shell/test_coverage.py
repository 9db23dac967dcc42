"""What nobody has declared of the tasks that were seen: in short steps, and with the rules that can be about each."""

from __future__ import annotations

from collector.alerting.lifecycle import AlertRule
from collector.shell.coverage import STEP, coverage
from collector.trail.listing import Seen
from tests.unit.parts import FAILING, groups


def rules(*selectors: str) -> list[AlertRule]:
    """An alerting rule on each of these selectors."""
    texts = [FAILING.replace("task_failed_total", selector) for selector in selectors]
    return [AlertRule(spec, group) for text in texts for group in groups(text) for spec in group.rules]


def test_others_have_their_turn_between_tasks() -> None:
    """However many tasks there are, a step looks at a few of them."""
    seen = {f"t{number:04}": Seen(task=f"t{number:04}", queues={"q"}) for number in range(10 * STEP)}
    *steps, found = coverage(seen, None, rules("task_failed_total"))
    assert steps == [None] * 10
    assert [one.task for one in found["tasks"]] == sorted(seen)


def test_the_rules_that_can_be_about_a_task_are_counted() -> None:
    """By what their selectors ask of its name; a rule that reads nothing of tasks is about none."""
    watching = rules("task_failed_total", 'task_lost_total{task=~"pay.*"}', 'task_sent_total{task="mail"}', "up")
    seen = {task: Seen(task=task, queues=set()) for task in ("mail", "other", "pay.card")}
    (found,) = coverage(seen, None, watching)
    assert [(one.task, one.rules) for one in found["tasks"]] == [("mail", 2), ("other", 1), ("pay.card", 2)]
