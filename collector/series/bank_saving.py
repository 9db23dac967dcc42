"""A bank of counters over a restart: what changed of it, and a bank filled again.

Columns are written where they changed. Of the past, a slot is what it differs in from the slot before: that is little,
and never changes but by late facts. The rows are made again from the newest one back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from collector.model.part import Part
from collector.series.window import NEVER, Array, Bank, Level

_encode = msgspec.msgpack.Encoder().encode
_ROWS_BYTES = 128 * 1024
"""Bytes of rows per part, about."""
_ROWS = 100
"""Rows per part, at most."""


class Numbers(msgspec.Struct, array_like=True):
    """An array, with its type."""

    form: str
    data: bytes

    @staticmethod
    def of(array: Array) -> Numbers:
        """A copy of an array."""
        return Numbers(array.dtype.str, array.tobytes())

    @property
    def array(self) -> Array:
        """The array, which may be written to."""
        return np.frombuffer(self.data, np.dtype(self.form)).copy()


class Difference(msgspec.Struct, array_like=True):
    """Where one row differs from another, and by what."""

    columns: Numbers
    amounts: Numbers

    @staticmethod
    def between(row: Array, before: Array) -> Difference:
        """What was added from one row to the next; a column that one of them lacks stood at 0."""
        width = max(len(row), len(before))
        more = _wide(row, width) - _wide(before, width)
        columns = np.flatnonzero(more)
        return Difference(Numbers.of(columns.astype(np.uint32)), Numbers.of(more[columns]))

    def taken_from(self, row: Array) -> Array:
        """The row before."""
        before = row.copy()
        before[self.columns.array] -= self.amounts.array
        return before


class _Level(msgspec.Struct, array_like=True):
    grain: int
    since: int
    first: int
    """The oldest slot."""
    open: int | None
    ahead: Difference
    """What the present has more than the newest row."""


class _Columns(msgspec.Struct, array_like=True):
    bank: str
    size: int
    frontier: int
    version: int
    free: list[int]
    columns: Numbers
    """Of what follows."""
    arrays: list[Numbers]
    """current, bases, births, changed."""
    levels: list[_Level]


class _Row(msgspec.Struct, array_like=True):
    slot: int
    more: Difference


class _Rows(msgspec.Struct, array_like=True):
    bank: str
    grain: int
    rows: list[_Row]


def indexes_of(sorted_slots: list[int], touched: set[int] | None) -> list[int]:
    """Where the touched ones (None: all) stand in a sorted list, as far as they are still there."""
    if touched is None:
        return list(range(len(sorted_slots)))
    found = ((bisect_left(sorted_slots, slot), slot) for slot in sorted(touched))
    return [index for index, slot in found if index < len(sorted_slots) and sorted_slots[index] == slot]


def changed(bank: Bank, since: int) -> Array:
    """The columns that changed at or after a version of the store."""
    return np.flatnonzero(bank.changed[: bank.size] >= since)


def parts_of(name: str, bank: Bank, since: int) -> Iterator[Part]:
    """What changed at or after a version of the store; of rows, what was touched since this was last asked."""
    bank.settle()
    if bank.is_copied:
        since, bank.is_copied = 0, False
    columns = changed(bank, since)
    current = bank.current[: bank.size]
    levels = [
        _Level(
            level.grain,
            level.since,
            level.slots[0],
            level.open,
            Difference.between(current.astype(level.rows[-1].dtype), level.rows[-1]),
        )
        for level in bank.levels
    ]
    arrays = [Numbers.of(array.take(columns)) for array in (bank.current, bank.bases, bank.births, bank.changed)]
    yield (
        "series.columns",
        _encode(_Columns(name, bank.size, bank.frontier, bank.version, bank.free, Numbers.of(columns), arrays, levels)),
    )
    for level in bank.levels:
        yield from _rows(name, level)


def _rows(name: str, level: Level) -> Iterator[Part]:
    touched, level.touched = level.touched, set()
    rows: list[_Row] = []
    size = 0
    for index in indexes_of(level.slots, touched):
        if not index:  # the oldest: nobody reads what went before
            continue
        rows.append(_Row(level.slots[index], Difference.between(level.rows[index], level.rows[index - 1])))
        size += len(rows[-1].more.amounts.data)
        if size >= _ROWS_BYTES or len(rows) >= _ROWS:
            yield "series.rows", _encode(_Rows(name, level.grain, rows))
            rows, size = [], 0
    if rows:
        yield "series.rows", _encode(_Rows(name, level.grain, rows))


class BankLoader:
    """One bank on its way back."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._newest: _Columns | None = None
        self._arrays: list[Array] = []
        self._rows: dict[int, dict[int, Difference]] = {}

    def take_columns(self, part: _Columns) -> None:
        """The present, and where the past begins."""
        if not self._arrays:
            self._arrays = [np.zeros(0, np.int64) for _ in part.arrays]
        columns = part.columns.array
        self._arrays = [_wide(array, part.size) for array in self._arrays]
        for array, numbers in zip(self._arrays, part.arrays, strict=True):
            array[columns] = numbers.array
        self._newest = part

    def take_rows(self, part: _Rows) -> None:
        """Some of the past."""
        self._rows.setdefault(part.grain, {}).update((row.slot, row.more) for row in part.rows)

    def finish(self) -> None:
        """Fill the bank. Its levels are those that the rules of today ask for, as far as there is a past for them."""
        bank, newest = self._bank, self._newest
        if newest is None:
            raise ValueError("saved series without their columns")
        room = max(64, newest.size)
        bank.current, bank.bases, births, bank.changed = (_wide(array, room) for array in self._arrays)
        births[newest.size :] = NEVER
        bank.births = births
        bank.size, bank.frontier, bank.version, bank.free = newest.size, newest.frontier, newest.version, newest.free
        known = {level.grain: level for level in newest.levels}
        for level in bank.levels:
            row = bank.current[: bank.size].astype(level.rows[0].dtype)
            saved = known.get(level.grain)
            if saved is None:
                level.since, level.slots, level.rows, level.open = bank.frontier, [-NEVER], [row], None
            else:
                self._fill(level, saved, row)

    def _fill(self, level: Level, saved: _Level, current: Array) -> None:
        past = self._rows.get(level.grain, {})
        slots = sorted(slot for slot in past if slot > saved.first)
        rows = [saved.ahead.taken_from(current)]
        for slot in reversed(slots):
            rows.append(past[slot].taken_from(rows[-1]))
        level.since, level.open = saved.since, saved.open
        level.slots, level.rows = [saved.first, *slots], rows[::-1]


def _wide(array: Array, width: int) -> Array:
    if len(array) >= width:
        return array
    return np.concatenate([array, np.zeros(width - len(array), array.dtype)])


DECODERS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "series.columns": msgspec.msgpack.Decoder(_Columns),
    "series.rows": msgspec.msgpack.Decoder(_Rows),
}
"""Of the parts that are about one bank; both have its name as `bank`."""
