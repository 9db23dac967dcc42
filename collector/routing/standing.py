"""How an alert stands: whether anybody is told of it, and if not, why. What the API shows and the commands print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from collector.routing.keeping import Ack

Activity: TypeAlias = Literal["active", "suppressed", "unprocessed"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Of one alert at one instant."""

    receivers: tuple[str, ...] = ()
    untold: Mapping[str, tuple[str, ...]] = {}
    """Of these receivers the targets that have not taken it; of one that has no target, none."""
    silenced_by: tuple[str, ...] = ()
    """Ids of silences."""
    inhibited_by: tuple[str, ...] = ()
    """Fingerprints of alerts that speak for it."""
    muted_by: tuple[str, ...] = ()
    """Names of what mutes all of its routes."""
    ack: Ack | None = None
    is_flapping: bool = False

    @property
    def state(self) -> Activity:
        """As Alertmanager has it: an ack and a mute by time suppress nothing there."""
        return "suppressed" if self.silenced_by or self.inhibited_by else "active"
