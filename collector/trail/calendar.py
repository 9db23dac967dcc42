"""The ids of one home by when their trails began: what a list walks, newest first, a short while at a time.

An id is noted once, under the quarter of a second in which its trail was born, which never changes: so a place in a
list holds while trails come, go and change. Ids whose trails have left are taken out later, some at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from collector.trail.trail import BITS, M_IRREGULAR, M_SUCCEEDED, Trail, is_sent_after, may_be

QUARTERS = 4
"""In a second."""
_SLACK = 4_096
"""Ids that may be noted in vain, beside as many as are not."""
_SWEPT = 5_000
"""Ids that are looked at in one step."""
_task_id = attrgetter("task_id")


class Quarter(msgspec.Struct):
    """What began in a quarter of a second."""

    ids: list[str] = []
    states: int = BITS["succeeded"]
    """What those of them that are over may be, as `may_be` has it."""


def quarter_of(at: float) -> int:
    """The number of the quarter that an instant lies in."""
    return int(at * QUARTERS)


class Calendar:
    """When the trails of one home began."""

    def __init__(self) -> None:
        self._quarters: dict[int, Quarter] = {}
        self._numbers: list[int] = []
        """Of the quarters; in order once `_in_order` was asked for them."""
        self._is_in_order = True
        self._noted = 0
        self._swept = -1
        """The quarter that was swept last, or is being swept."""
        self._place = -1
        """Up to where that was done; -1: to its end."""

    def welcome(self, trails: Sequence[Trail], ats: Sequence[float]) -> None:
        """The new trails of a batch, and its axis times. There may be others among them, which are noted already."""
        self._noted += len(trails)
        number = quarter_of(min(ats))
        if number == quarter_of(max(ats)):
            self._quarter(number).ids.extend(map(_task_id, trails))
            return
        for trail in trails:
            self._quarter(quarter_of(trail.born)).ids.append(trail.task_id)

    def froze(self, trail: Trail) -> None:
        """A trail is over. Most are successes, and for them there is nothing to do."""
        if trail.marks & (M_IRREGULAR | M_SUCCEEDED) != M_SUCCEEDED or is_sent_after(trail):
            self._quarter(quarter_of(trail.born)).states |= may_be(trail)

    def before(self, number: int) -> list[int]:
        """The numbers of the quarters up to this one, oldest first."""
        numbers = self._in_order()
        return numbers[: bisect_right(numbers, number)]

    def of(self, number: int) -> Quarter:
        """What began then; to be looked at only."""
        return self._quarters.get(number) or Quarter()

    def sweep(self, held: int, look: Callable[[str], Trail | None]) -> None:
        """Take out what is noted in vain, some of it, where that is more than what is `held`."""
        left = _SWEPT
        while self._noted > 2 * held + _SLACK and left > 0:
            if self._place < 0:
                self._begin()
            quarter = self._quarters[self._swept]
            some = quarter.ids[self._place : self._place + left]
            kept = [
                task_id
                for task_id in some
                if (trail := look(task_id)) is not None and quarter_of(trail.born) == self._swept
            ]
            quarter.ids[self._place : self._place + len(some)] = kept
            self._noted -= len(some) - len(kept)
            left -= len(some)
            self._place += len(kept)
            if self._place >= len(quarter.ids):
                self._place = -1
                if not quarter.ids:
                    del self._quarters[self._swept]
                    numbers = self._in_order()
                    del numbers[bisect_left(numbers, self._swept)]

    def _begin(self) -> None:
        """Go on to the next quarter to sweep."""
        numbers = self._in_order()
        self._swept, self._place = numbers[bisect_right(numbers, self._swept) % len(numbers)], 0
        quarter = self._quarters[self._swept]
        before = len(quarter.ids)
        quarter.ids = list(dict.fromkeys(quarter.ids))
        self._noted -= before - len(quarter.ids)

    def _quarter(self, number: int) -> Quarter:
        quarter = self._quarters.get(number)
        if quarter is None:
            quarter = self._quarters[number] = Quarter()
            self._is_in_order &= not self._numbers or number > self._numbers[-1]
            self._numbers.append(number)
        return quarter

    def _in_order(self) -> list[int]:
        if not self._is_in_order:  # nearly: it comes with what is told late, and with a start
            self._numbers.sort()
            self._is_in_order = True
        return self._numbers
