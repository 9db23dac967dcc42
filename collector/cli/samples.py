"""Sample notifications of each kind, as the real ones are made: through the real grouping."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from collector.model.alert import Alert, Evidence, Notification, Offender
from collector.model.labels import fingerprint, labels_of
from collector.routing.grouping import Grouping
from collector.routing.message import Wording


def alert(now: float) -> Alert:
    """A firing alert with evidence; says that it is a test."""
    labels = labels_of(
        {
            "alertname": "TasktrailTest",
            "severity": "info",
            "owner": "whoever runs this test",
            "task": "sample.task",
            "queue": "sample",
        }
    )
    return Alert(
        labels=labels,
        annotations=labels_of(
            {
                "summary": "This is a test: nothing is wrong",
                "runbook_url": "https://example.org/runbooks/tasktrail-test",
            }
        ),
        fingerprint=fingerprint(labels),
        state="firing",
        value=1.0,
        active_at=now,
        fired_at=now,
        evidence=Evidence(
            offenders=(
                Offender(
                    task_id="sample-1",
                    task="sample.task",
                    queue="sample",
                    state="dead_lettered",
                    error="SampleError",
                    error_message="a sample, no real failure",
                    attempts=3,
                    worker="worker-1",
                    caller="tasktrail notify test",
                    trace_id="0af7651916cd43dd8448eb211c80319c",
                    at=now,
                ),
            ),
            top_errors=(("SampleError", 1),),
        ),
    )


def notifications() -> Iterator[tuple[str, Notification]]:
    """One message of each kind: a start, an end, and the summary of what was missed."""
    now = time.time()
    grouping = Grouping(wording=Wording())
    firing = alert(now)
    ended = msgspec.structs.replace(firing, state="resolved", resolved_at=now + 60)
    grouping.insert([firing], now)
    yield from _said("firing", grouping, now)
    grouping.insert([ended], now + 60)
    yield from _said("resolved", grouping, now + 60)
    away = Grouping(wording=Wording())
    away.insert([ended], now, live=False)
    away.go_live(now)
    yield from _said("summary", away, now)


def _said(kind: str, grouping: Grouping, now: float) -> Iterator[tuple[str, Notification]]:
    for notification in grouping.due(now):
        grouping.confirm(notification, now)
        yield kind, notification
