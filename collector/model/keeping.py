"""How long a place keeps what lies in it: what a probe was told, and what dead letters are dated by."""

from __future__ import annotations

import msgspec


class Kept(msgspec.Struct, frozen=True):
    """How long one place keeps a message after it was written there."""

    seconds: float | None = None
    """None: it deletes by something else than age, or never, or it is not known."""
    by: str = ""
    """What deletes it, for people; "" where that is not known."""


class Keeping(msgspec.Struct, kw_only=True):
    """What was told of several topics."""

    kept: dict[str, Kept] = {}
    """By topic."""
    begins: dict[str, int] = {}
    """The first offset that is still there, by `topic/partition`; what is not known is not there."""
    gone: frozenset[str] = frozenset()
    """Those `topic/partition` that are known to be no more, with all that lay there."""
    says: str = ""
    """What cannot be seen and why, for people."""
