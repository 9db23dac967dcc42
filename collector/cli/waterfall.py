"""A trace as a waterfall: a line per task below the one that caused it, with its waits and runs on one axis of time.

Takes a trace as `/api/traces/{id}` gives it; gives lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from collector.model.shown import shown

WIDTH = 60
"""Characters of the axis."""
WAITS, RUNS, BREAKS = "·", "█", "!"
"""Sent and not running; running; where a try ended without success."""
Row: TypeAlias = dict[str, Any]


def lines(found: Row) -> Iterator[str]:
    """The whole trace."""
    tasks = found["tasks"]
    spans = {one["task_id"]: _span(one) for one in tasks}
    start = min((begin for begin, _ in spans.values()), default=0.0)
    length = max((end for _, end in spans.values()), default=start) - start
    yield f"trace {shown(found['trace_id'])}: {len(tasks)} task{'s' * (len(tasks) != 1)} in {length:.3f} s"
    named = [(f"{'  ' * depth}{shown(one['task']) or '?'}", one) for depth, one in _ordered(tasks, spans)]
    widest = max((len(name) for name, _ in named), default=0)
    for name, one in named:
        begin, end = spans[one["task_id"]]
        told = f"+{begin - start:.3f} s  {end - begin:.3f} s  {one['state']}  {shown(one['task_id'])}"
        yield f"{name.ljust(widest)}  |{_bar(one, start, length)}|  {told}"
    if found["truncated"]:
        yield "there are more than are shown"


def _ordered(tasks: list[Row], spans: dict[str, tuple[float, float]]) -> Iterator[tuple[int, Row]]:
    """Each task under the one that it names as its parent, by when they began; what is in a ring stands alone."""
    known = {one["task_id"]: one for one in tasks}
    left = dict(sorted(known.items(), key=lambda item: spans[item[0]]))
    while left:
        top = next((one for one in left.values() if one["parent_id"] not in left), next(iter(left.values())))
        waiting = [(0, top)]
        while waiting:
            depth, one = waiting.pop()
            if left.pop(one["task_id"], None) is None:
                continue
            yield depth, one
            under = [child for child in left.values() if child["parent_id"] == one["task_id"]]
            waiting += [(depth + 1, child) for child in reversed(under)]


def _span(one: Row) -> tuple[float, float]:
    times = [event["time"] for event in one["events"]]
    return min(times, default=0.0), max(times, default=0.0)


def _bar(one: Row, start: float, length: float) -> str:
    cells = [" "] * WIDTH

    def place(at: float) -> int:
        return min(WIDTH - 1, max(0, int((at - start) / length * WIDTH))) if length > 0 else 0

    begin, end = _span(one)
    for cell in range(place(begin), place(end) + 1):
        cells[cell] = WAITS
    for attempt in one["attempts"]:
        if attempt["started"] is None:
            continue
        ended = attempt["ended"] if attempt["ended"] is not None else end
        for cell in range(place(attempt["started"]), place(ended) + 1):
            cells[cell] = RUNS
        if attempt["ended"] is not None and attempt["outcome"] != "succeeded":
            cells[place(ended)] = BREAKS
    return "".join(cells)
