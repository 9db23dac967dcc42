"""What a contract says of an event's side effect: the value at its `idempotency_key` becomes the key of the event.

Only where a contract names a path; then each event is gone over before it is stitched. A key that the event names
itself goes before, and holds over all tasks; one by contract holds for its task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.model.contract import KEY_FIELDS, KEY_LABELS, Contracts
from collector.model.event import LONGEST_TEXT, Event


class Keyed:
    """Names the keys of events. `queues`: task → the queue last seen with it, for events that name none."""

    def __init__(self, queues: Mapping[str | None, str | None]) -> None:
        self._is_asked = False
        self._queues = queues
        self._contracts = Contracts()

    def use(self, contracts: Contracts | None) -> None:
        """Go by these contracts from now on."""
        self._contracts = contracts or Contracts()
        self._is_asked = any(one.idempotency_key for one in self._contracts.declared)

    def name(self, events: Sequence[Event]) -> None:
        """Give events their keys."""
        for event in events if self._is_asked else ():
            task = event.task
            if not task or event.idempotency_key is not None:
                continue
            path = self._contracts.of(task, event.queue or self._queues.get(task) or "").idempotency_key
            value = _value(event, path) if path else None
            if value and len(key := f"{task}:{value}") <= LONGEST_TEXT:  # cut, it would be another one
                event.idempotency_key = key


def _value(event: Event, path: str) -> str | None:
    if path.startswith(KEY_LABELS):
        return (event.labels or {}).get(path.removeprefix(KEY_LABELS))
    return getattr(event, path) if path in KEY_FIELDS else None
