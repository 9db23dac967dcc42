"""`tasktrail demo`: everything in one process, with a simulated fleet; no broker, no configuration, no network.

The shipped rules, with an interval of 1 s and windows a thirtieth as long, so that alerts fire and resolve while you
watch.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import socket
import sys

from rich.console import Console

from collector import app
from collector.channels.log import LogChannel, LogConfig
from collector.cli import summary
from collector.cli.fleet import Fleet
from collector.cli.live import LiveView
from collector.config.settings import DEFAULT_LISTEN, Settings
from collector.daemon import Daemon
from collector.documents import Url
from collector.documents.scalars import parse_duration
from collector.model.clock import SystemClock
from collector.model.record import Batch, Intake
from collector.wiring.plugs import Feed

SPEED_UP = 30.0
SHORTEST_WINDOW = 5.0
_STEP = 0.05

# `[5m]`, `[1h:1m]`, `offset 30m`, and the times of a rule or a group
_WINDOW = re.compile(r"(\[|offset )([0-9smhd]+)")
_HOLD = re.compile(r"\b(for|keep_firing_for): ([0-9smhd]+)")
_GROUP = re.compile(r"^( *- name: .*)$", re.MULTILINE)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `demo`."""
    parser.add_argument("--seconds", type=float, default=None, metavar="N", help="end after N seconds; else at Ctrl-C")


def hastened(text: str) -> str:
    """A rule file with every time a thirtieth as long, and every group evaluated each second."""

    def window(match: re.Match[str]) -> str:
        return f"{match[1]}{max(SHORTEST_WINDOW, round(parse_duration(match[2]) / SPEED_UP)):.0f}s"

    def hold(match: re.Match[str]) -> str:
        return f"{match[1]}: {round(parse_duration(match[2]) / SPEED_UP):.0f}s"

    return _GROUP.sub(r"\1\n    interval: 1s", _HOLD.sub(hold, _WINDOW.sub(window, text)))


class FleetSource:
    """The simulated fleet as a source."""

    def __init__(self) -> None:
        self._clock = SystemClock()

    async def run(self, intake: Intake) -> None:
        """Hand over what the fleet does, as it does it."""
        intake.connected("a simulated fleet: 5 kinds of task, 4 workers")
        fleet, count = Fleet(self._clock.now()), 0
        while True:
            now = self._clock.now()
            bodies = fleet.due(now)
            await intake.take(
                Batch(
                    source="demo",
                    place="fleet",
                    bodies=bodies,
                    receipts=list(range(count, count + len(bodies))),
                    received_at=now,
                    is_head=True,
                )
            )
            count += len(bodies)
            await asyncio.sleep(_STEP)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 at the end of the time, or at Ctrl-C."""
    console = Console()
    address = free_address(DEFAULT_LISTEN)
    settings = Settings(state="none", listen=address, external_url=Url(f"http://{address}"))
    view = LiveView(console, f"http://{address}") if console.is_terminal else None
    heard = summary.Listener(view or LogChannel(LogConfig(stream=sys.stdout)))

    async def watched() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if arguments.seconds is not None:
            loop.call_later(arguments.seconds, stop.set)
        drawing: list[asyncio.Task[None]] = []
        daemons: list[Daemon] = []

        def started(daemon: Daemon, _port: int) -> None:
            daemons.append(daemon)
            if view is None:
                console.print(
                    f"the demo listens on http://{address}; the first alerts fire after about 5 s", highlight=False
                )
            else:
                drawing.append(loop.create_task(view.draw(daemon)))

        parts = app.Parts(
            feeds=(Feed(name="demo", build=FleetSource),), channels=(heard,), rewrite=hastened, started=started
        )
        try:
            code = await app.run(settings, stop, parts=parts)
        finally:
            for task in drawing:
                task.cancel()
            await asyncio.gather(*drawing, return_exceptions=True)
        for daemon in daemons:
            console.print(summary.line(daemon, heard), highlight=False, soft_wrap=True)
        return code

    return asyncio.run(watched())


def free_address(wanted: str) -> str:
    """The wanted address, or one with a free port where it is taken."""
    host, _, port = wanted.rpartition(":")
    for number in (int(port), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
            except OSError:
                continue
            return f"{host}:{probe.getsockname()[1]}"
    return wanted
