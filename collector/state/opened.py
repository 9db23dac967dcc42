"""The state of one process: its directory, locked, and the one store in it; or neither, where nothing is to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from collector.model.errors import TasktrailError
from collector.state.directory import Lock, chosen
from collector.state.store import Store, open_store


class State:
    """What `open_state` gives. All parts that keep something share its store."""

    def __init__(self, directory: Path | None = None, store: Store | None = None, lock: Lock | None = None) -> None:
        self.directory = directory
        self.store = store
        self._lock = lock

    def close(self, seconds: float) -> bool:
        """Write what is queued, for so long at most, and let the directory go; whether all of it was written."""
        is_written = self.store is None or self.store.close(seconds)
        if self._lock is not None:
            self._lock.close()
        return is_written


def open_state(configured: str | None, environ: Mapping[str, str], now: float) -> State:
    """The state by the order of `chosen`. Raises TasktrailError where it cannot be had, or another process has it."""
    directory = chosen(configured, environ)
    if directory is None:
        return State()
    lock = Lock(directory)
    try:
        store = open_store(directory, datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ"))
    except TasktrailError:
        lock.close()
        raise
    return State(directory, store, lock)
