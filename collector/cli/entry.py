"""The first lines of the process: what signals mean before the daemon has its own handlers, then the command line.

Imports nothing of ours but what it must: loading the rest takes most of a second, in which a service manager may have
changed its mind, and in a container a process without handlers does not hear it at all.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """The exit code of the command that was called."""
    if sys.argv[1:2] == ["run"]:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # no file was read yet that could be read again
    from collector.cli.main import main as command  # noqa: PLC0415 see above

    return command()


def _end(_number: int, _frame: object) -> None:
    """Nothing has begun, so there is nothing to stop."""
    os._exit(0)
