"""Alerts from outside, as a Prometheus sends them: they fire until their end comes or nobody speaks of them any longer.

Takes what was posted, gives the alerts that changed, for routing to take like our own.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import msgspec

from collector.model.alert import Alert
from collector.model.labels import Labels, fingerprint

MOST = 50_000
"""Alerts from outside that fire at once; further ones are refused."""


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """One alert as it was posted. Times are Unix seconds, None where it says none."""

    labels: Labels
    annotations: Labels = ()
    starts_at: float | None = None
    ends_at: float | None = None
    generator_url: str = ""


class External:
    """What others say fires. `resolve_timeout`: seconds after which an alert without an end has ended."""

    def __init__(self, resolve_timeout: float = 300.0) -> None:
        self._resolve_timeout = resolve_timeout
        self._ends: dict[str, float] = {}
        self._alerts: dict[str, Alert] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._alerts)

    def __contains__(self, name: str) -> bool:
        return name in self._alerts

    def ends_at(self, name: str) -> float | None:
        """When an alert from outside ends unless somebody speaks of it again."""
        return self._ends.get(name)

    def take(self, posted: Sequence[Posted], now: float, ours: Mapping[str, object]) -> list[Alert]:
        """What changes. `ours`: fingerprints of all that fires; what our own rules say is not changed from outside.

        Raises ValueError where there are too many; none is taken then.
        """
        names = [fingerprint(one.labels) for one in posted]
        if len(self._alerts) + len({name for name in names if name not in self._alerts}) > MOST:
            raise ValueError(f"more than {MOST} alerts from outside fire at once")
        changed: dict[str, Alert] = {}
        for name, one in zip(names, posted, strict=True):
            if name in ours and name not in self._alerts:
                continue
            alert = self._one(name, one, now)
            if alert is not None:
                changed[name] = alert
        return list(changed.values())

    def resume(self, alerts: Sequence[Alert], now: float) -> None:
        """Go on with what a former process was told: it fires for resolve_timeout, as if that were said now."""
        for alert in alerts:
            self._hold(alert, now + self._resolve_timeout)

    def due(self, now: float, most: int = 500) -> list[Alert]:
        """Those whose end has come, resolved; at most so many, and `next_due` says that there are more."""
        ended: list[Alert] = []
        while self._heap and self._heap[0][0] <= now and len(ended) < most:
            at, name = heapq.heappop(self._heap)
            if self._ends.get(name) == at:
                ended.append(self._end(name, at))
        return ended

    def next_due(self) -> float | None:
        """When `due` has something to do next, unless more is said until then."""
        return self._heap[0][0] if self._heap else None

    def _one(self, name: str, one: Posted, now: float) -> Alert | None:
        known = self._alerts.get(name)
        starts_at = min(now, now if one.ends_at is None else one.ends_at) if one.starts_at is None else one.starts_at
        ends_at = now + self._resolve_timeout if one.ends_at is None else one.ends_at
        if ends_at <= now:
            return self._end(name, ends_at) if known is not None else None
        if known is not None:
            starts_at = min(starts_at, known.active_at)
        alert = Alert(
            labels=one.labels,
            annotations=one.annotations,
            fingerprint=name,
            state="firing",
            value=1.0,
            active_at=starts_at,
            fired_at=starts_at,
            generator_url=one.generator_url,
        )
        self._hold(alert, ends_at)
        return None if known == alert else alert

    def _hold(self, alert: Alert, ends_at: float) -> None:
        name = alert.fingerprint
        self._alerts[name], self._ends[name] = alert, ends_at
        heapq.heappush(self._heap, (ends_at, name))
        if len(self._heap) > 2 * len(self._ends) + 100:  # most of it is about ends that were put off
            self._heap = [(at, known) for known, at in self._ends.items()]
            heapq.heapify(self._heap)

    def _end(self, name: str, at: float) -> Alert:
        del self._ends[name]
        alert = self._alerts.pop(name)
        return msgspec.structs.replace(alert, state="resolved", resolved_at=max(at, alert.active_at))
