"""A hunt: through all open trails of one application, in steps, for those of workers that may be gone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from collector.trail.findings.crew import Worker
from collector.trail.keep import Home
from collector.trail.trail import M_END, M_IRREGULAR, M_STARTED, Trail


class Hunt:
    """One way through a home. Trails that come after its beginning are of no interest to it."""

    def __init__(self, home: Home, workers: Sequence[Worker], grace: float) -> None:
        self.workers = workers
        self.active: dict[str, set[float]] = {worker.name: set() for worker in workers}
        """Worker → when facts of its tasks were, axis time."""
        self.held: list[Trail] = []
        """What they may have had in hand."""
        self.is_over = False
        self._home = home
        self._since = min(worker.handled for worker in workers) - grace
        """Ends after this are later than what is judged."""
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
                active[trail.worker].update((trail.received_at, trail.started_at, trail.end_at))
                is_running = not trail.marks & M_END or trail.end_at > self._since
                if trail.marks & M_STARTED and is_running:
                    self.held.append(trail)
        self.is_over = passed < most
        return passed

    def _look(self, trail: Trail) -> None:
        is_held = False
        for fact in trail.facts or ():
            if fact.worker in self.active:
                self.active[fact.worker].add(fact.at)
                is_held = True
        if is_held:
            self.held.append(trail)
