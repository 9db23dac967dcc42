"""The trail of one task id, in two forms.

*Flat*: the slots hold the current attempt, each kind at most once, one channel, one worker; earlier attempts of an
orderly retry chain are facts. *Irregular* (the mark is set): all facts are in `facts` and `tally` decides.
Absent numbers are 0.0 (`run`: -1.0), absent texts "". No decoded event is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from collector.model.event import KIND_CODE
from collector.trail.lifecycle import FAILED, FINAL_STATES, RECEIVED, RETRIED, SENT, STARTED, STATES, SUCCEEDED
from collector.trail.transitions import DUPLICATE_SUCCESS, FACTS
from collector.trail.transitions import REDELIVERED as FACT_REDELIVERED

FLAT_KINDS = 6
"""Kinds with a slot: sent received started succeeded failed retried, the first ones of KIND_CODE."""
NAMED_SHIFT = FLAT_KINDS
EXPLICIT_SHIFT = 2 * FLAT_KINDS

# Marks of a flat trail: bits 0-5 the kinds seen, 6-11 those that named the worker, 12-17 those that named the attempt.
M_SENT, M_RECEIVED, M_STARTED = 1, 2, 4
M_SUCCEEDED, M_FAILED, M_RETRIED = 1 << SUCCEEDED, 1 << FAILED, 1 << RETRIED
M_FINAL = M_SUCCEEDED | M_FAILED
M_END = M_FINAL | M_RETRIED
M_UP, M_DOWN, M_IRREGULAR, M_WAITED, M_RAN, M_TOTALLED, M_DUPLICATE = (1 << n for n in range(18, 25))

# Flags of a fact: what it has already been counted for. They travel with the fact, so nothing counts twice.
COUNTED, DUPLICATE, REDELIVERED, UP, DOWN, DEAD_UP, DEAD_DOWN, WAITED, RAN, TOTALLED = (1 << n for n in range(10))
JUDGED = 1 << 10
"""A verdict took its dead letter down, and nothing takes that up again; with DEAD_DOWN: it ended all the same."""

LANDED = 1 << 11
"""A start that is over without an end that is there: it stays, for those behind it to be counted by."""


class Fact(msgspec.Struct, gc=False, array_like=True):
    """One fact of an irregular trail or of an earlier attempt."""

    kind: int
    attempt: int
    """0: the sender named none."""
    time: float
    """By the sender's clock; 0.0: it named none."""
    at: float
    worker: str
    source: int
    row: int
    """What it counts under; negative until its names are known."""
    flags: int = 0
    error: int = 0
    run: float = -1.0
    eta: float = 0.0
    task: str = ""
    queue: str = ""


IN_TIME_LINE = "in_time"
"""The name of what is found of most, and no line of a timeline."""


class Finding(msgspec.Struct, gc=False, array_like=True):
    """Something that a life of a trail was found to be. Times are axis times."""

    name: str
    at: float
    """When it was decided."""
    life: float
    """When its life was sent (of `in_time`: when its success was), by the sender's clock where it named a time."""
    row: int
    recovered_at: float = 0.0
    """When it was made good after all; 0.0: it was not."""
    is_up: bool = False
    """Whether a gauge holds it."""


UNKNOWN_LINE = "unknown"
"""The name of what could not be judged: what is missing may lie in a hole of the source."""


class Found(msgspec.Struct, gc=False, array_like=True):
    """One entry of what a trail was found to be, besides its deadlines. Times are axis times."""

    name: str
    key: float
    """When what it is about was, by `Placed.when`: the start of a run, the first fact of a life, and the like."""
    at: float
    row: int
    detail: str = ""
    """What people need to know of it; of `unknown` the finding that could not be made."""
    recovered_at: float = 0.0

    def is_unknown(self, name: str) -> bool:
        """Whether it says that a finding of this name could not be made."""
        return self.name == UNKNOWN_LINE and self.detail == name


