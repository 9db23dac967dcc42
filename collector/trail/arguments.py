"""What tasks were called with, where a configuration allows that to be shown: beside the trails, in memory only."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 200_000
"""Tasks of which it is remembered: at least the half of it that was told last."""


class Arguments:
    """By home and task id; older ones are forgotten half of them at once."""

    def __init__(self, most: int = MOST) -> None:
        self._share = most // 2
        self._newer: dict[tuple[int, str], str] = {}
        self._older: dict[tuple[int, str], str] = {}

    def note(self, home: int, told: Mapping[str, str]) -> None:
        """What a batch said of its tasks, by their ids."""
        for task_id, text in told.items():
            if len(self._newer) >= self._share:
                self._older, self._newer = self._newer, {}
            self._newer[home, task_id] = text

    def of(self, home: int, task_id: str) -> str:
        """What a task was called with; "" where that is not known."""
        key = home, task_id
        return self._newer.get(key) or self._older.get(key, "")
