"""Which fact feeds which metric: the table, and the three lines that read it once per batch.

To add a metric that trails feed, add a row.
"""

from __future__ import annotations

from struct import pack

import numpy as np

from collector.series.catalogue import Metric
from collector.series.store import Store
from collector.series.window import Array
from collector.trail.transitions import PAIRED, STRIDE, Transitions


def _counter(fact: str, text: str, *, by_error: bool = False, detail: str = "") -> Metric:
    name = f"task_{fact}_total"
    by_error = by_error or bool(detail)
    return Metric(name=name, type="counter", help=text, feeds=(fact,), by_error=by_error, detail=detail or "error")


def _gauge(name: str, text: str, up: str, down: str) -> Metric:
    return Metric(name=name, type="gauge", help=text, feeds=(up, down))


def _histogram(measure: str, text: str) -> Metric:
    return Metric(name=f"task_{measure}_seconds", type="histogram", help=text, feeds=(measure,))


METRICS: tuple[Metric, ...] = (
    _counter("sent", "Tasks sent."),
    _counter("received", "Tasks received by a worker."),
    _counter("started", "Executions started, repeated ones included."),
    _counter("succeeded", "First successes of a task's life."),
    _counter("failed", "Tries that failed and will not be retried.", by_error=True),
    _counter("retried", "Tries that failed and will be retried.", by_error=True),
    _counter("dead_lettered", "Tasks moved to a dead-letter place.", by_error=True),
    _counter("rejected", "Tasks rejected by a worker."),
    _counter("requeued", "Tasks given back without a verdict."),
    _counter("revoked", "Tasks revoked before they were run."),
    _counter("expired", "Tasks that expired before they were run."),
    _counter("redelivered", "Starts of an attempt that was already started, or of a task that had ended."),
    _counter("duplicate_success", "Successes after the first of one life, or of one idempotency key."),
    _counter("in_time", "Tasks that were done by their deadline."),
    _counter("lost", "Tasks started by a worker that is gone, without an end."),
    _counter("overdue", "Tasks whose deadline passed."),
    _counter("policy_violations", "Trails that broke their contract's retry policy.", detail="policy"),
    _counter("findings", "What else was found of tasks, by kind.", detail="finding"),
    _counter("recovered", "Tasks that were made good after they were found to be what `from` says.", detail="from"),
    _gauge("tasks_in_flight", "Tasks started and not ended.", "flight_up", "flight_down"),
    _gauge("dead_letters_open", "Dead-lettered tasks without verdict or later success.", "dead_up", "dead_down"),
    _gauge("tasks_overdue", "Tasks whose deadline passed and that have not ended.", "late_up", "late_down"),
    _histogram("wait", "Seconds from sent to start, without eta and back-off; one observation per attempt."),
    _histogram("run", "Seconds from start to end; one observation per attempt."),
    _histogram("total", "Seconds from sent to final end; one observation per life."),
)


# By fact: what to add to a code to have the first fact it stands for, and for the paired ones the second.
_FIRST, _SECOND = (
    np.array([PAIRED[fact][side] - fact if fact in PAIRED else 0 for fact in range(STRIDE)]) for side in (0, 1)
)
_FACT = STRIDE - 1
"""The bits of a code that are its fact."""


def observe(out: Transitions, store: Store) -> tuple[Array, Array] | None:
    """Feed the series what a batch did. Facts at or before the frontier count at once, later ones when it has come.

    Gives `measures` and `seconds` as arrays, where there are any: whoever else looks at them need not make them again.
    """
    hosts = _Hosts(out, store) if store.hosts.families else None
    if out.codes:
        codes, ats = _whole(out.codes), _real(out.ats)
        facts = codes & _FACT
        second = codes + _SECOND.take(facts)
        paired = np.flatnonzero(second != codes)
        codes = np.concatenate((codes + _FIRST.take(facts), second.take(paired)))
        of_each = None if hosts is None else (hosts.of(0, len(ats), paired), hosts.of(1, len(out.errors)))
        store.count(codes, np.concatenate((ats, ats.take(paired))), out.errors, of_each)
    elif out.errors:
        of_errors = None if hosts is None else (_whole([]), hosts.of(1, len(out.errors)))
        store.count(_whole([]), _real([]), out.errors, of_errors)
    if not out.measures:
        return None
    measures, seconds = _whole(out.measures), _real(out.seconds)
    of_measures = None if hosts is None else hosts.of_measures(len(seconds), len(out.errors))
    store.measure(measures, seconds, _real(out.measured_ats), of_measures)
    return measures, seconds


class _Hosts:
    """On which host each transition of a batch happened, as far as the events say."""

    def __init__(self, out: Transitions, store: Store) -> None:
        notes = out.notes or []
        self._begins = np.array([note[:3] for note in notes], np.int64).reshape(-1, 3)
        self._hosts = _whole([store.hosts.intern(note[3]) for note in notes])

    def of(self, column: int, length: int, again: Array | None = None) -> Array:
        """The host of each of so many codes (0), errors (1) or measures (2), and of those at `again` once more."""
        begins = self._begins[:, column]
        found = np.zeros(length, np.int64)
        if len(begins):
            found[begins[0] :] = self._hosts.repeat(np.diff(np.append(begins, length)))
        return found if again is None else np.concatenate((found, found.take(again)))

    def of_measures(self, length: int, errors: int) -> Array:
        """The host of each measure; its complement where the event was a failure, whose run the exporter leaves out."""
        failed = np.diff(np.append(self._begins[:, 1], errors)) > 0
        self._hosts = np.where(failed, ~self._hosts, self._hosts)
        return self.of(2, length)


# `struct` takes a list apart in less than half the time that numpy needs for it.


def _whole(numbers: list[int]) -> Array:
    return np.frombuffer(pack(f"{len(numbers)}q", *numbers), np.int64)


def _real(numbers: list[float]) -> Array:
    return np.frombuffer(pack(f"{len(numbers)}d", *numbers), np.float64)
