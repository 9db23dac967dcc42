"""Lost: started, and its worker is gone without an end. Poison: the same task took its worker down twice."""

from __future__ import annotations

from collections.abc import Iterator

from collector.trail.findings.sight import Sight, Verdict
from collector.trail.lifecycle import LOST
from collector.trail.tally import executions

_DEATHS = 2
OFFLINE = "offline"


def lost(sight: Sight) -> Iterator[Verdict]:
    """One for each start that was in flight when its worker left. An end that comes after that makes it good."""
    for start, end_at in executions(sight.life):
        departure = sight.departure(start, sight.terms.time_limit or 0.0) if start.fact.worker else None
        if departure is not None and (end_at is None or end_at > departure.at - sight.grace):
            yield Verdict(start, departure.at, f"{departure.how} worker {start.fact.worker}")


def poison(sight: Sight) -> Iterator[Verdict]:
    """One for a life whose worker died under it for the second time."""
    deaths = [one for one in sight.found if one.name == LOST and not one.detail.startswith(OFFLINE)]
    if len(deaths) >= _DEATHS:
        second = sorted(deaths, key=lambda one: one.at)[_DEATHS - 1]
        start = next((placed for placed in sight.life.starts if placed.when == second.key), None)
        if start is not None:
            yield Verdict(start, second.at, f"under workers {', '.join(one.detail.split()[-1] for one in deaths)}")
