"""Channels: notifications out, one target each. A channel is one file with its options, and a line in `CHANNELS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from collector.channels import apprise, log, webhook
from collector.model.alert import Channel, Notification

__all__ = ["CHANNELS", "ChannelConfig", "from_url"]


class ChannelConfig(Protocol):
    """The options of one target, checked."""

    @property
    def name(self) -> str:
        """Names the target; holds no secret."""
        ...

    @property
    def description(self) -> str:
        """What it is, for people who see its name beside it; holds no secret."""
        ...

    def open(self) -> Channel:
        """The channel itself. Connects to nothing yet."""
        ...

    def preview(self, notification: Notification) -> str:
        """What would be sent, as text; secrets as stars."""
        ...


CHANNELS: Mapping[str, Callable[[str], ChannelConfig]] = {
    "webhook+http": webhook.from_url,
    "webhook+https": webhook.from_url,
    "log": log.from_url,
}
"""By the scheme of a `--notify` URL; every other scheme is apprise's."""


def from_url(url: str) -> ChannelConfig:
    """The target that a `--notify` URL names. Raises ChannelError, with what to write instead; it shows no secret."""
    return CHANNELS.get(url.partition(":")[0].lower(), apprise.from_url)(url)
