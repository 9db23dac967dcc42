"""`tasktrail ack`: take alerts upon oneself, so that nobody else is called for them."""

from __future__ import annotations

import argparse
import re
from typing import Any
from urllib.parse import quote

from rich.table import Table
from rich.text import Text

from collector.cli import client, report
from collector.cli.silence import duration
from collector.model.errors import TasktrailError
from collector.model.shown import shown

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `ack`."""
    client.configure(parser)
    parser.add_argument(
        "alerts", nargs="*", metavar="FINGERPRINT|MATCHER", help="by fingerprint, or all that fulfil the matchers"
    )
    parser.add_argument("-c", "--reason", default="", metavar="TEXT", help="what is being done")
    parser.add_argument("-a", "--author", default=client.author(), metavar="NAME", help="who (%(default)s)")
    parser.add_argument("-d", "--duration", default="1d", metavar="TIME", help="for at most so long (%(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the acks that hold")
    what.add_argument("--end", action="store_true", help="take the acks of these fingerprints back")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 2 where no such alert fires, or the daemon is not there."""
    daemon = client.Client(arguments)
    if arguments.list:
        return _show(daemon.ask("GET", "/api/acks")["acks"], arguments)
    if not arguments.alerts:
        raise TasktrailError("name alerts by fingerprint or matchers: `tasktrail alerts` lists them")
    if arguments.end:
        for one in arguments.alerts:
            daemon.ask("DELETE", f"/api/acks/{quote(one, safe='')}")
            client.warn(daemon.unkept)
        return _show([], arguments) if arguments.json else 0
    names = [one for one in arguments.alerts if _FINGERPRINT.fullmatch(one)]
    body = {
        "fingerprints": names,
        "matchers": [one for one in arguments.alerts if one not in names],
        "author": arguments.author,
        "reason": arguments.reason,
        "seconds": duration(arguments.duration),
    }
    answer = daemon.ask("POST", "/api/acks", body)
    client.warn(answer.get("unkept", ""))
    return _show(answer["acks"], arguments)


def _show(acks: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    if arguments.json:
        client.show({"acks": acks})
    elif not acks:
        print("no ack holds")
    else:
        table = Table("alert", "by", "until", "why", "fingerprint")
        for one in acks:
            about = " ".join(f"{name}={shown(value)}" for name, value in one["labels"].items())
            cells = (about, shown(one["author"]), report.clock(one["expires_at"]), shown(one["reason"]))
            table.add_row(*map(Text, (*cells, one["fingerprint"])))
        report.console().print(table)
    return 0
