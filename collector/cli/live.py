"""The live view: what flows, and the alerts with their evidence, redrawn in place on a terminal.

Its numbers are PromQL over the daemon's own series: what stands here can be asked at the API and written into a rule.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from collector.cli.report import STYLES, clock
from collector.daemon import Daemon
from collector.model.alert import Notification
from collector.model.labels import Labels
from collector.model.shown import counted
from collector.promql import Expr, compile_expr

REDRAW = 0.25
KEPT = 8
"""Notifications that stay to be read: a line each, and the newest whole."""
_STEP = 1.0

# title, expression by task and queue, format
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("done/s", "sum by (task, queue) (rate(task_succeeded_total[10s]))", "{:.1f}"),
    ("in flight", "sum by (task, queue) (tasks_in_flight)", "{:.0f}"),
    (
        "backlog",
        (
            "sum by (task, queue) (task_sent_total) - sum by (task, queue) (task_started_total)"
            " + (sum by (task, queue) (task_retried_total) or 0 * sum by (task, queue) (task_sent_total))"
        ),
        "{:.0f}",
    ),
    (
        "retry ratio",
        (
            "sum by (task, queue) (increase(task_retried_total[10s]))"
            " / (sum by (task, queue) (increase(task_started_total[10s])) > 0)"
        ),
        "{:.0%}",
    ),
    (
        "p95 run",
        "histogram_quantile(0.95, sum by (task, queue, le) (rate(task_run_seconds_bucket[10s])))",
        "{:.2f} s",
    ),
    ("dead letters", "sum by (task, queue) (dead_letters_open)", "{:.0f}"),
)


class LiveView:
    """A channel and a picture: shows what it is sent, beside what flows."""

    name = "terminal"
    spacing_seconds = 0.0

    def __init__(self, console: Console, url: str) -> None:
        self._console = console
        self._url = url
        self._columns = [(title, compile_expr(text), form) for title, text, form in COLUMNS]
        self._said: deque[Notification] = deque(maxlen=KEPT)

    async def send(self, notification: Notification) -> None:
        """Keep it to be drawn."""
        self._said.append(notification)

    async def close(self) -> None:
        """Leave the last alerts on the screen, below the picture."""
        for notification in self._said:
            self._console.print(_block(notification))

    async def draw(self, daemon: Daemon) -> None:
        """Redraw until cancelled."""
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._picture(daemon), refresh=True)
                await asyncio.sleep(REDRAW)

    def _picture(self, daemon: Daemon) -> Group:
        read = sum(axis.totals.read for axis in daemon.axes)
        head = Text(f"tasktrail demo   {self._url}   {counted(read, 'event')}   Ctrl-C ends", "bold")
        if not self._said:
            return Group(head, self._table(daemon), Text("no alert yet: the bad stretch begins after 4 s", "dim"))
        return Group(head, self._table(daemon), *map(_line, self._said), _block(self._said[-1]))

    def _table(self, daemon: Daemon) -> Table:
        store = daemon.pipeline.store
        at = store.frontier
        columns = [(title, _by_labels(expr, daemon, at), form) for title, expr, form in self._columns]
        rows = sorted({labels for _, values, _ in columns for labels in values})
        table = Table("task", "queue", *(title for title, _, _ in columns), expand=True)
        for labels in rows:
            names = dict(labels)
            cells = [_cell(values.get(labels, math.nan), form) for _, values, form in columns]
            table.add_row(names.get("task", ""), names.get("queue", ""), *cells)
        return table


def _by_labels(expr: Expr, daemon: Daemon, at: float) -> dict[Labels, float]:
    result = expr.evaluate(daemon.pipeline.store, at, _STEP)
    return {} if isinstance(result, float | str) else dict(result.rows())


def _cell(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


def _line(notification: Notification) -> Text:
    return Text(f"{clock(notification.at)}  {notification.title}", STYLES[notification.status])


def _block(notification: Notification) -> Panel:
    title = Text(f"{clock(notification.at)}  {notification.status}", STYLES[notification.status])
    body = Text(notification.title, "bold").append(f"\n{notification.text.strip()}", "not bold")
    return Panel(body, title=title, title_align="left", border_style=STYLES[notification.status])
