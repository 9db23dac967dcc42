"""`tasktrail dead-letters`: list, show, ack, resolve and export, of a running daemon or of a state left behind."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from rich.table import Table
from rich.text import Text

from collector.cli import client, dead_letter, redrive, report
from collector.deadletter.ledger import Ledger
from collector.deadletter.record import STATES, VERDICTS
from collector.keeping.ledgerfile import ledger_found
from collector.model.errors import TasktrailError
from collector.model.files import why
from collector.model.shown import shown
from collector.state.reading import reading
from collector.web.dead_letters import FILTERS, heading, lined, row

PATH = "/api/dead-letters"
_HELP = {
    "state": f"in one of these states, with commas: {', '.join(STATES)}, or unresolved",
    "task": "of tasks with such a name (a glob, as --queue, --source and --owner)",
    "queue": "in such a queue",
    "source": "from such a source",
    "owner": "of such an owner",
    "error": "whose error class holds this",
    "fingerprint": "of this cause",
    "task_id": "of this task id",
    "since": "that died within this time: 2h, or Unix seconds",
}
_FORMS = dict.fromkeys(("task", "queue", "source", "owner"), "GLOB") | {
    "state": "STATE[,STATE]",
    "error": "CLASS",
    "task_id": "ID",
    "since": "TIME",
}
_SHOWN = ("id", "state", "died", "task", "queue", "owner", "error", "attempts", "place", "deleted")
_CAUSES = ("fingerprint", "open", "total", "task", "owner", "error", "message", "last")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `dead-letters`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="what to do")
    listing = actions.add_parser("list", help="by filter, newest first", description="List dead letters.")
    listing.add_argument("--by", choices=("fingerprint",), help="count their causes instead")
    listing.add_argument("--limit", default="100", metavar="N", help="so many to a page, 1000 at most (%(default)s)")
    listing.add_argument("--after", default="", metavar="NEXT", help="go on behind a page")
    one = actions.add_parser("show", help="one, with its history", description="Show one with its history.")
    one.add_argument("id", metavar="ID")
    ack = actions.add_parser("ack", help="somebody looks at it", description="Stop the clock of the review.")
    resolve = actions.add_parser("resolve", help="say what becomes of it", description="Give a verdict.")
    resolve.add_argument("--as", dest="verdict", choices=VERDICTS, required=True, help="what was decided")
    again = actions.add_parser("redrive", help="put messages back", description="Put messages back where they were.")
    redrive.configure(again)
    for action in (ack, resolve, again):
        action.add_argument("ids", nargs="*", metavar="ID", help="these; or those that the filter names")
        action.add_argument("-r", "--reason", default="", required=action is not ack, metavar="TEXT", help="why")
        action.add_argument("-a", "--actor", default=client.author(), metavar="NAME", help="who (%(default)s)")
        action.add_argument("--ticket", default="", metavar="TEXT", help="where it is written down")
        action.add_argument("--dry-run", action="store_true", help="only say which ones are meant")
    export = actions.add_parser("export", help="all of them to a file", description="Write them all, oldest first.")
    export.add_argument(
        "--format", default="ndjson", choices=("ndjson", "csv"), help="%(default)s, with histories; csv"
    )
    export.add_argument("-o", "--output", default="-", metavar="FILE", help="replaced once it is whole; - is stdout")
    export.add_argument("--from", dest="directory", metavar="DIR", help="from a state directory, without a daemon")
    for action in (listing, ack, resolve, again, export):
        for name in FILTERS:
            action.add_argument(
                f"--{name.replace('_', '-')}", default="", metavar=_FORMS.get(name, "TEXT"), help=_HELP[name]
            )
    client.configure(parser, listing, one, ack, resolve, again, export)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 where no such record is remembered; 2 where the daemon refuses or is not there."""
    return _ACTIONS[arguments.action](arguments)


def _filter(arguments: argparse.Namespace) -> dict[str, str]:
    return {name: getattr(arguments, name) for name in FILTERS if getattr(arguments, name)}


