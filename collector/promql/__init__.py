"""PromQL: expressions compiled once and evaluated on whatever series a querier has. Never reads the clock."""

from __future__ import annotations

from collector.promql.compile import Expr, compile_expr, compile_selector
from collector.promql.errors import PromqlError
from collector.promql.frame import Frame, Ranges
from collector.promql.querier import Array, Querier, SeriesSet
from collector.promql.selectors import Selector
from collector.promql.syntax import pretty

__all__ = [
    "Array",
    "Expr",
    "Frame",
    "PromqlError",
    "Querier",
    "Ranges",
    "Selector",
    "SeriesSet",
    "compile_expr",
    "compile_selector",
    "pretty",
]
