"""Notifications as text on this process's own output: a readable block, or one JSON object a line."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Literal, TextIO, get_args

import msgspec

from collector.channels import thread
from collector.model.alert import Notification
from collector.model.errors import ChannelError

Form = Literal["text", "json"]


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`form`: blocks for people, or JSON lines for machines. `stream`: where to; None is standard output."""

    form: Form = "text"
    stream: TextIO | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return "log" if self.form == "text" else f"log:{self.form}"

    @property
    def description(self) -> str:
        """For people."""
        return "readable blocks on standard output" if self.form == "text" else "JSON lines on standard output"

    def open(self) -> LogChannel:
        """A channel to the stream."""
        return LogChannel(self)

    def preview(self, notification: Notification) -> str:
        """What would be written."""
        return (block(notification) if self.form == "text" else line(notification)).rstrip("\n")


def from_url(url: str) -> LogConfig:
    """`log:` or `log:json`. Raises ChannelError for other forms."""
    form = url.partition(":")[2] or "text"
    for known in get_args(Form):
        if form == known:
            return LogConfig(form=known)
    raise ChannelError("a log target is `log:` or `log:json`", retryable=False)


class LogChannel:
    """Writes and flushes off the loop: a reader that stops reading must not stop the daemon."""

    spacing_seconds = 0.0

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._writing: Future[None] | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return self._config.name

    async def send(self, notification: Notification) -> None:
        """Written and flushed. Raises ChannelError where the stream is closed, or still takes the last one."""
        if self._writing is not None and not self._writing.done():
            raise ChannelError(f"{self.name}: nobody reads this output", retryable=True)
        text = block(notification) if self._config.form == "text" else line(notification)
        stream = self._config.stream or sys.stdout

        def write() -> None:
            stream.write(text)
            stream.flush()

        self._writing = thread.start(f"channel {self.name}", write)
        try:
            await asyncio.wrap_future(self._writing)
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            raise ChannelError(f"{self.name}: output is closed ({type(error).__name__})", retryable=False) from None

    async def close(self) -> None:
        """Nothing to give back: the stream belongs to the process."""


def block(notification: Notification) -> str:
    """Time and title, then the text set in, then an empty line."""
    at = datetime.fromtimestamp(notification.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = "\n".join(f"  {each}".rstrip() for each in notification.text.splitlines())
    return f"{at} {notification.title}\n{text}\n\n"


def line(notification: Notification) -> str:
    """One JSON object: the notification as `replay --json` lists it, with its key."""
    return msgspec.json.encode({"key": notification.key, **notification.listed()}).decode() + "\n"
