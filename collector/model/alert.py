"""Alerts, their evidence, and the notifications made of them: what passes from rules to routing to channels."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from collector.model.labels import Labels

AlertState: TypeAlias = Literal["pending", "firing", "resolved"]


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """One task that an alert is about. Empty text is: not known."""

    task_id: str
    task: str = ""
    queue: str = ""
    state: str = ""
    error: str = ""
    error_message: str = ""
    attempts: int = 0
    worker: str = ""
    caller: str = ""
    trace_id: str = ""
    at: float = 0.0


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Up to five offending tasks, newest first, and the commonest error classes with their counts."""

    offenders: tuple[Offender, ...] = ()
    top_errors: tuple[tuple[str, int], ...] = ()


class Alert(msgspec.Struct, kw_only=True):
    """One alert of one rule and label set, through its whole episode (pending, firing, resolved)."""

    labels: Labels
    """With `alertname`; the identity."""
    annotations: Labels
    fingerprint: str
    state: AlertState
    value: float
    active_at: float
    """When the expression became true, Unix seconds."""
    fired_at: float | None = None
    resolved_at: float | None = None
    blind: bool = False
    """Kept as it is because a source of its rule says nothing."""
    resolve_reason: str = ""
    """Why it ended, where it is not that the expression became false."""
    group: str = ""
    """Name of the rule group."""
    rule: str = ""
    """The rule's place, `file:line`."""
    evidence: Evidence | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one receiver about one group of alerts, decided and ready to be sent."""

    key: str
    """Dedup key: from receiver, group labels and alert fingerprints alone, the same on every retry and replica."""
    at: float
    receiver: str
    status: Literal["firing", "resolved"]
    group_labels: Labels
    common_labels: Labels
    common_annotations: Labels
    alerts: tuple[Alert, ...]
    title: str
    text: str
    external_url: str = ""
