"""What becomes of a trail when an event does not fit its slots: a duplicate, the next attempt, or an irregular trail.

Pure moves on one trail; nothing is counted here.
"""

from __future__ import annotations

from math import inf

from collector.model.event import Event
from collector.model.secret import mask
from collector.trail.lifecycle import IS_FINAL, RETRIED, SENT, STARTED
from collector.trail.rows import Texts
from collector.trail.tally import Life
from collector.trail.trail import (
    DOWN,
    EXPLICIT_SHIFT,
    FLAT_KINDS,
    LANDED,
    M_END,
    M_FINAL,
    M_IRREGULAR,
    M_RETRIED,
    M_STARTED,
    NAMED_SHIFT,
    Fact,
    Trail,
    clear_slots,
    counts_of,
    is_dead,
    is_flying,
    slot_facts,
)

_MESSAGE = 300
"""Masked before it is cut, so that no half of a secret is left."""
_ANCHORS = {SENT, STARTED, *(kind for kind, is_final in enumerate(IS_FINAL) if is_final)}
"""Kinds whose first fact says how a life began and ended, and what a further one is."""


def fill(trail: Trail, event: Event, texts: Texts) -> None:
    """Take from an event what the trail does not know yet of caller, trace, parents and key."""
    trace_id, parent_id, root_id = event.trace_id, event.parent_id, event.root_id
    caller, key = event.caller, event.idempotency_key
    if trace_id and not trail.trace_id:
        trail.trace_id = trace_id
    if parent_id and not trail.parent_id and parent_id != trail.task_id:  # a retry may name itself
        trail.parent_id = parent_id
    if root_id and not trail.root_id and root_id != trail.task_id:
        trail.root_id = root_id
    if caller and not trail.caller:
        trail.caller = texts.intern(caller)
    if key and not trail.key:
        trail.key = key


def tell(trail: Trail, message: str) -> None:
    """Keep the newest failure's message, masked and cut."""
    trail.message = mask(message)[:_MESSAGE]


def slot_of(trail: Trail, kind: int) -> tuple[float, float]:
    """Sender's and axis time of a flat trail's fact of this kind (which it has)."""
    if kind == STARTED:
        return trail.started_time, trail.started_at
    if kind > STARTED:
        return trail.end_time, trail.end_at
    return (trail.received_time, trail.received_at) if kind else (trail.sent_time, trail.sent_at)


def is_repeat(trail: Trail, kind: int, event: Event, time: float, at: float, grace: float) -> bool:  # noqa: PLR0913, PLR0917
    """Whether a slot of a flat trail of the same channel has this very fact, so that the event adds nothing."""
    marks = trail.marks
    attempt = event.attempt
    bit = 1 << kind
    if kind >= FLAT_KINDS or not marks & bit or attempt not in (None, trail.attempt):
        return False
    is_named = bool(marks & bit << NAMED_SHIFT)
    is_explicit = bool(marks & bit << EXPLICIT_SHIFT)
    # A repeat that names no worker and no attempt may turn out to be about another worker's attempt.
    is_known = is_named and event.worker == trail.worker if event.worker else is_explicit or not is_named
    if time != slot_of(trail, kind)[0] or not is_known:
        return False
    if not time and marks & M_FINAL and at > (trail.end_time or trail.end_at) + grace:
        return False
    return is_explicit == (attempt is not None)


def repeated(facts: list[Fact] | None, kind: int, event: Event, time: float, source: int) -> Fact | None:
    """The event's very fact among these, with its sender's time, from the same channel."""
    if not facts or not time:
        return None
    attempt, worker = event.attempt or 0, event.worker or ""
    for fact in facts:
        if (
            fact.kind == kind
            and fact.time == time
            and fact.source == source
            and attempt == fact.attempt
            and (worker == fact.worker or (attempt and not worker))
        ):
            return fact
    return None


