"""A replay: the pipeline driven by recorded time alone. Synchronous; also what rule tests from events run on.

Takes batches, walks as far as they are complete, and keeps what became of it: episodes of alerts and notifications.
Nothing is the past here: now is the instant that is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from collector.alerting.rulefile import GroupSpec
from collector.config.routefiles import receivers
from collector.formats import FORMATS, Decode
from collector.formats.recognise import recognising
from collector.model.alert import Alert, Notification
from collector.model.contract import Contracts
from collector.model.record import Batch
from collector.routing.message import Wording
from collector.routing.route import is_watchdog
from collector.routing.routefile import Routing
from collector.series.expose import totals
from collector.shell.axis import Axis
from collector.shell.ingest import chunks
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target

GRID = 10
"""Instants per second at which alerts may start between slots."""


class Replay:
    """One run over recorded events."""

    def __init__(  # noqa: PLR0913  what replay and tests may say
        self,
        specs: Sequence[GroupSpec],
        *,
        decode: Decode | None = None,
        source: str = "replay",
        limits: Limits | None = None,
        wording: Wording | None = None,
        routing: Routing | None = None,
        contracts: Contracts | None = None,
    ) -> None:
        self.axis = Axis(name=source, application="", clock="event", is_up=True)
        self.telemetry = Telemetry()
        self.pipeline = Pipeline(
            limits or Limits(),
            specs,
            telemetry=self.telemetry,
            routing=routing,
            receivers=receivers(routing),
            wording=wording,
            contracts=contracts,
        )
        self.pipeline.axes.append(self.axis)
        self.episodes: dict[tuple[str, float], Alert] = {}
        self.notifications: list[Notification] = []
        self._decode = decode or recognising(FORMATS)

    def count(self, batch: Batch) -> None:
        """Make a batch part of the state."""
        for part in chunks(batch):
            self.pipeline.ingest.count(self.axis, self._decode, part, math.inf)

    def walk(self) -> Iterator[list[Alert]]:
        """As far as what was read is complete; one item per stop, the alerts that changed there."""
        newest = max((place.newest for place in self.axis.places.values()), default=-math.inf)
        if newest > -math.inf:
            yield from self._to(newest - self.pipeline.grace)

    def finish(self, seconds: float = 0.0) -> Iterator[list[Alert]]:
        """To the end of what was read, and so many seconds beyond it."""
        end = self._end() + seconds
        if end == -math.inf:
            return
        yield from self._to(end)
        # Nothing more can come: what still waited for a missing fact is decided, and counts.
        while (due := self.pipeline.stitcher.next_due()) is not None and due <= end + self.pipeline.grace:
            while self.pipeline.ingest.expire(due):
                pass

    def untold(self) -> dict[str, float]:
        """The alerts that fire and wait for their turn to be told: for how many seconds after the last record."""
        end = self._end()
        return {
            alert.fingerprint: round(group.flush_at - end, 3)
            for group in self.pipeline.grouping.groups()
            for token, alert in group.alerts.items()
            if alert.state == "firing"
            and not (is_watchdog(alert.labels) or token in group.muted or group.is_told(token))
        }

    def _end(self) -> float:
        """The last record's time, on the grid; minus infinity where there is none."""
        newest = max((place.newest for place in self.axis.places.values()), default=-math.inf)
        return newest if newest == -math.inf else math.ceil(newest * GRID - 1e-3) / GRID

    def _to(self, until: float) -> Iterator[list[Alert]]:
        pipeline = self.pipeline
        pipeline.ingest.observe()
        if pipeline.store.frontier == 0.0 and not pipeline.store.pending_instants(until):
            return  # where the way begins must not depend on how the events are cut into batches
        for changed in pipeline.advance(Target(until), before=self._say_before):
            for alert in changed:
                if alert.fired_at is not None and not is_watchdog(alert.labels):  # it tells nothing of the events
                    self.episodes[alert.fingerprint, alert.active_at] = alert
            self._say(pipeline.store.frontier)
            yield changed
        self._say(until)

    def _say_before(self, at: float) -> None:
        """What was ripe before an instant, and so knew nothing of what changed there."""
        self._say(math.nextafter(at, -math.inf))

    def _say(self, until: float) -> None:
        """What was ripe up to an instant, each at its own time."""
        grouping = self.pipeline.grouping
        while (due := grouping.next_due()) is not None and due <= until:
            for notification in grouping.due(due):
                self.notifications.append(notification)
                grouping.confirm(notification, due)

    def result(self) -> dict[str, Any]:
        """What `replay --json` prints, without trails."""
        return {
            "events": self.axis.totals,
            "tasks": totals(self.pipeline.store),
            "alerts": [_episode(alert) for alert in sorted(self.episodes.values(), key=_place)],
            "notifications": [notification.listed() for notification in self.notifications],
        }


def _place(alert: Alert) -> tuple[float, str]:
    return alert.active_at, alert.fingerprint


def _episode(alert: Alert) -> dict[str, Any]:
    labels = dict(alert.labels)
    return {
        "alertname": labels.get("alertname", ""),
        "labels": labels,
        "annotations": dict(alert.annotations),
        "fingerprint": alert.fingerprint,
        "state": alert.state,
        "active_at": alert.active_at,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "evidence": alert.evidence,
    }