class Trail(msgspec.Struct, gc=False, array_like=True):
    """The stitched history of one task id. What the hot loop reads comes first."""

    marks: int
    row: int
    attempt: int
    worker: str = ""
    trace_id: str | None = None
    """None: not known yet. The hot loop asks this of every event, and a text's truth has to be fetched from afar."""
    key: str = ""
    eta: float = 0.0
    facts: list[Fact] | None = None
    sent_time: float = 0.0
    sent_at: float = 0.0
    started_time: float = 0.0
    started_at: float = 0.0
    end_time: float = 0.0
    end_at: float = 0.0
    """Irregular: the newest axis time of a trail that needs nothing more, else 0.0."""
    run: float = -1.0
    received_time: float = 0.0
    received_at: float = 0.0
    task_id: str = ""
    home: int = 0
    """Index of the application (or source) that its id belongs to."""
    source: int = 0
    born: float = 0.0
    """Axis time of the first event that came."""
    caller: str = ""
    parent_id: str = ""
    root_id: str = ""
    message: str = ""
    error: int = 0
    next_eta: float = 0.0
    """Of a retried fact: when the next attempt may start."""
    due: float = 0.0
    """When a decision that rests on a missing fact is due; 0.0: none."""
    distinct: int = 0
    """Irregular: how many different facts it has."""
    gone: list[int] | None = None
    """Counts per fact of what was cut from `facts`."""
    dead_row: int = -1
    """A dead letter of an earlier, forgotten trail of this id is still open under this row."""
    judged: float = 0.0
    """When the success was, by `Placed.when`, that a flat trail was counted as in time for; 0.0: it was not."""
    found: list[Finding] | None = None
    """Deadlines."""
    findings: list[Found] | None = None
    """All else that was found."""
    look_at: float = 0.0
    """When it is looked at for findings next; 0.0: there is no reason."""
    deploy: str = ""
    """The label that names the deploy it ran in, `version 1.4`; "" where none is asked for or known."""


_ENDS = ((M_SUCCEEDED, SUCCEEDED), (M_FAILED, FAILED), (M_RETRIED, RETRIED))


def slot_facts(trail: Trail) -> list[Fact]:
    """The slots of a flat trail as facts; the trail is left as it is."""
    marks = trail.marks
    facts: list[Fact] = []

    def add(  # noqa: PLR0913, PLR0917 - the slots of one kind
        kind: int, time: float, at: float, flags: int, error: int = 0, run: float = -1.0, eta: float = 0.0
    ) -> None:
        bit = 1 << kind
        attempt = trail.attempt if marks & bit << EXPLICIT_SHIFT else 0
        worker = trail.worker if marks & bit << NAMED_SHIFT else ""
        facts.append(Fact(kind, attempt, time, at, worker, trail.source, trail.row, flags | COUNTED, error, run, eta))

    if marks & M_SENT:
        add(SENT, trail.sent_time, trail.sent_at, 0, eta=trail.eta)
    if marks & M_RECEIVED:
        add(RECEIVED, trail.received_time, trail.received_at, 0)
    if marks & M_STARTED:
        flags = (UP if marks & M_UP else 0) | (DOWN if marks & M_DOWN else 0) | (WAITED if marks & M_WAITED else 0)
        add(STARTED, trail.started_time, trail.started_at, flags)
    for mark, kind in _ENDS:
        if marks & mark:
            flags = (RAN if marks & M_RAN else 0) | (TOTALLED if marks & M_TOTALLED else 0)
            flags |= DUPLICATE if marks & M_DUPLICATE else 0
            add(kind, trail.end_time, trail.end_at, flags, trail.error, trail.run, trail.next_eta)
    return facts


def facts_of(trail: Trail) -> list[Fact]:
    """All facts of a trail in the order they came (by attempts, where it is flat); the trail is left as it is."""
    if trail.marks & M_IRREGULAR:
        return trail.facts or []
    return [*(trail.facts or ()), *slot_facts(trail)]