def roll(trail: Trail, kind: int, event: Event, time: float, at: float) -> bool:
    """Move on to the next attempt, where the event begins it in good order; the slots become facts.

    Also true where an event names no attempt and it is plain that the current one is meant.
    """
    marks = trail.marks
    attempt = event.attempt
    when = time or at
    if marks & M_FINAL or kind >= FLAT_KINDS:
        return False
    if not marks & M_RETRIED:
        # An end on another worker is that of a start which is still to come.
        is_elsewhere = bool(event.worker and trail.worker and event.worker != trail.worker)
        if kind == STARTED and attempt is None and not is_elsewhere and not marks & (M_STARTED | M_END):
            retries = [fact for fact in trail.facts or () if fact.kind == RETRIED]
            return trail.attempt == 1 + len(retries) and all((fact.time or fact.at) <= when for fact in retries)
        is_current_end = kind > STARTED and attempt is None and bool(marks & M_STARTED) and not is_elsewhere
        return is_current_end and when >= (trail.started_time or trail.started_at)
    if attempt is None and kind == STARTED:
        known = 1 + sum(fact.kind == RETRIED for fact in trail.facts or ())
        attempt = trail.attempt + 1 if known == trail.attempt else None
    if attempt != trail.attempt + 1 or when <= (trail.end_time or trail.end_at):
        return False
    trail.facts = [*(trail.facts or ()), *slot_facts(trail)]
    clear_slots(trail)
    trail.attempt = attempt
    return True


def promote(trail: Trail) -> list[Fact]:
    """Make a flat trail irregular: everything it has becomes facts, with what they were counted for."""
    if trail.marks & M_IRREGULAR:
        trail.facts = trail.facts or []
        return trail.facts
    facts = [*(trail.facts or ()), *slot_facts(trail)]
    clear_slots(trail)
    trail.eta = 0.0
    trail.marks = M_IRREGULAR
    trail.facts = facts
    trail.distinct = len(facts)
    return facts


def land(trail: Trail, when: float) -> list[Fact]:
    """The start in flight that an irregular trail had then, by `Placed.when`: it is over, though no end is told."""
    facts = trail.facts or ()
    starts = [f for f in facts if f.kind == STARTED and is_flying(f) and (f.time or f.at) == when]
    for fact in starts:
        fact.flags |= LANDED
    return starts


def beyond(trail: Trail, lives: list[Life], keep: int, settled: float = inf) -> list[Fact]:
    """The oldest facts beyond `keep` that may go.

    Not: what an open dead letter rests on, how the latest life began and ended, and up to the axis time `settled`,
    where it is given, what is in flight or newer.
    """
    latest = lives[-1].order
    firsts = {placed.kind: placed.fact for placed in reversed(latest)}
    kinds = _ANCHORS - {STARTED} if RETRIED in firsts else _ANCHORS  # starts count on from the retries that are there
    anchors = {id(fact) for kind, fact in firsts.items() if kind in kinds}
    order = [placed.fact for life in lives for placed in life.order]
    may_go = [fact for fact in order if id(fact) not in anchors and not is_dead(fact)]
    if settled < inf:
        may_go = [fact for fact in may_go if fact.at <= settled and not is_flying(fact)]
    over = may_go[: len(trail.facts or ()) - keep]
    whole = next((n for n in range(len(over), 0, -1) if over[n - 1].kind != STARTED), len(over))
    return over[:whole]  # a start whose end is behind it stays, for the end to be counted by it


def cut(trail: Trail, over: list[Fact]) -> None:
    """Drop these facts, remembering what they counted."""
    gone = set(map(id, over))
    trail.gone = counts_of(over, trail.gone)
    trail.facts = [fact for fact in trail.facts or () if id(fact) not in gone]
    newest = max((fact.time or fact.at for fact in over), default=0.0)
    for fact in trail.facts:
        if fact.flags & DOWN and (fact.time or fact.at) < newest:
            fact.flags |= LANDED
