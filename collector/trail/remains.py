"""What is left of trails that memory has let go, put together with what it holds: one task, a trace.

A trail that was let go and came back is kept in parts, each a timeline of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from collector.trail.listing import Listed, Mark, Page, Wanted, page_of
from collector.trail.timeline import Timeline
from collector.trail.trace import TraceView


class Remains(msgspec.Struct, array_like=True):
    """What is kept of a trail: its line in a list, and its timeline."""

    listed: Listed
    timeline: Timeline


def joined(parts: Sequence[Timeline]) -> Timeline:
    """The parts of one task's history, oldest first, as one: the latest says how it stands."""
    latest = parts[-1]
    if len(parts) == 1:
        return latest
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return msgspec.structs.replace(
        latest,
        events=[event for part in parts for event in part.events],
        children=list(dict.fromkeys(child for part in parts for child in part.children)),
        lives=sum(part.lives for part in parts),
        truncated=any(part.truncated for part in parts),
        counts=dict(counts),
        trace_id=_last(part.trace_id for part in parts),
        parent_id=_last(part.parent_id for part in parts),
        root_id=_last(part.root_id for part in parts),
        caller=_last(part.caller for part in parts),
    )


def task_of(held: Timeline | None, kept: Iterable[Remains]) -> Timeline | None:
    """One task: the parts that were kept, then what memory holds of it, which may be the last of them."""
    began = float("inf") if held is None else min((event.at for event in held.events), default=float("inf"))
    parts = [one.timeline for one in kept if one.listed.last_at < began]
    if held is not None:
        parts.append(held)
    return joined(parts) if parts else None


def trace_of(held: TraceView, kept: Iterable[Remains]) -> TraceView | None:
    """A trace: what memory holds of each task, after what was kept of it."""
    by_id: dict[str, list[Remains]] = {}
    for one in kept:
        by_id.setdefault(one.timeline.task_id, []).append(one)
    known = {one.task_id: one for one in held.tasks}
    tasks = [task_of(known.get(task_id), by_id.get(task_id, ())) for task_id in dict.fromkeys((*known, *by_id))]
    found = [task for task in tasks if task is not None]
    if not found:
        return None
    return msgspec.structs.replace(held, tasks=found)


def page_with(held: Page, kept: Iterable[tuple[Mark, Listed]], wanted: Wanted, known_to: Mark | None) -> Page:
    """The page that memory gives and the one of what was kept, as one.

    `known_to`: what was kept is known so far only; None: to its end.
    """
    ends = [end for end in (held.after, known_to) if end is not None]
    found = dict(kept) | dict(zip(held.marks, held.tasks, strict=True))
    in_order = sorted(found.items(), key=lambda one: one[0], reverse=True)
    page = page_of([one for one in in_order if not ends or one[0] >= max(ends)], max(1, wanted.limit))
    return page if page.after is not None or not ends else msgspec.structs.replace(page, after=max(ends))


def _last(texts: Iterable[str]) -> str:
    return next((text for text in reversed(list(texts)) if text), "")
