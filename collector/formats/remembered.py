"""What a decoder remembers of many things, by key, up to a named number: two generations, of which the older leaves.

Costs a dict's entry for each, and nothing to keep in order: whatever was asked for since the last change of generation
stays, so that about half of `most` at least is always there.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """At most `most` values by their keys."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._newer: dict[str, Value] = {}
        self._older: dict[str, Value] = {}

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: str) -> Value | None:
        """The value, which is newly remembered by that; None where there is none."""
        value = self._newer.get(key)
        if value is None and (value := self._older.pop(key, None)) is not None:
            self._newer[key] = value
        return value

    def put(self, key: str, value: Value) -> dict[str, Value]:
        """Remember a value; gives those that are forgotten for it."""
        gone: dict[str, Value] = {}
        if len(self._newer) >= self._most // 2 and key not in self._newer:
            gone, self._older, self._newer = self._older, self._newer, {}
        self._older.pop(key, None)
        self._newer[key] = value
        return gone

    def forget(self, key: str) -> None:
        """Let one go."""
        self._newer.pop(key, None)
        self._older.pop(key, None)
