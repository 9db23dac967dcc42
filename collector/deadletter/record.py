"""One record for each dead letter, its states as a table, and what may be decided of it. Pure values.

`expired` is no end: the message should be gone from where it lay, and nobody has said what becomes of the work.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from collector.deadletter.fingerprint import fingerprint
from collector.model.death import Death
from collector.model.keeping import Kept

State: TypeAlias = Literal["open", "acknowledged", "redriven", "discarded", "compensated", "expired"]
STATES: tuple[State, ...] = ("open", "acknowledged", "redriven", "discarded", "compensated", "expired")
ENDED: frozenset[str] = frozenset(("redriven", "discarded", "compensated"))
"""States in which nothing is owed any more."""
VERDICTS: tuple[State, ...] = ("redriven", "discarded", "compensated")
"""What somebody may resolve one as."""
UNREVIEWED: frozenset[str] = frozenset(("open", "expired"))
"""States in which nobody has looked at it."""
OBSERVED = "tasktrail"
"""The actor of what was seen to happen rather than decided by somebody."""

# state → the states that may follow it; from one verdict to another is a correction
FOLLOWING: dict[State, frozenset[State]] = {
    "open": frozenset(("acknowledged", "redriven", "discarded", "compensated", "expired")),
    "acknowledged": frozenset(("acknowledged", "redriven", "discarded", "compensated", "expired")),
    "expired": frozenset(("acknowledged", "redriven", "discarded", "compensated")),
    "redriven": frozenset(("redriven", "discarded", "compensated", "open")),
    "discarded": frozenset(("redriven", "discarded", "compensated")),
    "compensated": frozenset(("redriven", "discarded", "compensated")),
}
LONGEST_ACTOR, LONGEST_REASON, LONGEST_TICKET = 100, 1_000, 200


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the message was before. Empty or None: not told."""

    topic: str = ""
    partition: int | None = None
    offset: int | None = None
    queue: str = ""
    exchange: str = ""
    id: str = ""
    """Of the entry or message there."""
    group: str = ""
    """Who consumed it."""
    reason: str = ""
    """Why it was moved, in the broker's word."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the dead-letter place tells of one: besides what its trail knows."""

    place: str = ""
    """Topic/partition, stream, queue or key in which it lies."""
    receipt: str = ""
    """Its offset or id there."""
    origin: Origin = Origin()
    error: str = ""
    message: str = ""
    frame: str = ""
    """Where the error was raised."""
    size: int | None = None
    """Bytes of the message."""
    preview: str = ""
    """Its first bytes, masked."""
    written_at: float | None = None
    """When it was written there, as its place says."""
    read_by: str = ""
    """The source that read it there, where that one is asked how long it is kept."""
    expires_at: float | None = None
    expires_by: str = ""
    """What deletes it then."""


