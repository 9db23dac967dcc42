"""`tasktrail tasks`, `task ID` and `trace ID`: what a running daemon knows of tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from rich.table import Table
from rich.text import Text

from collector.cli import client, report, story, waterfall
from collector.model.contract import UNASSIGNED
from collector.model.errors import TasktrailError
from collector.model.files import why
from collector.model.shown import shown

_COLUMNS = ("task_id", "task", "queue", "state", "attempts", "worker", "error", "first_at", "last_at", "findings")
_COVERAGE = ("task", "trails", "semantics", "owner", "rules", "missing")


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `tasks`."""
    parser.add_argument("what", nargs="?", choices=("coverage",), help="what of the tasks nobody has declared")
    parser.add_argument("--state", default="", metavar="STATE[,STATE]", help="in one of these states")
    parser.add_argument("--task", default="", metavar="GLOB", help="with such a name")
    parser.add_argument("--queue", default="", metavar="GLOB", help="in such a queue")
    parser.add_argument("--error", default="", metavar="CLASS", help="whose error class holds this")
    parser.add_argument("--since", default="", metavar="1h", help="with a fact in this time")
    parser.add_argument("--limit", default="100", metavar="N", help="so many to a page, 1000 at most (100)")
    parser.add_argument("--after", default="", metavar="NEXT", help="go on behind a page")
    parser.add_argument("--draft", metavar="FILE", help="coverage: write a first draft of a tasks file; - is stdout")
    client.configure(parser)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2 where no daemon answers or it refuses."""
    if arguments.what == "coverage":
        return _coverage(arguments)
    if arguments.draft:
        raise TasktrailError("--draft belongs to `tasks coverage`")
    asked = {name: getattr(arguments, name) for name in ("state", "task", "queue", "error", "since", "limit", "after")}
    page = _answer(arguments, "/api/tasks", asked)
    while page["next"] and (lacking := int(asked["limit"]) - len(page["tasks"])) > 0:  # a page may be short
        further = _answer(arguments, "/api/tasks", {**asked, "after": page["next"], "limit": str(lacking)})
        page = {"tasks": page["tasks"] + further["tasks"], "next": further["next"]}
    if arguments.json:
        _print_json(page)
        return 0
    _table(_COLUMNS, page["tasks"])
    if page["next"]:
        print(f"more: --after {shown(page['next'])}")
    return 0


def _coverage(arguments: argparse.Namespace) -> int:
    found = _answer(arguments, "/api/coverage")
    if arguments.draft == "-":
        sys.stdout.write(found["draft"])
        return 0
    if arguments.draft:
        try:
            with Path(arguments.draft).open("x", encoding="utf-8") as file:
                file.write(found["draft"])
        except OSError as error:
            raise TasktrailError(f"--draft {arguments.draft}: cannot be written: {why(error)}") from error
        if UNASSIGNED in found["draft"]:
            print(
                f"{arguments.draft}: write an owner in place of each `{UNASSIGNED}`, else `check` and `run` refuse it",
                file=sys.stderr,
            )
    if arguments.json:
        _print_json(found)
    else:
        _table(_COVERAGE, found["tasks"])
    return 0


def configure_task(parser: argparse.ArgumentParser) -> None:
    """The options of `task`."""
    parser.add_argument("id", metavar="ID", help="the id that the framework gave it")
    client.configure(parser)


def main_task(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 where no such task is remembered."""
    found = _get(arguments, f"/api/tasks/{quote(arguments.id, safe='')}")
    return _tell(arguments, found, "task", lambda: story.task(found))


def configure_trace(parser: argparse.ArgumentParser) -> None:
    """The options of `trace`."""
    parser.add_argument("id", metavar="ID", help="a W3C trace id")
    client.configure(parser)


def main_trace(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 where no such trace is remembered."""
    found = _get(arguments, f"/api/traces/{quote(arguments.id, safe='')}")
    return _tell(arguments, found, "trace", lambda: waterfall.lines(found))


def _tell(arguments: argparse.Namespace, found: Any, what: str, lines: Any) -> int:
    if found is None:
        print(f"no {what} {shown(arguments.id)} is remembered by {arguments.url}", file=sys.stderr)
        return 1
    if arguments.json:
        _print_json(found)
    else:
        out = report.console()
        for line in lines():
            out.print(Text(line), soft_wrap=True)
    return 0


def _get(arguments: argparse.Namespace, path: str, asked: Mapping[str, Any] | None = None) -> Any:
    """The answer; None where there is no such thing. Raises TasktrailError where there is no good answer."""
    query = urlencode({name: value for name, value in (asked or {}).items() if value})
    try:
        return client.Client(arguments).ask("GET", f"{path}?{query}" if query else path)
    except client.RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _answer(arguments: argparse.Namespace, path: str, asked: dict[str, str] | None = None) -> Any:
    found = _get(arguments, path, asked)
    if found is None:
        raise TasktrailError(f"{arguments.url} does not know {path}: is it a tasktrail of this version?")
    return found


def _print_json(found: Any) -> None:
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    table = Table(*(name.removesuffix("_at").replace("_", " ") for name in columns))
    for row in rows:
        table.add_row(*(Text(_cell(name, row[name])) for name in columns))
    report.console().print(table if rows else Text("none"))


def _cell(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return report.clock(value)
    return ", ".join(map(shown, value)) if isinstance(value, list) else shown(str(value))
