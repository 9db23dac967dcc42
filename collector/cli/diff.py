"""`replay --diff`: what two rule sets made of the same events. Compares results of replays; prints the difference.

Sides carry the names of their options: `rules` is the set under trial, `diff` the one that it is held against.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from collector.cli.report import clock

Row: TypeAlias = dict[str, Any]
"""An episode of an alert, or a notification, as `Replay.result` gives them."""
Pair: TypeAlias = tuple[Row, Row]

TIMES = ("active_at", "fired_at", "resolved_at")
_SIDES = ("rules", "diff")


def difference(rules: Row, diff: Row) -> Row:
    """What `replay --diff --json` adds: alerts and notifications of one side only, and those whose times moved."""
    pairs, only = _matched(rules["alerts"], diff["alerts"], lambda one: one["fingerprint"], _overlap)
    told, unsaid = _matched(rules["notifications"], diff["notifications"], _occasion, lambda _one, _other: True)
    moved = [pair for pair in pairs if _times(pair[0]) != _times(pair[1])]
    shifted = [pair for pair in told if pair[0]["at"] != pair[1]["at"]]
    return {
        "alerts": {
            "same": len(pairs) - len(moved),
            "only": only,
            "moved": [
                {name: pair[0][name] for name in ("alertname", "labels", "fingerprint")}
                | {side: _times(one) for side, one in zip(_SIDES, pair, strict=True)}
                for pair in moved
            ],
        },
        "notifications": {
            "same": len(told) - len(shifted),
            "only": unsaid,
            "moved": [
                {name: pair[0][name] for name in ("receiver", "status", "group_labels", "title")}
                | {side: one["at"] for side, one in zip(_SIDES, pair, strict=True)}
                for pair in shifted
            ],
        },
    }


def _matched(
    rules: Sequence[Row], diff: Sequence[Row], key: Callable[[Row], Hashable], fit: Callable[[Row, Row], bool]
) -> tuple[list[Pair], dict[str, list[Row]]]:
    """Rows of equal keys, each with the first of the other side that fits, and what is left over by side.

    Rows are in the order of time; what does not fit is left over on the side where it comes first.
    """
    waiting: dict[Hashable, list[Row]] = defaultdict(list)
    for row in diff:
        waiting[key(row)].append(row)
    pairs: list[Pair] = []
    alone: list[Row] = []
    for row in rules:
        candidates = waiting[key(row)]
        found = next((other for other in candidates if fit(row, other)), None)
        if found is None:
            alone.append(row)
        else:
            candidates.remove(found)
            pairs.append((row, found))
    rest = {id(row) for rows in waiting.values() for row in rows}
    return pairs, {"rules": alone, "diff": [row for row in diff if id(row) in rest]}


def _overlap(one: Row, other: Row) -> bool:
    """Whether two episodes of an alert are about the same stretch of time."""
    return bool(one["active_at"] <= _end(other) and other["active_at"] <= _end(one))


def _end(episode: Row) -> float:
    return math.inf if episode["resolved_at"] is None else float(episode["resolved_at"])


def _times(episode: Row) -> Row:
    return {name: episode[name] for name in TIMES}


def _occasion(notification: Row) -> Hashable:
    """What a notification is about: the same word on the same group to the same receiver."""
    group = tuple(sorted(notification["group_labels"].items()))
    return notification["receiver"], notification["status"], group


def show(found: Row, console: Console) -> None:
    """Print a difference for people."""
    alerts, said = found["alerts"], found["notifications"]
    table = Table("alert", "about", *(name.removesuffix("_at") for name in TIMES), "with", title_justify="left")
    table.title = "alerts that differ, times from --diff to --rules where they moved"
    for side, style in zip(_SIDES, ("red", "green"), strict=True):
        for one in alerts["only"][side]:
            table.add_row(*_named(one), *(clock(one[name]) for name in TIMES), f"--{side} only", style=style)
    for one in alerts["moved"]:
        table.add_row(*_named(one), *(_shift(one["diff"][name], one["rules"][name]) for name in TIMES), "both")
    if table.row_count:
        console.print(table)
    for word, part in (("alerts", alerts), ("notifications", said)):
        alone = ", ".join(f"{len(part['only'][side])} with --{side} only" for side in _SIDES)
        console.print(f"{word}: {alone}, {len(part['moved'])} moved, {part['same']} the same")


def _named(episode: Row) -> tuple[str, str]:
    about = (f"{name}={value}" for name, value in episode["labels"].items() if name != "alertname")
    return escape(episode["alertname"]), escape(" ".join(about))


def _shift(before: float | None, after: float | None) -> str:
    """A time that moved, and by how much."""
    if before == after:
        return clock(before)
    if before is None or after is None:
        return f"{clock(before) or 'never'} → {clock(after) or 'never'}"
    return f"{clock(before)} → {clock(after)} ({after - before:+g} s)"
