"""`tasktrail replay`: the real pipeline over recorded events; prints what was stitched, counted and alerted."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from collector import app
from collector.cli import report
from collector.documents.scalars import parse_duration
from collector.formats import capture
from collector.model.alert import Alert
from collector.model.errors import TasktrailError
from collector.model.record import Batch, Gap, Outcome, Receipt
from collector.plugs import runbooks
from collector.replaying import Replay
from collector.routing.message import Wording
from collector.sources.file import STDIN, FileOptions, FileSource


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="captures or NDJSON of events; .gz and .zst too; - is stdin"
    )
    parser.add_argument("--rules", action="append", default=[], metavar="PATH|shipped", help="rule files")
    parser.add_argument("--task", metavar="ID", help="the timeline of one task")
    parser.add_argument("--trace", metavar="ID", help="all trails of one trace")
    parser.add_argument("--trails", action="store_true", help="every trail with its counts")
    parser.add_argument("--until", metavar="+10m", help="go on after the last record")
    parser.add_argument("--speed", type=_speed, metavar="X", help="at X times the recorded speed; else at once")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2 where a file cannot be used."""
    beyond = _beyond(arguments.until)
    replay = Replay(app.load_rules(arguments.rules or ["shipped"]), wording=Wording(runbooks=runbooks()))
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
        disable=arguments.json or not console.is_terminal,
    ) as progress:  # fmt: skip
        bar = progress.add_task("reading")

        def show(changed: list[Alert]) -> None:
            progress.update(bar, description=f"{replay.axis.totals.read:,} events")
            if not arguments.json:
                report.alerts(changed, replay.pipeline.store.frontier)

        asyncio.run(_read(_Reader(replay, _Pace(arguments.speed), show), arguments.files, beyond))
    result = replay.result()
    stitcher = replay.pipeline.stitcher
    if arguments.trails:
        result["trails"] = {trail.task_id: trail.summary() for trail in stitcher.trails()}
    if arguments.task:
        result["task"] = stitcher.find(arguments.task)
    if arguments.trace:
        result["trace"] = stitcher.trace(arguments.trace)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        report.replay(msgspec.to_builtins(result))
    return 0


async def _read(reader: _Reader, files: list[str], beyond: float) -> None:
    """File after file, then on to the end. One file is walked as it is read; several may overlap, so only then."""
    for path in files:
        reader.begin(is_only=len(files) == 1)
        await FileSource(FileOptions(name=reader.replay.axis.name, path=STDIN if path == "-" else path)).run(reader)
    await reader.walk(reader.replay.finish(beyond))


class _Reader:
    """An intake whose daemon is a replay."""

    def __init__(self, replay: Replay, pace: _Pace, show: Callable[[list[Alert]], None]) -> None:
        self.replay = replay
        self._pace = pace
        self._show = show
        self._unpack: Callable[[Batch], Batch] | None = None
        self._is_only = True

    def begin(self, *, is_only: bool) -> None:
        """Another file."""
        self._unpack, self._is_only = None, is_only

    def position(self, _place: str) -> Receipt | None:
        """From the beginning."""
        return None

    def connected(self, detail: str) -> None:
        """A file needs no word."""

    def gap(self, gap: Gap) -> None:
        """A file has none."""

    async def take(self, batch: Batch) -> Outcome:
        """Count a batch; its first line tells whether the file is a capture."""
        if batch.bodies and self._unpack is None:
            self._unpack = capture.unpack if capture.is_capture(batch.bodies[0]) else _as_it_is
        self.replay.count(self._unpack(batch) if self._unpack else batch)
        if self._is_only:
            await self.walk(self.replay.walk())
        return Outcome()

    async def walk(self, stops: Iterator[list[Alert]]) -> None:
        """Go along, at the pace that was asked for."""
        for changed in stops:
            await self._pace.wait(self.replay.pipeline.store.frontier)
            self._show(changed)


def _as_it_is(batch: Batch) -> Batch:
    return batch


class _Pace:
    """Holds a replay to a multiple of its recorded speed."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began: tuple[float, float] | None = None

    async def wait(self, at: float) -> None:
        """Sleep until the instant `at` of the recording is due."""
        if self._speed is None:
            return
        if self._began is None:
            self._began = time.monotonic(), at
        began, first = self._began
        await asyncio.sleep(max(0.0, began + (at - first) / self._speed - time.monotonic()))


def _speed(text: str) -> float:
    speed = float(text)
    if not speed > 0:
        raise argparse.ArgumentTypeError("a speed is a number above 0")
    return speed


def _beyond(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        return parse_duration(text.removeprefix("+"))
    except ValueError as error:
        raise TasktrailError(f"--until {text}: {error}; write +10m for ten minutes after the last record") from error
