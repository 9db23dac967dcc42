"""One task, or all tasks of a trace, as a person reads them: what happened, when, where, and how it ended.

Takes timelines as `replay --json` gives them; gives lines. What senders wrote is never taken for control characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

from collector.model.shown import shown

Row: TypeAlias = dict[str, Any]

# field of a timeline → how it is introduced, where it says anything
_ABOUT = (("trace_id", "trace"), ("parent_id", "parent"), ("root_id", "root"), ("caller", "sent by"))


def trace(found: Row) -> Iterator[str]:
    """All tasks of a trace, in the order in which they began."""
    count = len(found["tasks"])
    yield f"trace {shown(found['trace_id'])}: {count} task{'s' * (count != 1)}"
    for timeline in sorted(found["tasks"], key=_began):
        yield ""
        yield from task(timeline)
    if found["truncated"]:
        yield "there are more than are shown"


def task(timeline: Row) -> Iterator[str]:
    """One task: its names and state, its attempts, then every fact with its distance from the first."""
    name, queue = (shown(timeline[key]) or "?" for key in ("task", "queue"))
    yield f"task {shown(timeline['task_id'])}: {name} in queue {queue}, {timeline['state']}"
    about = [f"{word} {shown(timeline[key])}" for key, word in _ABOUT if timeline[key]]
    if about:
        yield f"  {', '.join(about)}"
    if timeline.get("arguments"):
        yield f"  called with {shown(timeline['arguments'])}"
    if timeline["children"]:
        yield f"  children: {', '.join(map(shown, timeline['children']))}"
    if timeline["error"] or timeline["error_message"]:
        yield f"  error: {': '.join(shown(timeline[key]) for key in ('error', 'error_message') if timeline[key])}"
    if timeline["lives"] > 1:
        yield f"  sent again after it had ended: attempts are those of life {timeline['lives']}"
    for attempt in timeline["attempts"]:
        yield f"  {_attempt(attempt)}"
    yield from _events(timeline["events"])
    if timeline["truncated"]:
        yield "    older facts were cut"


def _began(timeline: Row) -> float:
    return min((one["time"] for one in timeline["events"]), default=0.0)


def _attempt(attempt: Row) -> str:
    said = [f"attempt {attempt['attempt']}"]
    if attempt["worker"]:
        said.append(f"on {shown(attempt['worker'])}")
    said.append(attempt["outcome"] or ("runs" if attempt["started"] else "did not start"))
    if attempt["run_seconds"] is not None:
        said.append(f"after {attempt['run_seconds']:.3f} s")
    if attempt["error"]:
        said.append(f"with {shown(attempt['error'])}")
    return " ".join(said)


def _events(events: list[Row]) -> Iterator[str]:
    """A line per fact; columns as wide as their longest entry."""
    if not events:
        return
    first = events[0]["time"]
    rows = [
        (
            _clock(one["time"]),
            f"{one['time'] - first:+.3f} s",
            one["kind"],
            f"attempt {one['attempt']}",
            shown(one["worker"]),
            ": ".join(shown(said) for said in (one["error"], one.get("detail", "")) if said),
        )
        for one in events
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        at, after, *words = row
        cells = [at.ljust(widths[0]), after.rjust(widths[1]), *map(str.ljust, words, widths[2:])]
        yield f"    {'  '.join(cells)}".rstrip()


def _clock(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):  # a sender's clock may say anything
        return f"{at:.3f}"
