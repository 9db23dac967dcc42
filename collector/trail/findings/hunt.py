"""A hunt: through all open trails of one application, in steps, for those of workers that may be gone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from collector.trail.findings.crew import Worker
from collector.trail.keep import Home
from collector.trail.trail import M_END, M_IRREGULAR, M_STARTED, Trail


class Hunt:
    """One way through a home. Trails that come after its beginning are of no interest to it."""

    def __init__(self, home: Home, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self.active = dict.fromkeys((worker.name for worker in workers), 0.0)
        """Worker → the newest fact of its tasks, axis time."""
        self.held: list[Trail] = []
        """What they may have had in hand."""
        self.is_over = False
        self._home = home
        self._ids = iter(list(home.open))

    def step(self, most: int) -> int:
        """Pass by so many trails at most; gives how many."""
        passed = 0
        opened, active = self._home.open.get, self.active
        for task_id in islice(self._ids, most):
            passed += 1
            trail = opened(task_id)
            if trail is None:
                continue
            if trail.marks & M_IRREGULAR:
                self._look(trail)
            elif trail.worker in active:
                newest = max(trail.received_at, trail.started_at, trail.end_at)
                active[trail.worker] = max(active[trail.worker], newest)
                if trail.marks & (M_STARTED | M_END) == M_STARTED:
                    self.held.append(trail)
        self.is_over = passed < most
        return passed

    def _look(self, trail: Trail) -> None:
        is_held = False
        for fact in trail.facts or ():
            if fact.worker in self.active:
                self.active[fact.worker] = max(self.active[fact.worker], fact.at)
                is_held = True
        if is_held:
            self.held.append(trail)
