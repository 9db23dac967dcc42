"""Every difference from promtool that is known, with its reason: one table, each row as narrow as the thing itself."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from differential_expressions import ROUNDED
from differential_judge import Differing, Labels, alerts, samples

from collector.promql.syntax import parse


class Explained(NamedTuple):
    """A known difference: why it is there, and whether a case differs by nothing else."""

    reason: str
    holds: Callable[[Differing], bool]


def _outermost(text: str) -> str:
    """The function, aggregation or operator that is applied last; "" for anything else."""
    node = parse(text)
    while type(node).__name__ in {"ParenExpr", "UnaryExpr"}:
        node = node.expr
    if type(node).__name__ == "Call":
        return str(node.func.name)
    return str(node.op) if type(node).__name__ in {"AggregateExpr", "BinaryExpr"} else ""


def _same_but(differing: Differing, is_same: Callable[[float, float], bool]) -> bool:
    """Whether the elements are the same, and their numbers by this measure."""
    ours, theirs = samples(differing.ours), samples(differing.theirs)
    if not ours or not theirs or [labels for labels, _ in ours] != [labels for labels, _ in theirs]:
        return False
    return all(is_same(mine, other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))


def _within(places: int) -> Callable[[float, float], bool]:
    def is_same(one: float, other: float) -> bool:
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or abs(one - other) <= places * math.ulp(max(abs(one), abs(other)))

    return is_same


def _is_nan(differing: Differing) -> bool:
    return "NaN" in differing.ours and _same_but(differing, _within(0))


def _is_rounded(differing: Differing) -> bool:
    outermost = _outermost(differing.about) if differing.about else ""
    if outermost == "^":
        return _same_but(differing, _within(300))
    if outermost == "log2":  # Go adds a whole number and the logarithm of what is left
        return _same_but(differing, lambda one, other: _within(4)(one, other) or abs(one - other) <= math.ulp(1.0))
    return outermost in ROUNDED and _same_but(differing, _within(4))


def _is_summed_in_another_order(differing: Differing) -> bool:
    if _outermost(differing.about) in {"stddev", "stdvar"}:
        return _same_but(differing, _within(4096))
    places = 300 if _outermost(differing.about) in ROUNDED else 2  # sinh(avg(x)) makes more of it
    return re.search(r"\bavg\b", differing.about) is not None and _same_but(differing, _within(places))


def _is_choice_of_equals(differing: Differing) -> bool:
    ours, theirs = samples(differing.ours), samples(differing.theirs)
    if _outermost(differing.about) not in {"topk", "bottomk"} or not ours or not theirs:
        return False
    values = Counter(f"{value + 0.0}" for _, value in ours)  # -0 equals 0
    return values == Counter(f"{value + 0.0}" for _, value in theirs)


_TWICE = re.compile(r"\babsent(?:_over_time)?\([^{}()]*\{[^{}]*?\b(\w+)(?:=~|!~|!=|=)[^{}]*?\b\1(?:=~|!~|!=|=)")


def _is_absent_by_order(differing: Differing) -> bool:
    ours, theirs = samples(differing.ours), samples(differing.theirs)
    if _TWICE.search(differing.about) is None or not ours or not theirs or len(ours) != len(theirs):
        return False
    return all(_within(4)(mine, other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))


_FAILED = "<error expanding template: error executing template "


_OVERFLOWN = "-106751991167300d -15h -30m -8s"
_LONG = re.compile(r"-?\d{15,}d \d+h \d+m \d+s")


def _settled(labels: Labels) -> Labels:
    """Their labels as ours would be: of templates that failed only that they did, and none that is not expanded."""
    return {
        name: "<error expanding template>" if text.startswith(_FAILED) else text
        for name, text in labels.items()
        if "{{" not in text or text.startswith(_FAILED)
    }


def _is_text(reason: str) -> Callable[[Differing], bool]:
    """Whether alerts differ in single texts only, and in one of them for this reason."""

    def holds(differing: Differing) -> bool:
        ours, theirs = alerts(differing.ours), alerts(differing.theirs)
        if not ours or [one.keys() for one in ours] != [one.keys() for one in theirs]:
            return False
        reasons = {
            _text_reason(mine[name], other[name]) for mine, other in zip(ours, theirs, strict=True) for name in mine
        }
        return None not in reasons and reason in reasons

    return holds


def _text_reason(mine: str, other: str) -> str | None:
    if mine == other:
        return ""
    if other.startswith(_FAILED):
        is_ours = mine == "<error expanding template>" or mine.endswith(" (the template of this text failed)")
        return "failed" if is_ours else None
    return "overflow" if _OVERFLOWN in other and _LONG.sub(_OVERFLOWN, mine) == other else None


def _is_template_in_alerts(differing: Differing) -> bool:
    ours, theirs = samples(differing.ours), samples(differing.theirs)
    if "ALERTS" not in differing.about or not ours or not theirs or len(ours) != len(theirs):
        return False
    return all(any(mine == _settled(other) and value == number for other, number in theirs) for mine, value in ours)


_AT = r"@ (?:(?:start|end)\(\)|[\d.]+)"
_MOVED = r"(?: offset \S+)"
_AT_AND_OFFSET = rf"(?:{_AT} offset|offset \S+ {_AT})"

EXPLAINED: dict[str, Explained] = {
    "NaN": Explained("promtool compares numbers by ==, so that NaN is not what was expected, whatever came", _is_nan),
    "last digit": Explained(
        "exp, ln, sin and so on are Go's own there and the C library's here: up to 4 floats apart; for ^, which Go "
        "multiplies out, up to 300",
        _is_rounded,
    ),
    "order of summing": Explained(
        "in their last digits avg, stddev and stdvar depend on the order of series, and promtool's changes each time",
        _is_summed_in_another_order,
    ),
    "choice among equals": Explained(
        "which of equal elements topk and bottomk take depends on the order of series, as above", _is_choice_of_equals
    ),
    "sign that says nothing": Explained(
        "the parser drops a leading +, so that timestamp(+x) and absent(+x) look at x; Prometheus sees a calculation",
        lambda differing: re.search(r"\b(?:timestamp|absent)\(\(*\+\(", differing.about) is not None,
    ),
    "timestamp at a fixed time": Explained(
        "Prometheus 3.14 forgets the offset of a selector with @ inside timestamp()",
        lambda differing: re.search(rf"\btimestamp\(\(*[^@]*{_AT_AND_OFFSET}", differing.about) is not None,
    ),
    "absent of a label named twice": Explained(
        "whether absent() knows a label that two matchers name is by their order, and queries have another than rules",
        _is_absent_by_order,
    ),
    "predict_linear over a fixed subquery": Explained(
        "Prometheus 3.14 moves the window of a subquery with @ twice in a function that depends on the time, and finds "
        "nothing there",
        lambda differing: (
            re.search(rf"\bpredict_linear\(\(.*\]{_MOVED}* {_AT}", differing.about) is not None
            and differing.theirs in {"nil", "an answer"}
        ),
    ),
    "fixed time in a subquery that is moved ahead": Explained(
        "Prometheus 3.14 moves x @ t, too, where the subquery around it has a negative offset",
        lambda differing: re.search(rf"{_AT}.*\[\w+:\w*\](?: {_AT})? offset -", differing.about) is not None,
    ),
    "failed template": Explained(
        "an annotation that fails is a sentence about the alert here, a label one short text, so that alerts keep "
        "their identity; there both are the error",
        _is_text("failed"),
    ),
    "endless duration": Explained(
        "humanizeDuration of over 292,000 million years is more than Go's numbers hold, and a negative one there",
        _is_text("overflow"),
    ),
    "template in ALERTS": Explained(
        "in its ALERTS series Prometheus leaves the template itself where it expands to nothing; a failed one as above",
        _is_template_in_alerts,
    ),
}


_OTHER_SERIES = (
    "timestamp at a fixed time", "predict_linear over a fixed subquery", "fixed time in a subquery that is moved ahead",
)  # fmt: skip
"""Where other series are seen than we see: only one of the sides may find two of the same labels among them."""


def explained(differing: Differing) -> str:
    """The name of what explains a difference, "" for none."""
    rows = EXPLAINED.items()
    if differing.ours.startswith("error:") or differing.theirs.startswith("error:"):
        rows = [(name, EXPLAINED[name]) for name in _OTHER_SERIES]
    return next((name for name, one in rows if one.holds(differing)), "")


NOT_ASKED_OF_2: dict[str, tuple[str, re.Pattern[str]]] = {
    "subqueries": ("the left end of a window is outside since 3.0", re.compile(r":\w*\]")),
    "numbers": (
        "1_000 and durations as numbers came with 2.54",
        re.compile(r"\d_\d|(?<!offset )(?<![-\[\w])\d+[smh]\b"),
    ),
    "windows in seconds": ("as above", re.compile(r"\[\d+\]")),
    "names": ("metrics in quotes came with 3.0", re.compile(r"\{\"")),
    "sums": ("sums and means are compensated since 2.54 and 2.55", re.compile(r"\b(?:sum|avg)(?:_over_time)?\b")),
    "variance": ("that of one NaN was 0", re.compile(r"\bstd(?:var|dev)")),
    "rates": ("their extrapolation follows from the windows", re.compile(r"\b(?:rate|increase|delta)\(")),
    "labels of few": ("two results of the same labels were let through", re.compile(r"group_(?:left|right) \(")),
    "partners": (
        "of a comparison only those were counted for which it holds",
        re.compile(r"(?:[<>]=?|[=!]=) (?:on|ignoring)\b"),
    ),
    "first": ("first_over_time is no longer experimental since 3.14", re.compile(r"\bfirst_over_time\b")),
    "atan2": ("it kept the metric's name until 3.0", re.compile(r"\batan2\b")),
    "fractions": ("histogram_fraction of classic buckets came with 3.4", re.compile(r"\bhistogram_fraction\b")),
}
"""What a promtool 2, such as Debian's 2.42, does not know or did otherwise: why, and the expressions that have it.

Beside these: `start_timestamp` of tests, `query_offset` and labels of groups, which came with 3; and samples that lie
on the left end of a window or of the look-back, which the series of such tests avoid.
"""


def is_asked(text: str, version: int) -> bool:
    """Whether a promtool of this version means the same by an expression."""
    return version > 2 or not any(pattern.search(text) for _, pattern in NOT_ASKED_OF_2.values())
