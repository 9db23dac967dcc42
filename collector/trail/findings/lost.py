"""Lost: started, and its worker is gone without an end. Poison: the same task took its worker down twice.

Unseen end: its worker is there and has nothing in hand. How it ended is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.trail.findings.sight import Sight, Verdict
from collector.trail.lifecycle import LOST, STARTED, STOPS_FLIGHT
from collector.trail.tally import Life, executions
from collector.trail.trail import Found

_DEATHS = 2
OFFLINE = "offline"


def lost(sight: Sight) -> Iterator[Verdict]:
    """One for each start that was in flight when its worker left. An end that comes after that makes it good.

    Not where its worker had long had nothing in hand before it left: then it was over.
    """
    for start, end_at in executions(sight.life):
        departure = sight.departure(start, sight.terms.time_limit or 0.0) if start.fact.worker else None
        if departure is None or (end_at is not None and end_at <= departure.at - sight.grace):
            continue
        idle_at = sight.idle(start)
        if idle_at is None or idle_at >= departure.at:
            yield Verdict(start, departure.at, f"{departure.how} worker {start.fact.worker}")


def unseen_end(sight: Sight) -> Iterator[Verdict]:
    """One for each start that is in flight by what was told, while its worker has long had nothing in hand."""
    for start, end_at in executions(sight.life):
        if end_at is None and start.fact.worker and (at := sight.idle(start)) is not None:
            yield Verdict(start, at)


def after(lives: Iterable[Life], found: Found) -> float | None:
    """When, on the axis, a lost task did something after the start that was lost; None: it did nothing."""
    later = (
        p.fact.at
        for life in lives
        for p in life.order
        if p.when > found.key and (p.kind == STARTED or STOPS_FLIGHT[p.kind])
    )
    return min(later, default=None)


def poison(sight: Sight) -> Iterator[Verdict]:
    """One for a life whose worker died under it for the second time."""
    deaths = [one for one in sight.found if one.name == LOST and not one.detail.startswith(OFFLINE)]
    if len(deaths) >= _DEATHS:
        second = sorted(deaths, key=lambda one: one.at)[_DEATHS - 1]
        start = next((placed for placed in sight.life.starts if placed.when == second.key), None)
        if start is not None:
            yield Verdict(start, second.at, f"under workers {', '.join(one.detail.split()[-1] for one in deaths)}")
