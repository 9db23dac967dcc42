"""Notices about delivery itself: what the other targets are told when one of them will not take notifications."""

from __future__ import annotations

import msgspec

from collector.model.alert import Alert, Notification
from collector.model.labels import fingerprint, labels_of
from collector.routing.grouping import dedup_key
from collector.routing.message import Wording, compose

RECEIVER = "tasktrail"
"""Named as receiver in notices: they go to targets directly, past the routes."""


def broken_target(target: str, error: str, since: float, now: float, *, is_mended: bool = False) -> Notification:
    """Says that `target` refuses notifications since `since`, or that it takes them again. Unix seconds."""
    labels = labels_of(
        {"alertname": "NotificationTargetBroken", "target": target, "severity": "page", "owner": "tasktrail"}
    )
    words = {
        "summary": f"{target} refuses notifications",
        "description": f"{error}. Each further notification is tried once; what is refused is not sent again.",
    }
    alert = Alert(
        labels=labels,
        annotations=labels_of(words),
        fingerprint=fingerprint(labels),
        state="resolved" if is_mended else "firing",
        value=1.0,
        active_at=since,
        fired_at=since,
        resolved_at=now if is_mended else None,
    )
    title, text = compose([alert], Wording())
    return Notification(
        key=dedup_key(RECEIVER, labels, [alert]),
        at=now,
        receiver=RECEIVER,
        status="resolved" if is_mended else "firing",
        group_labels=labels,
        common_labels=labels,
        common_annotations=alert.annotations,
        alerts=(alert,),
        title=title,
        text=text,
        group_key=f"{RECEIVER}:{target}",
    )


def aged(notification: Notification, now: float) -> Notification:
    """The same, which a former process decided and did not send: its text begins with how old it is."""
    minutes, seconds = divmod(max(0, round(now - notification.at)), 60)
    hours, rest = divmod(minutes, 60)
    age = f"{hours} h {rest} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    text = f"(decided {age} ago, sent after a restart)\n{notification.text}"
    return msgspec.structs.replace(notification, text=text)
