"""What a probe says of its queues at one look, as the samples that rules read.

Unknown is not 0: a length that could not be had gives no sample, and its queue stands under `unknown`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol, TypeAlias

from collector.model.labels import Labels, labels_of

State: TypeAlias = Literal["ready", "unacked", "delayed", "scheduled", "retrying"]
"""ready: may be taken now. unacked: taken, without an end. delayed: put off, for a time or until something else is
done. scheduled: not before a time. retrying: waits for another attempt."""

LENGTH, OLDEST, CONSUMERS = "queue_length", "queue_oldest_age_seconds", "queue_consumers"
LAG, LAG_SECONDS = "consumer_lag", "consumer_lag_seconds"
VERDICTS = "consumer_lag_verdicts"
"""How many partitions of a topic a group has stopped at, stalls at, or was put back in."""
PENDING_IDLE = "consumer_pending_idle_seconds"
"""The longest silence of a consumer that holds entries of a stream."""
DELIVERIES = "consumer_pending_deliveries"
"""How often the entry was delivered, of those that a group holds longest, that was so most often."""
METRICS = frozenset({LENGTH, OLDEST, CONSUMERS, LAG, LAG_SECONDS, VERDICTS, PENDING_IDLE, DELIVERIES})

Sample: TypeAlias = tuple[str, Labels]
"""Metric and labels; the label `source` is not among them yet."""


def waited(ready: int | None, since: float | None, now: float) -> float | None:
    """Seconds that the oldest item has waited since `since` (Unix seconds; None: unknown); 0.0 for an empty queue."""
    return 0.0 if ready == 0 else None if since is None else now - since


class Reading:
    """One look."""

    def __init__(self) -> None:
        self.samples: dict[Sample, float] = {}
        self.queues: dict[str, None] = {}
        """Queues in which something is, or that somebody consumes: they are remembered."""
        self.unknown: set[str] = set()
        """Queues of which something could not be had this time."""
        self.says = ""
        """What cannot be seen and why, for people."""

    def put(self, name: str, value: float, **labels: str) -> None:
        """A sample."""
        self.samples[name, labels_of(labels)] = value

    def depth(
        self,
        queue: str,
        lengths: dict[State, int | None],
        *,
        oldest: float | None = None,
        consumers: int | None = None,
    ) -> None:
        """A queue that is there. Lengths by state, None: not known this time; a state that is never seen is left out.

        `oldest`: seconds that the longest waiting has waited, None where that is not seen. It is 0 where nothing waits.
        """
        own: Labels = (("queue", queue),)
        if consumers or any(lengths.values()):
            self.queues[queue] = None
        for state, length in lengths.items():
            if length is None:
                self.unknown.add(queue)
            else:
                self.samples[LENGTH, (*own, ("state", state))] = length
        if oldest is not None:
            self.samples[OLDEST, own] = max(0.0, oldest)
        if consumers is not None:
            self.samples[CONSUMERS, own] = consumers


class Probe(Protocol):
    """Something that can be asked, again and again. Built with its own options; holds its connection."""

    async def look(self, known: Collection[str], now: float) -> Reading:
        """All there is to say now. `known`: queues that were there before, or that events name; `now`: Unix seconds.

        Raises SourceError when it cannot be asked; the next look then makes a new connection.
        """
        ...

    async def close(self) -> None:
        """Let the connection go."""
        ...
