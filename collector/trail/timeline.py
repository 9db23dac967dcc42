"""Views of a trail for people and JSON: its timeline. Reads, never changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from collector.model.event import TASK_KINDS
from collector.model.personal import mask_personal
from collector.trail.durations import runs
from collector.trail.findings.lost import after
from collector.trail.lifecycle import LOST, UNKNOWN
from collector.trail.rows import Errors, Rows
from collector.trail.tally import Life, Placed, lives_of, tries
from collector.trail.trail import IN_TIME_LINE, UNKNOWN_LINE, Finding, Found, Trail, counts_of, facts_of
from collector.trail.transitions import FACTS
from collector.trail.twice import twice

_AGAIN = "told again, counts once"
"""Of a fact that another one tells of already: a second channel's, or the same channel's once more."""
_COUNTED_FACTS = FACTS.index("flight_up")


class Attempt(msgspec.Struct, kw_only=True):
    """One execution. Times are the sender's where it named them, else those of the axis; Unix seconds."""

    attempt: int
    worker: str
    started: float | None
    ended: float | None
    outcome: str | None
    error: str
    run_seconds: float | None


class Moment(msgspec.Struct, kw_only=True):
    """One fact as it came, or (`overdue lost stuck recovered` and the like, attempt 0) what was found."""

    kind: str
    time: float
    at: float
    attempt: int
    worker: str
    queue: str
    error: str
    detail: str = ""
    """What people need to know of it."""


class Timeline(msgspec.Struct, kw_only=True):
    """The history of one task id. `attempts` are those of its latest life, `events` all that are still held."""

    task_id: str
    task: str
    queue: str
    state: str
    attempts: list[Attempt]
    events: list[Moment]
    trace_id: str
    parent_id: str
    children: list[str]
    root_id: str = ""
    caller: str = ""
    error: str = ""
    error_message: str = ""
    lives: int = 1
    truncated: bool = False
    """Older facts were cut."""
    arguments: str = ""
    """What it was called with, masked and cut; only where a configuration allows that to be shown."""
    counts: dict[str, int] = {}
    """What was counted for it, by the names of FACTS; only what is not 0."""

    def summary(self) -> dict[str, Any]:
        """The line of `replay --trails`: names, state, and every count by its fact."""
        counts = {kind: self.counts.get(kind, 0) for kind in TASK_KINDS}
        return {"task": self.task, "queue": self.queue, "state": self.state, **counts, **self.counts}


def view(trail: Trail, rows: Rows, errors: Errors, grace: float, children: list[str]) -> Timeline:
    """The timeline of a trail."""
    facts = facts_of(trail)
    lives = lives_of(facts, grace)
    latest = lives[-1] if lives else Life()
    task, queue = names_of(trail, rows)
    failures = [p.fact.error for p in latest.order if p.fact.error]
    counts = counts_of(facts, trail.gone)
    return Timeline(
        task_id=trail.task_id,
        task=task,
        queue=queue,
        state=_state(trail, latest) if lives else UNKNOWN,
        attempts=_attempts(latest, errors),
        events=_events(trail, lives, rows, errors),
        trace_id=trail.trace_id or "",
        parent_id=trail.parent_id,
        children=children,
        root_id=trail.root_id,
        caller=trail.caller,
        error=errors.name(failures[-1]) if failures else "",
        error_message=mask_personal(trail.message),
        lives=len(lives),
        truncated=trail.gone is not None,
        counts={fact: count for fact, count in zip(FACTS[:_COUNTED_FACTS], counts, strict=False) if count}
        | Counter(kind for kind, _, _ in _findings(trail)),
    )


def _state(trail: Trail, latest: Life) -> str:
    """The state of the latest life: `lost` or `unknown` where that was found of what seems to run or wait."""
    state = latest.state
    if not trail.findings or latest.final_when is not None:
        return state
    whens = {placed.when for placed in latest.order}
    found = [one for one in trail.findings if one.key in whens]
    if any(one.name == UNKNOWN_LINE for one in found):
        return UNKNOWN
    return LOST if any(one.name == LOST and after([latest], one) is None for one in found) else state


def findings_of(trail: Trail) -> list[str]:
    """The names of all that was found of a trail and stands in its timeline."""
    found: list[Finding | Found] = [*(trail.found or ()), *(trail.findings or ())]
    return [one.name for one in found if one.name != IN_TIME_LINE]


def _findings(trail: Trail) -> list[tuple[str, float, str]]:
    """What was found of a trail, when, and what of it: the finding by its name, and `recovered`."""
    deadlines = [one for one in trail.found or () if one.name != IN_TIME_LINE]
    others = trail.findings or []
    found = [(one.name, one.at, one.recovered_at, "") for one in deadlines]
    found += [(one.name, one.at, one.recovered_at, one.detail) for one in others]
    made_good = [("recovered", recovered_at, name) for name, _, recovered_at, _ in found if recovered_at]
    return [*((name, at, detail) for name, at, _, detail in found), *made_good]


def _events(trail: Trail, lives: list[Life], rows: Rows, errors: Errors) -> list[Moment]:
    """The facts in their order, and each finding behind all that was known when it was made."""
    counted = {id(placed) for life in lives for group in life.groups.values() for placed in group.counted}
    events = [
        _moment(placed, rows, errors, "" if id(placed) in counted else _AGAIN)
        for life in lives
        for placed in life.order
    ]
    for kind, at, detail in sorted([*_findings(trail), *twice(trail, lives, rows)], key=lambda finding: finding[1]):
        place = next((index for index, event in enumerate(events) if event.at > at), len(events))
        queue = names_of(trail, rows)[1]
        moment = Moment(kind=kind, time=at, at=at, attempt=0, worker="", queue=queue, error="", detail=detail)
        events.insert(place, moment)
    return events


def names_of(trail: Trail, rows: Rows) -> tuple[str, str]:
    """Its task's name and its queue, as far as they are known."""
    if trail.row >= 0:
        return rows.names(trail.row)[:2]
    facts = trail.facts or ()
    named = [rows.names(fact.row) for fact in facts if fact.row >= 0]
    task = next((fact.task for fact in facts if fact.task), next((name[0] for name in named if name[0]), ""))
    queue = next((fact.queue for fact in facts if fact.queue), next((name[1] for name in named if name[1]), ""))
    return task, queue


def _attempts(life: Life, errors: Errors) -> list[Attempt]:
    ran = {id(placed): seconds for placed, seconds, _ in runs(life)}
    return [
        Attempt(
            attempt=attempt,
            worker=(start.fact.worker if start else "") or (end.fact.worker if end else ""),
            started=start.when if start else None,
            ended=end.when if end else None,
            outcome=TASK_KINDS[end.kind] if end else None,
            error=errors.name(end.fact.error) if end else "",
            run_seconds=ran.get(id(end)) if end else None,
        )
        for attempt, start, end in tries(life)
    ]


def _moment(placed: Placed, rows: Rows, errors: Errors, detail: str) -> Moment:
    fact = placed.fact
    return Moment(
        kind=TASK_KINDS[fact.kind],
        time=placed.when,
        at=fact.at,
        attempt=placed.attempt,
        worker=fact.worker,
        queue=rows.names(fact.row)[1] if fact.row >= 0 else fact.queue,
        error=errors.name(fact.error),
        detail=detail,
    )
