"""What an alert is about, put together when it fires or ends: from the trails, the series, and how often it fired.

Once per turn of an alert, never per event; in a storm only the first alerts of an instant are looked at closely.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from collector.model.alert import Alert, Evidence
from collector.model.labels import Matcher
from collector.series.store import Store
from collector.trail.stitcher import Stitcher

SLOT_SECONDS = 15.0
SLOTS = 20
MOST_CLOSE_LOOKS = 100
"""Alerts of one instant whose series are looked at."""
DAY = 86_400.0
MOST_REMEMBERED = 20_000
"""Alerts of which it is remembered when they fired; past it those that fired longest ago are forgotten."""
_MOST_FIRINGS = 100
_OPEN = "dead_letters_open"


class Casebook:
    """Remembers when alerts fired; asks the trails and the store for everything else."""

    def __init__(self, store: Store, stitcher: Stitcher) -> None:
        self._store = store
        self._stitcher = stitcher
        self._fired: OrderedDict[str, deque[float]] = OrderedDict()
        self._instant = -np.inf
        self._looks = 0

    def evidence(  # noqa: PLR0913, PLR0917  all that the rule reads of it
        self, alert: Alert, rows: Sequence[int], facts: Sequence[str], metrics: Sequence[str], since: float, at: float
    ) -> Evidence:
        """Of an alert that fires or ends at an instant. `rows`, `facts`, `metrics`: what its rule reads of it."""
        found = self._stitcher.evidence(rows, facts, since)
        if alert.state != "firing":
            return found
        fired = self._times(alert.fingerprint, at)
        if self._instant != at:
            self._instant, self._looks = at, 0
        self._looks += 1
        if self._looks > MOST_CLOSE_LOOKS:
            return msgspec.structs.replace(found, fired_24h=fired)
        labels = dict(alert.labels)
        counter = next((name for name in metrics if name.endswith("_total")), "")
        slots = self._slots(counter, labels, at) if counter else ()
        return msgspec.structs.replace(
            found,
            fired_24h=fired,
            changed=self._stitcher.changed(rows, facts, since, at),
            slots=slots,
            slot_seconds=SLOT_SECONDS if slots else 0.0,
            slots_of=counter if slots else "",
            open_dead_letters=self._open(labels, at) if "dead_lettered" in facts else None,
        )

    def _times(self, fingerprint: str, at: float) -> int:
        """Note that it fires now; how often it did within a day."""
        times = self._fired.setdefault(fingerprint, deque(maxlen=_MOST_FIRINGS))
        self._fired.move_to_end(fingerprint)
        if len(self._fired) > MOST_REMEMBERED:
            self._fired.popitem(last=False)
        times.append(at)
        while times[0] <= at - DAY:
            times.popleft()
        return len(times)

    def _slots(self, counter: str, labels: Mapping[str, str], at: float) -> tuple[float, ...]:
        """Events of each slot up to the instant, as far as the past is known."""
        series = self._store.select(counter, _matchers(labels))
        if not series:
            return ()
        known = max(self._store.known_from(one) for one in series)
        starts = [at - number * SLOT_SECONDS for number in range(SLOTS, 0, -1)]
        return tuple(
            sum(float(np.sum(self._store.increase(one, start, start + SLOT_SECONDS))) for one in series)
            for start in starts
            if start >= known
        )

    def _open(self, labels: Mapping[str, str], at: float) -> int | None:
        found = 0.0
        series = self._store.select(_OPEN, _matchers(labels))
        for one in series:
            values, present = self._store.value(one, at)
            found += float(np.sum(values if present is None else values[present]))
        return round(found) if series else None


def _matchers(labels: Mapping[str, str]) -> tuple[Matcher, ...]:
    """The series that an alert with these labels can be about."""
    return tuple(
        Matcher(name, "=", labels[name], labels[name].__eq__)
        for name in ("task", "queue", "source")
        if labels.get(name)
    )
