"""`tasktrail run`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from contextlib import suppress

import uvloop
from aiohttp.http_exceptions import HttpProcessingError

from collector import app
from collector.alerting.checks import findings
from collector.cli import named, options
from collector.cli.core import is_compiled
from collector.cli.ground import ground
from collector.cli.lines import JsonLines, TextLines, UnheldHandler
from collector.cli.refused import unusable
from collector.config import routefiles
from collector.config.settings import Log, Settings
from collector.daemon import Daemon
from collector.model.errors import ProblemsError, TasktrailError
from collector.routing.unreachable import unreachable
from collector.shell import heap
from collector.shell.telemetry import log
from collector.wiring import targets

configure = options.configure

NOT_COMPILED = "plain Python, which is slower (there was no C compiler at the installation, or it failed)"
BUG = 70
"""The exit code where our own code failed (EX_SOFTWARE)."""


def log_to_stderr(wanted: Log) -> None:
    """Send what we say of ourselves to stderr; libraries only where they warn."""
    handler: logging.Handler
    try:
        handler = UnheldHandler(sys.stderr.fileno())
    except OSError:  # no file behind it
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if wanted.format == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("tasktrail").setLevel(wanted.level.upper())
    # aiokafka logs every failed connection of its own retries; what matters reaches us as SourceError
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("aiohttp.server").addFilter(is_our_fault)


def is_our_fault(record: logging.LogRecord) -> bool:
    """Whether the listener complains of us: of a peer that speaks no HTTP, or goes away, nobody need be told."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


def take_descriptors() -> None:
    """As many files and connections as the system grants at most: the limit it begins with is one of former times."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; a second one ends at once. 0 after a clean stop, 70 where a bug ended it."""
    settings, problems, layout = options.settings(arguments)
    if problems:
        raise ProblemsError(problems + layout.placed(unusable(settings)))
    log_to_stderr(settings.log)
    warn(settings)
    take_descriptors()
    heap.wish()
    try:
        return uvloop.run(_supervised(settings))
    except ProblemsError as error:
        raise ProblemsError(layout.placed(error.problems)) from error


def warn(settings: Settings) -> None:
    """Say what `check` would find in rule and route files; their problems are said, and refused, elsewhere."""
    if settings.routes:
        with suppress(TasktrailError):
            routing = routefiles.load(settings.routes)
            for problem in (*routing.undone, *targets.undone(routing), *unreachable(routing)):
                log.warning("%s", problem)
    files = list(named.rules(settings))
    for problem in findings(files, ground(files, settings.labels, named.contracts(settings))):
        log.warning("%s", problem)


async def _supervised(settings: Settings) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        (hurry if stop.is_set() else stop).set()

    is_stale = asyncio.Event()
    """A reload was asked for while the files were being read for the first time."""

    def started(daemon: Daemon, _port: int) -> None:
        log.info("hot loops: %s", "compiled" if is_compiled() else NOT_COMPILED)
        loop.add_signal_handler(signal.SIGHUP, daemon.reload)
        if is_stale.is_set():
            daemon.reload()

    loop.add_signal_handler(signal.SIGHUP, is_stale.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        code = await app.run(settings, stop, hurry=hurry, parts=app.Parts(started=started))
    except TasktrailError:
        raise
    except Exception:  # the one place where a bug is met: said in the log's form, and the process ends
        logging.getLogger("tasktrail").critical("a bug of tasktrail ended it", exc_info=True)
        code = BUG
    if len(asyncio.all_tasks()) > 1:
        # What would not end was told to twice; the loop would wait for it for ever.
        logging.shutdown()
        os._exit(code)
    return code
