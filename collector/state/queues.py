"""The queues that probes have found, in the state file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.state.store import Store


class Queues:
    """`collector.shell.probing.Memory` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self, source: str) -> Mapping[str, float]:
        """Queue → when it was last found, Unix seconds; what is damaged is passed over. Waits for the disk."""
        rows = self._store.rows("SELECT queue, found_at FROM queues WHERE source = ?", source)
        return {queue: at for queue, at in rows if isinstance(queue, str) and isinstance(at, float)}

    def save(self, source: str, found: Mapping[str, float], gone: Iterable[str]) -> None:
        """Write down queues and when they were found; forget others."""
        self._store.put_all(
            [
                *(("INSERT OR REPLACE INTO queues VALUES (?, ?, ?)", source, *one) for one in found.items()),
                *(("DELETE FROM queues WHERE source = ? AND queue = ?", source, queue) for queue in gone),
            ]
        )
