"""Where what people decided about alerts outlives the process: a protocol, and a memory that does not."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collector.routing.acks import Ack
    from collector.routing.silences import Silence


class Keep(Protocol):
    """Loads at the start, saves with every change. Saving never waits and never raises."""

    def silences(self) -> Iterable[Silence]:
        """Those of former processes."""
        ...

    def acks(self) -> Iterable[Ack]:
        """Those of former processes."""
        ...

    def save_silence(self, silence: Silence) -> None:
        """Made or changed."""
        ...

    def forget_silence(self, silence_id: str) -> None:
        """Gone for good."""
        ...

    def save_ack(self, ack: Ack) -> None:
        """Made or changed."""
        ...

    def forget_ack(self, fingerprint: str) -> None:
        """Ended."""
        ...

    def save_all(self, silences: Iterable[Silence], acks: Iterable[Ack]) -> None:
        """All that there are, in place of what was kept."""
        ...

    def link_key(self) -> bytes:
        """What links in messages are signed with: the same as long as they shall hold."""
        ...


class InMemory:
    """Keeps nothing: a restart forgets, and links of a former process do not hold."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def silences(self) -> Iterable[Silence]:
        """None."""
        return ()

    def acks(self) -> Iterable[Ack]:
        """None."""
        return ()

    def save_silence(self, silence: Silence) -> None:
        """Nowhere."""

    def forget_silence(self, silence_id: str) -> None:
        """Nowhere."""

    def save_ack(self, ack: Ack) -> None:
        """Nowhere."""

    def forget_ack(self, fingerprint: str) -> None:
        """Nowhere."""

    def save_all(self, silences: Iterable[Silence], acks: Iterable[Ack]) -> None:
        """Nowhere."""

    def link_key(self) -> bytes:
        """By chance, one per process."""
        return self._key
