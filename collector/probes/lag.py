"""What a consumer group's commits say of it: does it go on, has it stopped, does it stall, was it put back? Pure.

There is no bound to set: a group is measured by its own habit, the longest time that it took between two commits while
something waited. Where nothing waits nothing is said of it, however long ago its last commit was.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["stop", "stall", "rewind"]
"""stop: nobody is in the group and it does not go on. stall: somebody is, and it does not go on. rewind: it was put
back to an offset before the one that it had committed."""
VERDICTS: tuple[Verdict, ...] = ("stop", "stall", "rewind")

HABITS = 3.0
"""So many times the longest pause of a group is no habit."""
SHORTEST = 60.0
"""Seconds that no group is judged within, however fast it is."""
FIRST = 300.0
"""Seconds within which a group is not judged that was never seen going on: its habit is not known."""
FADES = 0.95
"""What a long pause counts for with each commit after it."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one partition, as of the last look."""

    committed: int
    end: int
    moved_at: float
    """When it last went on, or the first look at it."""
    longest: float = 0.0
    """The longest pause between two commits while something waited, seconds; it fades."""
    has_moved: bool = False
    """Whether it was ever seen going on."""
    waits_since: float | None = None
    """Since when something has been waiting without a break."""
    is_void: bool = False
    """Whether what was committed is of another log: the topic was made anew, or lost its end."""

    @property
    def since(self) -> float:
        """Since when it could have gone on and has not."""
        return max(self.moved_at, self.waits_since or self.moved_at)

    @property
    def patience(self) -> float:
        """How long it may stand still, seconds."""
        return max(SHORTEST, HABITS * self.longest) if self.has_moved else FIRST


def seen(former: Place | None, committed: int, end: int, now: float) -> Place:
    """A look at what is committed and at the log's end, after the `former` one."""
    if former is None:
        return Place(committed=committed, end=end, moved_at=now, is_void=committed > end)
    is_moved = committed != former.committed
    is_void = committed > end or ((former.is_void or end < former.end) and not is_moved)
    longest = former.longest
    if is_moved and former.waits_since is not None:
        longest = max(FADES * longest, now - former.since)
    return Place(
        committed=committed,
        end=end,
        moved_at=now if is_moved else former.moved_at,
        longest=longest,
        has_moved=is_moved or former.has_moved,
        waits_since=former.waits_since,
        is_void=is_void,
    )


def waiting(place: Place, lag: int | None, now: float) -> Place:
    """The same look, with how many records wait; None: not known."""
    since = place.waits_since
    if lag is not None:
        since = None if lag == 0 else now if since is None else since
    return msgspec.structs.replace(place, waits_since=since)


def verdict(former: Place | None, place: Place, now: float, *, has_members: bool | None) -> Verdict | None:
    """What is wrong with a group in one partition, if anything. `has_members` None: not known."""
    if place.is_void:
        return None
    if former is not None and not former.is_void and place.committed < former.committed:
        return "rewind"
    if place.waits_since is None or now - place.since <= place.patience:
        return None
    return "stop" if has_members is False else "stall"
