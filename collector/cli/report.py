"""What commands print for people: tables of a replay, lines of alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.cli import story
from collector.model.alert import Alert
from collector.model.shown import counted, shown

STYLES = {"firing": "bold red", "resolved": "green", "pending": "yellow"}
"""Colours of the states of an alert."""

WIDEST = 100_000
"""Columns where no terminal has an edge: what is piped is for programs and files, and nothing of it is cut."""


def console() -> Console:
    """Standard output, as wide as its terminal; without one as wide as anything is."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDEST)


def clock(at: float | None) -> str:
    """An instant as a person reads it, UTC."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def alerts(changed: list[Alert], at: float) -> None:
    """A line for each alert that began to fire or ended at an instant."""
    out = console()
    for alert in changed:
        if at in {alert.fired_at, alert.resolved_at}:
            labels = dict(alert.labels)
            about = " ".join(f"{name}={labels[name]}" for name in ("task", "queue", "source") if name in labels)
            out.print(Text(f"{clock(at)}  {alert.state:8}  {labels['alertname']}  {about}", STYLES[alert.state]))


def replay(result: dict[str, Any]) -> None:
    """The result of a replay: what was read, counted and alerted, and the stories that were asked for."""
    out = console()
    events = result["events"]
    out.print("events: " + ", ".join(f"{count:,} {name}" for name, count in events.items()))
    counts = Table("task", *_counters(result["tasks"]), title="counts", title_justify="left")
    for task, row in sorted(result["tasks"].items()):
        counts.add_row(Text(shown(task) or '""'), *(f"{row[name]:,}" for name in _counters(result["tasks"])))
    if result["tasks"]:
        out.print(counts)
    if result["alerts"]:
        out.print(_episodes(result["alerts"]))
    else:
        out.print("no alert fired")
    out.print(counted(len(result["notifications"]), "notification"))
    for task_id, trail in result.get("trails", {}).items():
        out.print(Text("  ".join(map(shown, (task_id, trail["state"], trail["task"], trail["queue"])))))
    for name, tell in (("task", story.task), ("trace", story.trace)):
        if result.get(name) is not None:
            out.print()
            for line in tell(result[name]):
                out.print(Text(line))


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
        table.add_row(Text(shown(one["alertname"])), Text(shown(about)), *times, style=STYLES[one["state"]])
    return table
