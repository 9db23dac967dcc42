"""A rule that wakes somebody without saying whom it concerns, or where is written what to do.

What the contract of a task says goes for its alerts: a rule need not say it where its alerts can be of such a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from collector.alerting.checks.ground import Subject
from collector.alerting.checks.result_labels import result_labels
from collector.model.contract import UNASSIGNED, Contract
from collector.model.errors import Problem
from collector.model.labels import Matcher

_OWNERS = ("team", "owner")


def unowned_page(subject: Subject) -> Iterator[Problem]:
    """Alerts of severity `page` without runbook or owner, of the rule or of a task's contract."""
    rule = subject.rule
    labels = dict(rule.written_labels)
    if rule.kind != "alert" or labels.get("severity") != "page":
        return
    contracts = _contracts(subject)
    has_runbook = any(name == "runbook_url" and template.text.strip() for name, template in rule.annotations)
    if not has_runbook and not any(one.runbook_url for one in contracts):
        yield rule.place.problem(f"`{rule.name}` pages but has no runbook: add the annotation `runbook_url`")
    has_owner = any(labels.get(name) for name in _OWNERS)
    if not has_owner and all(one.owner == UNASSIGNED for one in contracts):
        yield rule.place.problem(f"`{rule.name}` pages but has no owner: add the label `team` or `owner`")


def _contracts(subject: Subject) -> list[Contract]:
    """The contracts that alerts of the rule can get something from."""
    left = result_labels(subject.tree, subject.ground)
    if left is not None and "task" not in left | dict(subject.rule.written_labels).keys():
        return []
    of_task = ([one for one in each.matchers if one.name == "task"] for each in subject.rule.expr.selectors)
    chosen = [matchers for matchers in of_task if matchers] or [[]]
    return [one for one in subject.ground.contracts if any(all(_fits(one, of) for of in every) for every in chosen)]


def _fits(contract: Contract, chosen: Matcher) -> bool:
    """Whether a task of the contract can be one of those that a selector chose; of two patterns nobody can tell."""
    if chosen.op == "=":
        return fnmatchcase(chosen.value, contract.match)
    return contract.is_glob or chosen.matches(contract.match)
