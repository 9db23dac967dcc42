"""Alerts by the dozen, at times that are easy to read: every test begins at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collector.model.alert import Alert
from collector.model.labels import fingerprint, labels_of


def make_alert(state: str = "firing", at: float = 0.0, end: float | None = None, **labels: str) -> Alert:
    """An alert of one task that began at `at` and, where it is resolved, ended at `end`."""
    pairs = labels_of(
        {"alertname": "DeadLetter", "task": "pay.settle", "queue": "payments", "severity": "page"} | labels
    )
    return Alert(
        labels=pairs,
        annotations=labels_of({"summary": "a dead letter"}),
        fingerprint=fingerprint(pairs),
        state=state,
        value=1.0,
        active_at=at,
        fired_at=None if state == "pending" else at,
        resolved_at=end,
    )


@pytest.fixture
def alert() -> Callable[..., Any]:
    """The maker of alerts."""
    return make_alert
