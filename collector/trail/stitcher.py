"""A batch of events becomes transitions, whatever order the events come in.

The hot loop is `flat.stitch`, over the regular path: a trail whose events fit its slots (each kind at most once per
attempt, one channel, one worker, nothing later than the end). Its conditions are exactly those under which `tally`
would give the same; everything else goes through `tally` (settle.py), and stays there for this trail.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from collector.model.event import Event
from collector.trail import flat
from collector.trail.evidence import Notes
from collector.trail.findings.judge import Findings
from collector.trail.keep import Bounds, Keep
from collector.trail.listing import Listing
from collector.trail.memory import Generations
from collector.trail.misfits import Misfits
from collector.trail.promises import Promises
from collector.trail.reader import Reader
from collector.trail.rows import Errors, Rows, Texts
from collector.trail.saving import Parts
from collector.trail.settle import Settler
from collector.trail.sieve import Sieve
from collector.trail.transitions import Array, Transitions
from collector.trail.wheel import earliest

_task_id = attrgetter("task_id")

_DECISION = 16
"""What a decision costs, counted in trails that are only looked at."""


class Stitcher:
    """All trails of all sources. One asyncio loop owns it; time comes in as `at` on each source's axis."""

    def __init__(self, rows: Rows, errors: Errors, bounds: Bounds, grace: float = 5.0) -> None:
        self.grace = grace
        self._rows = rows
        self._errors = errors
        self._texts = Texts()
        self._notes = Notes()
        keys: Generations[str] = Generations(bounds.finished_seconds, bounds.keys)
        self._settler = Settler(rows, self._notes, keys, bounds.dead_letters, grace)
        self._keep = Keep(bounds, self._settler)
        self._keys = keys
        self.promises = Promises(rows, errors, self._keep, self._settler, grace)
        self.findings = Findings(rows, errors, self._keep, self._settler, self._notes, self.promises.holes, grace)
        self._misfits = Misfits(
            rows, errors, self._texts, self._settler, self._keep, self.promises, self.findings, grace
        )
        self.reader = Reader(self._keep, rows, errors, self._notes, grace)
        self.listing = Listing(self._keep, rows, errors, grace)
        self.sieve = Sieve(self._keep, rows, errors, self.findings.usual, grace)
        self._channels: dict[tuple[str, str], int] = {}
        self.parts = Parts(
            rows, errors, self._texts, self._notes, self._settler, self._keep, keys, self._misfits, self._channels,
            self.promises, self.findings,
        )  # fmt: skip
        """What a saver or a loader of it works on."""

    def stitch(  # noqa: PLR0913, PLR0917 - a batch is columns
        self,
        source: str,
        application: str,
        events: Sequence[Event],
        ats: Sequence[float],
        out: Transitions,
        channel_name: str = "",
    ) -> tuple[int, int, int]:
        """Take a batch of one source, with the axis time of each event; gives (accepted, duplicate, ignored).

        `application` joins the ids of several sources; "" keeps them apart. A fact that several channels tell of
        counts once: each source is one, or has several by name. Appends to `out`.
        """
        home = self._keep.home(f"={application}" if application else source)
        if self._keep.is_saved:
            home.touched.update(dict.fromkeys(map(_task_id, events), True))
        channel = self._channel(source, channel_name)
        fresh, duplicates, ignored = flat.stitch(self.parts, home, channel, source, events, ats, out)
        if fresh:
            self._keep.welcome(home, fresh, ats)
            if self.promises.is_asked:
                self.promises.welcome(fresh)
            if self.findings.is_asked:
                self.findings.welcome(fresh)
        if not channel_name:
            self.findings.crew.listen(home.index, events)
        if ignored:
            self.findings.crew.take(home.index, source, events, ats)
        if self._misfits.crowds:
            duplicates += self._misfits.settle_crowds(out)
        if self._misfits.failed:
            self._misfits.open_dead_letters(out)
        self._keep.bound(ats[-1] if ats else 0.0, out)
        return len(events) - duplicates - ignored, duplicates, ignored

    def watch(self, source: str, application: str, out: Transitions, codes: Array, seconds: Array) -> None:
        """Look at what a batch measured (`codes` and `seconds` of `out`, as arrays) for the slowest of late."""
        home = self._keep.home(f"={application}" if application else source)
        self._notes.watch(out, codes, seconds, home.index)
        if self.promises.is_asked:
            self.promises.watch(codes, out.witnesses, home)
        self.findings.watch(source, codes, seconds, out.measured_ats)

    def expire(self, at: float, out: Transitions, most: int = 2_000) -> bool:
        """Decide and let go what is due by the axis time `at`, `most` looks' worth of it; True: call again."""
        keep, misfits = self._keep, self._misfits
        misfits.decided = max(misfits.decided, at)
        left = most
        while left > 0 and (trail := keep.decisions.take(at)) is not None:
            left -= _DECISION
            if keep.is_saved:
                keep.homes[trail.home].touched[trail.task_id] = True
            misfits.settle(trail, out)
        left -= _DECISION * self.promises.expire(at, max(0, left) // _DECISION)
        left -= self.findings.expire(at, max(0, left))
        for trail in keep.wheel.take(at, max(0, left)):
            keep.revisit(trail, at, out)
        keep.forget(at)
        self._keys.forget(at)
        return (due := self.next_due()) is not None and due <= at

    def next_due(self) -> float | None:
        """The axis time at which `expire` next has something to do, or None."""
        return earliest(self.next_decision(), self._keep.wheel.next_due())

    def next_decision(self) -> float | None:
        """The axis time at which `expire` next may count something, or None."""
        return earliest(self._keep.decisions.next_due(), self.promises.next_due(), self.findings.next_due())

    @property
    def evictions(self) -> dict[str, int]:
        """How many left before their time, by reason of REASONS."""
        early = {"dead_letters": self._settler.dead_overflow, "keys_early": self._settler.keys_early}
        self._keep.evictions |= early | {
            "deadlines": self.promises.unseen + self.findings.unseen,
            "names": self._rows.overflowed,
        }
        return self._keep.evictions

    def __len__(self) -> int:
        return self._keep.count()

    def _channel(self, source: str, name: str) -> int:
        channel = self._channels.get((source, name))
        if channel is None:
            channel = self._channels[source, name] = len(self._channels)
            self._settler.sources.append(source)
        return channel
