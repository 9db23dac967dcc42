"""`tasktrail silence`: make, list and end silences of a running daemon, as `amtool silence` does."""

from __future__ import annotations

import argparse
import time
from typing import Any
from urllib.parse import quote, urlencode

from rich.table import Table
from rich.text import Text

from collector.cli import client, report
from collector.documents.scalars import parse_duration
from collector.model.errors import TasktrailError
from collector.model.labels import Matcher
from collector.model.shown import shown
from collector.routing.matchers import parse_matcher, written
from collector.web.v2_silences import OPS


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `silence`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="what to do")
    add = actions.add_parser("add", help="make one", description="Make a silence; prints its id.")
    add.add_argument("matchers", nargs="+", metavar="MATCHER", help="what it is about: task=pay.settle queue=~'pay.*'")
    add.add_argument("-d", "--duration", default="1h", metavar="TIME", help="how long (%(default)s)")
    add.add_argument("-c", "--comment", required=True, metavar="TEXT", help="why")
    add.add_argument("-a", "--author", default=client.author(), metavar="NAME", help="who (%(default)s)")
    show = actions.add_parser("list", help="those that hold or will", description="List silences.")
    show.add_argument("matchers", nargs="*", metavar="MATCHER", help="only those with such matchers")
    show.add_argument("--expired", action="store_true", help="also those that have ended")
    expire = actions.add_parser("expire", help="end some now", description="End silences now.")
    expire.add_argument("ids", nargs="+", metavar="ID")
    client.configure(parser, add, show, expire)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2 where the daemon refuses or is not there."""
    return _ACTIONS[arguments.action](arguments)


def _add(arguments: argparse.Namespace) -> int:
    now = time.time()
    body = {
        "matchers": [_posted(_matcher(text)) for text in arguments.matchers],
        "startsAt": client.time_of(now),
        "endsAt": client.time_of(now + duration(arguments.duration)),
        "createdBy": arguments.author,
        "comment": arguments.comment,
    }
    daemon = client.Client(arguments)
    made = daemon.ask("POST", "/api/v2/silences", body)["silenceID"]
    if arguments.json:
        client.show({"id": made, "unkept": daemon.unkept})
    else:
        print(made)
        client.warn(daemon.unkept)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    asked = urlencode([("filter", one) for one in arguments.matchers])
    found = [_listed(one) for one in client.Client(arguments).ask("GET", f"/api/v2/silences?{asked}", kind=list)]
    found = [one for one in found if arguments.expired or one["state"] != "expired"]
    if arguments.json:
        client.show({"silences": found})
    elif not found:
        print("no silence holds")
    else:
        table = Table("id", "state", "matchers", "ends", "by", "comment")
        for one in found:
            cells = (one["matchers"], report.clock(one["ends_at"]), shown(one["created_by"]), shown(one["comment"]))
            table.add_row(*map(Text, (one["id"], one["state"], *cells)))
        report.console().print(table)
    return 0


def _expire(arguments: argparse.Namespace) -> int:
    daemon = client.Client(arguments)
    for one in arguments.ids:
        try:
            daemon.ask("DELETE", f"/api/v2/silence/{quote(one, safe='')}")
            client.warn(daemon.unkept)
        except client.RefusedError as error:
            if error.status == 404:
                raise TasktrailError(f"there is no silence {one}: `tasktrail silence list` shows them") from error
            raise
    if arguments.json:
        client.show({"expired": arguments.ids})
    return 0


_ACTIONS = {"add": _add, "list": _list, "expire": _expire}


def duration(text: str) -> float:
    """Seconds of a duration. Raises TasktrailError."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise TasktrailError(str(error)) from error
    if not seconds > 0:
        raise TasktrailError(f"`{text}` is no time to be quiet: write 30m, 2h or 1d")
    return seconds


def _matcher(text: str) -> Matcher:
    try:
        return parse_matcher(text)
    except ValueError as error:
        raise TasktrailError(f"{error}") from error


def _posted(one: Matcher) -> dict[str, Any]:
    return {"name": one.name, "value": one.value, "isRegex": "~" in one.op, "isEqual": not one.op.startswith("!")}


def _listed(one: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        Matcher(each["name"], OPS[each["isEqual"], each["isRegex"]], each["value"], bool)  # only to be shown
        for each in one["matchers"]
    ]
    return {
        "id": one["id"],
        "state": one["status"]["state"],
        "matchers": written(conditions),
        "starts_at": client.seconds_of(one["startsAt"]),
        "ends_at": client.seconds_of(one["endsAt"]),
        "created_by": one["createdBy"],
        "comment": one["comment"],
    }
