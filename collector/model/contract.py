"""The contract of a class of tasks: what was promised of it, by whom, and who repairs it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

Semantics: TypeAlias = Literal["must_complete", "best_effort", "undeclared"]
UNASSIGNED = "unassigned"
KEY_LABELS = "labels."
KEY_FIELDS = frozenset({"idempotency_key", "root_id", "parent_id", "trace_id"})
"""What `idempotency_key` may name: a label of the event by `labels.NAME`, or one of its fields."""
MOST_REMEMBERED = 100_000
"""Pairs of task and queue whose contract is looked up once."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited between a failed try and the next: `min * factor^(n-1)`, at most `max`; seconds."""

    min: float = 0.0
    max: float | None = None
    factor: float = 1.0

    def before(self, retry: int) -> float:
        """The least wait before the retry of this number, from 1; seconds."""
        try:
            wait = self.min * self.factor ** (retry - 1)
        except OverflowError:
            return self.max or self.min
        return wait if self.max is None else min(wait, self.max)


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the tasks that `match` and `queue` name. Durations in seconds; None: nothing was promised."""

    match: str = "*"
    queue: str = "*"
    """Globs on the task's name and on its queue."""
    semantics: Semantics = "undeclared"
    deadline: float | None = None
    """From `sent` (or its eta) to the final success, retries included."""
    objective: float | None = None
    """The share of tasks that are done in time, 0 to 1."""
    max_attempts: int | None = None
    backoff: Backoff | None = None
    retryable: tuple[str, ...] = ()
    """Error classes after which a try must be made again, as long as attempts are left."""
    not_retryable: tuple[str, ...] = ()
    idempotency_key: str | None = None
    """Where an event says which side effect it is about: a path such as `labels.order`."""
    owner: str = UNASSIGNED
    runbook_url: str = ""
    keep_success: float | None = None
    """The share of successful trails that is kept."""
    review_within: float | None = None
    """How long a dead letter may wait for a verdict."""
    time_limit: float | None = None
    """The longest that one try may run."""
    period: float | None = None
    """How often such a task is due."""

    @property
    def is_declared(self) -> bool:
        """Whether somebody wrote it."""
        return self.semantics != "undeclared"

    @property
    def is_glob(self) -> bool:
        """Whether `match` names more than one task."""
        return not set("*?[").isdisjoint(self.match)


UNDECLARED = Contract()


class Contracts:
    """All contracts, in the order of their file: the first that matches holds."""

    def __init__(self, declared: Sequence[Contract] = (), default: Contract = UNDECLARED) -> None:
        self.declared = tuple(declared)
        self._default = default
        self._found: dict[tuple[str, str], Contract] = {}

    def of(self, task: str, queue: str = "") -> Contract:
        """The contract of a task in a queue; that of nobody where none was declared."""
        found = self._found.get((task, queue))
        if found is None:
            if len(self._found) >= MOST_REMEMBERED:
                self._found.clear()
            found = self._found[task, queue] = self._look_up(task, queue)
        return found

    def _look_up(self, task: str, queue: str) -> Contract:
        for one in self.declared:
            if fnmatchcase(task, one.match) and (one.queue == "*" or fnmatchcase(queue, one.queue)):
                return one
        return self._default

    def plain(self) -> tuple[str, ...]:
        """The task names that are declared without a glob: their series exist from 0."""
        return tuple(dict.fromkeys(one.match for one in self.declared if not one.is_glob))
