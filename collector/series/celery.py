"""celery-exporter's names for what trails feed, so that its rules and dashboards run as they are.

They have a label `source` besides, because it keeps series apart. How they are counted by host: `hosts.py`. Gauges of
queues come from probes, under both names. The exporter's gauges of workers answer nothing: what is not measured is
absent, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.model.labels import Labels, labels_of

JOB = "celery-exporter"
"""What the exporter's scrape job is called in its own rules and tests."""
UNKNOWN = "None"
"""What the exporter says for a label that it does not know."""

_COUNTERS = ("sent", "received", "started", "succeeded", "failed", "rejected", "revoked", "retried")
_SUFFIXES = ("_bucket", "_count", "_sum")
_HISTOGRAMS = {"celery_task_runtime": "task_run_seconds", "celery_task_queue_wait_time": "task_wait_seconds"}

NAMES: dict[str, str] = {
    **{f"celery_task_{fact}_total": f"task_{fact}_total" for fact in _COUNTERS},
    **{foreign + suffix: own + suffix for foreign, own in _HISTOGRAMS.items() for suffix in _SUFFIXES},
}
"""The exporter's metric -> ours, both as a selector says them."""
FOREIGN: dict[str, str] = {
    **{f"task_{fact}_total": f"celery_task_{fact}_total" for fact in _COUNTERS},
    **{own: foreign for foreign, own in _HISTOGRAMS.items()},
}
"""Our metric -> the exporter's, both without suffixes."""
PROBED = {"queue_length": "celery_queue_length", "queue_consumers": "celery_active_consumer_count"}
"""Our gauge of a queue -> the exporter's, which counts only what waits (state `ready`)."""
UNMEASURED = frozenset(
    {
        "celery_worker_up",
        "celery_worker_tasks_active",
        "celery_active_worker_count",
        "celery_active_process_count",
    }
)
"""Names that the exporter has and nothing here measures yet: they are known, and absent."""
LABELS = {"task": "name", "queue": "queue_name", "error": "exception"}
"""Our label -> the exporter's."""


def ours(name: str | None) -> str | None:
    """Our name of a metric of the exporter; any other name is its own."""
    return None if name is None else NAMES.get(name, name)


def theirs(labels: Labels, *, by_error: bool, host: str) -> Labels:
    """One of our label sets as the exporter has it."""
    own = dict(labels)
    named = ("task", "queue", "error") if by_error else ("task", "queue")
    renamed = {LABELS[name]: own.pop(name, UNKNOWN) for name in named}
    return labels_of({**own, **renamed, "hostname": host, "job": JOB})


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of an alert on the exporter's series as ours: what tasks it is about."""
    found = dict(labels)
    for name, foreign in LABELS.items():
        if foreign in found:
            value = found.pop(foreign)
            found[name] = "" if value == UNKNOWN else value
    return found
