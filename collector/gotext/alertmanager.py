"""The functions of Alertmanager's templates that Prometheus has not, as one table; `since` needs a context with `at`.

Not here are `toDate`, `mustToDate` and `routeLabels`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from collector.gotext.builtins import Function
from collector.gotext.times import SECOND, Moment, Span
from collector.gotext.values import AnyMap, Structure, TemplateError, type_name

_ESCAPED = {mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def _join(separator: str, values: Any) -> str:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TemplateError("join takes a separator and a list of texts")
    return separator.join(values)


def _url_unescape(text: str) -> str:
    for part in text.split("%")[1:]:
        if len(part) < 2 or not set(part[:2]) <= set("0123456789abcdefABCDEF"):
            raise TemplateError(f'invalid URL escape "%{part[:2]}"')
    return unquote_plus(text)


def _plain(value: Any) -> Any:
    """As Go's JSON has it: whole floats without a point, structs by their fields."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateError(f"json: unsupported value: {value}")
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, Structure):
        return {name: _plain(inner) for name, inner in value.fields.items()}
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, Moment):
        return value.format("2006-01-02T15:04:05.999999999Z07:00")
    return value.nanoseconds if isinstance(value, Span) else value


def _to_json(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return "".join(_ESCAPED.get(mark, mark) for mark in text)


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise TemplateError("illegal base64 data") from None


def _tz(name: str, moment: Moment) -> Moment:
    try:
        return moment.within(ZoneInfo(name or "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TemplateError(f"unknown time zone {name}") from None


def _append(values: Any, *more: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TemplateError(f"append to type {type_name(values)}")
    return [*values, *more]


def _dict(*values: Any) -> AnyMap:
    if len(values) % 2:
        raise TemplateError("dict requires an even number of arguments")
    if not all(isinstance(key, str) for key in values[::2]):
        raise TemplateError("dict keys must be strings")
    return AnyMap(zip(values[::2], values[1::2], strict=True))


ALERTMANAGER: dict[str, Function] = {
    "append": Function(_append, ("any",), "any"),
    "base64decode": Function(_decode, ("string",)),
    "base64encode": Function(lambda text: base64.urlsafe_b64encode(text.encode()).decode(), ("string",)),
    "date": Function(lambda layout, moment: moment.format(layout), ("string", "moment")),
    "dict": Function(_dict, (), "any"),
    "join": Function(_join, ("string", "any")),
    "list": Function(lambda *values: list(values), (), "any"),
    "safeUrl": Function(str, ("string",)),
    "since": Function(
        lambda context, moment: Span(round(context.at * SECOND) - moment.nanoseconds), ("moment",), needs_context=True
    ),
    "stringSlice": Function(lambda *values: list(values), (), "string"),
    "toJson": Function(_to_json, ("any",)),
    "trimSpace": Function(str.strip, ("string",)),
    "tz": Function(_tz, ("string", "moment")),
    "urlUnescape": Function(_url_unescape, ("string",)),
}
