"""`tasktrail drill alert-path`: an alert marked as a drill through a real route; says who took it and when."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any
from urllib.parse import quote

from collector.cli import client
from collector.cli.routes import labels
from collector.cli.silence import duration
from collector.model.shown import shown

LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `drill`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="what to try out")
    path = actions.add_parser(
        "alert-path",
        help="whether an alert reaches somebody",
        description="Send an alert marked [DRILL] the way of one with these labels; severity=page unless they say so.",
    )
    path.add_argument("labels", nargs="*", metavar="LABEL=VALUE")
    path.add_argument("--wait", default="30s", metavar="TIME", help="for targets to take it (%(default)s)")
    client.configure(parser, path)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where every target took it, 1 where one did not, or there is none."""
    daemon = client.Client(arguments)
    wait = duration(arguments.wait)
    given = dict(labels(arguments.labels))
    drill = daemon.ask("POST", "/api/drills", {"labels": given, "seconds": wait + 60})
    path = f"/api/drills/{quote(drill['id'], safe='')}"
    deadline = time.monotonic() + wait
    while _missing(drill) and not drill["muted"] and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        drill = daemon.ask("GET", path)
    daemon.ask("DELETE", path)
    result = _result(drill)
    if arguments.json:
        client.show(result)
    else:
        _say(result)
    return 0 if result["ok"] else 1


def _missing(drill: dict[str, Any]) -> list[str]:
    told = {target for _, target, _ in drill["told"]}
    return [target for target in drill["targets"] if target not in told]


def _result(drill: dict[str, Any]) -> dict[str, Any]:
    missing = _missing(drill)
    return {
        "drill": drill["id"],
        "at": drill["at"],
        "receivers": drill["receivers"],
        "took": [
            {"receiver": receiver, "target": target, "at": at, "seconds": round(at - drill["at"], 3)}
            for receiver, target, at in drill["told"]
            if target in drill["targets"]
        ],
        "missing": missing,
        "muted": drill["muted"],
        "ok": bool(drill["targets"]) and not missing,
    }


def _say(result: dict[str, Any]) -> None:
    print(f"drill {result['drill']} to {', '.join(map(shown, result['receivers'])) or 'no receiver'}")
    for one in result["took"]:
        print(f"  {shown(one['target'])} of {shown(one['receiver'])} took it after {one['seconds']:.2f} s")
    if result["muted"]:
        print(f"nobody is told: {shown(result['muted'])}", file=sys.stderr)
    elif not result["took"] and not result["missing"]:
        print("nobody is told: the receiver has no target", file=sys.stderr)
    for target in result["missing"]:
        print(f"  {shown(target)} did not take it", file=sys.stderr)
