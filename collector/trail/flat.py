"""The regular path, in one flat loop: events whose facts fit the slots of their trails; the misfits get all others.

Plain Python, and the compiled core: `flat.pxd` beside it gives Cython the types of the names below, and where a
compiler is at hand the same lines run as machine code, with fields read where they lie (`layout.pxd`).
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.model.event import KIND_CODE, Event
from collector.trail.bend import fill
from collector.trail.keep import Home
from collector.trail.lifecycle import KIND_COUNT, RECEIVED, RETRIED, SENT, STARTED, SUCCEEDED
from collector.trail.misfits import DUPLICATE_FACT
from collector.trail.rows import NAMELESS
from collector.trail.saving import Parts
from collector.trail.slots import EXPLICIT, MISFIT, NAMED, ORDERED, SEEN, TOLD
from collector.trail.trail import (
    M_DOWN,
    M_DUPLICATE,
    M_END,
    M_RAN,
    M_RECEIVED,
    M_STARTED,
    M_TOTALLED,
    M_UP,
    M_WAITED,
    Trail,
    origin,
)
from collector.trail.transitions import (
    DUPLICATE_SUCCESS,
    FLIGHT_DOWN,
    RUN,
    STARTED_UP,
    STRIDE,
    SUCCEEDED_DOWN,
    TOTAL,
    WAIT,
    Transitions,
)

_OTHERS = M_RECEIVED | M_STARTED | M_END
_FLYING = M_UP | M_DOWN

NEW = 0
"""The marks of a new trail; a test sets M_IRREGULAR to send everything through `tally`."""


def stitch(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - a call per step costs more than the step
    parts: Parts,
    home: Home,
    channel: int,
    source: str,
    events: Sequence[Event],
    ats: Sequence[float],
    out: Transitions,
) -> tuple[list[Trail], int, int]:
    """Take a batch, with the axis time of each event; gives (trails that are new to an index, duplicate, ignored)."""
    keep, rows, texts, misfits, settler = parts.keep, parts.rows, parts.texts, parts.misfits, parts.settler
    opened, finished, dead, home_index = home.open, home.finished, settler.dead, home.index
    rows_of, queues, row_cap = rows.tables(source), rows.queues, rows.cap
    known, intern = texts.known.get, texts.intern
    codes, code_ats = out.codes, out.ats
    measures, seconds, measured_ats, witnesses = out.measures, out.seconds, out.measured_ats, out.witnesses
    kinds, misfit, ordered = KIND_CODE, MISFIT, ORDERED
    seen, named, explicit, told = SEEN, NAMED, EXPLICIT, TOLD
    # What nearly every event asks for, as locals: to look a global up costs as much as to compare it.
    m_started, m_up, m_down, m_ran, m_end, flying = M_STARTED, M_UP, M_DOWN, M_RAN, M_END, _FLYING
    stride, kind_count, sent, started = STRIDE, KIND_COUNT, SENT, STARTED
    fresh: list[Trail] = []
    duplicates = ignored = 0
    for event, at in zip(events if out.notes is None else out.noting(events), ats, strict=True):
        kind = kinds[event.kind]
        if kind >= kind_count:
            ignored += 1
            continue
        task_id = event.task_id
        try:
            row = rows_of[event.task][event.queue]
        except KeyError:
            row = rows.lookup(event.task, event.queue, source)
        time = event.time
        if time is None:
            time = 0.0
        attempt = event.attempt
        worker = event.worker
        trail = opened.get(task_id)
        if trail is None:
            if finished.size and (trail := keep.thaw(home, task_id, at)) is not None:
                pass
            elif (
                kind == sent  # in good order: nothing to look at, everything to keep
                and 0 <= row < row_cap
                and not worker
                and event.idempotency_key is None
                and event.root_id is None
                and task_id not in dead
                and not NEW
            ):
                queues[event.task] = event.queue
                caller = event.caller
                trail = opened[task_id] = Trail(
                    seen[sent] if attempt is None else explicit[sent],
                    row,
                    attempt or 1,
                    "",
                    event.trace_id,
                    task_id=task_id,
                    home=home_index,
                    source=channel,
                    born=at,
                    sent_time=time,
                    sent_at=at,
                    eta=event.eta or 0.0,
                    caller="" if caller is None else known(caller) or intern(caller),
                    parent_id=event.parent_id or "",
                )
                fresh.append(trail)
                codes.append(row * stride + sent)
                code_ats.append(at)
                continue
            else:
                trail = misfits.enter(home, channel, source, event, row, at)
                trail.marks |= NEW
                fresh.append(trail)
        elif trail.trace_id is None and event.trace_id is not None:
            fill(trail, event, texts)
            fresh.append(trail)  # it is indexed under the trace it now knows
        if row < 0 and channel == trail.source and (row == NAMELESS or misfits.fits(trail, event)):
            row = trail.row
        marks = trail.marks
        known_worker = trail.worker
        if (
            kind > RETRIED
            or row != trail.row  # also: another source
            or channel != trail.source
            or marks & misfit[kind]
            or (trail.attempt != 1 if attempt is None else attempt != trail.attempt)
            or (worker and worker != known_worker and known_worker)
            or (
                marks & ordered[kind]
                and (
                    (time or at) < (trail.started_time or trail.started_at)
                    if kind > started
                    else (time or at) > (trail.end_time or trail.end_at)
                )
            )
        ):
            verdict = misfits.take(trail, event, kind, row, channel, time, at, out)
            if verdict:
                duplicates += verdict == DUPLICATE_FACT
                continue
            marks = trail.marks
            known_worker = trail.worker

        if worker:
            marks |= named[kind] if attempt is None else told[kind]
            if not known_worker:
                trail.worker = known(worker) or intern(worker)
        else:
            marks |= seen[kind] if attempt is None else explicit[kind]

        if kind == started:
            trail.started_time = time
            trail.started_at = at
            code_ats.append(at)
            ready = trail.sent_time
            if trail.eta > ready:
                ready = trail.eta
            if ready and time >= ready:
                marks |= M_WAITED
                sent_at = trail.sent_at
                measures.append(row * 3 + WAIT)
                seconds.append(time - ready)
                measured_ats.append(at if at > sent_at else sent_at)
                witnesses.append(task_id)
            if not marks & m_end:
                marks |= m_up
                codes.append(row * stride + STARTED_UP)
            else:
                marks |= m_up | m_down
                if trail.end_at > at:
                    codes.append(row * stride + STARTED_UP)
                    codes.append(row * stride + FLIGHT_DOWN)
                    code_ats.append(trail.end_at)
                else:
                    codes.append(row * stride + started)
                if not marks & m_ran and time and trail.end_time:
                    marks |= m_ran
                    measures.append(row * 3 + RUN)
                    seconds.append(trail.end_time - time)
                    measured_ats.append(at if at > trail.end_at else trail.end_at)
                    witnesses.append(task_id)
        elif kind > started:
            trail.end_time = time
            trail.end_at = at
            if kind == SUCCEEDED:
                if (trail.key or event.idempotency_key) and not misfits.is_first_success(trail, event, at):
                    marks |= M_DUPLICATE
                    settler.emit(trail, DUPLICATE_SUCCESS, row, at, 0, out)
                elif marks & flying == m_up and at >= trail.started_at:
                    marks |= m_down
                    codes.append(row * stride + SUCCEEDED_DOWN)
                    code_ats.append(at)
                else:
                    codes.append(row * stride + SUCCEEDED)
                    code_ats.append(at)
            else:
                misfits.fail(trail, event, kind, row, at, out)
            run = event.run_seconds
            if run is not None:
                marks |= m_ran
                trail.run = run
                measures.append(row * 3 + RUN)
                seconds.append(run)
                measured_ats.append(at)
                witnesses.append(task_id)
            elif marks & m_started and time and trail.started_time:
                marks |= m_ran
                measures.append(row * 3 + RUN)
                seconds.append(time - trail.started_time)
                measured_ats.append(at if at > trail.started_at else trail.started_at)
                witnesses.append(task_id)
            if marks & flying == m_up:
                marks |= m_down
                codes.append(row * stride + FLIGHT_DOWN)
                code_ats.append(at if at > trail.started_at else trail.started_at)
            if kind != RETRIED:
                sent_time, sent_at = trail.sent_time, trail.sent_at
                if trail.facts:
                    sent_time, sent_at = origin(trail)
                if sent_time and time >= sent_time:
                    marks |= M_TOTALLED
                    measures.append(row * 3 + TOTAL)
                    seconds.append(time - sent_time)
                    measured_ats.append(at if at > sent_at else sent_at)
                    witnesses.append(task_id)
        elif kind == RECEIVED:
            trail.received_time = time
            trail.received_at = at
            codes.append(row * stride + RECEIVED)
            code_ats.append(at)
        else:
            trail.sent_time = time
            trail.sent_at = at
            codes.append(row * stride + sent)
            code_ats.append(at)
            if event.eta is not None or trail.eta:
                trail.eta = event.eta or 0.0
            if marks & _OTHERS:
                marks = misfits.sent_late(trail, event, marks, out)
                fresh.append(trail)
        trail.marks = marks
    return fresh, duplicates, ignored
