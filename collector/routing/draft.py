"""What a group says: its alerts in, one notification out, with the keys that name it: the same anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from collector.model.alert import Alert, Notification
from collector.model.labels import Labels
from collector.routing import message
from collector.routing.group import Group
from collector.routing.message import Wording
from collector.routing.route import Route, drill_of

_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Links: TypeAlias = Callable[[str, str, float], tuple[str, str]]
"""Receiver, group key and an instant to the signed links to ack and to silence; "" where there are none."""


def no_links(_receiver: str, _group_key: str, _now: float) -> tuple[str, str]:
    """Messages without links."""
    return "", ""


def draft(group: Group, told: Sequence[Alert], now: float, wording: Wording, links: Links) -> Notification:
    """The group's notification of these alerts, given in a message's order, for no target yet."""
    ack_url = silence_url = ""
    if group.away:
        title, text = message.compose_away(told, group.more, wording)
    else:
        title, text = message.compose(told, wording)
        if told[0].state == "firing":
            ack_url, silence_url = links(group.route.receiver, group.key, now)
            text = _with_links(text, ack_url, silence_url)
    if group.why and told[0].state == "firing":
        title, text = f"[ESCALATED] {title}", f"escalated: {group.why}\n{text}"
    if drill_of(told[0].labels):
        title, text = f"[DRILL] {title}", f"This is a drill: nothing is broken, and nothing need be done.\n{text}"
    return Notification(
        key=dedup_key(group.route.receiver, group.labels, told),
        at=now,
        receiver=group.route.receiver,
        status="firing" if told[0].state == "firing" else "resolved",
        group_labels=group.labels,
        common_labels=message.common(alert.labels for alert in told),
        common_annotations=message.common(alert.annotations for alert in told),
        alerts=tuple(told),
        title=title,
        text=text,
        external_url=wording.external_url,
        group_key=group.key,
        ack_url=ack_url,
        silence_url=silence_url,
    )


def _with_links(text: str, ack_url: str, silence_url: str) -> str:
    """After the two lines of owner and runbook, where no cut reaches them."""
    if not ack_url:
        return text
    lines = text.split("\n")
    return "\n".join([*lines[:2], f"ack: {ack_url}", f"silence: {silence_url}", *lines[2:]])


def group_key(route: Route, labels: Labels) -> str:
    """The group's name as Alertmanager writes it: `{}:{alertname="DeadLetter", queue="payments"}`."""
    pairs = ", ".join(f'{name}="{value.translate(_QUOTED)}"' for name, value in labels)
    return f"{route.key}:{{{pairs}}}"


def dedup_key(receiver: str, labels: Labels, alerts: Iterable[Alert]) -> str:
    """32 hex digits over receiver, group labels, and each alert's fingerprint, state and start.

    No host and no chance in it: two daemons on one broker, and every retry, give the same. A reminder after
    repeat_interval has the key of what it repeats.
    """
    lines = sorted(f"{alert.fingerprint} {alert.state} {alert.active_at:.3f}" for alert in alerts)
    text = "\n".join((receiver, *(f"{name}={value}" for name, value in labels), "", *lines))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
