"""`tasktrail replay`: the real pipeline over recorded events; prints what was stitched, counted and alerted."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from collector.app import limits
from collector.cli import diff, options, report
from collector.config import contractfile, routefiles, rulefiles
from collector.config.settings import Settings
from collector.config.shipped import runbooks
from collector.documents.scalars import parse_duration
from collector.formats import FORMATS, Decode, capture
from collector.formats.recognise import recognising
from collector.model.alert import Alert
from collector.model.errors import TasktrailError
from collector.model.record import Batch, Gap, Outcome, Receipt
from collector.model.shown import counted, shown
from collector.replaying import Replay
from collector.routing.message import Wording
from collector.sources.file import STDIN, FileOptions, FileSource
from collector.wiring.plugs import captured


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="captures or NDJSON of events; .gz and .zst too; - is stdin"
    )
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="read topics, streams and exchanges as its sources do, with its rules"
    )
    parser.add_argument("--rules", action="append", default=[], metavar="PATH|shipped", help="rule files")
    parser.add_argument(
        "--diff",
        action="append",
        default=[],
        metavar="PATH|shipped",
        help="other rule files to hold against them",
    )
    parser.add_argument("--tasks", metavar="FILE", help="what each class of task promises")
    parser.add_argument("--routes", metavar="FILE", help="routes and receivers; else the built-in route")
    parser.add_argument("--task", metavar="ID", help="the timeline of one task")
    parser.add_argument("--trace", metavar="ID", help="all trails of one trace")
    parser.add_argument("--trails", action="store_true", help="every trail with its counts")
    parser.add_argument(
        "--as", dest="form", choices=FORMATS, help="read every record in this form; else each is recognised"
    )
    parser.add_argument("--until", metavar="+10m", help="go on after the last record")
    parser.add_argument("--speed", type=_speed, metavar="X", help="at X times the recorded speed; else at once")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 where a task or trace that a person asked for is not there; 2 where a file cannot be used."""
    beyond = _beyond(arguments.until)
    settings = options.read(arguments.config) if arguments.config else Settings()
    rule_sets = [arguments.rules or settings.rules, *([arguments.diff] if arguments.diff else [])]
    wording = Wording(runbooks=runbooks())
    routes = arguments.routes or settings.routes
    routing = routefiles.load(routes) if routes else None
    contracts = contractfile.load(arguments.tasks or settings.tasks)
    read_as: list[Counter[str]] = [Counter() for _ in rule_sets]
    replays = [
        Replay(
            rulefiles.load(rules),
            decode=_decoder(arguments, settings, counts),
            limits=limits(settings),
            wording=wording,
            routing=routing,
            contracts=contracts,
        )
        for rules, counts in zip(rule_sets, read_as, strict=True)
    ]
    replay = replays[0]
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
        disable=arguments.json or not console.is_terminal,
    ) as progress:  # fmt: skip
        bar = progress.add_task("reading")

        def show(changed: list[Alert]) -> None:
            progress.update(bar, description=counted(replay.axis.totals.read, "event"))
            if not arguments.json and not arguments.diff:
                report.alerts(changed, replay.pipeline.store.frontier)

        asyncio.run(_read(_Reader(replays, _Pace(arguments.speed), show), arguments.files, beyond))
    _say_read_as(read_as[0])
    result = _result(arguments, replays)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    elif arguments.diff:
        diff.show(msgspec.to_builtins(result["diff"]), report.console())
    else:
        report.replay(msgspec.to_builtins(result))
    _say_untold(replay)
    return _unread(arguments, replay) or (0 if arguments.json else _missing(arguments, result))


def _decoder(arguments: argparse.Namespace, settings: Settings, counts: Counter[str]) -> Decode:
    """What reads the records: the one form that was asked for; else each by its source, or by what it looks like."""
    if arguments.form:
        return FORMATS[arguments.form].new()
    return recognising({**captured(settings.sources), **FORMATS}, counts)


def _say_read_as(counts: Counter[str]) -> None:
    """Which forms a capture was taken for: of a topic or stream it can only be guessed."""
    if counts:
        said = ", ".join(f"{_FORMS.get(name, name)} ({count:,})" for name, count in counts.most_common())
        print(f"records read as: {said}", file=sys.stderr)


