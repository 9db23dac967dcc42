"""What an alert is about, put together when it fires or ends: from the trails, the series, and how often it fired.

Once per turn of an alert, never per event; in a storm only the first alerts of an instant are looked at closely.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from collector.model.alert import Alert, Evidence
from collector.model.labels import Labels
from collector.series.store import Store
from collector.trail.reader import Reader

SLOT_SECONDS = 15.0
SLOTS = 20
MOST_CLOSE_LOOKS = 10
"""Alerts of one instant whose series are looked at."""
DAY = 86_400.0
MOST_REMEMBERED = 20_000
"""Alerts of which it is remembered when they fired; past it those that fired longest ago are forgotten."""
_MOST_FIRINGS = 100
_OPEN = "dead_letters_open"


class Casebook:
    """Remembers when alerts fired; asks the trails and the store for everything else."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self.fired: OrderedDict[str, deque[float]] = OrderedDict()
        """When each alert fired, by fingerprint; the one that fired last is last. Not to be changed."""
        self.touched: dict[str, None] | None = None
        """Alerts that have fired since they were saved last; None: nobody saves them."""
        self._instant = -np.inf
        self._looks = 0

    def evidence(  # noqa: PLR0913, PLR0917  all that the rule reads of it
        self,
        alert: Alert,
        rows: Sequence[int],
        facts: Sequence[str],
        metrics: Sequence[str],
        since: float,
        at: float,
        went: Callable[[Labels], tuple[float, ...]] = lambda _: (),
    ) -> Evidence:
        """Of an alert that fires or ends at an instant, or fires still and is told again.

        `rows`, `facts`, `metrics`: what its rule reads of it. `went`: how the value of its expression went until now.
        """
        if self._instant != at:
            self._instant, self._looks = at, 0
        self._looks += 1
        is_close = self._looks <= MOST_CLOSE_LOOKS
        found = self._reader.evidence(rows, facts, since, is_close=is_close)
        if alert.state != "firing":
            return found
        former = alert.evidence
        if not is_close and former is not None:
            return msgspec.structs.replace(former, offenders=found.offenders, top_errors=found.top_errors)
        fired = self._times(alert.fingerprint, at) if former is None else former.fired_24h
        if not is_close:
            return msgspec.structs.replace(found, fired_24h=fired)
        counter = next((name for name in metrics if name.endswith("_total")), "")
        slots = self._slots(counter, rows, at)
        return msgspec.structs.replace(
            found,
            fired_24h=fired,
            changed=self._reader.changed(rows, facts, since, at),
            slots=slots,
            slot_seconds=SLOT_SECONDS if slots else 0.0,
            slots_of=counter if slots else "",
            values=went(alert.labels),
            open_dead_letters=self._open(rows, at) if "dead_lettered" in facts else None,
        )

    def restore(self, fired: Mapping[str, Sequence[float]]) -> None:
        """Go on with when alerts fired in a former process; what was restored before is older."""
        for fingerprint, times in fired.items():
            self.fired[fingerprint] = deque(times, maxlen=_MOST_FIRINGS)
            self.fired.move_to_end(fingerprint)
        while len(self.fired) > MOST_REMEMBERED:
            self.fired.popitem(last=False)

    def _times(self, fingerprint: str, at: float) -> int:
        """Note that it fires now; how often it did within a day."""
        times = self.fired.setdefault(fingerprint, deque(maxlen=_MOST_FIRINGS))
        self.fired.move_to_end(fingerprint)
        if self.touched is not None:
            self.touched.pop(fingerprint, None)
            self.touched[fingerprint] = None
        if len(self.fired) > MOST_REMEMBERED:
            self.fired.popitem(last=False)
        times.append(at)
        while times[0] <= at - DAY:
            times.popleft()
        return len(times)

    def _slots(self, counter: str, rows: Sequence[int], at: float) -> tuple[float, ...]:
        """Events of each slot up to the instant, as far as the past is known."""
        series = self._store.of_rows(counter, rows) if counter else None
        if series is None:
            return ()
        starts = [at - number * SLOT_SECONDS for number in range(SLOTS, 0, -1)]
        known = self._store.known_from(series)
        return tuple(
            float(np.sum(self._store.increase(series, start, start + SLOT_SECONDS)))
            for start in starts
            if start >= known
        )

    def _open(self, rows: Sequence[int], at: float) -> int | None:
        series = self._store.of_rows(_OPEN, rows)
        if series is None:
            return None
        values, present = self._store.value(series, at)
        return round(float(np.sum(values if present is None else values[present])))
