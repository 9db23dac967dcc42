"""The lifecycle of a task as one literal table. Everything else compiles from it.

Takes nothing, gives constants and one function from facts to a state. A kind of event that is not in the table is
not about a task.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from collector.model.event import KIND_CODE, TASK_KINDS


class Step(msgspec.Struct, frozen=True):
    """What one kind of fact means for its trail."""

    state: str
    """The state it gives, where nothing higher is known."""
    is_final: bool
    """No other state comes after it in this life."""
    is_try_end: bool
    """It ends one execution: it counts at most as often as its attempt has starts."""
    stops_flight: bool
    """The execution is no longer in flight."""
    is_failure: bool
    """It carries an error class that series and evidence name."""
    tie: int
    """Which of two facts with one sender's time comes first: the smaller."""


#                          state            final  try    flight failure tie
LIFECYCLE: dict[str, Step] = {
    "sent": Step("sent", False, False, False, False, 0),
    "received": Step("received", False, False, False, False, 1),
    "started": Step("started", False, False, False, False, 2),
    "succeeded": Step("succeeded", True, True, True, False, 4),
    "failed": Step("failed", True, True, True, True, 4),
    "retried": Step("retrying", False, True, True, True, 3),
    "dead_lettered": Step("dead_lettered", True, False, True, True, 5),
    "rejected": Step("rejected", True, True, True, False, 4),
    "requeued": Step("sent", False, False, True, False, 3),
    "revoked": Step("revoked", True, False, True, False, 4),
    "expired": Step("expired", True, False, True, False, 4),
}

FINAL_STATES: tuple[str, ...] = ("succeeded", "dead_lettered", "failed", "rejected", "revoked", "expired")
"""The first of these that a life has is its state, before all else."""
OPEN_STATES: tuple[str, ...] = ("sent", "deferred", "received", "started", "retrying", "lost")
"""Else the highest attempt decides, then the place in this list."""
LOST = "lost"
UNKNOWN = "unknown"
STATES: tuple[str, ...] = (*OPEN_STATES, *FINAL_STATES, UNKNOWN)

SENT, RECEIVED, STARTED = KIND_CODE["sent"], KIND_CODE["received"], KIND_CODE["started"]
SUCCEEDED, FAILED, RETRIED = KIND_CODE["succeeded"], KIND_CODE["failed"], KIND_CODE["retried"]
DEAD_LETTERED, REQUEUED = KIND_CODE["dead_lettered"], KIND_CODE["requeued"]
REVOKED = KIND_CODE["revoked"]
KIND_COUNT = len(TASK_KINDS)

_STEPS = tuple(LIFECYCLE[kind] for kind in TASK_KINDS)
IS_FINAL = tuple(step.is_final for step in _STEPS)
IS_TRY_END = tuple(step.is_try_end for step in _STEPS)
STOPS_FLIGHT = tuple(step.stops_flight for step in _STEPS)
IS_FAILURE = tuple(step.is_failure for step in _STEPS)
TIE = tuple(step.tie for step in _STEPS)
_OPEN_RANK = {state: rank for rank, state in enumerate(OPEN_STATES)}
_RANK = tuple(_OPEN_RANK.get(step.state, -1) for step in _STEPS)
_FINAL_KINDS = tuple(KIND_CODE[state] for state in FINAL_STATES)


def state_of(facts: Iterable[tuple[int, int, bool]]) -> str:
    """The state of one life from its facts in the order of sender's time.

    Each fact is (kind, attempt, whether it was sent for later). `requeued` sets back what came before it.
    """
    kinds: set[int] = set()
    best = (-1, -1)
    for kind, attempt, is_deferred in facts:
        kinds.add(kind)
        if kind == REQUEUED:
            best = (attempt, 0)
        else:
            best = max(best, (attempt, _OPEN_RANK["deferred"] if is_deferred else _RANK[kind]))
    for kind in _FINAL_KINDS:
        if kind in kinds:
            return TASK_KINDS[kind]
    return OPEN_STATES[best[1]] if kinds else UNKNOWN
