"""Guesses at the token: how often an address was wrong lately, within a bound of memory."""

from __future__ import annotations

MOST_WRONG = 20
"""Wrong tokens of one address within `WITHIN`, after which it is not listened to for as long."""
WITHIN = 60.0
MOST_ADDRESSES = 10_000
"""Addresses that are remembered; those that were wrong longest ago go."""


class Attempts:
    """Wrong tokens by address. `now`: monotonic seconds."""

    def __init__(self) -> None:
        self._wrong: dict[str, tuple[int, float]] = {}
        """How many, and since when."""

    def is_barred(self, address: str, now: float) -> bool:
        """Whether it was wrong too often just now."""
        count, since = self._wrong.get(address, (0, now))
        return count >= MOST_WRONG and now - since < WITHIN

    def wrong(self, address: str, now: float) -> None:
        """It was wrong once more."""
        count, since = self._wrong.pop(address, (0, now))
        if now - since >= WITHIN:
            count, since = 0, now
        self._wrong[address] = count + 1, since
        if len(self._wrong) > MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]

    def right(self, address: str) -> None:
        """It has the token."""
        self._wrong.pop(address, None)
