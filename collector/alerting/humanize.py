"""Numbers as people read them, as Prometheus' `humanize*` functions write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.gotext import TemplateError
from collector.gotext.floats import format_float

_LARGE = ("k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL = ("m", "u", "n", "p", "f", "a", "z", "y")
_BINARY = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS = float(1 << 63)


def to_float(value: Any) -> float:
    """A number, or text that holds one. Raises TemplateError."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise TemplateError(f'parsing "{value}": invalid syntax')
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TemplateError(f"can't convert {value!r} to float")
    return float(value)


def to_milliseconds(value: Any) -> int:
    """Unix seconds as whole milliseconds, what is less cut off. Raises TemplateError where Go has no time for them."""
    number = to_float(value)
    if not math.isfinite(number):
        raise TemplateError("value is NaN or Inf")
    if abs(number * 1e9) >= _MAX_NANOSECONDS:
        raise TemplateError(f"{format_float(number, 'g')} cannot be represented as a nanoseconds timestamp")
    nanoseconds = int(number * 1e9)
    return abs(nanoseconds) // 1_000_000 * (-1 if nanoseconds < 0 else 1)


def _four(value: float) -> str:
    return format_float(value, "g", 4)


def humanize(value: Any) -> str:
    """With an SI prefix: `1.235M`, `120m`."""
    number = to_float(value)
    if number == 0 or not math.isfinite(number):
        return _four(number)
    if abs(number) >= 1:
        return _scaled(number, 1000, _LARGE)
    return _small(number)


def humanize1024(value: Any) -> str:
    """With a binary prefix: `1Mi`."""
    number = to_float(value)
    if abs(number) <= 1 or not math.isfinite(number):
        return _four(number)
    return _scaled(number, 1024, _BINARY)


def humanize_duration(value: Any) -> str:
    """Seconds as `1d 2h 3m 4s`; below a minute with four digits, below a second with a prefix."""
    number = to_float(value)
    if not math.isfinite(number):
        return _four(number)
    if abs(number) < 1:
        return f"{_four(number) if number == 0 else _small(number)}s"
    sign = "-" if number < 0 else ""
    whole = int(abs(number))
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    first = next(index for index, (amount, _) in enumerate(parts) if amount)
    if first == len(parts) - 1:
        return f"{sign}{_four(abs(number))}s"
    return sign + " ".join(f"{amount}{unit}" for amount, unit in parts[first:])


def humanize_percentage(value: Any) -> str:
    """A ratio as `12.35%`."""
    return f"{_four(to_float(value) * 100)}%"


def humanize_timestamp(value: Any) -> str:
    """Unix seconds as `2015-06-23 13:19:44.128 +0000 UTC`."""
    number = to_float(value)
    if not math.isfinite(number):
        return _four(number)
    milliseconds = to_milliseconds(number)
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    fraction = f".{milliseconds % 1000:03d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _scaled(number: float, base: float, prefixes: tuple[str, ...]) -> str:
    prefix = ""
    for larger in prefixes:
        if abs(number) < base:
            break
        prefix = larger
        number /= base
    return _four(number) + prefix


def _small(number: float) -> str:
    prefix = ""
    for smaller in _SMALL:
        if abs(number) >= 1:
            break
        prefix = smaller
        number *= 1000
    return _four(number) + prefix
