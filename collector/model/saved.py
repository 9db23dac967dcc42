"""What must outlive the process, as plain values: parts give them to the state and take them back at the next start."""

from __future__ import annotations

import msgspec

from collector.model.alert import Alert, Notification
from collector.model.labels import Labels


class RuleName(msgspec.Struct, frozen=True, kw_only=True):
    """Which rule an alert is of: what stays the same when its file is edited elsewhere."""

    file: str
    group: str
    rule: str
    labels: Labels
    """As written in the file, templates unexpanded."""


class SavedAlert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert of a rule, with what its clocks need. Times in Unix seconds."""

    name: RuleName
    alert: Alert
    held: float = 0.0
    """Seconds that do not count for `for`."""
    gone_since: float | None = None
    """When the expression stopped to hold, while `keep_firing_for` runs."""

    @property
    def changed_at(self) -> float:
        """When it took its present state."""
        alert = self.alert
        return max(at for at in (alert.active_at, alert.fired_at, alert.resolved_at) if at is not None)


class Told(msgspec.Struct, frozen=True):
    """What a notification said: fingerprints by state, and when."""

    firing: frozenset[str]
    resolved: frozenset[str]
    at: float
    held: frozenset[str] = frozenset()
    """Told as firing before, and left out of this one as they were muted: of their end the target is still to hear."""
    is_taken: bool = True
    """False: the target refused it for good; it is not said again, but nobody has heard it."""


class SavedLog(msgspec.Struct, frozen=True):
    """What one target knows of one group, and the key of what it was handed last."""

    told: Told | None
    handed: Told | None
    key: str
    not_before: float


class Waiting(msgspec.Struct, frozen=True):
    """A group's alerts that wait for somebody to ack them, and since when, Unix seconds."""

    since: float
    tokens: frozenset[str]


class SavedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group of the routing, without its alerts."""

    receiver: str
    key: str
    route: str
    """The place of its route in the tree, as Alertmanager writes it."""
    labels: Labels
    away: bool
    more: int
    flush_at: float
    flushed: bool
    rank: int
    logs: dict[str, SavedLog]
    """By target."""
    waiting: Waiting | None = None
    reached: int = 0
    """Steps of the escalation."""
    step_of: tuple[str, str] | None = None
    """Of a step of an escalation: receiver and key of the group that escalates to it."""
    number: int = 0
    """Which of its steps it is, from 0."""
    why: str = ""


class SavedMember(msgspec.Struct, frozen=True):
    """One alert of a group; of one that left it `alert` is None."""

    token: str
    alert: Alert | None
    later: Alert | None = None
    """Its end, where that is to be told after its start."""


class SavedPast(msgspec.Struct, frozen=True):
    """An episode of a backlog, which waits for the summary of it; of one that waits no more `alert` is None."""

    token: str
    alert: Alert | None
    pages: bool = False
    """Whether it is told like something new."""


class GroupChange(msgspec.Struct, frozen=True):
    """A group as it is now, None where it is gone, and those of its alerts that changed."""

    receiver: str
    key: str
    group: SavedGroup | None
    members: list[SavedMember]


class Unsent(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that its target has not confirmed. Times in Unix seconds."""

    row: int
    notification: Notification
    tries: int
    not_before: float
    rests_until: float
    """The target asked for no other try, of whatever, before this."""
