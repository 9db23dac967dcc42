"""What `check` knows around rule files: every metric that may be read, and the runbook pages that can be linked to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from collector.alerting.checks import Ground, Known
from collector.alerting.rulefile import RuleFile
from collector.config.shipped import runbooks
from collector.model.contract import Contracts
from collector.series.observe import METRICS
from collector.shell import telemetry

_TASK = ("task", "queue", "source")
_SCRAPED = ("job", "instance", "namespace", "pod", "container", "cluster")
"""What rules that were written for a scraped exporter name besides; here they are empty, but for `job`."""
_CELERY = ("name", "queue_name", "hostname", "source", *_SCRAPED)
_Kind = Literal["counter", "gauge", "histogram"]

# name → its kind, its labels, and the values of those that have no others
_NAMED: dict[str, tuple[_Kind, tuple[str, ...], Mapping[str, str]]] = {
    # what product and formats name besides the metrics that trails feed
    "task_policy_violations_total": (
        "counter",
        (*_TASK, "policy"),
        {"policy": "max_attempts not_retryable not_retried backoff"},
    ),
    "task_findings_total": (
        "counter",
        (*_TASK, "finding"),
        {"finding": "stuck never_started poison requeue_loop missed_schedule forecast retry_storm skew"},
    ),
    "dead_letters_unreviewed_age_seconds": ("gauge", _TASK, {}),
    "task_contract_info": (
        "gauge",
        (*_TASK, "semantics", "owner"),
        {"semantics": "must_complete best_effort undeclared"},
    ),
    "task_deadline_seconds": ("gauge", _TASK, {}),
    "task_review_within_seconds": ("gauge", _TASK, {}),
    "task_objective": ("gauge", _TASK, {}),
    "worker_up": ("gauge", ("class", "source"), {}),
    "worker_active": ("gauge", ("class", "source"), {}),
    "queue_length": ("gauge", (*_TASK, "state"), {"state": "ready unacked delayed scheduled retrying"}),
    "queue_oldest_age_seconds": ("gauge", _TASK, {}),
    "queue_consumers": ("gauge", _TASK, {}),
    "consumer_lag": ("gauge", (*_TASK, "group", "topic", "partition"), {}),
    "consumer_lag_seconds": ("gauge", (*_TASK, "group", "topic", "partition"), {}),
    "consumer_lag_verdicts": ("gauge", (*_TASK, "group", "topic", "verdict"), {"verdict": "stop stall rewind"}),
    "consumer_pending_idle_seconds": ("gauge", (*_TASK, "group", "topic"), {}),
    "consumer_pending_deliveries": ("gauge", (*_TASK, "group", "topic"), {}),
    "tasktrail_probe_up": ("gauge", ("source",), {}),
    "dead_letter_length": ("gauge", _TASK, {}),
    "dead_letter_oldest_age_seconds": ("gauge", _TASK, {}),
    "dead_letter_expires_seconds": ("gauge", _TASK, {}),
    # celery-exporter's
    **{
        f"celery_task_{fact}_total": ("counter", _CELERY, {})
        for fact in ("sent", "received", "started", "succeeded", "rejected", "revoked")
    },
    "celery_task_failed_total": ("counter", (*_CELERY, "exception"), {}),
    "celery_task_retried_total": ("counter", (*_CELERY, "exception"), {}),
    "celery_task_runtime": ("histogram", _CELERY, {}),
    "celery_task_queue_wait_time": ("histogram", _CELERY, {}),
    "celery_worker_up": ("gauge", ("hostname", *_SCRAPED), {}),
    "celery_worker_tasks_active": ("gauge", ("hostname", *_SCRAPED), {}),
    "celery_queue_length": ("gauge", ("queue_name", "source", *_SCRAPED), {}),
    "celery_active_consumer_count": ("gauge", ("queue_name", "source", *_SCRAPED), {}),
    "celery_active_worker_count": ("gauge", ("queue_name", *_SCRAPED), {}),
    "celery_active_process_count": ("gauge", ("queue_name", *_SCRAPED), {}),
}
_CLOSED = {"tasktrail_events": {"outcome": "accepted duplicate malformed ignored"}}
_ANY_LABELS = ("ALERTS", "ALERTS_FOR_STATE")


def ground(files: Sequence[RuleFile], labels: Iterable[str] = (), contracts: Iterable[Contracts] = ()) -> Ground:
    """The ground of rule files; `labels` are those of events that a configuration makes labels of metrics."""
    pages = frozenset(runbooks())
    return Ground(
        metrics=metrics(),
        labels=frozenset(labels),
        pages={file.path: pages | _beside(file.path) for file in files},
        contracts=tuple(one for each in contracts for one in each.declared),
    )


def metrics() -> dict[str, Known]:
    """Every metric that rules may read, apart from what they record themselves."""
    known = {name: Known() for name in _ANY_LABELS}
    for metric in METRICS:
        known |= _known(metric.name, metric.type, (*_TASK, metric.detail) if metric.by_error else _TASK, {})
    for name, (kind, _, labels) in telemetry.METRICS.items():
        counter = kind == "counter"
        known |= _known(
            f"{name}_total" if counter else name, "counter" if counter else "gauge", labels, _CLOSED.get(name, {})
        )
    for name, (kind, labels, values) in _NAMED.items():
        known |= _known(name, kind, labels, values)
    return known


def _known(name: str, kind: _Kind, labels: tuple[str, ...], values: Mapping[str, str]) -> dict[str, Known]:
    closed = {label: frozenset(words.split()) for label, words in values.items()}
    if kind != "histogram":
        return {name: Known(kind, frozenset(labels), closed)}
    return {
        f"{name}_bucket": Known("bucket", frozenset((*labels, "le"))),
        f"{name}_count": Known("counter", frozenset(labels)),
        f"{name}_sum": Known("counter", frozenset(labels)),
    }


def _beside(file: str) -> frozenset[str]:
    return frozenset(page.stem for page in (Path(file).parent / "runbooks").glob("*.md"))
