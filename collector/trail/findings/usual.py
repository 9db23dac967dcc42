"""How long the tries of each task usually wait and run: a histogram per row, learnt from what was measured.

Takes a batch's measures as arrays; gives quantiles to about a tenth. Older durations weigh less: halved at a size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collector.trail.transitions import MEASURES, RUN, WAIT, Array

_PER_OCTAVE = 4
_LEAST = 2.0**-10
"""Seconds; what is shorter is as short."""
_BUCKETS = 128
"""To 2^22 s, seven weeks."""
FEWEST = 100
"""Durations from which on a quantile is known."""
_MANY, _PART = 500, 7
"""Of more durations at once every seventh is learnt."""
_MOST = 20_000
"""Durations at which older ones are halved."""


class Usual:
    """Durations by row."""

    def __init__(self) -> None:
        self._counts = np.zeros((len(MEASURES), 0, _BUCKETS), np.uint16)
        self._totals = np.zeros((len(MEASURES), 0), np.int64)
        self._turn = 0
        self._found: dict[tuple[int, int, float], tuple[int, float]] = {}

    def learn(self, codes: Array, seconds: Array) -> None:
        """Codes of measures (row * 3 + measure) and their seconds; of many at once a part says enough."""
        if len(codes) > _MANY:
            self._turn = (self._turn + 1) % _PART
            codes, seconds = codes[self._turn :: _PART], seconds[self._turn :: _PART]
        rows, measures = np.divmod(codes, len(MEASURES))
        self._reach(int(rows.max()) + 1)
        places = np.log2(np.maximum(seconds, _LEAST) / _LEAST) * _PER_OCTAVE
        buckets = np.minimum(places.astype(np.int64), _BUCKETS - 1)
        np.add.at(self._counts, (measures, rows, buckets), 1)
        np.add.at(self._totals, (measures, rows), 1)
        for measure, row in np.argwhere(self._totals >= _MOST).tolist():
            self._counts[measure, row] >>= 1
            self._totals[measure, row] = int(self._counts[measure, row].sum())

    def _reach(self, rows: int) -> None:
        """Make room for so many rows."""
        missing = rows - self._totals.shape[1]
        if missing > 0:
            missing = max(missing, self._totals.shape[1] // 4)
            self._counts = np.concatenate((self._counts, np.zeros((len(MEASURES), missing, _BUCKETS), np.uint16)), 1)
            self._totals = np.concatenate((self._totals, np.zeros((len(MEASURES), missing), np.int64)), 1)

    def knows(self, row: int, measure: int) -> int:
        """How many durations of this measure are remembered of a row."""
        return int(self._totals[measure, row]) if 0 <= row < self._totals.shape[1] else 0

    def quantile(self, row: int, measure: int, share: float) -> float | None:
        """The upper edge of the bucket that the quantile is in; None while too little is known."""
        total = self.knows(row, measure)
        if total < FEWEST:
            return None
        found = self._found.get((row, measure, share))
        if found is None or abs(total - found[0]) * 10 >= found[0]:
            reached = np.cumsum(self._counts[measure, row], dtype=np.int64)
            bucket = int(np.searchsorted(reached, share * total))
            found = total, float(_LEAST * 2.0 ** ((bucket + 1) / _PER_OCTAVE))
            self._found[row, measure, share] = found
        return found[1]

    def run(self, row: int, share: float) -> float | None:
        """A quantile of one try's run, seconds."""
        return self.quantile(row, RUN, share)

    def wait(self, row: int, share: float) -> float | None:
        """A quantile of one try's wait, seconds."""
        return self.quantile(row, WAIT, share)

    # Over a restart

    def saved(self) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """Measure, row, and each bucket that is not empty with its count."""
        return [
            (measure, row, [(bucket, int(self._counts[measure, row, bucket])) for bucket in used])
            for measure, row in np.argwhere(self._totals > 0).tolist()
            for used in [np.flatnonzero(self._counts[measure, row]).tolist()]
        ]

    def restore(self, saved: Sequence[tuple[int, int, Sequence[tuple[int, int]]]]) -> None:
        """Go on with what was saved. Only while nothing was learnt."""
        for measure, row, buckets in saved:
            self._reach(row + 1)
            for bucket, count in buckets:
                self._counts[measure, row, bucket] = count
            self._totals[measure, row] = int(self._counts[measure, row].sum())