def _list(arguments: argparse.Namespace) -> int:
    asked = {**_filter(arguments), "limit": arguments.limit}
    asked |= {name: value for name in ("after", "by") if (value := getattr(arguments, name))}
    found = client.Client(arguments).ask("GET", f"{PATH}?{urlencode(asked)}")
    if arguments.json:
        client.show(found)
    elif arguments.by:
        _table(_CAUSES, map(_cause, found["causes"]))
    else:
        _table(_SHOWN, map(_record, found["dead_letters"]))
        if found["next"]:
            print(f"more: --after {shown(found['next'])}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    try:
        found = client.Client(arguments).ask("GET", f"{PATH}/{quote(arguments.id, safe='')}")
    except client.RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            print(error, file=sys.stderr)
            return 1
        raise
    if arguments.json:
        client.show(found)
        return 0
    for line in dead_letter.lines(found):
        report.console().print(Text(line), soft_wrap=True)
    return 0


def _judge(arguments: argparse.Namespace) -> int:
    is_ack = arguments.action == "ack"
    body = {
        "ids": arguments.ids,
        "filter": _filter(arguments),
        "actor": arguments.actor,
        "reason": arguments.reason,
        "ticket": arguments.ticket,
        "state": "" if is_ack else arguments.verdict,
        "dry_run": arguments.dry_run,
    }
    found = client.Client(arguments).ask("POST", f"{PATH}/{arguments.action}", body)
    if arguments.json:
        client.show(found)
        return 0
    count, state = len(found["dead_letters"]), "acknowledged" if is_ack else arguments.verdict
    if arguments.dry_run:
        print(f"{count} would be {state}")
        for name in found["dead_letters"]:
            print(f"  {shown(name)}")
    else:
        unkept = found.get("unkept", "")
        print(f"{count} {state}" + (f"; {unkept}" if unkept else ""))
    for was, corrected in Counter(found.get("corrected", {}).values()).items():
        print(f"{corrected} of them had been {shown(was)} before")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    with _output(arguments.output) as out:
        if arguments.directory is None:
            asked = urlencode({**_filter(arguments), "format": arguments.format})
            client.Client(arguments).copy(f"{PATH}/export?{asked}", out)
        elif _filter(arguments):
            raise TasktrailError("--from takes all that is there: leave the filters out")
        else:
            out.writelines(_left_behind(Path(arguments.directory), arguments.format))
    return 0


def _left_behind(directory: Path, form: str) -> Iterator[bytes]:
    """The lines of an export of what is in a state directory."""
    ledger = Ledger()
    with reading(directory) as found:
        ledger.restore(*ledger_found(found))
    if form == "csv":
        yield heading()
    for one in ledger.records.values():
        yield row(one) if form == "csv" else lined(one, ledger.history.get(one.id, []))


@contextmanager
def _output(name: str) -> Iterator[BinaryIO]:
    """Where to write; a file takes its name once it is whole. Raises TasktrailError."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(name)
    except OSError as error:
        raise TasktrailError(f"-o {name}: cannot be written: {why(error)}") from error
    finally:
        part.unlink(missing_ok=True)


def _redrive(arguments: argparse.Namespace) -> int:
    return redrive.main(arguments, _filter(arguments))


_ACTIONS = {"redrive": _redrive, "list": _list, "show": _show, "ack": _judge, "resolve": _judge, "export": _export}


def _record(one: dict[str, Any]) -> tuple[str, ...]:
    place = one["place"] or ("(no message)" if one["is_virtual"] else "")
    cells = (one["task"], one["queue"], one["owner"], one["error"], str(one["attempts"]), place)
    return one["id"], one["state"], report.clock(one["at"]), *map(shown, cells), _deleted(one)


def _deleted(one: dict[str, Any]) -> str:
    return report.clock(one["expires_at"]) if one["expires_at"] else shown(one["expires_by"])


def _cause(one: dict[str, Any]) -> tuple[str, ...]:
    cells = (one["task"], one["owner"], one["error"], one["message"])
    return one["fingerprint"], str(one["open"]), str(one["total"]), *map(shown, cells), report.clock(one["last_at"])


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    listed = list(rows)
    if not listed:
        print("no dead letter matches")
        return
    table = Table(*columns)
    for cells in listed:
        table.add_row(*map(Text, cells))
    report.console().print(table)
