"""What one source of Celery's events remembers, within bounds: what one event says of a task and another needs."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

REMEMBERED = 50_000
"""Tasks of which something is remembered, twice over: the younger and the older half."""
MESSAGES = 20_000
"""Waiting messages that are remembered, twice over."""

V = TypeVar("V")


class Recent(Generic[V]):
    """The last so many things by their id: between `limit` and twice as many."""

    __slots__ = ("_limit", "_older", "young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.young: dict[str, V] = {}
        self._older: dict[str, V] = {}

    def __bool__(self) -> bool:
        return bool(self.young or self._older)

    def put(self, key: str, value: V) -> None:
        """Remember a thing."""
        self.young[key] = value
        self.turn()

    def turn(self) -> None:
        """Let the older half go where the younger is full: once per batch for who writes into `young` by himself."""
        if len(self.young) >= self._limit:
            self._older, self.young = self.young, {}

    def get(self, key: str) -> V | None:
        """The thing, where it is remembered."""
        found = self.young.get(key)
        return self._older.get(key) if found is None else found

    def pop(self, key: str) -> V | None:
        """The thing, which is not remembered any longer."""
        found = self.young.pop(key, None)
        older = self._older.pop(key, None)
        return older if found is None else found


class Tags:
    """The last so many delivery tags: between `limit` and twice as many, and what one batch may have besides."""

    __slots__ = ("_limit", "_older", "_young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: set[str] = set()
        self._older: set[str] = set()

    def add(self, tags: list[str]) -> bool:
        """Remember tags, where all are new; else False, and nothing is remembered. An empty one is none."""
        fresh = set(tags)
        fresh.discard("")
        if len(fresh) + tags.count("") < len(tags):
            return False
        if not (self._young.isdisjoint(fresh) and self._older.isdisjoint(fresh)):
            return False
        self._young |= fresh
        if len(self._young) >= self._limit:
            self._older, self._young = self._young, set()
        return True


class Message(msgspec.Struct, frozen=True):
    """What the message of a task says that its events do not."""

    queue: str | None
    trace_id: str | None
    span_id: str | None
    labels: dict[str, str] | None


class Memory:
    """What one source's events have said so far."""

    def __init__(self) -> None:
        self.sent: Recent[tuple[str | None, str | None]] = Recent(REMEMBERED)
        """Task id → its name and queue, of `task-sent`: the name of `task-received` may be a shadow."""
        self.due: Recent[float] = Recent(REMEMBERED)
        """Task id → when its announced retry is due."""
        self.messages: Recent[Message] = Recent(MESSAGES)
        """Task id → what its message said."""
        self.tags = Tags(MESSAGES)
        """Delivery tags that have been read: Sentinel's compatibility mode publishes everything twice."""
        self._names: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
        """One object per pair of names."""

    def name(self, task_id: str, task: str | None, queue: str | None) -> None:
        """Remember what a task and its queue are called, until `turn` as long as there is room."""
        key = (task, queue)
        self.sent.young[task_id] = self._names.get(key) or self._names.setdefault(key, key)

    def turn(self) -> None:
        """Let the oldest go: once per batch."""
        self.sent.turn()
        if len(self._names) >= MESSAGES:
            self._names.clear()
