"""How tests write series: a metric as text (`up{job="a"}`), and its values in promtool's expanding notation.

Takes text, gives labels and numbers; what Prometheus' own reader refuses is refused here, and native histograms too.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import promql_parser

from collector.model.errors import TasktrailError
from collector.model.stale import STALE

NAME = "__name__"
MOST_SAMPLES = 1_000_000
"""Samples that one series may have: beyond it `1x9999999999` was meant as something else."""

_METRIC = re.compile(r"\s*(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)?\s*(?:\{(?P<labels>.*)\}\s*)?", re.DOTALL)
_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"
_LABEL = re.compile(
    rf"\s*(?:(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|(?P<quoted>{_STRING}))\s*(?:=\s*(?P<value>{_STRING})\s*)?(?P<end>,|$)"
)

_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = rf"(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?\d+)?"
_ITEM = re.compile(
    rf"_(?:x(?P<gaps>\d+))?|(?P<stale>stale)|(?P<one>[+-]?(?:{_NUMBER}|(?i:inf|nan)))"
    rf"|(?P<first>[+-]?{_NUMBER})(?P<step>[+-]{_NUMBER})?x(?P<times>\d+)"
)
_MOST_DIGITS = 9
HISTOGRAM = "native histograms are not supported, as Tasktrail works on floats: test `_count`, `_sum` and quantiles"


class NotationError(TasktrailError):
    """A metric or values that cannot be read."""


def parse_metric(text: str) -> dict[str, str]:
    """The labels of a metric, `__name__` among them, empty ones as written. Raises NotationError."""
    match = _METRIC.fullmatch(text)
    if match is None:
        raise NotationError(f'`{text}` is not a metric: write it as name{{label="value"}}, or as {{}}')
    found = {NAME: match["name"]} if match["name"] else {}
    inside = match["labels"] or ""
    position = 0
    while inside[position:].strip():
        label = _LABEL.match(inside, position)
        if label is None:
            raise NotationError(f'`{text}` is not a metric: labels are written as name="value", with commas between')
        name, value = label["plain"] or _unquoted(label["quoted"]), label["value"]
        if value is None and label["quoted"]:  # a metric's name in quotes
            name, value = NAME, label["quoted"]
        if value is None:
            raise NotationError(f'`{text}` is not a metric: `{name}` has no value, write {name}="value"')
        if name in found:
            raise NotationError(f"`{text}` is not a metric: `{name}` is there twice")
        found[name] = _unquoted(value)
        position = label.end()
    return found


def _unquoted(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    try:
        literal: Any = promql_parser.parse(text)
    except ValueError as error:
        raise NotationError(f"{text} cannot be read: {error}") from None
    return str(literal.val)


def parse_values(text: str) -> list[float | None]:
    """One value per interval, None where there is no sample. Raises NotationError.

    `1 2 3`, `0+10x5` (and 5 more, each 10 higher), `7-1x3`, `4x2` (and 2 more), `_` and `_x3`, `stale`, `NaN`, `-Inf`.
    """
    if "{{" in text:
        raise NotationError(HISTOGRAM)
    values: list[float | None] = []
    for word in text.split():
        item = _ITEM.fullmatch(word)
        if item is None:
            raise NotationError(
                f"`{word}` is no value: write numbers with spaces between, `_`, `stale`, or `a+bxn` for n more after a"
            )
        times = item["times"] or item["gaps"] or "0"
        if len(times) > _MOST_DIGITS or int(times) + len(values) > MOST_SAMPLES:
            raise NotationError(f"`{word}` makes over {MOST_SAMPLES} samples of one series")
        values += _expanded(item)
    return values


def _expanded(item: re.Match[str]) -> list[float | None]:
    if item["stale"]:
        return [STALE]
    if item["one"]:
        return [float(item["one"])]
    if not item["first"]:
        return [None] * int(item["gaps"] or 1)
    if not item["step"]:
        return [float(item["first"])] * (int(item["times"]) + 1)  # adding 0 would make 0 of -0
    # added up one by one, as promtool does: the last digits are to be the same
    steps = [float(item["first"])] + [float(item["step"])] * int(item["times"])
    return list(accumulate(steps))
