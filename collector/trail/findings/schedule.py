"""Missed schedules: a task that is due every so often, and was not sent since."""

from __future__ import annotations

import heapq

import msgspec

from collector.trail.findings.holes import Holes

_SHARE, _LEAST, _MOST = 0.1, 10.0, 300.0
"""How much later than due still counts as held: a share of the period, within these seconds."""
MOST = 10_000


class Turn(msgspec.Struct, array_like=True):
    """The last time that a task was sent. Times are axis times."""

    row: int
    period: float
    at: float
    task_id: str
    home: int
    missed: int = 0
    """Periods found missed since."""

    def due(self, grace: float) -> float:
        """When the next one is missed."""
        slack = min(max(_SHARE * self.period, _LEAST), _MOST)
        return self.at + (self.missed + 1) * self.period + slack + grace


class Schedules:
    """The turns of all tasks that have a period."""

    def __init__(self, holes: Holes, grace: float) -> None:
        self.turns: dict[tuple[str, str], Turn] = {}
        """By task and source."""
        self._holes = holes
        self._grace = grace
        self._heap: list[tuple[float, str, str]] = []

    def sent(self, names: tuple[str, str, str], turn: Turn) -> None:
        """A task with a period was sent. `names`: of its row."""
        key = names[0], names[2]
        before = self.turns.get(key)
        if before is not None and before.at >= turn.at:
            return
        if before is None and len(self.turns) >= MOST:
            return
        self.turns[key] = turn
        if before is None:
            self._arm(*key)

    def _arm(self, task: str, source: str) -> None:
        heapq.heappush(self._heap, (self.turns[task, source].due(self._grace), task, source))

    def next_due(self) -> float | None:
        """When the next one may be missed."""
        while self._heap:
            due, task, source = self._heap[0]
            if self.turns[task, source].due(self._grace) <= due:
                return due
            heapq.heappop(self._heap)
            self._arm(task, source)
        return None

    def missed(self, at: float) -> list[tuple[Turn, float]]:
        """What was missed by an instant, and when that is counted."""
        found: list[tuple[Turn, float]] = []
        while (due := self.next_due()) is not None and due <= at:
            _, task, source = heapq.heappop(self._heap)
            turn = self.turns[task, source]
            if not self._holes.is_known(source):
                self._holes.wait(source, self._arm, task, source)
                continue
            if self._holes.over(source, due - turn.period, due) is None:
                found.append((turn, due))
            turn.missed += 1
            self._arm(task, source)
        return found
