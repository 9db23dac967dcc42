"""`tasktrail record`: writes what a source delivers, untouched, in the capture format."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from collector.cli import options
from collector.config.source_urls import SourceUrl, UrlError, parse_source
from collector.formats.capture import lines
from collector.model.errors import SourceError, TasktrailError
from collector.model.files import why
from collector.model.record import Batch, Gap, Outcome, Receipt
from collector.model.shown import counted
from collector.wiring.plugs import SOURCES


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `record`."""
    parser.add_argument("--source", required=True, metavar="URL", help="what to record")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the capture; - is standard output")
    parser.add_argument("--seconds", type=float, metavar="N", help="end after N seconds; else at Ctrl-C")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 at the end of the source, of the time, or at Ctrl-C; 2 where source or file cannot be had."""
    url = _source(arguments.source)
    if arguments.output == "-":
        return asyncio.run(_record(url, sys.stdout.buffer, arguments.seconds))
    try:
        with Path(arguments.output).open("wb") as file:
            return asyncio.run(_record(url, file, arguments.seconds))
    except OSError as error:
        raise TasktrailError(f"cannot write {arguments.output}: {why(error)}") from error


def _source(text: str) -> SourceUrl:
    try:
        url = parse_source(text, {}, options.secret)
    except UrlError as error:
        raise TasktrailError(f"--source: {error}") from error
    if url.scheme not in SOURCES:
        raise TasktrailError(f"--source: {url.scheme} is pushed to, it cannot be recorded from outside")
    return url


async def _record(url: SourceUrl, file: BinaryIO, seconds: float | None) -> int:
    writer = _Writer(file)
    recording = asyncio.ensure_future(SOURCES[url.scheme].build(url)().run(writer))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, recording.cancel)
    if seconds is not None:
        loop.call_later(seconds, recording.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await recording
    except SourceError as error:
        raise TasktrailError(f"after {counted(writer.count, 'record')}: {error}") from error
    finally:
        print(counted(writer.count, "record"), file=sys.stderr)
    return 0


class _Writer:
    """An intake that writes down."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0

    def position(self, _place: str) -> Receipt | None:
        """As a first start: the source goes back as far as `start_max_age`."""
        return None

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        """Said on stderr, so that the capture may go to standard output."""
        del is_deaf  # the words say it
        print(f"connected, {detail}", file=sys.stderr)

    async def take(self, batch: Batch) -> Outcome:
        """Written and flushed."""
        if batch.bodies:
            self._file.writelines(lines(batch))
            self._file.flush()
            self.count += len(batch.bodies)
        return Outcome(read=len(batch.bodies))

    def gap(self, gap: Gap) -> None:
        """Said on stderr."""
        print(f"{gap} ({gap.reason})", file=sys.stderr)

    def filled(self, part: float) -> None:
        """A gap says where it is too full."""

    def mute(self) -> list[str]:
        """Nothing is counted here."""
        return []
