"""How long the tries of each task usually wait and run: a histogram per row, learnt from what was measured.

Takes a batch's measures as arrays; gives quantiles to about a fifth, as they were known when a period of ten minutes
began: so what is found of a task is the same however its events were cut into batches. Older durations weigh less:
halved at a size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collector.trail.transitions import MEASURES, RUN, WAIT, Array

PERIOD = 600.0
_PER_OCTAVE = 4
_LEAST = 2.0**-10
"""Seconds; what is shorter is as short."""
_BUCKETS = 128
"""To 2^22 s, seven weeks."""
FEWEST = 100
"""Durations from which on a quantile is known."""
_MOST = 20_000
"""Durations at which older ones are halved."""
_KEPT = 12
"""Periods that are remembered: what began earlier is held against the oldest of them."""
_SHARES = (0.95, 0.99)
_ROW = len(MEASURES) * _BUCKETS
_ONE = np.uint32(1)
"""Of the counts' own type: numpy is ten times as fast with it."""

Quantiles = dict[tuple[int, float], Array]
"""Measure and share → seconds by row, NaN where too little was known."""


class Usual:
    """Durations by row."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._counts = np.zeros(0, np.uint32)
        """All that was learnt, by row, measure and bucket."""
        self._pending: dict[int, Array] = {}
        """The same of each period that is not over by grace."""
        self._known: dict[int, Quantiles] = {}
        """As they were when a period began."""
        self._merged = -1
        """The last period that is over."""

    def learn(self, codes: Array, seconds: Array, ats: Sequence[float], first: float) -> None:
        """Codes of measures (row * 3 + measure) with their seconds, and when each was known, axis time; the `first`."""
        if first // PERIOD != max(ats) // PERIOD:
            periods = np.array(ats) // PERIOD
            for period in np.unique(periods).tolist():
                part = np.flatnonzero(periods == period)
                self._learn(codes[part], seconds[part], int(period))
        else:
            self._learn(codes, seconds, int(first // PERIOD))

    def _learn(self, codes: Array, seconds: Array, period: int) -> None:
        period = max(period, self._merged + 1)
        places = np.log2(np.maximum(seconds, _LEAST) / _LEAST) * _PER_OCTAVE
        index = codes * _BUCKETS + np.minimum(places.astype(np.int64), _BUCKETS - 1)
        counts = _reaching(self._pending.get(period), int(codes.max()) // len(MEASURES) + 1)
        self._pending[period] = counts
        np.add.at(counts, index, _ONE)

    def roll(self, decided: float) -> None:
        """Make what was learnt in periods that are over by now the usual of the following ones."""
        for period in sorted(self._pending):
            if (period + 1) * PERIOD + self._grace > decided:
                break
            learnt = self._pending.pop(period)
            self._merged = period
            self._counts = _reaching(self._counts, len(learnt) // _ROW)
            self._counts[: len(learnt)] += learnt
            by_row = self._counts.reshape(-1, len(MEASURES), _BUCKETS)
            by_row[by_row.sum(2) >= _MOST] >>= 1
            self._known[period + 1] = _quantiles(by_row)
            for old in sorted(self._known)[:-_KEPT]:
                del self._known[old]

    def quantile(self, row: int, measure: int, share: float, at: float) -> float | None:
        """The upper edge of the bucket that the quantile is in, by what was known when the period of `at` began."""
        period = int(at // PERIOD)
        begun = [one for one in self._known if one <= period] or sorted(self._known)[:1]
        if not begun:
            return None
        found = self._known[max(begun)][measure, share]
        if not 0 <= row < len(found) or np.isnan(found[row]):
            return None
        return float(found[row])

    def run(self, row: int, share: float, at: float) -> float | None:
        """A quantile of one try's run, seconds."""
        return self.quantile(row, RUN, share, at)

    def wait(self, row: int, share: float, at: float) -> float | None:
        """A quantile of one try's wait, seconds."""
        return self.quantile(row, WAIT, share, at)

    # Over a restart

    def saved(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """Period (-1: all that are over), and each bucket that is not empty with its count."""
        parts = {-1: self._counts, **self._pending}
        return [
            (period, [(place, int(counts[place])) for place in np.flatnonzero(counts).tolist()])
            for period, counts in parts.items()
        ]

    def restore(self, saved: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> None:
        """Go on with what was saved. Only while nothing was learnt."""
        for period, buckets in saved:
            counts = _reaching(None, 1 + max((place for place, _ in buckets), default=-1) // _ROW)
            for place, count in buckets:
                counts[place] = count
            if period < 0:
                self._counts = counts
            else:
                self._pending[period] = counts
        if len(self._counts):
            self._known[0] = _quantiles(self._counts.reshape(-1, len(MEASURES), _BUCKETS))


def _reaching(counts: Array | None, rows: int) -> Array:
    """Counts with room for so many rows."""
    if counts is None:
        return np.zeros(rows * _ROW, np.uint32)
    missing = rows * _ROW - len(counts)
    return counts if missing <= 0 else np.concatenate((counts, np.zeros(missing, np.uint32)))


def _quantiles(by_row: Array) -> Quantiles:
    reached = np.cumsum(by_row, axis=2, dtype=np.int64)
    totals = reached[:, :, -1]
    found: Quantiles = {}
    for share in _SHARES:
        buckets = (reached < share * totals[:, :, None]).sum(2)
        seconds = np.where(totals >= FEWEST, _LEAST * 2.0 ** ((buckets + 1) / _PER_OCTAVE), np.nan)
        found |= {(measure, share): seconds[:, measure] for measure in (WAIT, RUN)}
    return found
