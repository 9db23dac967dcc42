"""`tasktrail alerts`: what fires in a running daemon, who was told, and if nobody, why."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import urlencode

from rich.table import Table
from rich.text import Text

from collector.cli import client, report
from collector.model.shown import shown


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `alerts`."""
    client.configure(parser)
    parser.add_argument("--receiver", default="", metavar="REGEX", help="only what goes to such a receiver")
    parser.add_argument("matchers", nargs="*", metavar="MATCHER", help="only what fulfils these: task=pay.settle")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0, also where nothing fires."""
    asked = [("filter", one) for one in arguments.matchers]
    asked += [("receiver", arguments.receiver)] if arguments.receiver else []
    found = client.Client(arguments).ask("GET", f"/api/v2/alerts?{urlencode(asked)}", kind=list)
    alerts = sorted(map(listed, found), key=lambda one: (one["starts_at"], one["fingerprint"]))
    if arguments.json:
        client.show({"alerts": alerts})
    elif not alerts:
        print("nothing fires")
    else:
        report.console().print(_table(alerts))
    return 0


def listed(one: dict[str, Any]) -> dict[str, Any]:
    """An alert of the API as `--json` prints it; times in Unix seconds."""
    status, ack = one["status"], one.get("ack")
    return {
        "alertname": one["labels"].get("alertname", ""),
        "labels": one["labels"],
        "annotations": one["annotations"],
        "fingerprint": one["fingerprint"],
        "state": status["state"],
        "starts_at": client.seconds_of(one["startsAt"]),
        "receivers": [each["name"] for each in one["receivers"]],
        "untold": one.get("untold", {}),
        "silenced_by": status["silencedBy"],
        "inhibited_by": status["inhibitedBy"],
        "muted_by": status["mutedBy"],
        "ack": ack and {**ack, "expiresAt": client.seconds_of(ack["expiresAt"])},
        "flapping": one.get("flapping", False),
        "blind": one.get("blind", False),
    }


def _table(alerts: list[dict[str, Any]]) -> Table:
    table = Table("alert", "about", "since", "told", "fingerprint")
    for one in alerts:
        labels = {name: value for name, value in one["labels"].items() if name != "alertname"}
        about = " ".join(f"{name}={shown(value)}" for name, value in labels.items())
        style = "" if one["state"] == "suppressed" or one["ack"] else report.STYLES["firing"]
        cells = (shown(one["alertname"]), about, report.clock(one["starts_at"]), shown(told(one)), one["fingerprint"])
        table.add_row(*map(Text, cells), style=style)
    return table


def told(one: dict[str, Any]) -> str:
    """Who has heard of an alert, or why somebody has not."""
    words = (
        ("silenced by", one["silenced_by"]),
        ("inhibited by", one["inhibited_by"]),
        ("", one["muted_by"]),
        ("acked by", [one["ack"]["author"]] if one["ack"] else []),
        ("flapping", [""] if one["flapping"] else []),
    )
    for word, names in words:
        if names:
            return f"{word} {', '.join(names)}".strip()
    return ", ".join(_heard(name, one["untold"]) for name in one["receivers"]) or "nobody: no route is for it"


def _heard(receiver: str, untold: dict[str, list[str]]) -> str:
    """The receiver, with the targets that have not taken it."""
    if receiver not in untold:
        return receiver
    return f"{receiver} (not yet {', '.join(untold[receiver])})" if untold[receiver] else f"{receiver} (has no target)"
