"""A value in a label: labels are an alert's identity, so that each new value ends one alert and begins another."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.gotext import Template
from collector.gotext.tree import Field, Variable
from collector.model.errors import Problem


def value_in_label(subject: Subject) -> Iterator[Problem]:
    """Labels whose template prints the value or the time."""
    for name, template in subject.rule.labels:
        if _varies(template):
            message = (
                f"the label `{name}` holds a value, and each new value is another alert: put it into an annotation"
            )
            yield subject.wrong_at("labels", name, message)


def _varies(template: Template) -> bool:
    return any(
        (isinstance(part, Variable) and (part.name == "$value" or part.fields[:1] == ("Value",)))
        or (isinstance(part, Field) and part.fields[0] == "Value")
        for part in template.parts()
    ) or not template.called.isdisjoint(("now", "since", "value"))
