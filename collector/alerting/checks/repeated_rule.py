"""A rule that is there twice: two alerts, or two recordings, of one identity overwrite each other."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject, identity
from collector.model.errors import Problem


def repeated_rule(subject: Subject) -> Iterator[Problem]:
    """A rule whose name, labels and expression another one has already."""
    first = subject.first[identity(subject.rule)]
    if first is not subject.rule:
        place = first.place
        where = f"line {place.line}" if place.file == subject.rule.place.file else f"{place.file}:{place.line}"
        message = f"`{subject.rule.name}` with the same labels and expression is on {where} already: keep one of them"
        yield subject.rule.place.problem(message)
