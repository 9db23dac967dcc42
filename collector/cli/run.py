"""`tasktrail run`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys

import msgspec
import uvloop

from collector import app
from collector.cli import options
from collector.daemon import Daemon
from collector.settings import Log

configure = options.configure


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (Unix seconds), level, message; and the traceback where there is one."""
        line = {"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(log: Log) -> None:
    """Send what we say of ourselves to stderr; libraries only where they warn."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if log.format == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("tasktrail").setLevel(log.level.upper())
    # aiokafka logs every failed connection of its own retries; what matters reaches us as SourceError
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def main(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; a second one ends at once. Exit code 0 after a clean stop."""
    settings = options.settings(arguments)
    log_to_stderr(settings.log)

    async def supervised() -> int:
        stop, hurry = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def signalled() -> None:
            (hurry if stop.is_set() else stop).set()

        def started(daemon: Daemon, _port: int) -> None:
            loop.add_signal_handler(signal.SIGHUP, daemon.reload)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled)
        return await app.run(settings, stop, hurry=hurry, parts=app.Parts(started=started))

    return uvloop.run(supervised())
