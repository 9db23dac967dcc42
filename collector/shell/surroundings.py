"""What delivery asks of those around it: whom it tells what happens, and where it is written down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from collector.model.alert import Alert, Notification
from collector.model.errors import ChannelError
from collector.shell.sendqueue import DropReason


class Report(Protocol):
    """Whom delivery tells what happens, one function per happening. `target` is the channel's name."""

    def sent(self, target: str, notification: Notification, tries: int, seconds: float) -> None:
        """Confirmed, so many tries and seconds after it was submitted."""
        ...

    def retrying(self, target: str, notification: Notification, error: ChannelError, wait_seconds: float) -> None:
        """Not taken; the target is left alone for so long."""
        ...

    def dropped(self, target: str, notification: Notification, reason: DropReason) -> None:
        """Left its queue without being sent."""
        ...

    def unkept(self, target: str, notification: Notification) -> None:
        """Sent before it is on the disk, which does not answer."""
        ...

    def broken(self, target: str, error: ChannelError) -> None:
        """A target that took notifications, or was never asked, now refuses them for good."""
        ...

    def mended(self, target: str) -> None:
        """A broken target took one."""
        ...


class Book(Protocol):
    """Where it is written what each target was told."""

    def confirm(self, notification: Notification, now: float) -> None:
        """The target took it."""
        ...

    def release(self, notification: Notification, now: float, *, refused: bool = False) -> None:
        """Nobody tries any longer."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A channel whose target forgets what fires unless it is said again and again."""

    def hold(self, alerts: Iterable[Alert], external_url: str) -> None:
        """A former process has told it that these fire, which they still do. From within a running loop."""
        ...


class Outbox(Protocol):
    """Where what is to be sent outlives the process. Nothing here waits but `kept`."""

    def add(self, notification: Notification, now: float) -> int:
        """Keep it; gives its row."""
        ...

    def tried(self, row: int, tries: int, not_before: float, rests_until: float) -> None:
        """It was not taken, and is tried again. Unix seconds."""
        ...

    def remove(self, row: int) -> None:
        """It left its queue without being sent."""
        ...

    def sent(self, row: int, notification: Notification, tries: int, now: float) -> None:
        """Its target confirmed it."""
        ...

    def mark(self, target: str, broken_since: float | None) -> None:
        """A target refuses for good since then, or no more."""
        ...

    def flush(self) -> None:
        """Hand to the disk, as one, what was said since."""
        ...

    def is_kept(self, row: int) -> bool:
        """Whether a row is on the disk by now."""
        ...

    def read(self, row: int) -> Notification | None:
        """What stands in a row that is on the disk; None where it cannot be read."""
        ...

    async def kept(self, row: int, seconds: float) -> bool:
        """Whether a row that was handed over is on the disk, after at most so long."""
        ...
