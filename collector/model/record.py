"""What a source hands over: batches of untouched bytes with their receipts, and what it may say besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import msgspec

ClockName: TypeAlias = Literal["broker", "event", "arrival"]
"""Which time places a source's events on its axis."""

Receipt: TypeAlias = int | str
"""Where a record stood in its place: Kafka offset, stream entry id, line number."""


BODY_FIELDS: tuple[str, ...] = ("data", "event", "payload", "body")
"""Where a stream entry of several fields may hold its event as one body."""


class Batch(msgspec.Struct, gc=False, kw_only=True):
    """Records of one place (partition, stream, file, connection), in their order there.

    All lists are parallel to `bodies`. An empty batch with `is_head` says: this place is read to its end.
    """

    source: str
    """The source's configured name."""
    place: str
    """Partition `topic/3`, stream, path or peer: what has a position of its own."""
    bodies: list[bytes]
    receipts: Sequence[Receipt]
    received_at: float
    """Wall clock when the batch came, Unix seconds."""
    times: list[float] | None = None
    """The broker's own time of each record, Unix seconds; None where the broker gives none."""
    fields: list[Mapping[str, str] | None] | None = None
    """Record headers or stream entry fields, decoded as UTF-8; None where no record has any. Headers that are no text
    (Spring's numbers) keep their bytes as surrogates (PEP 383)."""
    tap: str = "native"
    """How the records were tapped, in the words of a capture: `kafka redis-stream redis-pubsub redis-key amqp ...`."""
    about: list[Mapping[str, Any]] | None = None
    """What the tap knows of each record besides its body, in the words of a capture line (`channel`, `key`, `type`,
    `routing_key`, `headers` ...); None where place, receipts and fields say it all."""
    is_head: bool = False
    """Whether the place had nothing more to read after this batch."""
    position: Receipt | None = None
    """Where reading this place goes on: what a checkpoint keeps."""


class Outcome(msgspec.Struct, gc=False):
    """What became of a batch's events; the five numbers of `replay --json`."""

    read: int = 0
    accepted: int = 0
    duplicate: int = 0
    malformed: int = 0
    ignored: int = 0

    def add(self, other: Outcome) -> None:
        """Take another batch's numbers in."""
        self.read += other.read
        self.accepted += other.accepted
        self.duplicate += other.duplicate
        self.malformed += other.malformed
        self.ignored += other.ignored


class Refusal(msgspec.Struct, frozen=True):
    """One record that could not be used: the how-manieth of those that came together (from 0), and why."""

    index: int
    reason: str
    detail: str


class Refusals(msgspec.Struct):
    """What of one push could not be used, for its sender: how many by reason, and the first few."""

    MOST: ClassVar[int] = 10
    reasons: dict[str, int] = {}
    first: list[Refusal] = []

    def count(self, reason: str, count: int) -> None:
        """So many more, of which no more is said."""
        self.reasons[reason] = self.reasons.get(reason, 0) + count

    def add(self, refusal: Refusal) -> None:
        """Take one in."""
        self.count(refusal.reason, 1)
        if len(self.first) < self.MOST:
            self.first.append(refusal)


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A hole in what a source delivered: what was there and was not seen."""

    source: str
    place: str
    start: float
    """Unix seconds; the time of the last record before the hole."""
    end: float
    estimate: int | None
    """How many records were missed, where it can be known."""
    is_rough: bool = False
    """Whether the estimate is concluded from other numbers, not counted."""
    reason: str

    def __str__(self) -> str:
        """For people."""
        where = f" in {self.place}" if self.place else ""  # a hole of the whole source is in no place
        about = "about " if self.is_rough else ""
        size = "an unknown number of" if self.estimate is None else f"{about}{self.estimate}"
        return f"gap{where}, {size} records were not seen"


class Intake(Protocol):
    """The daemon as a source sees it: where to start, and whom to tell."""

    def position(self, place: str) -> Receipt | None:
        """Where reading of this place goes on, or None if it was never read."""
        ...

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        """The source reaches its broker; `detail`: what it reads, what is off and how to switch it on, for people.

        `is_deaf`: work is being done, and what would tell of it is off.
        """
        ...

    async def take(self, batch: Batch) -> Outcome:
        """Count a batch. When it returns, it is part of the state; not reading on until then is the backpressure."""
        ...

    def gap(self, gap: Gap) -> None:
        """Put a hole on record."""
        ...

    def filled(self, part: float) -> None:
        """How full the source's bound on connections is, from 0 to 1."""
        ...

    def mute(self) -> list[str]:
        """The workers that work, by what they say of themselves, and of whose work nothing was told."""
        ...


class Source(Protocol):
    """Anything we read from. Built with its own frozen options; knows nothing of formats or trails."""

    async def run(self, intake: Intake) -> None:
        """Read for ever (a finite source returns at its end). Raises SourceError when the broker is lost."""
        ...
