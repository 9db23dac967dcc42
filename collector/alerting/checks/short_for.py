"""A `for` that ends before the rule is looked at again."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem


def short_for(subject: Subject) -> Iterator[Problem]:
    """A `for` that is shorter than the group's interval."""
    if 0 < subject.rule.hold < subject.interval:
        message = (
            f"`for` ({subject.rule.hold:g} s) is shorter than the group's interval ({subject.interval:g} s), at which "
            "alone it is looked at: make it a multiple of the interval, or leave it out"
        )
        yield subject.rule.place.at("for").problem(message)