_FORMS = {
    "": "no known form, passed over",
    "messages": "messages of hand-written consumers, where no source of -c FILE and no --as says otherwise",
    "native": "native events",
}


def _say_untold(replay: Replay) -> None:
    """How to see what would have been sent of alerts that still wait for their groups where the recording ends."""
    if untold := replay.untold():
        which = f"{counted(len(untold), 'alert')} had not been told of when the recording ended"
        print(f"{which}: --until +{math.ceil(max(untold.values()))}s shows what would be sent", file=sys.stderr)


def _unread(arguments: argparse.Namespace, replay: Replay) -> int:
    """2, and a word, where nothing that was read could be used: the file is then none to replay. Else 0."""
    totals = replay.axis.totals
    if totals.malformed < max(1, totals.read):
        return 0
    for path in arguments.files:
        print(f"{path}:1:1: nothing in it can be used: give captures, or native events as NDJSON", file=sys.stderr)
    return 2


def _missing(arguments: argparse.Namespace, result: dict[str, Any]) -> int:
    """Say which task or trace is not there; the exit code."""
    asked = {"task": arguments.task, "trace": arguments.trace}
    missing = [f"{name} {shown(wanted)}" for name, wanted in asked.items() if wanted and result[name] is None]
    for one in missing:
        print(f"no event of {one} is in {', '.join(arguments.files)}", file=sys.stderr)
    return 1 if missing else 0


def _result(arguments: argparse.Namespace, replays: list[Replay]) -> dict[str, Any]:
    """What is printed: the first replay, whatever else was asked about it, and what the second made differently."""
    result = replays[0].result()
    stitcher = replays[0].pipeline.stitcher
    if arguments.trails:
        result["trails"] = {trail.task_id: trail.summary() for trail in stitcher.reader.trails()}
    if arguments.task:
        result["task"] = stitcher.reader.find(arguments.task)
    if arguments.trace:
        result["trace"] = stitcher.reader.trace(arguments.trace)
    if arguments.diff:
        result["diff"] = diff.difference(*(one.result() for one in replays))
    return result


async def _read(reader: _Reader, files: list[str], beyond: float) -> None:
    """File after file, then on to the end. One file is walked as it is read; several may overlap, so only then."""
    for path in files:
        reader.begin(is_only=len(files) == 1)
        await FileSource(FileOptions(name=reader.source, path=STDIN if path == "-" else path)).run(reader)
    await reader.walk(lambda replay: replay.finish(beyond))


class _Reader:
    """An intake whose daemon is a replay, or several side by side: pace and show are those of the first."""

    def __init__(self, replays: list[Replay], pace: _Pace, show: Callable[[list[Alert]], None]) -> None:
        self.source = replays[0].axis.name
        self._replays = replays
        self._pace = pace
        self._show = show
        self._unpack: Callable[[Batch], list[Batch]] | None = None
        self._is_only = True

    def begin(self, *, is_only: bool) -> None:
        """Another file."""
        self._unpack, self._is_only = None, is_only

    def position(self, _place: str) -> Receipt | None:
        """From the beginning."""
        return None

    def connected(self, detail: str, *, is_deaf: bool = False) -> None:
        """A file needs no word."""

    def gap(self, gap: Gap) -> None:
        """A file has none."""

    def filled(self, part: float) -> None:
        """A file has no connections."""

    def mute(self) -> list[str]:
        """Nobody is told of it."""
        return []

    async def take(self, batch: Batch) -> Outcome:
        """Count a batch; its first line tells whether the file is a capture."""
        if batch.bodies and self._unpack is None:
            self._unpack = capture.unpack if capture.is_capture(batch.bodies[0]) else _as_it_is
        unpacked = self._unpack(batch) if self._unpack else [batch]
        for replay in self._replays:
            for part in unpacked:
                replay.count(part)
        if self._is_only:
            await self.walk(Replay.walk)
        return Outcome()

    async def walk(self, stops: Callable[[Replay], Iterator[list[Alert]]]) -> None:
        """Go along, at the pace that was asked for."""
        first, *others = self._replays
        for changed in stops(first):
            await self._pace.wait(first.pipeline.store.frontier)
            self._show(changed)
        for other in others:
            for _ in stops(other):
                pass


def _as_it_is(batch: Batch) -> list[Batch]:
    return [batch]


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
