"""Parts of a date, of values that are Unix seconds (UTC)."""

from __future__ import annotations

import numpy as np

from collector.promql.querier import Array


def _seconds(values: Array) -> Array:
    return values.astype("int64")


def _as(values: Array, unit: str) -> Array:
    return _seconds(values).astype("datetime64[s]").astype(f"datetime64[{unit}]")


def _number(values: Array) -> Array:
    return values.astype("int64").astype(float)


def year(values: Array) -> Array:
    """The year."""
    return _number(_as(values, "Y")) + 1970


def month(values: Array) -> Array:
    """1 to 12."""
    return _number(_as(values, "M")) % 12 + 1


def day_of_month(values: Array) -> Array:
    """1 to 31."""
    return _number(_as(values, "D") - _as(values, "M").astype("datetime64[D]")) + 1


def day_of_year(values: Array) -> Array:
    """1 to 366."""
    return _number(_as(values, "D") - _as(values, "Y").astype("datetime64[D]")) + 1


def day_of_week(values: Array) -> Array:
    """0 (Sunday) to 6."""
    return (_number(_as(values, "D")) + 4) % 7


def days_in_month(values: Array) -> Array:
    """28 to 31."""
    months = _as(values, "M")
    return _number((months + np.timedelta64(1, "M")).astype("datetime64[D]") - months.astype("datetime64[D]"))


def hour(values: Array) -> Array:
    """0 to 23."""
    return _number(_seconds(values) // 3600 % 24)


def minute(values: Array) -> Array:
    """0 to 59."""
    return _number(_seconds(values) // 60 % 60)
