"""Flapping: an alert that begins and ends again and again is told as that, once, until it has been quiet.

Its first start and end are told as they come. With the second start within WINDOW it flaps: one message says so, and
nothing more is said of it until nothing has changed for QUIET seconds; then what differs from what was told is told.
An end that nobody was told of, because it began again before its group spoke, is none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

WINDOW = 30 * 60.0
"""Seconds within which two starts of one alert are flapping."""
QUIET = 15 * 60.0
"""Seconds without a change after which it is over."""
MOST = 50_000
"""Alerts whose changes are remembered; beyond, the one that changed longest ago goes."""


class Changes(msgspec.Struct, frozen=True):
    """What is known of one alert's changes. Times are Unix seconds."""

    started_at: float
    """Its last start."""
    changed_at: float
    """Its last start or end."""
    starts: int = 1
    """In a row, with no more than WINDOW between them."""
    since: float | None = None
    """When it turned out to flap."""


def started(former: Changes | None, at: float) -> Changes:
    """The alert began to fire."""
    if former is None or at - former.started_at > WINDOW:
        return Changes(at, at)
    return Changes(at, at, former.starts + 1, at if former.since is None else former.since)


def ended(former: Changes, at: float) -> Changes:
    """The alert ended."""
    return msgspec.structs.replace(former, changed_at=at)


def flaps(changes: Changes, now: float) -> bool:
    """Whether it still does at an instant."""
    return changes.since is not None and now - changes.changed_at < QUIET


class Flapping:
    """The changes of all alerts, by fingerprint."""

    def __init__(self) -> None:
        self.changes: OrderedDict[str, Changes] = OrderedDict()
        """Those that changed last are last. Not to be changed."""
        self.touched: dict[str, None] | None = None
        """Alerts whose changes are others than when they were saved last; None: nobody saves them."""

    def note(self, fingerprint: str, at: float, *, is_start: bool) -> None:
        """An alert began or ended."""
        former = self.changes.get(fingerprint)
        if former is not None and former.since is not None and not flaps(former, at):
            former = None  # it was quiet: a new story
        if is_start:
            self.changes[fingerprint] = started(former, at)
        elif former is not None:
            self.changes[fingerprint] = ended(former, at)
        if fingerprint in self.changes:
            self.changes.move_to_end(fingerprint)
            if self.touched is not None:
                self.touched.pop(fingerprint, None)
                self.touched[fingerprint] = None
        if len(self.changes) > MOST:
            self.changes.popitem(last=False)

    def is_known(self, fingerprint: str) -> bool:
        """Whether it began before, of late, and does not flap yet."""
        changes = self.changes.get(fingerprint)
        return changes is not None and changes.since is None

    def restore(self, saved: Mapping[str, Changes]) -> None:
        """Go on with what a former process knew; what was restored before is older."""
        for fingerprint, changes in saved.items():
            self.changes[fingerprint] = changes
            self.changes.move_to_end(fingerprint)
        while len(self.changes) > MOST:
            self.changes.popitem(last=False)

    def of(self, fingerprint: str, now: float) -> Changes | None:
        """What is known of an alert that flaps at an instant; None of one that does not."""
        changes = self.changes.get(fingerprint)
        return changes if changes is not None and flaps(changes, now) else None

    def forget(self, now: float) -> None:
        """Let go of what is too old to matter."""
        while self.changes:
            changes = next(iter(self.changes.values()))
            if now - changes.changed_at <= WINDOW:
                return
            self.changes.popitem(last=False)
