"""Go's `time` as templates meet it: moments and spans of whole nanoseconds, and their texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar

from collector.gotext.values import Named, Native, TemplateError

SECOND = 1_000_000_000
LEAST, MOST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_EPOCH = 62_135_596_800 * SECOND
"""From Go's zero time, on which rounding is counted, to 1970."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Span(Native):
    """A time.Duration."""

    __slots__ = ("nanoseconds",)
    type_name: ClassVar[str] = "time.Duration"

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds if LEAST <= nanoseconds <= MOST else LEAST

    def __str__(self) -> str:
        """As Go writes it: `1h1m1.5s`, `250ms`, `0s`."""
        size = abs(self.nanoseconds)
        sign = "-" if self.nanoseconds < 0 else ""
        for unit, digits in (("ns", 0), ("µs", 3), ("ms", 6)):
            if size < 10 ** (digits + 3):
                return f"{sign}{_decimal(size, digits)}{unit}" if size else "0s"
        minutes, rest = divmod(size, 60 * SECOND)
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h" if hours else ""
        return sign + text + (f"{minutes}m" if hours or minutes else "") + f"{_decimal(rest, 9)}s"

    def rounded(self, to: Span) -> Span:
        """To a multiple, half of one away from zero; unchanged for none."""
        size, step = abs(self.nanoseconds), to.nanoseconds
        if step <= 0:
            return self
        whole = (size + (step + 1) // 2) // step * step if size % step else size
        return Span(whole if self.nanoseconds >= 0 else -whole)

    def truncated(self, to: Span) -> Span:
        """To a multiple, towards zero."""
        size, step = abs(self.nanoseconds), to.nanoseconds
        return self if step <= 0 else Span((size - size % step) * (1 if self.nanoseconds >= 0 else -1))


def _decimal(number: int, digits: int) -> str:
    """A number of 10^-digits, without zeros at the end."""
    whole, rest = divmod(number, 10**digits)
    fraction = f"{rest:0{digits}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else f"{whole}"


ZERO = -62_135_596_800 * SECOND
"""Go's zero time, in nanoseconds."""


class Moment(Native):
    """A time.Time: nanoseconds since 1970, seen in a zone."""

    __slots__ = ("nanoseconds", "zone")
    type_name: ClassVar[str] = "time.Time"

    def __init__(self, nanoseconds: int, zone: tzinfo = UTC) -> None:
        self.nanoseconds = nanoseconds
        self.zone = zone

    def __str__(self) -> str:
        """As Go writes it: `2015-06-23 13:19:44.128 +0000 UTC`."""
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    @property
    def date(self) -> datetime:
        """To the second. Raises TemplateError for years that there are none of."""
        try:
            return (_EPOCH + timedelta(seconds=self.nanoseconds // SECOND)).astimezone(self.zone)
        except OverflowError:
            raise TemplateError("the time is not between the years 1 and 9999") from None

    def format(self, layout: str) -> str:
        """By a layout that shows how Go's reference time would be written."""
        date, nanoseconds = self.date, self.nanoseconds % SECOND

        def part(match: re.Match[str]) -> str:
            token = match.group()
            return _PARTS[token](date) if token in _PARTS else _fraction(token, nanoseconds)

        return _LAYOUT.sub(part, layout)

    def part(self, name: str) -> int:
        """Year, day, hour and so on."""
        found: int = getattr(self.date, name)
        return found

    def month(self) -> Named:
        """1 to 12, and its name."""
        return Named(self.date.month, _MONTHS[self.date.month - 1], "time.Month")

    def weekday(self) -> Named:
        """0 is Sunday."""
        day = self.date.isoweekday() % 7
        return Named(day, _WEEKDAYS[day], "time.Weekday")

    def year_day(self) -> int:
        """1 is the first of January."""
        return self.date.timetuple().tm_yday

    def plus(self, span: Span) -> Moment:
        """So much later."""
        return Moment(self.nanoseconds + span.nanoseconds, self.zone)

    def plus_date(self, years: int, months: int, days: int) -> Moment:
        """So many years, months and days later; a day that a month has not runs over into the next."""
        date = self.date
        months += date.month - 1
        try:
            first = date.replace(year=date.year + years + months // 12, month=months % 12 + 1, day=1)
            later = first + timedelta(days=date.day - 1 + days)
        except (ValueError, OverflowError):
            raise TemplateError("the time is not between the years 1 and 9999") from None
        seconds = (later - _EPOCH) // timedelta(seconds=1)
        return Moment(seconds * SECOND + self.nanoseconds % SECOND, self.zone)

    def rounded(self, to: Span, *, half: bool) -> Moment:
        """Down to a multiple counted from the year 1, or to the nearest."""
        step = to.nanoseconds
        if step <= 0:
            return self
        over = (self.nanoseconds + _BEFORE_EPOCH) % step
        up = step if half and over + over >= step else 0
        return Moment(self.nanoseconds - over + up, self.zone)

    def within(self, zone: tzinfo) -> Moment:
        """The same moment in another zone."""
        return Moment(self.nanoseconds, zone)


def _fraction(token: str, nanoseconds: int) -> str:
    digits = f"{nanoseconds:09d}"[: len(token) - 1].ljust(len(token) - 1, "0")
    if token[1] == "9":
        digits = digits.rstrip("0")
    return token[0] + digits if digits else ""


def _offset(colon: str, *, with_z: bool = False, parts: int = 2) -> Callable[[datetime], str]:
    def text(date: datetime) -> str:
        seconds = round((date.utcoffset() or timedelta()).total_seconds())
        if with_z and not seconds:
            return "Z"
        sizes = (abs(seconds) // 3600, abs(seconds) // 60 % 60, abs(seconds) % 60)
        return ("-" if seconds < 0 else "+") + colon.join(f"{size:02d}" for size in sizes[:parts])

    return text


_PARTS: dict[str, Callable[[datetime], str]] = {
    "January": lambda date: _MONTHS[date.month - 1],
    "Jan": lambda date: _MONTHS[date.month - 1][:3],
    "Monday": lambda date: _WEEKDAYS[date.isoweekday() % 7],
    "Mon": lambda date: _WEEKDAYS[date.isoweekday() % 7][:3],
    "MST": lambda date: date.tzname() or "",
    "2006": lambda date: f"{date.year:04d}",
    "002": lambda date: f"{date.timetuple().tm_yday:03d}",
    "__2": lambda date: f"{date.timetuple().tm_yday:3d}",
    "_2": lambda date: f"{date.day:2d}",
    "01": lambda date: f"{date.month:02d}",
    "02": lambda date: f"{date.day:02d}",
    "03": lambda date: f"{(date.hour + 11) % 12 + 1:02d}",
    "04": lambda date: f"{date.minute:02d}",
    "05": lambda date: f"{date.second:02d}",
    "06": lambda date: f"{date.year % 100:02d}",
    "15": lambda date: f"{date.hour:02d}",
    "1": lambda date: f"{date.month}",
    "2": lambda date: f"{date.day}",
    "3": lambda date: f"{(date.hour + 11) % 12 + 1}",
    "4": lambda date: f"{date.minute}",
    "5": lambda date: f"{date.second}",
    "PM": lambda date: "PM" if date.hour >= 12 else "AM",
    "pm": lambda date: "pm" if date.hour >= 12 else "am",
    "-07:00:00": _offset(":", parts=3),
    "-070000": _offset("", parts=3),
    "-07:00": _offset(":"),
    "-0700": _offset(""),
    "-07": _offset("", parts=1),
    "Z07:00:00": _offset(":", with_z=True, parts=3),
    "Z070000": _offset("", with_z=True, parts=3),
    "Z07:00": _offset(":", with_z=True),
    "Z0700": _offset("", with_z=True),
    "Z07": _offset("", with_z=True, parts=1),
}
"""What stands in a layout; of two that begin alike the longer one comes first."""

_NOT_BEFORE = {"Jan": "(?![a-z])", "Mon": "(?![a-z])", "_2": "(?!006)"}
_LAYOUT = re.compile(
    "|".join(re.escape(token) + _NOT_BEFORE.get(token, "") for token in _PARTS) + r"|[.,](?:0+|9+)(?!\d)"
)
