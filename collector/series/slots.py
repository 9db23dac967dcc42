"""What was observed, by slot: fine for the near past, merged into coarser slots as it ages.

Takes observations as keys (`buckets.py`); gives those of any window that was announced by `keep`. Fine slots hold a key
per observation (4 bytes); coarse ones hold each key once, with its count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from collector.series.window import NEVER, SECOND, Array, grain_of, runs_of, slots_of

_SPARE = 2  # slots kept beyond a span, for evaluations that are a little late
_COUNTED = 5 * SECOND  # slots of this grain and coarser hold counts

Counted = tuple[Array, Array | None]
"""Keys, and how often each (None: once)."""


class Slots:
    """A list of slots with something in them, oldest first; at least as long as one window."""

    def __init__(self, window: int) -> None:
        self._spans = {grain_of(window): window}
        """Grain -> longest window that is read with it, finest first."""
        self.merged: dict[int, int] = {}
        """Grain -> the tick up to which slots are of this grain (or of a coarser one)."""
        self.known_from = -NEVER
        """The tick up to which slots have left."""
        self.touched: set[int] | None = None
        """Where somebody saves: ends of the slots that have changed."""
        self.ends: list[int] = []
        self.held: list[Counted] = []

    def keep(self, window: int) -> None:
        """Hold as much as windows of this many ticks need."""
        grain = grain_of(window)
        self._spans = dict(sorted({**self._spans, grain: max(window, self._spans.get(grain, 0))}.items()))

    def floor(self, at: int, frontier: int) -> int:
        """The slot end at or before a tick to which a read at this tick is rounded."""
        for grain, span in self._spans.items():  # past the loop it is the coarsest
            if frontier - at <= span + _SPARE * grain:
                break
        return at // grain * grain

    def add(self, ticks: Array, keys: Array) -> None:
        """Put observations, sorted by tick, into their slots."""
        grain = next(iter(self._spans))
        slots = slots_of(ticks, grain)
        for begin, stop in runs_of(slots):
            self._put(int(slots[begin]) * grain, keys[begin:stop])

    def repeat(self, heirs: Array, shift: int) -> None:
        """Observe all again for the heirs of columns (-1: none), whose numbers are the bits of keys from `shift` on."""
        for index, (keys, counts) in enumerate(self.held):
            heir = heirs.take(keys >> shift)
            mine = np.flatnonzero(heir >= 0)
            own = (heir[mine] << shift | keys[mine] & ((1 << shift) - 1)).astype(keys.dtype)
            again = (own, None if counts is None else counts[mine])
            self._touch([self.ends[index]])
            joined = _joined([(keys, counts), again])
            self.held[index] = joined if counts is None else _counted(joined)

    def _put(self, end: int, keys: Array) -> None:
        for grain, merged in self.merged.items():
            if end <= merged:
                end = -(-end // grain) * grain
        self._touch([end])
        index = bisect_left(self.ends, end)
        if index == len(self.ends) or self.ends[index] != end:
            self.ends.insert(index, end)
            self.held.insert(index, (keys, None))
        else:
            self.held[index] = _joined([self.held[index], (keys, None)])

    def _touch(self, ends: Iterable[int]) -> None:
        if self.touched is not None:
            self.touched.update(ends)

    def read(self, start: int, end: int) -> list[Counted]:
        """What the slots hold that end in (start, end]."""
        return self.held[bisect_right(self.ends, start) : bisect_right(self.ends, end)]

    def ages(self, at: int) -> bool:
        """Whether `age` has something to do when the frontier is at `at`."""
        if self.ends and self.ends[0] <= self._oldest(at):
            return True
        return any(limit > self.merged.get(coarse, 0) for coarse, limit in self._limits(at))

    def age(self, at: int) -> None:
        """Merge what has grown too old for its grain, and let go of what no window reaches."""
        for coarse, limit in self._limits(at):
            begin = bisect_right(self.ends, self.merged.get(coarse, 0))
            stop = bisect_right(self.ends, limit)
            self.merged[coarse] = max(limit, self.merged.get(coarse, 0))
            together: dict[int, list[Counted]] = {}
            for end, slot in zip(self.ends[begin:stop], self.held[begin:stop], strict=True):
                together.setdefault(-(-end // coarse) * coarse, []).append(slot)
            self._touch(together)
            self.ends[begin:stop] = together
            self.held[begin:stop] = [
                _counted(_joined(slots)) if coarse >= _COUNTED else _joined(slots) for slots in together.values()
            ]
        gone = bisect_right(self.ends, self._oldest(at))
        if gone:
            self.known_from = self.ends[gone - 1]
        del self.ends[:gone]
        del self.held[:gone]

    def _limits(self, at: int) -> list[tuple[int, int]]:
        """Each grain but the finest, and the tick up to which everything has to be in slots of it."""
        pairs = list(self._spans.items())
        return [
            (coarse, (at - span - _SPARE * grain) // coarse * coarse) for (grain, span), (coarse, _) in pairwise(pairs)
        ]

    def _oldest(self, at: int) -> int:
        grain, span = next(reversed(self._spans.items()))
        return at - span - _SPARE * grain


def _joined(slots: list[Counted]) -> Counted:
    keys = np.concatenate([keys for keys, _ in slots])
    if all(counts is None for _, counts in slots):
        return keys, None
    return keys, np.concatenate([np.ones(len(keys), np.uint32) if counts is None else counts for keys, counts in slots])


def _counted(slot: Counted) -> Counted:
    """The same with each key once."""
    keys, counts = slot
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    amounts = np.ones(len(keys), np.uint32) if counts is None else counts[order]
    return keys[starts], np.add.reduceat(amounts, starts, dtype=np.uint32)
