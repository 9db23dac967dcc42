"""What people decided about alerts, as values, and where that outlives the process."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from collector.model.labels import Labels, Matcher

SilenceState: TypeAlias = Literal["expired", "active", "pending"]


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """Who has taken which alert upon themselves, and why. Times are Unix seconds."""

    fingerprint: str
    author: str
    reason: str = ""
    created_at: float
    expires_at: float
    labels: Labels = ()
    """Of the alert, for people."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """One silence. Times are Unix seconds."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float
    ends_at: float
    updated_at: float = 0.0
    created_by: str
    comment: str

    def state(self, now: float) -> SilenceState:
        """What it is at an instant."""
        if now < self.starts_at:
            return "pending"
        return "active" if now < self.ends_at else "expired"


class Keep:
    """Keeps nothing: a restart forgets, and links of a former process do not hold. What has a place keeps there.

    Loads at the start, saves with every change. Saving never waits and never raises.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def silences(self) -> Iterable[Silence]:
        """Those of former processes."""
        return ()

    def acks(self) -> Iterable[Ack]:
        """Those of former processes."""
        return ()

    def save_silence(self, silence: Silence) -> None:
        """Made or changed."""

    def forget_silence(self, silence_id: str) -> None:
        """Gone for good."""

    def save_ack(self, ack: Ack) -> None:
        """Made or changed."""

    def forget_ack(self, fingerprint: str) -> None:
        """Ended."""

    def save_all(self, silences: Iterable[Silence], acks: Iterable[Ack]) -> None:
        """All that there are, in place of what was kept."""

    def link_key(self) -> bytes:
        """What links in messages are signed with: the same as long as they shall hold."""
        return self._key
