"""`tasktrail top`: what flows, what waits and what fires in a running daemon, redrawn in place on a terminal.

Its numbers are PromQL over the daemon's API: what stands here can be asked there, and written into a rule.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from collector.alerting.humanize import humanize_duration
from collector.cli import client, report
from collector.documents.scalars import parse_duration
from collector.model.errors import TasktrailError
from collector.model.shown import shown

Row: TypeAlias = dict[str, Any]
Look: TypeAlias = dict[str, Any]
"""What was seen at one moment, as `--json` prints it."""
MOST_ALERTS, MOST_ROWS = 5, 50
"""Lines of alerts, and of each table; how many more there are is said."""


class Column(NamedTuple):
    """A number of each row. `name`: in JSON."""

    name: str
    heading: str
    query: str
    written: Callable[[float], str]


class Part(NamedTuple):
    """A table: which labels name a row, its numbers, and by which of them the most urgent row comes first."""

    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    urgent: tuple[str, ...]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _rate(value: float) -> str:
    return f"{value:,.1f}"


_BY_TASK, _BY_QUEUE = "by (task, queue)", "by (queue, source)"
_SEEN = '{source!=""}'
"""Of what a source told: the zeros that contracts and rules make series begin with have none."""
PARTS: dict[str, Part] = {
    "tasks": Part(
        ("task", "queue"),
        (
            Column("in_flight", "in flight", f"sum {_BY_TASK} (tasks_in_flight{_SEEN})", _count),
            Column("started_per_second", "started/s", f"sum {_BY_TASK} (rate(task_started_total{_SEEN}[1m]))", _rate),
            Column("failed", "failed in 5m", f"sum {_BY_TASK} (increase(task_failed_total{_SEEN}[5m]))", _count),
            Column("retried", "retried in 5m", f"sum {_BY_TASK} (increase(task_retried_total{_SEEN}[5m]))", _count),
            Column(
                "p95_run_seconds",
                "p95 run",
                f"histogram_quantile(0.95, sum by (task, queue, le) (rate(task_run_seconds_bucket{_SEEN}[5m])))",
                humanize_duration,
            ),
            Column("dead_letters", "dead letters", f"sum {_BY_TASK} (dead_letters_open{_SEEN})", _count),
        ),
        ("alerts", "dead_letters", "failed", "started_per_second"),
    ),
    "queues": Part(
        ("queue", "source"),
        (
            Column("ready", "waiting", f'sum {_BY_QUEUE} (queue_length{{state="ready"}})', _count),
            Column("unacked", "held", f'sum {_BY_QUEUE} (queue_length{{state="unacked"}})', _count),
            Column("oldest_age_seconds", "oldest", f"max {_BY_QUEUE} (queue_oldest_age_seconds)", humanize_duration),
            Column("consumers", "consumers", f"sum {_BY_QUEUE} (queue_consumers)", _count),
            Column("lag", "lag", f"sum {_BY_QUEUE} (consumer_lag)", _count),
            Column("lag_seconds", "lag time", f"max {_BY_QUEUE} (consumer_lag_seconds)", humanize_duration),
        ),
        ("alerts", "oldest_age_seconds", "lag", "ready"),
    ),
}
_DOWN = "tasktrail_source_up == 0"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `top`."""
    parser.add_argument("--once", action="store_true", help="print it once; so it is where there is no terminal")
    parser.add_argument("--every", type=_seconds, default=2.0, metavar="TIME", help="how often it is asked (2s)")
    client.configure(parser)


