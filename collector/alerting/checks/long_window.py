"""A window that reaches back further than anything is kept: what lies beyond is missing without a word."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem

_HOUR = 3_600.0


def long_window(subject: Subject) -> Iterator[Problem]:
    """Windows, offsets and subqueries that reach too far."""
    reach = max(subject.rule.expr.windows, default=0.0)
    if reach > subject.ground.kept:
        kept = f"{subject.ground.kept / _HOUR:g} h"
        message = f"the expression reaches {reach / _HOUR:g} h back, and series are kept for {kept}: shorten windows"
        yield subject.wrong(f"{message} and offsets, or ask a Prometheus that scrapes Tasktrail")
