"""Escalation: who else is told while nobody acks. A route's steps and what is known of a group in; how far it is, out.

The clock begins when a group first speaks of alerts that nobody has acked, and runs as long as one of them still waits:
neither acked, nor silenced, nor inhibited, nor ended. New alerts of a group that waits already do not set it back, or a
storm would never reach the second person; a group whose every alert was taken care of begins anew with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from collector.model.saved import Waiting
from collector.routing.route import Route, Step


class Stage(msgspec.Struct, frozen=True):
    """How many steps are reached, why the last one was, and when the next one comes without anybody's doing."""

    reached: int
    reason: str = ""
    next_at: float | None = None


def follow(former: Waiting | None, tokens: Iterable[str], now: float) -> Waiting | None:
    """The wait of a group, given who waits now: the former one goes on where any of its alerts still does."""
    present = frozenset(tokens)
    if not present:
        return None
    if former is not None and former.tokens & present:
        return Waiting(former.since, present)
    return Waiting(now, present)


def stage(route: Route, waiting: Waiting, now: float, is_broken: Callable[[str], bool]) -> Stage:
    """How far a group has come. `is_broken`: whether a receiver has targets, and none of them takes anything.

    Where nobody of a step can be reached, the next one is due at once: its time would pass for nothing.
    """
    steps, reached, reason = route.escalate, 0, ""
    while reached < len(steps) and waiting.since + steps[reached].after <= now:
        reason = f"nobody has acked it for {_spoken(steps[reached].after)}"
        reached += 1
    while reached < len(steps) and is_broken(_receiver(route, steps, reached)):
        reason = f"every target of {_receiver(route, steps, reached)} is broken"
        reached += 1
    return Stage(reached, reason, waiting.since + steps[reached].after if reached < len(steps) else None)


def _receiver(route: Route, steps: Sequence[Step], reached: int) -> str:
    """Whom the group has told last."""
    return steps[reached - 1].receiver if reached else route.receiver


def _spoken(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in ((3600, "h"), (60, "m")) if seconds % size == 0), (1, "s"))
    return f"{seconds / size:g}{unit}"
