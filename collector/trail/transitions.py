"""What a batch did to the trails, in columns: the only thing that series are fed by.

No object per transition: parallel lists that the observer reads once per batch and then clears.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt

from collector.model.event import TASK_KINDS, Event

Array: TypeAlias = npt.NDArray[Any]

FACTS: tuple[str, ...] = (
    *TASK_KINDS,
    "redelivered",
    "duplicate_success",
    "in_time",
    "lost",
    "overdue",
    "recovered",
    "flight_up",
    "flight_down",
    "dead_up",
    "dead_down",
    "late_up",
    "late_down",
    "policy_violations",
    "findings",
)
"""Task kinds in the order of KIND_CODE, findings, then ups and downs of gauges: tasks_in_flight,
dead_letters_open, tasks_overdue; at last what else is found, each with its kind in place of an error."""
FACT_CODE: dict[str, int] = {fact: code for code, fact in enumerate(FACTS)}
STRIDE = 32
"""`code = row * STRIDE + fact`."""

REDELIVERED = FACT_CODE["redelivered"]
DUPLICATE_SUCCESS = FACT_CODE["duplicate_success"]
FLIGHT_UP, FLIGHT_DOWN = FACT_CODE["flight_up"], FACT_CODE["flight_down"]
LOST, VIOLATIONS, FINDINGS = FACT_CODE["lost"], FACT_CODE["policy_violations"], FACT_CODE["findings"]
IN_TIME, OVERDUE, RECOVERED = FACT_CODE["in_time"], FACT_CODE["overdue"], FACT_CODE["recovered"]
LATE_UP, LATE_DOWN = FACT_CODE["late_up"], FACT_CODE["late_down"]
DEAD_UP, DEAD_DOWN = FACT_CODE["dead_up"], FACT_CODE["dead_down"]

# Two facts that most often come together, as one code: half as much to append in the hot loop.
STARTED_UP, SUCCEEDED_DOWN = STRIDE - 2, STRIDE - 1
PAIRED: dict[int, tuple[int, int]] = {
    STARTED_UP: (FACT_CODE["started"], FLIGHT_UP),
    SUCCEEDED_DOWN: (FACT_CODE["succeeded"], FLIGHT_DOWN),
}

MEASURES: tuple[str, ...] = ("wait", "run", "total")
WAIT, RUN, TOTAL = range(3)


class Transitions:
    """One count per entry of `codes` and `errors`, one observation per entry of `measures`. Times are axis times.

    Failures (`failed retried dead_lettered`) are in `errors` as (code, error id, at) and not in `codes`; so are
    `recovered`, `policy_violations` and `findings`, with what was found in place of the error.
    A code whose fact is one of `PAIRED` stands for both of its facts.
    `measures` holds `row * 3 + (0 wait, 1 run, 2 total)`; `witnesses` the task id that was measured.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("ats", "codes", "errors", "measured_ats", "measures", "seconds", "witnesses")
    __slots__ = (*COLUMNS, "notes")

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.ats: list[float] = []
        self.errors: list[tuple[int, int, float]] = []
        self.measures: list[int] = []
        self.seconds: list[float] = []
        self.measured_ats: list[float] = []
        self.witnesses: list[str] = []
        self.notes: list[tuple[int, int, int, str | None]] | None = None
        """Where somebody asks: per event, how long `codes`, `errors` and `measures` were before it, and its worker."""

    def noting(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events, each noted just before it is taken: so the loop over them need not know of it."""
        notes, codes, errors, measures = self.notes, self.codes, self.errors, self.measures
        assert notes is not None  # noqa: S101  whoever asks has made it
        for event in events:
            notes.append((len(codes), len(errors), len(measures), event.worker))
            yield event

    def count(self, row: int, fact: int, at: float) -> None:
        """Count one fact that carries no error class."""
        self.codes.append(row * STRIDE + fact)
        self.ats.append(at)

    def measure(self, row: int, measure: int, seconds: float, at: float, task_id: str) -> None:
        """Observe one duration."""
        self.measures.append(row * 3 + measure)
        self.seconds.append(seconds)
        self.measured_ats.append(at)
        self.witnesses.append(task_id)

    def clear(self) -> None:
        """Forget everything; the lists stay the same objects."""
        for name in self.COLUMNS:
            getattr(self, name).clear()
        if self.notes:
            self.notes.clear()