def _seconds(text: str) -> float:
    try:
        return max(0.1, parse_duration(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0, also where it is interrupted; 2 where no daemon answers at the start, or it refuses."""
    daemon = client.Client(arguments)
    found = look(daemon)
    if arguments.json:
        client.show(found)
    elif arguments.once or not sys.stdout.isatty():
        report.console().print(picture(found, arguments.url))
    else:
        _follow(daemon, found, arguments)
    return 0


def _follow(daemon: client.Client, found: Look, arguments: argparse.Namespace) -> None:
    """Until it is interrupted. While the daemon does not answer, what was seen last stays, with a word about it."""
    trouble = ""
    with Live(console=report.console(), screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                live.update(picture(found, arguments.url, trouble), refresh=True)
                time.sleep(arguments.every)
                try:
                    found, trouble = look(daemon), ""
                except TasktrailError as error:
                    trouble = str(error)
        except KeyboardInterrupt:
            return


# What is seen


def look(daemon: client.Client) -> Look:
    """Ask for everything once. Raises TasktrailError."""
    alerts = [one for one in daemon.ask("GET", "/api/v1/alerts")["data"]["alerts"] if _is_shown(one)]
    parts = {name: _rows(daemon, part, alerts) for name, part in PARTS.items()}
    down = sorted(labels["source"] for labels, _ in _asked(daemon, _DOWN))
    firing = [{"labels": one["labels"], "summary": one["annotations"].get("summary", "")} for one in alerts]
    return {"at": round(time.time(), 3), "alerts": firing, "sources_down": down, **parts}


def _is_shown(alert: Row) -> bool:
    """It fires, and is meant for somebody: one that always fires is not."""
    return bool(alert["state"] == "firing" and alert["labels"].get("severity") != "none")


def _asked(daemon: client.Client, query: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Labels and value of each sample that is a number."""
    for one in daemon.ask("GET", f"/api/v1/query?{urlencode({'query': query})}")["data"]["result"]:
        if math.isfinite(value := float(one["value"][1])):
            yield one["metric"], value


def _rows(daemon: client.Client, part: Part, alerts: list[Row]) -> list[Row]:
    """The rows of a table, the most urgent first; a number that is not known is None."""
    found: dict[tuple[str, ...], Row] = {}
    unknown = dict.fromkeys(column.name for column in part.columns)
    for column in part.columns:
        for labels, value in _asked(daemon, column.query):
            key = tuple(labels.get(name, "") for name in part.labels)
            row = found.setdefault(key, {**dict(zip(part.labels, key, strict=True)), **unknown})
            row[column.name] = value
    about = Counter(_names_of(alert, part.labels) for alert in alerts)
    for (name, *rest), row in found.items():
        row["alerts"] = sum(about[key] for key in product((name,), *((one, None) for one in rest)))
    return sorted(found.values(), key=lambda row: [-(row[name] or 0) for name in part.urgent])


def _names_of(alert: Row, labels: tuple[str, ...]) -> tuple[str | None, ...]:
    """What an alert says of these labels: its own, "" where its tasks have none, None where it says nothing."""
    offenders = (alert.get("evidence") or {}).get("offenders", ())
    unnamed = {name for name in labels if offenders and all(one.get(name) == "" for one in offenders)}
    return tuple(alert["labels"].get(name, "" if name in unnamed else None) for name in labels)


# How it is shown


def picture(found: Look, url: str, trouble: str = "") -> Group:
    """All of it, for a terminal or a pipe."""
    parts = (line for name, part in PARTS.items() for line in _part(name, part, found[name]))
    return Group(*_head(found, url, trouble), *parts)


def _head(found: Look, url: str, trouble: str) -> Iterator[Text]:
    alerts, down = found["alerts"], found["sources_down"]
    yield Text(f"{report.clock(found['at'])}  {url}  {len(alerts)} firing")
    if trouble:
        yield Text(f"not asked since: {shown(trouble)}", "bold red")
    if down:
        yield Text(f"down: {', '.join(map(shown, down))}", "bold red")
    for one in alerts[:MOST_ALERTS]:
        yield Text(f"{shown(one['labels']['alertname'])}: {shown(one['summary'])}", report.STYLES["firing"])
    if len(alerts) > MOST_ALERTS:
        yield Text(f"and {len(alerts) - MOST_ALERTS} more: tasktrail alerts")


def _part(name: str, part: Part, rows: list[Row]) -> Iterator[Table | Text]:
    yield _table(part, rows[:MOST_ROWS]) if rows else Text(f"no {name} yet")
    if len(rows) > MOST_ROWS:
        yield Text(f"and {len(rows) - MOST_ROWS:,} more {name}: tasktrail top --json")


def _table(part: Part, rows: list[Row]) -> Table:
    table = Table(*part.labels, *(column.heading for column in part.columns), "firing")
    for column in table.columns[len(part.labels) :]:
        column.justify = "right"
    for row in rows:
        cells = [shown(row[label]) or '""' for label in part.labels]
        cells += ["" if row[one.name] is None else one.written(row[one.name]) for one in part.columns]
        table.add_row(*map(Text, cells), str(row["alerts"] or ""), style="bold red" if row["alerts"] else "")
    return table
