"""Acks: somebody has taken an alert upon themselves. Until it ends, or the ack does, nobody else is called for it.

An ack is of one alert, by fingerprint. Its group is quiet while all that fire in it are acked; what is new speaks.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.routing.keeping import Ack, Keep

LASTS = 24 * 3600.0
"""Seconds that an ack holds where nothing else is said."""
LONGEST = 366 * 24 * 3600.0
"""Seconds that an ack may hold at most; times far beyond cannot even be written."""
MOST = 50_000
"""Acks that are kept; beyond, the oldest goes."""


class Acks:
    """All acks; `keep` is where they outlive the process."""

    def __init__(self, keep: Keep | None = None) -> None:
        self._keep = keep or Keep()
        self._all: dict[str, Ack] = {ack.fingerprint: ack for ack in self._keep.acks()}

    def __len__(self) -> int:
        return len(self._all)

    def set(self, ack: Ack) -> None:
        """Make one, or change it. Raises ValueError for what is none."""
        if not ack.author.strip():
            raise ValueError("an ack says who made it: give an author")
        if ack.expires_at <= ack.created_at:
            raise ValueError("the ack would have expired already: give a later time")
        if not ack.expires_at <= ack.created_at + LONGEST:
            raise ValueError(f"an ack holds for at most {LONGEST / 86_400:.0f} days: give a shorter time")
        self._all.pop(ack.fingerprint, None)
        self._all[ack.fingerprint] = ack
        self._keep.save_ack(ack)
        if len(self._all) > MOST:
            self.end(next(iter(self._all)))

    def end(self, fingerprint: str) -> bool:
        """The alert has ended, or somebody takes the ack back; whether there was one."""
        if self._all.pop(fingerprint, None) is None:
            return False
        self._keep.forget_ack(fingerprint)
        return True

    def of(self, fingerprint: str, now: float) -> Ack | None:
        """The ack of an alert that holds at an instant."""
        ack = self._all.get(fingerprint)
        return ack if ack is not None and now < ack.expires_at else None

    def listed(self, now: float) -> list[Ack]:
        """Those that hold, by their start."""
        return sorted(
            (ack for ack in self._all.values() if now < ack.expires_at),
            key=lambda ack: (ack.created_at, ack.fingerprint),
        )

    def cover(self, fingerprints: Iterable[str], now: float) -> bool:
        """Whether there are any, and all of them are acked."""
        if not self._all:
            return False
        names = list(fingerprints)
        return bool(names) and all(self.of(name, now) is not None for name in names)

    def forget(self, now: float) -> int:
        """Let go of what has expired; gives how many."""
        old = [ack.fingerprint for ack in self._all.values() if ack.expires_at <= now]
        for fingerprint in old:
            self.end(fingerprint)
        return len(old)
