"""What a rule file may be used with, but should not be: warnings of `run`, findings of `check`."""

from __future__ import annotations

from collector.alerting.rulefile import RuleFile, RuleSpec
from collector.model.errors import Problem

_OWNERS = ("team", "owner")


def findings(file: RuleFile) -> list[Problem]:
    """Every rule that pages without saying whom it concerns, and where is written what to do."""
    return [
        rule.place.problem(f"`{rule.name}` pages but has {lack}")
        for group in file.groups
        for rule in group.rules
        for lack in _lacks(rule)
    ]


def _lacks(rule: RuleSpec) -> list[str]:
    labels = dict(rule.written_labels)
    if rule.kind != "alert" or labels.get("severity") != "page":
        return []
    lacks = []
    if not any(name == "runbook_url" and template.text.strip() for name, template in rule.annotations):
        lacks.append("no runbook: add the annotation `runbook_url`")
    if not any(labels.get(name) for name in _OWNERS):
        lacks.append("no owner: add the label `team` or `owner`")
    return lacks
