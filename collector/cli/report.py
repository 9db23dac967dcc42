"""What commands print for people: tables of a replay, lines of alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.model.alert import Alert

STYLES = {"firing": "bold red", "resolved": "green", "pending": "yellow"}
"""Colours of the states of an alert."""

_console = Console(highlight=False)


def clock(at: float | None) -> str:
    """An instant as a person reads it, UTC."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def alerts(changed: list[Alert], at: float) -> None:
    """A line for each alert that began to fire or ended at an instant."""
    for alert in changed:
        if at in {alert.fired_at, alert.resolved_at}:
            labels = dict(alert.labels)
            about = " ".join(f"{name}={labels[name]}" for name in ("task", "queue", "source") if name in labels)
            _console.print(Text(f"{clock(at)}  {alert.state:8}  {labels['alertname']}  {about}", STYLES[alert.state]))


def replay(result: dict[str, Any]) -> None:
    """The result of a replay: what was read, counted and alerted."""
    events = result["events"]
    _console.print("events: " + ", ".join(f"{count:,} {name}" for name, count in events.items()))
    counts = Table("task", *_counters(result["tasks"]), title="counts", title_justify="left")
    for task, row in sorted(result["tasks"].items()):
        counts.add_row(task or '""', *(f"{row[name]:,}" for name in _counters(result["tasks"])))
    if result["tasks"]:
        _console.print(counts)
    if result["alerts"]:
        _console.print(_episodes(result["alerts"]))
    else:
        _console.print("no alert fired")
    _console.print(f"{len(result['notifications'])} notifications")
    for name in ("task", "trace"):
        if name in result:
            _console.print_json(data=result[name])
    for task_id, trail in result.get("trails", {}).items():
        _console.print(f"{task_id}  {trail['state']}  {trail['task']}  {trail['queue']}")


def _counters(tasks: dict[str, dict[str, int]]) -> list[str]:
    """The counters that anything was counted under, in their order."""
    names = dict.fromkeys(name for row in tasks.values() for name in row)
    return [name for name in names if any(row[name] for row in tasks.values())]


def _episodes(episodes: list[dict[str, Any]]) -> Table:
    table = Table("alert", "about", "active", "fired", "resolved", title="alerts", title_justify="left")
    for one in episodes:
        about = " ".join(
            f"{name}={value}" for name, value in one["labels"].items() if name in {"task", "queue", "source"}
        )
        times = (clock(one[name]) for name in ("active_at", "fired_at", "resolved_at"))
        table.add_row(one["alertname"], about, *times, style=STYLES[one["state"]])
    return table
