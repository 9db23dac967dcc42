"""Alerts, their evidence, and the notifications made of them: what passes from rules to routing to channels."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

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
    arguments: str = ""
    """What it was called with, where a configuration allows that to be shown."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one error class, worker or label among all, now and in as long a time before."""

    what: str
    count: int
    of: int
    count_before: int
    of_before: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Up to five offending tasks, newest first, and the commonest error classes with their counts."""

    offenders: tuple[Offender, ...] = ()
    top_errors: tuple[tuple[str, int], ...] = ()
    workers: tuple[tuple[str, int], ...] = ()
    """Of the latest tasks that the alert is about, how many ran on each worker; the commonest first."""
    queues: tuple[tuple[str, int], ...] = ()
    callers: tuple[tuple[str, int], ...] = ()
    changed: tuple[Share, ...] = ()
    """What has a larger share than in the time before."""
    slots: tuple[float, ...] = ()
    """Events per slot up to the instant at which this was put together, of the first counter that the rule reads."""
    slot_seconds: float = 0.0
    slots_of: str = ""
    """The counter's name."""
    values: tuple[float, ...] = ()
    """The alert's own value at the last slots of its rule and now, as far as they are known."""
    open_dead_letters: int | None = None
    """Still open, where the alert is about dead letters."""
    fired_24h: int = 0
    """How often it fired within a day, this time included."""


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
    lowest: float | None = None
    """The least value of this episode so far; None: the value was always the same."""
    highest: float | None = None
    fired_at: float | None = None
    resolved_at: float | None = None
    blind: bool = False
    """Kept as it is because a source of its rule says nothing."""
    stands_for_many: bool = False
    """Once in this episode it was all that was new over its group's limit."""
    resolve_reason: str = ""
    """Why it ended, where it is not that the expression became false."""
    group: str = ""
    """Name of the rule group."""
    rule: str = ""
    """The rule's place, `file:line`."""
    evidence: Evidence | None = None
    generator_url: str = ""
    """Where an alert from outside was made; "" for ours."""
    flapping: bool = False
    """Told as one that begins and ends again and again: of its next changes nobody hears."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one receiver about one group of alerts, decided and ready to be sent."""

    key: str
    """Dedup key: from receiver, group labels and the alerts' fingerprints, states and starts alone, so that it is the
    same on every retry and replica."""
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
    group_key: str = ""
    """The group that speaks, as Alertmanager writes it: `{}:{alertname="DeadLetter"}`. `key` varies, it stays."""
    target: str = ""
    """Which of the receiver's targets this copy is for; "" where the receiver has none."""
    ack_url: str = ""
    """Signed links for people, which `text` holds too; "" where there is no external URL to build them on."""
    silence_url: str = ""
    words: dict[str, Any] | None = None
    """What the target's author has it say, by option of the target; None: title and text. Made where it is sent."""

    def count(self, state: AlertState) -> int:
        """How many of its alerts are in a state."""
        return sum(alert.state == state for alert in self.alerts)

    def listed(self) -> dict[str, Any]:
        """As plain data for JSON: what was said to whom, the alerts by their fingerprints."""
        return {
            "at": self.at,
            "receiver": self.receiver,
            "status": self.status,
            "group_labels": dict(self.group_labels),
            "alerts": [alert.fingerprint for alert in self.alerts],
            "title": self.title,
            "text": self.text,
        }


class Channel(Protocol):
    """One target that notifications are sent to. Built with its own frozen options; keeps no queue, retries nothing."""

    @property
    def name(self) -> str:
        """Names the target in logs and metrics; never holds a secret."""
        ...

    @property
    def spacing_seconds(self) -> float:
        """The least time between the starts of two sends."""
        ...

    async def send(self, notification: Notification) -> None:
        """Return when the target has confirmed the notification. Raises ChannelError when it has not."""
        ...

    async def close(self) -> None:
        """Give back connections. A channel that was closed is not used again."""
        ...
