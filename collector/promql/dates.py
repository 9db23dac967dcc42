"""Parts of a date, of values that are Unix seconds (UTC).

What is no date (NaN, infinities, too large) is what Prometheus takes it for on the usual processors: the end of its
time, 4 December 292277026596. The calendar repeats every 400 years, weekdays too, so 2196 stands for that year.
"""

from __future__ import annotations

import numpy as np

from collector.promql.querier import Array

LAST_YEAR = 292_277_026_596
STAND_IN_YEAR = 2196
STAND_IN = 7_161_147_008
"""2196-12-04T15:30:08Z."""


def _is_date(values: Array) -> Array:
    return np.abs(values) < 2.0**63


def _seconds(values: Array) -> Array:
    return np.where(_is_date(values), values, STAND_IN).astype("int64")


def _as(values: Array, unit: str) -> Array:
    return _seconds(values).astype("datetime64[s]").astype(f"datetime64[{unit}]")


def _number(values: Array) -> Array:
    return values.astype("int64").astype(float)


def year(values: Array) -> Array:
    """The year."""
    years = _number(_as(values, "Y")) + 1970
    return years + np.where(_is_date(values), 0, LAST_YEAR - STAND_IN_YEAR)


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
    return _number(_seconds(values)) // 3600 % 24


def minute(values: Array) -> Array:
    """0 to 59."""
    return _number(_seconds(values)) // 60 % 60
