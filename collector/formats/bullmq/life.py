"""What is remembered of jobs between the entries of their streams: bounded, in two generations."""

from __future__ import annotations

from collector.model.event import Kind

MOST_LIVES = 50_000
"""Jobs per generation. One that is forgotten goes on by what its hash says alone."""
UNKNOWN, ADDED, WAITING, ACTIVE, OVER = range(5)

Told = tuple[Kind, int | None, float]
"""A fact that was told of a job: kind, attempt and time."""


class Life:
    """One job as it was seen, from its `added` on, or from its middle."""

    __slots__ = (
        "attempt", "end", "held", "is_known", "is_suspect", "key", "made", "name", "parent_id", "parent_key", "phase",
        "queue", "sent", "start", "starts", "task_id", "trace", "untold", "worker",
    )  # fmt: skip

    def __init__(self, key: str, task_id: str, queue: str, name: str | None = None, *, is_whole: bool = False) -> None:
        self.key = key
        self.task_id = task_id
        self.queue = queue
        self.name = name
        self.phase = ADDED if is_whole else UNKNOWN
        self.made = 0 if is_whole else -1
        """Attempts that ended and count; -1: nobody knows, and `starts` says nothing then."""
        self.starts = 0
        self.attempt: int | None = None
        """Of the latest start."""
        self.sent: float | None = None
        self.start: float | None = None
        self.worker: str | None = None
        """Of the latest start, as far as it was told."""
        self.end: Told | None = None
        """How the latest start ended."""
        self.held: float | None = None
        """A start that waits for word whether it runs."""
        self.is_suspect = False
        """The next start may fail without running."""
        self.untold: list[Told] = []
        """Failures that were told without their error."""
        self.trace: tuple[str, str] | None = None
        self.parent_id: str | None = None
        self.parent_key = ""
        self.is_known = False
        """Whether its hash was seen: a parent or a trace that it did not name is not there."""


class Memory:
    """The jobs of a source by their keys."""

    def __init__(self) -> None:
        self._young: dict[str, Life] = {}
        self._old: dict[str, Life] = {}

    def find(self, key: str) -> Life | None:
        """The job of this key, if it is remembered; it is young again."""
        life = self._young.get(key)
        if life is None and (life := self._old.pop(key, None)) is not None:
            self.keep(life)
        return life

    def keep(self, life: Life) -> Life:
        """Remember a job; it takes the place of an earlier one with its key."""
        if len(self._young) >= MOST_LIVES:
            self._old, self._young = self._young, {}
        self._young[life.key] = life
        return life

    def forget(self, life: Life) -> None:
        """Nothing more is to be expected of this job."""
        self._young.pop(life.key, None)
