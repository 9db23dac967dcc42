"""Time intervals: an instant in, whether it lies inside out. Alertmanager's fields and meanings, named zones included.

An interval is what all of its fields allow; a field is what any of its ranges allows; a field that is not written
allows everything. Zones come from the system's own database, as local time has summer and winter.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from collector.documents import Place
from collector.documents.reader import unknown
from collector.model.errors import Problem

Range: TypeAlias = tuple[int, int]
"""First and last, both inside."""

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
LOCAL = "Local"
"""The zone that this machine is set to."""
_CLOCK = re.compile(r"(?:([01]\d|2[0-3]):([0-5]\d)|24:00)")
_NUMBER = re.compile(r"[-+]?\d{1,9}")


class TimeInterval(msgspec.Struct, frozen=True, kw_only=True):
    """One interval, compiled. None: not written, so everything is allowed. Minutes count from midnight."""

    times: tuple[Range, ...] | None = None
    """First minute inside, first minute outside."""
    weekdays: tuple[Range, ...] | None = None
    """0 is Sunday; a range may go over the end of the week, as in newer versions of Alertmanager."""
    days_of_month: tuple[Range, ...] | None = None
    """Negative days count from the month's end."""
    months: tuple[Range, ...] | None = None
    years: tuple[Range, ...] | None = None
    zone: str = "UTC"


Intervals: TypeAlias = Mapping[str, Sequence[TimeInterval]]
"""By name."""


def contains(interval: TimeInterval, at: float) -> bool:
    """Whether an instant, Unix seconds, lies in the interval."""
    local = datetime.fromtimestamp(at, UTC)
    if interval.zone == LOCAL:
        local = local.astimezone()
    elif interval.zone != "UTC":
        local = local.astimezone(ZoneInfo(interval.zone))
    minute = local.hour * 60 + local.minute
    length = monthrange(local.year, local.month)[1]
    return (
        (interval.times is None or any(first <= minute < end for first, end in interval.times))
        and (interval.days_of_month is None or any(_has_day(one, local.day, length) for one in interval.days_of_month))
        and _allows(interval.months, local.month)
        and (interval.weekdays is None or any(_has_weekday(one, local.isoweekday() % 7) for one in interval.weekdays))
        and _allows(interval.years, local.year)
    )


def covering(names: Sequence[str], intervals: Intervals, at: float) -> str:
    """The first of these names one of whose intervals has the instant in it, or nothing."""
    return next((name for name in names if any(contains(one, at) for one in intervals[name])), "")


def _allows(ranges: tuple[Range, ...] | None, value: int) -> bool:
    return ranges is None or any(first <= value <= last for first, last in ranges)


def _has_weekday(days: Range, day: int) -> bool:
    first, last = days
    return first <= day <= last if first <= last else day >= first or day <= last


def _has_day(days: Range, day: int, length: int) -> bool:
    first, last = (length + one + 1 if one < 0 else one for one in days)
    return first <= length and max(first, -length) <= day <= min(last, length)


# Reading


class _TimesDocument(msgspec.Struct, kw_only=True):
    place: Place
    start_time: str = ""
    end_time: str = ""


class IntervalDocument(msgspec.Struct, kw_only=True):
    """One interval as written."""

    place: Place
    times: list[_TimesDocument] | None = None
    weekdays: list[str] | None = None
    days_of_month: list[str] | None = None
    months: list[str] | None = None
    years: list[str] | None = None
    location: str | None = None


class NamedDocument(msgspec.Struct, kw_only=True):
    """A name and its intervals as written."""

    place: Place
    name: str = ""
    time_intervals: list[IntervalDocument] = []


def interval_of(document: IntervalDocument, problems: list[Problem]) -> TimeInterval:
    """The compiled interval; what cannot be read is a problem, and left out."""

    def ranges(key: str, parse: Callable[[str], Range]) -> tuple[Range, ...] | None:
        written: list[str] | None = getattr(document, key)
        if written is None:
            return None
        found = []
        for index, text in enumerate(written):
            try:
                found.append(parse(text.lower()))
            except ValueError as error:
                problems.append(document.place.at(key, index).problem(str(error)))
        return tuple(found)

    zone = document.location or "UTC"
    try:
        if zone not in ("UTC", LOCAL):
            ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone `{zone}` on this system: write a name such as Europe/Berlin"
        problems.append(document.place.at("location").problem(message))
        zone = "UTC"
    return TimeInterval(
        times=None if document.times is None else tuple(_times(one, problems) for one in document.times),
        weekdays=ranges("weekdays", lambda text: _ends(text, _weekday)),
        days_of_month=ranges("days_of_month", _days),
        months=ranges("months", lambda text: _ordered(text, _month)),
        years=ranges("years", lambda text: _ordered(text, _number)),
        zone=zone,
    )


def _times(document: _TimesDocument, problems: list[Problem]) -> Range:
    minutes = []
    for key in ("start_time", "end_time"):
        found = _CLOCK.fullmatch(getattr(document, key))
        if not document.place.has(key):
            problems.append(document.place.problem(f"a time needs both ends: add `{key}: HH:MM`"))
        elif found is None:
            message = f"`{getattr(document, key)}` is no time of day: write HH:MM, from 00:00 to 24:00, in quotes"
            problems.append(document.place.at(key).problem(message))
        else:
            hour, minute = found.groups()
            minutes.append(24 * 60 if hour is None else int(hour) * 60 + int(minute))
    if len(minutes) < 2:
        return 0, 0
    if minutes[0] >= minutes[1]:
        message = (
            f"{document.start_time} is not before {document.end_time}: for a night write two times, around midnight"
        )
        problems.append(document.place.at("end_time").problem(message))
    return minutes[0], minutes[1]


def _ordered(text: str, member: Callable[[str], int]) -> Range:
    first, last = _ends(text, member)
    if first > last:
        raise ValueError(f"`{text}` ends before it begins: write it the other way round, or as two ranges")
    return first, last


def _ends(text: str, member: Callable[[str], int]) -> Range:
    parts = text.split(":")
    if len(parts) > 2:
        raise ValueError(f"`{text}` is no range: write FIRST:LAST, or one value")
    return member(parts[0]), member(parts[-1])


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"`{text}` is not a whole number")
    return int(text)


def _weekday(text: str) -> int:
    if text not in WEEKDAYS:
        raise ValueError(unknown("day of the week", text, WEEKDAYS))
    return WEEKDAYS.index(text)


def _month(text: str) -> int:
    if text in MONTHS:
        return MONTHS.index(text) + 1
    try:
        return _number(text)
    except ValueError:
        raise ValueError(unknown("month", text, MONTHS)) from None


def _days(text: str) -> Range:
    first, last = _ends(text, _number)
    for day in (first, last):
        if day == 0 or abs(day) > 31:
            raise ValueError(f"there is no day {day} of a month: from 1 to 31, or from the end -31 to -1")
    if first < 0 < last:
        raise ValueError(f"`{text}` counts from the month's end and ends with a day from its start: write two ranges")
    shortest = 28
    if (first + shortest if first < 0 else first) > (last + shortest if last < 0 else last):
        raise ValueError(f"`{text}` ends before it begins: write it the other way round")
    return first, last