def clear_slots(trail: Trail) -> None:
    """Empty the slots of the current attempt, after they were taken as facts."""
    trail.worker = ""
    trail.error = 0
    trail.run = -1.0
    trail.sent_time = trail.sent_at = trail.received_time = trail.received_at = 0.0
    trail.started_time = trail.started_at = trail.end_time = trail.end_at = 0.0
    trail.eta = trail.next_eta
    trail.next_eta = 0.0
    trail.marks = 0


BITS = {state: 1 << number for number, state in enumerate(STATES)}
_GOING = BITS["sent"] | BITS["deferred"] | BITS["received"] | BITS["started"] | BITS["retrying"]
_MISSED = BITS["lost"] | BITS["unknown"]
_FLAT = (
    (M_SUCCEEDED, BITS["succeeded"]),
    (M_FAILED, BITS["failed"]),
    (M_RETRIED, BITS["retrying"]),
    (M_STARTED, BITS["started"]),
    (M_RECEIVED, BITS["received"]),
    (M_SENT, BITS["sent"] | BITS["deferred"]),
)
_SEEN = (1 << FLAT_KINDS) - 1
_FINAL = {KIND_CODE[state]: BITS[state] for state in FINAL_STATES}
_OF_MARKS = [next((bits for mark, bits in _FLAT if marks & mark), _MISSED) for marks in range(1 << FLAT_KINDS)]
"""The highest kind that was seen of the current attempt decides; with none there is no state."""


def may_be(trail: Trail) -> int:
    """BITS of the states that a trail may be in, told without its history."""
    marks = trail.marks
    if not marks & M_IRREGULAR:
        states = _OF_MARKS[marks & _SEEN]
        if marks & M_FINAL:
            if not is_sent_after(trail):
                return states
            states |= _GOING
        elif trail.facts:
            states |= BITS["retrying"]
    else:
        states = 0 if trail.end_at else _GOING
        for fact in trail.facts or ():
            states |= _FINAL.get(fact.kind, 0)
    return states | _MISSED if trail.findings else states


def is_sent_after(trail: Trail) -> bool:
    """Whether a flat trail was sent later than it ended, by its senders' clocks: then it waits in a life of its own."""
    ended = trail.end_time or trail.end_at
    if trail.marks & M_SENT and (trail.sent_time or trail.sent_at) > ended:
        return True
    return bool(trail.facts) and any(fact.kind == SENT and (fact.time or fact.at) > ended for fact in trail.facts or ())


def newest(trail: Trail) -> float:
    """The axis time of the newest fact."""
    slots = max(trail.born, trail.sent_at, trail.received_at, trail.started_at, trail.end_at)
    return max([slots, *(fact.at for fact in trail.facts)]) if trail.facts else slots


def is_flying(fact: Fact) -> bool:
    """Whether something is in flight because of this fact."""
    return fact.flags & (UP | DOWN) == UP


def is_dead(fact: Fact) -> bool:
    """Whether a dead letter is open because of this fact."""
    return bool(fact.flags & DEAD_UP) and not fact.flags & (DEAD_DOWN | JUDGED)


def counts_of(facts: Iterable[Fact], before: list[int] | None = None) -> list[int]:
    """How often each entry of FACTS was counted for these facts, added to what was counted `before`."""
    counts = list(before) if before else [0] * len(FACTS)
    for fact in facts:
        if fact.flags & COUNTED:
            counts[DUPLICATE_SUCCESS if fact.flags & DUPLICATE else fact.kind] += 1
        if fact.flags & REDELIVERED:
            counts[FACT_REDELIVERED] += 1
    return counts


def origin(trail: Trail) -> tuple[float, float]:
    """When a trail of several attempts was first sent: sender's and axis time."""
    for fact in trail.facts or ():
        if fact.kind == SENT:
            return fact.time, fact.at
    return trail.sent_time, trail.sent_at
