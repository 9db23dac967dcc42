"""What waits for one target: in order, bounded, by group; what leaves, and why. Pure; knows of no clock and no channel.

Where there is no room, the oldest start whose end waits too is merged into that end; then the least urgent leaves. Of a
long queue whose items stand on the disk only the first are held whole: of the others what decides about them.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import Literal

import msgspec

from collector.model.alert import Notification
from collector.routing.message import rank

DropReason = Literal["superseded", "merged", "overflow", "expired", "refused", "no_target", "stopping", "unreadable"]
"""Said anew by its group · its end waits too · no room · not taken before its deadline · final error · nobody to send
to · shut down · the disk does not give back what it was given."""


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of every target. The n-th wait in a row is a random part of first * 2^(n-1), at most longest."""

    queue_size: int = 1_000
    """Where they are in memory alone."""
    kept_size: int = 20_000
    """Where they are on the disk: of most of them only little is in memory."""
    deadline_seconds: float = 3_600.0
    try_seconds: float = 20.0
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0


_order = attrgetter("order")


class Item:
    """One notification on its way to one target. Times by the monotonic clock."""

    __slots__ = (
        "as_kept",
        "expires_at",
        "failed_at",
        "group",
        "is_kept",
        "is_waiting",
        "is_whole",
        "made_old",
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
        self.made_old = False  # whether its text says how old it is, other than what stands in the outbox
        self.is_whole = True  # whether its alerts and texts are here, and not only in the outbox
        self.is_waiting = False  # whether it is in its queue
        # The least is the first to go when there is no room: not urgent, then ended, then old.
        self.worth = (-min(map(rank, notification.alerts[:1]), default=0), notification.status == "firing", order)

    def shorten(self) -> None:
        """Leave alerts and texts to the outbox."""
        short = msgspec.structs.replace(
            self.notification, alerts=(), text="", group_labels=(), common_labels=(), common_annotations=()
        )
        self.notification = self.as_kept = short
        self.is_whole = False


EXPIRED_AT_ONCE = 100
AT_HAND = 1_000
"""So many of a target's items are held whole, wherever they stand besides."""


class SendQueue:
    """The items of one target."""

    def __init__(self, most: int) -> None:
        self.items: list[Item] = []
        self._most = most
        self._groups: dict[tuple[str, str], int] = {}  # how many wait of each
        self._by_worth: list[tuple[tuple[int, bool, int], Item]] = []  # a heap; holds some that left
        self._behind: deque[Item] = deque()  # those that came when many waited, and are still whole
        self._soonest = math.inf  # no deadline is earlier

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
            least = told or self._least()
            self.remove(least)
            left.append((least, "merged" if told else "overflow"))
        return left

    def add(self, item: Item) -> None:
        """Put it, or put it back, in its place."""
        insort(self.items, item, key=_order)
        item.is_waiting = True
        self._groups[item.group] = self._groups.get(item.group, 0) + 1
        self._soonest = min(self._soonest, item.expires_at)
        if item.is_whole and len(self.items) > AT_HAND:
            self._behind.append(item)
        heappush(self._by_worth, (item.worth, item))
        if len(self._by_worth) > 2 * len(self.items) + AT_HAND:
            self._by_worth = [(one.worth, one) for one in self.items]
            heapify(self._by_worth)

    def shorten(self, is_kept: Callable[[int], bool]) -> None:
        """Leave to the outbox what waits far behind, as far as the disk has it. `is_kept` is asked of rows."""
        while self._behind:
            item = self._behind[0]
            if item.is_waiting and item.is_whole:
                if item.row is None or not is_kept(item.row):
                    return  # what came later is no further
                item.shorten()
            self._behind.popleft()

    def remove(self, item: Item) -> None:
        """Take it out."""
        if self.items[0] is item:
            del self.items[0]
        else:
            self.items.remove(item)
        item.is_waiting = False
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
        first = next((item for item in self.items if item.not_before <= now), None)
        if first is None or not is_failing:
            return first
        return next((item for item in self.items if item.not_before <= now and item.failed_at != taken), first)

    def expire(self, now: float) -> list[Item]:
        """Take out those whose deadline has passed; of many the first, and at the next call others."""
        if now < self._soonest:
            return []
        expired = list(islice((item for item in self.items if item.expires_at <= now), EXPIRED_AT_ONCE))
        for item in expired:
            self.remove(item)
        self._soonest = min((item.expires_at for item in self.items), default=math.inf)
        return expired

    def clear(self) -> list[Item]:
        """Take out all."""
        left, self.items = self.items, []
        self._groups.clear()
        self._by_worth.clear()
        self._behind.clear()
        return left

    def _least(self) -> Item:
        """The one of the least worth."""
        while True:
            item = heappop(self._by_worth)[1]
            if item.is_waiting:
                return item

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
            if item.worth[1]:
                starts.setdefault(item.group, item)
            elif item.group in starts:
                ended.add(item.group)
        return next((item for group, item in starts.items() if group in ended), None)
