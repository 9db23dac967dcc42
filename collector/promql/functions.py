"""The functions of PromQL: one table, each row a signature beside its code.

To add a function: one row here (its code too, where it is short), and rows in tests/promql/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from collector.promql import dates, labelling, windows
from collector.promql.calls import (
    Absent,
    AbsentOverTime,
    Clamp,
    Each,
    Increase,
    Now,
    Over,
    PredictLinear,
    QuantileOverTime,
    Rate,
    Round,
    Scalar,
    Sort,
    Timestamp,
    Vector,
)
from collector.promql.histogram import HistogramFraction, histogram_quantile
from collector.promql.querier import Array
from collector.promql.selectors import Constant

Type: TypeAlias = Literal["vector", "matrix", "scalar", "string"]


class Function(msgspec.Struct, frozen=True):
    """A row: types of the arguments and of the result, and what builds the node from the arguments' nodes."""

    arguments: tuple[Type, ...]
    returns: Type
    build: Callable[..., Any]
    optional: int = 0
    """How many of the last arguments may be left out; -1: the last may come any number of times, or not."""
    wants_names: bool = False
    """Whether the metric's name makes a difference to the result."""


V: Final = "vector"
M: Final = "matrix"
S: Final = "scalar"
T: Final = "string"


def _each(change: Callable[[Array], Array]) -> Function:
    return Function((V,), V, lambda vector: Each(vector, change))


def _over(work: windows.Window) -> Function:
    return Function((M,), V, lambda ranges: Over(ranges, work))


def _date(part: Callable[[Array], Array]) -> Function:
    return Function((V,), V, lambda vector=None: Each(Vector(Now()) if vector is None else vector, part), optional=1)


_RATE = windows.extrapolated(is_counter=True, is_rate=True)
_INCREASE = windows.extrapolated(is_counter=True, is_rate=False)
_DELTA = windows.extrapolated(is_counter=False, is_rate=False)

FUNCTIONS: dict[str, Function] = {
    "abs": _each(np.abs),
    "absent": Function((V,), V, Absent),
    "absent_over_time": Function((M,), V, AbsentOverTime),
    "acos": _each(np.arccos),
    "acosh": _each(np.arccosh),
    "asin": _each(np.arcsin),
    "asinh": _each(np.arcsinh),
    "atan": _each(np.arctan),
    "atanh": _each(np.arctanh),
    "avg_over_time": _over(windows.avg_over),
    "ceil": _each(np.ceil),
    "changes": _over(windows.plain(windows.changes)),
    "clamp": Function((V, S, S), V, Clamp),
    "clamp_max": Function((V, S), V, lambda vector, most: Clamp(vector, Constant(-np.inf), most)),
    "clamp_min": Function((V, S), V, lambda vector, least: Clamp(vector, least, Constant(np.inf))),
    "cos": _each(np.cos),
    "cosh": _each(np.cosh),
    "count_over_time": _over(windows.count_over),
    "day_of_month": _date(dates.day_of_month),
    "day_of_week": _date(dates.day_of_week),
    "day_of_year": _date(dates.day_of_year),
    "days_in_month": _date(dates.days_in_month),
    "deg": _each(lambda values: values * 180 / np.pi),
    "delta": _over(_DELTA),
    "deriv": _over(windows.deriv),
    "exp": _each(np.exp),
    "first_over_time": Function(
        (M,), V, lambda ranges: Over(ranges, windows.first_over, keeps_name=True), wants_names=True
    ),
    "floor": _each(np.floor),
    "histogram_fraction": Function((S, S, V), V, HistogramFraction, wants_names=True),
    "histogram_quantile": Function((S, V), V, histogram_quantile, wants_names=True),
    "hour": _date(dates.hour),
    "idelta": _over(windows.instant_change(is_rate=False)),
    "increase": Function((M,), V, lambda ranges: Increase(ranges, _INCREASE)),
    "irate": _over(windows.instant_change(is_rate=True)),
    "label_join": Function((V, T, T, T), V, labelling.label_join, optional=-1, wants_names=True),
    "label_replace": Function((V, T, T, T, T), V, labelling.label_replace, wants_names=True),
    "last_over_time": Function(
        (M,), V, lambda ranges: Over(ranges, windows.last_over, keeps_name=True), wants_names=True
    ),
    "ln": _each(np.log),
    "log10": _each(np.log10),
    "log2": _each(np.log2),
    "max_over_time": _over(windows.extreme(np.fmax)),
    "min_over_time": _over(windows.extreme(np.fmin)),
    "minute": _date(dates.minute),
    "month": _date(dates.month),
    "pi": Function((), S, lambda: Constant(np.pi)),
    "predict_linear": Function((M, S), V, PredictLinear),
    "present_over_time": _over(windows.present_over),
    "quantile_over_time": Function((S, M), V, QuantileOverTime),
    "rad": _each(lambda values: values * np.pi / 180),
    "rate": Function((M,), V, lambda ranges: Rate(ranges, _RATE)),
    "resets": _over(windows.plain(windows.resets)),
    "round": Function((V, S), V, Round, optional=1),
    "scalar": Function((V,), S, Scalar),
    "sgn": _each(lambda values: np.where(values == 0, values, np.sign(values))),
    "sin": _each(np.sin),
    "sinh": _each(np.sinh),
    "sort": Function((V,), V, lambda vector: Sort(vector, is_descending=False), wants_names=True),
    "sort_desc": Function((V,), V, lambda vector: Sort(vector, is_descending=True), wants_names=True),
    "sqrt": _each(np.sqrt),
    "stddev_over_time": _over(windows.stddev_over),
    "stdvar_over_time": _over(windows.stdvar_over),
    "sum_over_time": _over(windows.sum_over),
    "tan": _each(np.tan),
    "tanh": _each(np.tanh),
    "time": Function((), S, Now),
    "timestamp": Function((V,), V, Timestamp),
    "vector": Function((S,), V, Vector),
    "year": _date(dates.year),
}

NATIVE_ONLY = frozenset({"histogram_avg", "histogram_count", "histogram_stddev", "histogram_stdvar", "histogram_sum"})
"""Functions of native histogram samples, which nothing here gives: over floats they would say nothing, for ever."""


def refusal(name: str) -> str:
    """Why a function that the parser knows is not in the table."""
    if name in NATIVE_ONLY:
        return f"{name}() reads native histograms, of which there are none here: use the _sum and _count series"
    return f"{name}() is an experimental function of Prometheus and is not supported"
