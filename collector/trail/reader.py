"""Questions to the trails: one task, a trace, everything, and what an alert is about. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from collector.model.alert import Evidence, Offender, Share
from collector.model.personal import mask_personal
from collector.trail.evidence import SLOT_SECONDS, Note, Notes
from collector.trail.keep import Home, Keep
from collector.trail.rows import Errors, Rows
from collector.trail.timeline import Timeline, view
from collector.trail.trace import TraceView
from collector.trail.trail import DOWN, M_DOWN, M_IRREGULAR, M_UP, UP, Trail
from collector.trail.transitions import MEASURES

_OFFENDERS = 5
_LOOKED_AT = 32
"""So many tasks are looked up for the split by worker, queue and caller."""
_MOST_PARTS = 5
_GROWN = 0.2
_FEWEST = 3
"""Fewer of a kind are no trend."""
_TRACE_TASKS, _TRACE_STEP = 1_000, 50
"""Of a trace: so many tasks at most, so many in a step."""
_OLDEST_LOOKED_AT = 20_000
"""How many open trails, oldest first, a look for the oldest in flight goes through: a bound on the step."""


class Reader:
    """Reads what the stitcher keeps."""

    def __init__(self, keep: Keep, rows: Rows, errors: Errors, notes: Notes, grace: float) -> None:
        self._keep = keep
        self._rows = rows
        self._errors = errors
        self._notes = notes
        self._grace = grace

    def find(self, task_id: str) -> Timeline | None:
        """The timeline of a task id, open or finished, or None."""
        for home in self._keep.homes:
            trail = self._keep.look(home, task_id)
            if trail is not None:
                return self._view(home, trail)
        return None

    def trace(self, trace_id: str) -> TraceView | None:
        """Every trail of a trace, and every trail under one of those, or None where nothing is known of it."""
        trace = next(filter(None, self.tracing(trace_id)))
        return trace if trace.tasks else None

    def tracing(self, trace_id: str) -> Iterator[TraceView | None]:
        """None after each short step, and at last what is known of a trace."""
        trace = TraceView(trace_id=trace_id, tasks=[])
        for home in self._keep.homes:
            while home.links.index():
                yield None
            waiting = home.links.of_trace(trace_id)
            known = set(waiting)
            for task_id in waiting:  # grows while it is walked: children come after their parents
                if len(trace.tasks) >= _TRACE_TASKS:
                    trace.truncated = True
                    break
                trail = self._keep.look(home, task_id)
                if trail is not None:
                    trace.tasks.append(self._view(home, trail))
                    if len(trace.tasks) % _TRACE_STEP == 0:
                        yield None
                fresh = [child for child in home.links.under(task_id) if child not in known]
                known.update(fresh)
                waiting += fresh
        yield trace

    def trails(self) -> Iterator[Timeline]:
        """All timelines: of each home the finished trails first, then the open ones."""
        for home in self._keep.homes:
            for task_id in home.finished.remembered():
                trail = self._keep.look(home, task_id)
                if trail is not None:
                    yield self._view(home, trail)
            for trail in home.open.values():
                yield self._view(home, trail)

    def evidence(self, rows: Sequence[int], facts: Sequence[str], since: float, *, is_close: bool = True) -> Evidence:
        """Offenders and top errors of these rows and facts after `since` (axis time).

        A close look takes in more tasks than are shown, for the split by worker, queue and caller.
        """
        notes = self._recent(rows, facts, since) + self._notes.slowest(rows, facts, since)
        if "flight_up" in facts and len(notes) < _OFFENDERS:
            notes += self._oldest_in_flight(set(rows))
        if not any(fact in MEASURES or fact == "flight_up" for fact in facts):
            notes.sort(reverse=True)
        top = self._notes.top_errors(rows, facts, since)
        seen = [self._offender(note) for note in notes[: _LOOKED_AT if is_close else _OFFENDERS]]
        return Evidence(
            offenders=tuple(seen[:_OFFENDERS]),
            top_errors=tuple((self._errors.name(error), count) for error, count in top),
            workers=_split(one.worker for one in seen),
            queues=_split(one.queue for one in seen),
            callers=_split(one.caller for one in seen),
        )

    def _recent(self, rows: Sequence[int], facts: Sequence[str], since: float) -> list[Note]:
        """Notes of facts; `findings:stuck` stands for those of that kind."""
        notes = self._notes.recent(rows, facts, since)
        for named in (fact for fact in facts if ":" in fact):
            fact, _, kind = named.partition(":")
            notes += self._of_kind(rows, fact, kind, since)
        return notes

    def _of_kind(self, rows: Sequence[int], fact: str, kind: str, since: float) -> list[Note]:
        return self._notes.recent(rows, (fact,), since, lambda error: self._errors.name(error) == kind)

    def changed(self, rows: Sequence[int], facts: Sequence[str], since: float, until: float) -> tuple[Share, ...]:
        """Error classes, workers and deploys whose share has grown by a fifth of all or more, against as long before.

        Errors are counted, to 15 seconds; workers and deploys are those of the latest tasks on both sides of `since`.
        """
        begin = since - (until - since)
        errors = self._notes.errors(rows, facts, since, until)
        errors_before = self._notes.errors(rows, facts, begin, since - SLOT_SECONDS)
        notes = self._notes.recent(rows, facts, begin)
        late = [note for note in notes if note[0] > since]
        early = [note for note in notes if note[0] <= since]
        named = {error: self._errors.name(error) for error in errors}
        return (
            *_grown(
                Counter({named[error]: count for error, count in errors.items()}),
                Counter({named.get(error, ""): count for error, count in errors_before.items()}),
            ),
            *_grown(self._workers(late), self._workers(early), "worker "),
            *_grown(self._deploys(late), self._deploys(early)),
        )

    def _workers(self, notes: Sequence[Note]) -> Counter[str]:
        seen = (self._offender(note).worker for note in notes[:_LOOKED_AT])
        return Counter(worker for worker in seen if worker)

    def _deploys(self, notes: Sequence[Note]) -> Counter[str]:
        trails = (self._keep.look(self._keep.homes[home], task_id) for _, home, task_id, _ in notes[:_LOOKED_AT])
        return Counter(trail.deploy for trail in trails if trail is not None and trail.deploy)

    def _view(self, home: Home, trail: Trail) -> Timeline:
        found = view(trail, self._rows, self._errors, self._grace, home.links.under(trail.task_id))
        if self._keep.arguments is not None:
            found.arguments = mask_personal(self._keep.arguments.of(home.index, trail.task_id))
        return found

    def _offender(self, note: Note) -> Offender:
        at, index, task_id, error = note
        home = self._keep.homes[index]
        trail = self._keep.look(home, task_id)
        if trail is None:
            return Offender(task_id=task_id, error=self._errors.name(error), at=at)
        seen = self._view(home, trail)
        workers = [attempt.worker for attempt in seen.attempts if attempt.worker]
        return Offender(
            task_id=task_id,
            task=seen.task,
            queue=seen.queue,
            state=seen.state,
            error=self._errors.name(error) or seen.error,
            error_message=seen.error_message,
            attempts=max((attempt.attempt for attempt in seen.attempts), default=0),
            worker=workers[-1] if workers else "",
            caller=seen.caller,
            trace_id=seen.trace_id,
            at=at,
            arguments=seen.arguments,
        )

    def _oldest_in_flight(self, rows: set[int]) -> list[Note]:
        found: list[Note] = []
        for home in self._keep.homes:
            for trail in islice(home.open.values(), _OLDEST_LOOKED_AT):
                started_at = _in_flight_since(trail, rows)
                if started_at is not None:
                    found.append((started_at, home.index, trail.task_id, 0))
        found.sort()
        return found[:_OFFENDERS]


def _grown(now: Counter[str], before: Counter[str], prefix: str = "") -> list[Share]:
    """The commonest whose share has grown; nothing where there is no before."""
    of, of_before = now.total(), before.total()
    return [
        Share(what=f"{prefix}{name}", count=count, of=of, count_before=before[name], of_before=of_before)
        for name, count in now.most_common(_MOST_PARTS)
        if of_before and count >= _FEWEST and count / of - before[name] / of_before >= _GROWN
    ]


def _split(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(name for name in names if name).most_common(_MOST_PARTS))


def _in_flight_since(trail: Trail, rows: set[int]) -> float | None:
    """Axis time of the oldest start that is in flight under one of these rows."""
    if not trail.marks & M_IRREGULAR:
        is_up = trail.marks & M_UP and not trail.marks & M_DOWN and trail.row in rows
        return trail.started_at if is_up else None
    starts = (fact.at for fact in trail.facts or () if fact.flags & (UP | DOWN) == UP and fact.row in rows)
    return min(starts, default=None)
