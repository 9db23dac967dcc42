"""A text that names a label which the expression does not leave: it is always empty there."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.alerting.checks.result_labels import result_labels
from collector.alerting.checks.unknown_label import advice
from collector.gotext import Template
from collector.gotext.tree import Field, Variable
from collector.model.errors import Problem


def empty_label(subject: Subject) -> Iterator[Problem]:
    """`$labels.x` in labels and annotations where no element has an `x`."""
    left = result_labels(subject.tree, subject.ground)
    if left is None or subject.rule.kind != "alert":
        return
    for key, texts in (("labels", subject.rule.labels), ("annotations", subject.rule.annotations)):
        for name, template in texts:
            for label in dict.fromkeys(_named(template)):
                if label not in left and label != "__name__":
                    message = f"`$labels.{label}` is always empty: the expression leaves no such label; "
                    yield subject.wrong_at(key, name, message + advice(label, left))


def _named(template: Template) -> Iterator[str]:
    """The labels that a template looks up; those of samples that it queries itself are not meant."""
    for part in template.parts():
        match part:
            case Variable(name="$labels", fields=(label, *_)):
                yield label
            case Field(fields=("Labels", label, *_)) if "query" not in template.called:
                yield label
            case _:
                pass
