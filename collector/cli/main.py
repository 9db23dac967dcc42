"""`tasktrail`: picks the command, meets every declared error once, gives the exit code.

0 fine · 1 the thing that was checked is wrong · 2 the call, or a file it needs, is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from collector import __version__
from collector.cli import (
    ack,
    alerts,
    bench,
    check,
    dead_letters,
    demo,
    drill,
    notify,
    record,
    replay,
    routes,
    run,
    silence,
    tasks,
    test,
    top,
)
from collector.model.errors import ProblemsError, TasktrailError

Configure = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]

# name → (one line of help, its arguments, what it does)
COMMANDS: dict[str, tuple[str, Configure, Run]] = {
    "demo": ("a simulated fleet, the shipped rules, alerts on the terminal", demo.configure, demo.main),
    "run": ("the daemon", run.configure, run.main),
    "check": ("find every problem in configuration and rule files", check.configure, check.main),
    "test": ("unit tests of rules, in promtool's format", test.configure, test.main),
    "replay": ("run the pipeline over recorded events", replay.configure, replay.main),
    "record": ("write what a source delivers to a file", record.configure, record.main),
    "notify": ("try out notification targets", notify.configure, notify.main),
    "routes": ("which receivers an alert goes to", routes.configure, routes.main),
    "alerts": ("what fires in a running daemon, and who is told", alerts.configure, alerts.main),
    "silence": ("make, list and end silences of a running daemon", silence.configure, silence.main),
    "ack": ("take alerts upon oneself", ack.configure, ack.main),
    "dead-letters": ("what was given up, and what is decided of it", dead_letters.configure, dead_letters.main),
    "drill": ("try out that an alert reaches somebody", drill.configure, drill.main),
    "tasks": ("the tasks that a running daemon remembers", tasks.configure, tasks.main),
    "task": ("the timeline of one task, from a running daemon", tasks.configure_task, tasks.main_task),
    "trace": ("all tasks of a trace as a waterfall, from a running daemon", tasks.configure_trace, tasks.main_trace),
    "top": ("what flows, waits and fires in a running daemon, as it changes", top.configure, top.main),
    "bench": ("measure the pipeline on this machine", bench.configure, bench.main),
}


class _Parser(argparse.ArgumentParser):
    """Says how a value is written that begins like an option."""

    def error(self, message: str) -> NoReturn:
        """As ever, and what to do."""
        if message.endswith("expected one argument"):
            message += "; a value that begins with - is written as --name=-value"
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(
        prog="tasktrail",
        description="Knows whether the work handed to a queue was done, once, in time, and who repairs it.",
    )
    top.add_argument("--version", action="version", version=f"tasktrail {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (text, configure, main_of) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        configure(command)
        command.set_defaults(main=main_of)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Declared errors become one line each on stderr and exit code 2."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.main(arguments)
    except ProblemsError as error:
        print(error, file=sys.stderr)
        return 2
    except TasktrailError as error:
        print(f"tasktrail {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
