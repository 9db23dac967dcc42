"""What waits for one target: in order, bounded, by group; what leaves, and why. Pure; knows of no clock and no channel.

Where there is no room, the oldest start whose end waits too is merged into that end; then the least urgent leaves.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import Literal

from collector.model.alert import Notification
from collector.routing.message import rank

DropReason = Literal["superseded", "merged", "overflow", "expired", "refused", "no_target", "stopping"]
"""Said anew by its group · its end waits too · no room · not taken before its deadline · final error · nobody to send
to · shut down."""

_order = attrgetter("order")
_worth = attrgetter("worth")


class Item:
    """One notification on its way to one target. Times by the monotonic clock."""

    __slots__ = (
        "as_kept",
        "expires_at",
        "failed_at",
        "group",
        "is_kept",
        "not_before",
        "notification",
        "order",
        "row",
        "submitted_at",
        "tries",
        "worth",
    )

    def __init__(self, notification: Notification, order: int, now: float, expires_at: float) -> None:
        self.notification = notification
        self.group = (notification.receiver, notification.group_key)
        self.order = order
        self.submitted_at = now
        self.expires_at = expires_at
        self.not_before = now
        self.tries = 0
        self.failed_at = -1  # how many its target had taken when this one failed last
        self.row: int | None = None  # where it stands in the outbox
        self.as_kept = notification  # how it stands there
        self.is_kept = False  # whether it is known to be on the disk
        # The least is the first to go when there is no room: not urgent, then ended, then old.
        self.worth = (-min(map(rank, notification.alerts[:1]), default=0), notification.status == "firing", order)


class SendQueue:
    """The items of one target."""

    def __init__(self, most: int) -> None:
        self.items: list[Item] = []
        self._most = most
        self._groups: dict[tuple[str, str], int] = {}  # how many wait of each

    def __len__(self) -> int:
        return len(self.items)

    def put(self, item: Item, *, is_only_word: bool) -> list[tuple[Item, DropReason]]:
        """Take one in; gives what left for it. `is_only_word`: it takes the place of what its group said before."""
        left: list[tuple[Item, DropReason]] = []
        if is_only_word or len(self.items) >= self._most:
            for older in self._said(item.group):
                self.remove(older)
                item.order = min(item.order, older.order)
                left.append((older, "superseded"))
        self.add(item)
        if len(self.items) > self._most:
            told = self._oldest_pair()
            least = told or min(self.items, key=_worth)
            self.remove(least)
            left.append((least, "merged" if told else "overflow"))
        return left

    def add(self, item: Item) -> None:
        """Put it, or put it back, in its place."""
        insort(self.items, item, key=_order)
        self._groups[item.group] = self._groups.get(item.group, 0) + 1

    def remove(self, item: Item) -> None:
        """Take it out."""
        self.items.remove(item)
        self._groups[item.group] -= 1
        if not self._groups[item.group]:
            del self._groups[item.group]

    def has(self, group: tuple[str, str]) -> bool:
        """Whether anything of the group waits."""
        return group in self._groups

    def next(self, now: float, taken: int, *, is_failing: bool) -> Item | None:
        """The first in order; but while the target fails, first those that it was not asked since it last took one.

        So a message that the target cannot stand does not hold up the others, and a target that is away is asked no
        more often by a long queue than by a short one. `taken`: how many it has taken.
        """
        ready = [item for item in self.items if item.not_before <= now]
        if is_failing:
            return next((item for item in ready if item.failed_at != taken), ready[0] if ready else None)
        return ready[0] if ready else None

    def expire(self, now: float) -> list[Item]:
        """Take out those whose deadline has passed."""
        expired = [item for item in self.items if item.expires_at <= now]
        for item in expired:
            self.remove(item)
        return expired

    def clear(self) -> list[Item]:
        """Take out all."""
        left, self.items = self.items, []
        self._groups.clear()
        return left

    def _said(self, group: tuple[str, str]) -> list[Item]:
        """What waits of this group. The count spares a storm of groups the look through the queue for each."""
        return [item for item in self.items if item.group == group] if group in self._groups else []

    def _oldest_pair(self) -> Item | None:
        """The oldest start whose end waits too."""
        if len(self.items) == len(self._groups):  # of each group one: there is no pair
            return None
        starts: dict[tuple[str, str], Item] = {}
        ended: set[tuple[str, str]] = set()
        for item in self.items:
            if item.notification.status == "firing":
                starts.setdefault(item.group, item)
            elif item.group in starts:
                ended.add(item.group)
        return next((item for group, item in starts.items() if group in ended), None)
