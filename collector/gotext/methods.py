"""The methods that templates may call on Go's times and Alertmanager's maps, as one table: type, name, parameters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

from collector.gotext.builtins import Function, Parameter
from collector.gotext.times import SECOND, ZERO, Moment, Span
from collector.gotext.values import Native, Pairs, TemplateError, type_name


def _part(name: str) -> Function:
    return Function(lambda moment: moment.part(name))


def _whole(nanoseconds: int) -> Function:
    return Function(lambda value: value.nanoseconds // nanoseconds)


def _count(nanoseconds: int) -> Function:
    """Whole units of a span, towards zero."""
    return Function(
        lambda span: abs(span.nanoseconds) // nanoseconds * (1 if span.nanoseconds >= 0 else -1),
    )


def _units(nanoseconds: int) -> Function:
    """Units of a span, added up as Go does it: whole ones and what is left."""
    return Function(lambda span: _split(span.nanoseconds, nanoseconds))


def _split(total: int, nanoseconds: int) -> float:
    sign = -1 if total < 0 else 1
    whole, rest = divmod(abs(total), nanoseconds)
    return sign * whole + sign * rest / nanoseconds


def _of(call: Callable[..., Any], *parameters: Parameter) -> Function:
    return Function(call, parameters)


def _removed(pairs: Pairs, names: Any) -> Pairs:
    if not isinstance(names, list):
        raise TemplateError(f"wrong type for value; expected []string; got {type_name(names)}")
    return Pairs((name, value) for name, value in pairs.items() if name not in names)


METHODS: dict[type[Native | Pairs], dict[str, Function]] = {
    Pairs: {"Remove": _of(_removed, "any")},
    Moment: {
        "Add": _of(Moment.plus, "span"),
        "AddDate": _of(Moment.plus_date, "int", "int", "int"),
        "After": _of(lambda moment, other: moment.nanoseconds > other.nanoseconds, "moment"),
        "Before": _of(lambda moment, other: moment.nanoseconds < other.nanoseconds, "moment"),
        "Equal": _of(lambda moment, other: moment.nanoseconds == other.nanoseconds, "moment"),
        "Sub": _of(lambda moment, other: Span(moment.nanoseconds - other.nanoseconds), "moment"),
        "Round": _of(lambda moment, span: moment.rounded(span, half=True), "span"),
        "Truncate": _of(lambda moment, span: moment.rounded(span, half=False), "span"),
        "Format": _of(Moment.format, "string"),
        "IsZero": _of(lambda moment: moment.nanoseconds == ZERO),
        "String": _of(str),
        "UTC": _of(lambda moment: moment.within(UTC)),
        "Unix": _whole(SECOND),
        "UnixMilli": _whole(SECOND // 1000),
        "UnixMicro": _whole(1000),
        "UnixNano": _whole(1),
        "Year": _part("year"),
        "Month": _of(Moment.month),
        "Day": _part("day"),
        "Hour": _part("hour"),
        "Minute": _part("minute"),
        "Second": _part("second"),
        "Nanosecond": _of(lambda moment: moment.nanoseconds % SECOND),
        "Weekday": _of(Moment.weekday),
        "YearDay": _of(Moment.year_day),
    },
    Span: {
        "Hours": _units(3600 * SECOND),
        "Minutes": _units(60 * SECOND),
        "Seconds": _units(SECOND),
        "Milliseconds": _count(SECOND // 1000),
        "Microseconds": _count(1000),
        "Nanoseconds": _count(1),
        "Abs": _of(lambda span: Span(abs(span.nanoseconds))),
        "Round": _of(Span.rounded, "span"),
        "Truncate": _of(Span.truncated, "span"),
        "String": _of(str),
    },
}
