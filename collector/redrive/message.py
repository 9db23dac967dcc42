"""What passes between a redrive and its broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

MARKERS = "tasktrail.redrive"
"""The topic or key that holds what was sent; it empties itself."""
KEPT_SECONDS = 7 * 86_400
GONE = "its message is no longer where it lay"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message lies, and where it goes."""

    id: str
    place: str
    receipt: str
    target: str
    partition: int | None
    task_id: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it lies there."""

    at: Place
    marked: str
    """The mark of an earlier redrive; "" for none."""
    content: Any
    """For whoever has read it: body, key and headers, or the entry's fields."""
    refused: str = ""
    """Why it cannot be sent, though it is there."""


class Broker(Protocol):
    """One broker that is redriven on. Raises SourceError where it cannot be reached or refuses."""

    async def open(self, *, writes: bool) -> None:
        """Connect; only with `writes` is anything changed there, and any other redrive shut out."""
        ...

    async def sent(self) -> set[str]:
        """The ids of what was sent within the last days, by whichever process."""
        ...

    async def read(self, places: Sequence[Place]) -> dict[str, Message]:
        """The messages by id; one that is no longer there is left out."""
        ...

    async def send(self, messages: Iterable[tuple[Message, str]]) -> None:
        """Write messages, each with its mark, and with that the note that they are sent: all of it, or none."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...
