"""A rule that wakes somebody without saying whom it concerns, or where is written what to do."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem

_OWNERS = ("team", "owner")


def unowned_page(subject: Subject) -> Iterator[Problem]:
    """Alerts of severity `page` without runbook or owner."""
    rule = subject.rule
    labels = dict(rule.written_labels)
    if rule.kind != "alert" or labels.get("severity") != "page":
        return
    if not any(name == "runbook_url" and template.text.strip() for name, template in rule.annotations):
        yield rule.place.problem(f"`{rule.name}` pages but has no runbook: add the annotation `runbook_url`")
    if not any(labels.get(name) for name in _OWNERS):
        yield rule.place.problem(f"`{rule.name}` pages but has no owner: add the label `team` or `owner`")