_NOTHING = Found()
_OF_PLACE = ("place", "receipt", "origin", "size", "preview", "written_at", "read_by", "expires_at", "expires_by")
"""What belongs together: of two places no record has the one half of this and the other half of that."""
_PARTITION, _OFFSET = re.compile(r".+/[0-9]{1,9}", re.DOTALL), re.compile(r"[0-9]{1,19}")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter. Times in Unix seconds; None: not known."""

    id: str
    home: str
    task_id: str
    task: str
    queue: str
    source: str
    at: float
    """When it died, on the source's axis."""
    when: float
    is_virtual: bool
    attempts: int
    error: str
    message: str
    worker: str
    trace_id: str
    sent_at: float | None
    first_failed_at: float | None
    last_failed_at: float | None
    found: Found
    fingerprint: str
    owner: str
    review_by: float | None
    """When somebody must have looked at it by its contract."""
    state: State = "open"
    state_at: float = 0.0
    actor: str = ""
    reason: str = ""
    ticket: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether nothing is owed any more."""
        return self.state in ENDED


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history. Never changed once written."""

    number: int
    """Of all entries of the ledger, in their order."""
    id: str
    at: float
    state: State
    actor: str
    reason: str = ""
    ticket: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says of a dead letter, and why."""

    state: State
    actor: str
    reason: str
    ticket: str = ""


def checked(verdict: Verdict) -> Verdict:
    """The verdict without blanks around its texts. Raises ValueError for what is missing, too long or unknown."""
    if verdict.state not in ("acknowledged", *VERDICTS):
        raise ValueError(f"`{verdict.state}` is no verdict: there are {', '.join(VERDICTS)}")
    texts = {"actor": LONGEST_ACTOR, "reason": LONGEST_REASON, "ticket": LONGEST_TICKET}
    cleaned = {name: str(getattr(verdict, name)).strip() for name in texts}
    for name, longest in texts.items():
        if len(cleaned[name]) > longest:
            raise ValueError(f"{name}: {len(cleaned[name])} characters, at most {longest}")
    if not cleaned["actor"]:
        raise ValueError("actor: say who decides")
    if not cleaned["reason"] and verdict.state != "acknowledged":
        raise ValueError("reason: say why, whoever reads this later was not there")
    return msgspec.structs.replace(verdict, **cleaned)


def state_of(text: str) -> State:
    """A state by its name. Raises ValueError."""
    if text not in STATES:
        raise ValueError(f"`{text}` is no state: there are {', '.join(STATES)}")
    return text


def id_of(death: Death) -> str:
    """The same for the same death in every process: 16 hex digits."""
    parts = (death.home, death.task_id, repr(round(death.when, 3)))
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def record(death: Death, found: Found, owner: str, review_within: float | None) -> DeadLetter:
    """The record of a death, open."""
    error, message = death.error or found.error, death.message or found.message
    return DeadLetter(
        id=id_of(death),
        home=death.home,
        task_id=death.task_id,
        task=death.task,
        queue=death.queue,
        source=death.source,
        at=death.at,
        when=death.when,
        is_virtual=death.is_virtual and not found.place,
        attempts=death.attempts,
        error=error,
        message=message,
        worker=death.worker,
        trace_id=death.trace_id,
        sent_at=death.sent_at,
        first_failed_at=death.first_failed_at,
        last_failed_at=death.last_failed_at,
        found=found,
        fingerprint=fingerprint(death.task, error, message, found.frame),
        owner=owner,
        review_by=None if review_within is None else death.at + review_within,
        state_at=death.at,
    )


def topic_of(place: str) -> str:
    """Of a place `topic/partition`."""
    return place.rpartition("/")[0]


def offset_of(found: Found) -> int | None:
    """Its offset in a partition that is asked what it still has; None: it lies in none, or it is not known where."""
    is_known = found.read_by and _PARTITION.fullmatch(found.place) and _OFFSET.fullmatch(found.receipt)
    return int(found.receipt) if is_known else None


def dated(found: Found, kept: Kept | None) -> Found:
    """The same with when it is deleted, for all that is known of how long its place keeps it."""
    if kept is None:
        return found
    at = None if kept.seconds is None or found.written_at is None else found.written_at + kept.seconds
    return msgspec.structs.replace(found, expires_at=at, expires_by=kept.by)


def joined(before: Found, found: Found) -> Found:
    """What one tells, with what another adds to it. The same object where that is nothing.

    The first place that tells is the one it lies in, with all that belongs to it: another one adds nothing to that.
    """
    nothing = ("", None, Origin())
    is_same = before.place == found.place and before.receipt in ("", found.receipt)
    is_first = bool(found.place) and not before.place
    missing = {
        name: value
        for name in Found.__struct_fields__
        if (value := getattr(found, name)) not in nothing and getattr(before, name) in nothing
    }
    said = {name: value for name, value in missing.items() if is_same or name not in _OF_PLACE}
    if is_first:
        said |= {name: getattr(found, name) for name in _OF_PLACE}
    return msgspec.structs.replace(before, **said) if said else before


def filled(one: DeadLetter, found: Found) -> DeadLetter:
    """The record with what a place tells that was not known yet. The same object where that is nothing."""
    known = one.found if found == _NOTHING else joined(one.found, found)
    if known is one.found:
        return one
    error, message = one.error or known.error, one.message or known.message
    cause = fingerprint(one.task, error, message, known.frame)
    is_virtual = one.is_virtual and not known.place
    return msgspec.structs.replace(
        one, found=known, error=error, message=message, fingerprint=cause, is_virtual=is_virtual
    )
