"""The last line of the demo: what flowed, what went wrong, what alerted, and how to have it for one's own workers."""

from __future__ import annotations

from collector.daemon import Daemon
from collector.model.alert import Channel, Notification
from collector.model.shown import counted
from collector.promql import compile_expr

# what is said of one, and of several; of which value
_FLOWED: tuple[tuple[str, str, str], ...] = (
    ("task done", "tasks done", "sum(task_succeeded_total)"),
    ("retry", "retries", "sum(task_retried_total)"),
    ("dead letter", "dead letters", "sum(task_dead_lettered_total)"),
    ("of them open", "of them open", "sum(dead_letters_open)"),
)
_STEP = 1.0


class Listener:
    """A channel that hands on what it is sent, and remembers which alerts were in it."""

    def __init__(self, target: Channel) -> None:
        self.name = target.name
        self.spacing_seconds = target.spacing_seconds
        self.fired: set[tuple[str, float]] = set()
        self.resolved: set[tuple[str, float]] = set()
        self._target = target

    async def send(self, notification: Notification) -> None:
        """Hand it on."""
        await self._target.send(notification)
        for alert in notification.alerts:
            episode = alert.fingerprint, alert.active_at
            self.fired.add(episode)
            if alert.state == "resolved":
                self.resolved.add(episode)

    async def close(self) -> None:
        """Close what is behind it."""
        await self._target.close()


def line(daemon: Daemon, heard: Listener) -> str:
    """What a demo showed so far."""
    read = sum(axis.totals.read for axis in daemon.axes)
    flowed = ", ".join(counted(_value(daemon, text), one, several) for one, several, text in _FLOWED)
    alerts = f"{counted(len(heard.fired), 'alert')} fired, {len(heard.resolved)} resolved"
    return f"shown: {counted(read, 'event')}, {flowed}; {alerts}. Yours: tasktrail run --source URL --notify URL"


def _value(daemon: Daemon, text: str) -> float:
    """A sum over the daemon's series as of now; 0 without any."""
    store = daemon.pipeline.store
    found = compile_expr(text).evaluate(store, store.frontier, _STEP)
    return 0.0 if isinstance(found, float | str) else sum(value for _, value in found.rows())
