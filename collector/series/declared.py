"""The contracts as series: who owns which task, and by when it is to be done; and which series exist from 0.

`task_contract_info` has one series a task, declared or seen; `task_deadline_seconds`, `task_objective` and
`task_review_within_seconds` one where the contract has such a term.
A sample holds for 5 minutes, so they are written anew while time goes on.
"""

from __future__ import annotations

import math

from collector.model.contract import Contract, Contracts
from collector.model.labels import Labels, labels_of
from collector.model.stale import STALE
from collector.series.store import Store
from collector.trail.rows import Rows

INFO, DEADLINE, OBJECTIVE = "task_contract_info", "task_deadline_seconds", "task_objective"
REVIEW = "task_review_within_seconds"
_ANEW_SECONDS = 60.0


class Declared:
    """Writes what is declared into the store."""

    def __init__(self, store: Store, rows: Rows) -> None:
        self._store = store
        self._rows = rows
        self._contracts: Contracts | None = None
        self._written: dict[tuple[str, Labels], float] = {}
        self._written_at = -math.inf
        self._seen = -1
        self._gone: list[tuple[str, Labels]] = []

    def use(self, contracts: Contracts | None) -> None:
        """Write these from now on; what only the former ones said ends at the next `write`."""
        self._contracts = contracts
        self._seen = -1
        if contracts is None:
            return
        for one in contracts.declared:
            if one.match in contracts.plain():
                names = {"task": one.match} if set(one.queue) & set("*?[") else {"task": one.match, "queue": one.queue}
                for family in self._store.catalogue.families:
                    self._store.expect(family.metric.name, labels_of(names))

    def write(self, at: float) -> None:
        """Write the samples where their time has come, or a task was seen for the first time."""
        seen = len(self._rows)
        if self._contracts is None or (seen == self._seen and at < self._written_at + _ANEW_SECONDS):
            return
        if seen != self._seen:
            self._look(self._contracts)
        self._seen, self._written_at = seen, at
        for name, labels in self._gone:
            self._store.put(name, labels, at, STALE)
        self._gone = []
        for (name, labels), value in self._written.items():
            self._store.put(name, labels, at, value)

    def _look(self, contracts: Contracts) -> None:
        before = self._written
        found = {task: contracts.of(task, self._rows.queue_of(task)) for task in self._rows.tasks() if task}
        found |= {one.match: one for one in reversed(contracts.declared) if one.match in contracts.plain()}
        self._written = {place: value for task, one in found.items() for place, value in _samples(task, one)}
        self._gone = [place for place in before if place not in self._written]


def _samples(task: str, contract: Contract) -> list[tuple[tuple[str, Labels], float]]:
    named = {"task": task, "semantics": contract.semantics, "owner": contract.owner}
    samples = [((INFO, labels_of(named)), 1.0)]
    if contract.deadline is not None:
        samples.append(((DEADLINE, labels_of({"task": task})), contract.deadline))
    if contract.review_within is not None:
        samples.append(((REVIEW, labels_of({"task": task})), contract.review_within))
    if contract.objective is not None:
        samples.append(((OBJECTIVE, labels_of({"task": task})), contract.objective))
    return samples
