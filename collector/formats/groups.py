"""What consumer groups did, from what can be asked without being one of them.

Kafka: a committed offset that passed a message. Redis Streams: XINFO GROUPS, XINFO CONSUMERS and XPENDING, polled.
Both are samples. That a message was passed is a success only if it was not moved on to a retry topic or a dead-letter
place, and that is written before the commit but may be read after it: so it is said one poll later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MOST_STANDING = 100_000
"""Messages per kind of broker that are waited for; the oldest are let go, and then only lack their success."""
MOST_DELIVERIES = 1000
"""Deliveries of one message that are told of."""
_LONGEST_NUMBER = 19
"""Digits of an offset."""
GAVE_UP_AFTER = 0.1
"""Seconds that a consumer must have gone on to something else after a delivery, for its try to have failed."""


class Moved(msgspec.Struct, frozen=True):
    """One fact about a message."""

    kind: str
    task_id: str
    at: float | None
    """When it happened, where that is known: polls only tell that it had."""
    worker: str | None = None


class KafkaGroups:
    """Which messages the groups' committed offsets have passed."""

    def __init__(self) -> None:
        self._standing: dict[str, dict[int, tuple[str, str]]] = {}
        """By `topic/partition`, by offset: place and task id of what no group is known to have passed."""
        self._count = 0
        self._passed: dict[str, list[tuple[str, str]]] = {}
        """By group: what it had passed at the last poll."""
        self._moved_on: dict[str, None] = {}

    def stands(self, topic: str, place: str, task_id: str) -> None:
        """A message was written: `place` is topic-partition-offset."""
        partition, _, offset = place[len(topic) + 1 :].rpartition("-")
        if not offset.isdecimal() or len(offset) > _LONGEST_NUMBER:
            return
        self._standing.setdefault(f"{topic}/{partition}", {})[int(offset)] = place, task_id
        self._count += 1
        if self._count > MOST_STANDING:
            self._forget()

    def moved_on(self, place: str) -> None:
        """The message of this place was written to a retry topic or a dead-letter place."""
        self._moved_on[place] = None
        if len(self._moved_on) > MOST_STANDING:
            del self._moved_on[next(iter(self._moved_on))]

    def committed(self, group: str, offsets: Mapping[str, int]) -> list[Moved]:
        """A poll of a group's committed offsets (the next to read; -1: none): the successes that are certain now."""
        sure = [(place, task_id) for place, task_id in self._passed.pop(group, ()) if place not in self._moved_on]
        passed: list[tuple[str, str]] = []
        for partition, next_offset in offsets.items():
            standing = self._standing.get(partition, {})
            for offset in [offset for offset in standing if offset < next_offset]:
                passed.append(standing.pop(offset))
                self._count -= 1
        if passed:
            self._passed[group] = passed
        return [Moved("succeeded", task_id, None, group) for _, task_id in sure]

    def _forget(self) -> None:
        longest = max(self._standing.values(), key=len)
        for offset in list(longest)[: max(1, len(longest) // 10)]:
            del longest[offset]
            self._count -= 1


class _Entry:
    """One stream entry that is on its way."""

    __slots__ = ("deliveries", "is_gone", "task_id", "worker")

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.deliveries = 0
        self.worker = ""
        self.is_gone = False


class RedisGroups:
    """What the groups of each stream have been given and have acknowledged."""

    def __init__(self) -> None:
        self._streams: dict[str, dict[str, _Entry]] = {}

    def sent(self, stream: str, entry_id: str, task_id: str) -> None:
        """An entry was written."""
        entries = self._streams.setdefault(stream, {})
        entries.setdefault(entry_id, _Entry(task_id))
        if len(entries) > MOST_STANDING:
            del entries[next(iter(entries))]

    def died(self, stream: str, entry_id: str, deliveries: str | None, at: float) -> list[Moved]:
        """An entry was given up after so many deliveries: the tries that no poll has seen."""
        entry = self._streams.get(stream, {}).pop(entry_id, None)
        if entry is None or not deliveries or not deliveries.isdecimal():
            return []
        return list(self._deliveries(entry, int(deliveries[:9]), entry.worker, at, gave_up=True))

    def polled(self, stream: str, said: Any, at: float) -> list[Moved]:
        """What XINFO and XPENDING said at one moment: `{"groups": [{"info", "consumers", "pending"}]}`."""
        entries = self._streams.get(stream)
        groups = said.get("groups") if isinstance(said, Mapping) else None
        if not entries or not isinstance(groups, list):
            return []
        moved: list[Moved] = []
        for group in groups:
            if isinstance(group, Mapping):
                moved += self._group(entries, group, at)
        return moved

    def _group(self, entries: dict[str, _Entry], group: Mapping[str, Any], at: float) -> Iterator[Moved]:
        info = group.get("info")
        if not isinstance(info, Mapping):
            return
        last = _entry_id(info.get("last-delivered-id"))
        active = {str(one.get("name")): at - _number(one.get("idle")) / 1000 for one in _listed(group.get("consumers"))}
        pending = {str(one.get("message_id")): one for one in _listed(group.get("pending"))}
        for entry_id, entry in list(entries.items()):
            if _entry_id(entry_id) > last:
                continue
            one = pending.get(entry_id)
            if one is not None:
                since = at - _number(one.get("time_since_delivered")) / 1000
                before = entry.worker
                # Whoever went on to something else after the delivery gave it up; who fell silent may have died of it.
                gave_up = active.get(before, since) > since + GAVE_UP_AFTER or before == str(one.get("consumer"))
                count = int(_number(one.get("times_delivered")))
                yield from self._deliveries(entry, count, str(one.get("consumer") or ""), since, gave_up=gave_up)
                entry.is_gone = False
            else:
                yield from self._deliveries(entry, max(1, entry.deliveries), entry.worker, None, gave_up=False)
                if entry.is_gone:  # already at the poll before, and no dead letter has told otherwise
                    del entries[entry_id]
                    yield Moved("succeeded", entry.task_id, None, entry.worker or None)
                entry.is_gone = True

    def _deliveries(
        self, entry: _Entry, count: int, worker: str, at: float | None, *, gave_up: bool
    ) -> Iterator[Moved]:
        """Starts up to the `count`-th delivery; between two of them the try failed, or nobody knows."""
        while entry.deliveries < min(count, MOST_DELIVERIES):
            if entry.deliveries and gave_up:
                yield Moved("retried", entry.task_id, at, entry.worker or None)
            yield Moved("started", entry.task_id, at, worker or None)
            entry.deliveries += 1
            entry.worker = worker


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _number(value: Any) -> float:
    """A number that can be reckoned with; 0.0 for what is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0


def _entry_id(text: Any) -> tuple[int, int]:
    millis, _, number = str(text or "0-0").partition("-")
    try:
        return int(millis), int(number or 0)
    except ValueError:
        return 0, 0
