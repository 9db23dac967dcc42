"""Runs scripts in the text format of Prometheus' engine tests: `load`, `clear`, `eval instant|range`, `expect`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import promql_parser
import promql_sampled as sampled

from collector.promql import Frame, PromqlError, compile_expr

SUBQUERY_STEP = 60.0
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


@dataclass
class Case:
    """One `eval` of a script, what it expects, and the series that were loaded before it."""

    line: int
    query: str
    times: list
    is_range: bool
    querier: sampled.SampledQuerier
    unsupported: str = ""
    left_out: frozenset = frozenset()
    """(name, labels) of series that were left out of the load, as they have native histograms."""
    fails: bool = False
    messages: list = field(default_factory=list)
    is_ordered: bool = False
    string: str | None = None
    matrix_times: list | None = None
    expected: list = field(default_factory=list)


def seconds(text):
    """A duration, or a number of seconds."""
    try:
        return float(text)
    except ValueError:
        parts = re.findall(r"(\d+)(ms|[smhdwy])", text)
        total = sum(int(number) * UNITS[unit] for number, unit in parts)
        return -total if text.startswith("-") else total


EVAL = re.compile(
    r"eval(?P<kind>_fail|_warn|_info|_ordered)?\s+(?:instant\s+(?:at\s+(?P<at>\S+)|(?P<now>))|"
    r"range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))\s+(?P<query>.*)$",
    re.DOTALL,
)


def cases(text):
    """The cases of a script, in order. Loading is done on the way, each case keeping the series of its place."""
    querier, left_out = sampled.SampledQuerier(), frozenset()
    found = []
    for number, head, body in _blocks(text):
        if head == "clear":
            querier, left_out = sampled.SampledQuerier(), frozenset()
        elif head.startswith("load"):
            querier = _copied(querier)
            step = seconds(head.split()[1])
            for line in body:
                name, labels = sampled.metric_of(line)
                if head.startswith("load_with_nhcb") and name.endswith("_bucket"):  # made of the buckets
                    without = tuple(pair for pair in labels if pair[0] != "le")
                    left_out |= {(name.removesuffix("_bucket"), without)}
                try:
                    querier.load(step, line)
                except NotImplementedError:
                    left_out |= {(name, labels)}
        else:
            found.append(_case(number, head, body, querier, left_out))
    return found


def _copied(querier):
    fresh = sampled.SampledQuerier()
    fresh.metrics = {
        name: {labels: dict(one) for labels, one in series.items()} for name, series in querier.metrics.items()
    }
    return fresh


COMMAND = re.compile(r"load(?:_with_nhcb)?\s|eval(?:_\w+)?\s|clear$")


def _blocks(text):
    """A command and the lines up to the next command or empty line."""
    head, number, body = None, 0, []
    for at, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            continue
        is_head = COMMAND.match(stripped) is not None
        if is_head or not stripped:
            if head is not None:
                yield number, head, body
            head, number, body = (stripped, at, []) if is_head else (None, 0, [])
        elif head is not None:
            body.append(stripped)
    if head is not None:
        yield number, head, body


def _case(number, head, body, querier, left_out):
    found = EVAL.match(head)
    if found is None:
        raise ValueError(f"line {number}: {head}")
    if found["start"]:
        start, end, step = (seconds(found[name]) for name in ("start", "end", "step"))
        times = [start + step * i for i in range(int((end - start) / step + 1e-9) + 1)]
    else:
        times = [seconds(found["at"])]
    case = Case(number, found["query"], times, bool(found["start"]), querier, left_out=left_out)
    case.fails = found["kind"] == "_fail"
    case.is_ordered = found["kind"] == "_ordered"
    for line in body:
        try:
            _expectation(case, line)
        except NotImplementedError as error:
            case.unsupported = case.unsupported or str(error)
    return case


def _expectation(case, line):
    if line.startswith("expected_fail_message"):
        case.messages.append(("msg", line.split(None, 1)[1]))
    elif line.startswith("expected_fail_regexp"):
        case.messages.append(("regex", line.split(None, 1)[1]))
    elif match := re.match(r"expect (fail|ordered|string|range vector|warn|info|no_warn|no_info)\b\s*(.*)", line):
        kind, rest = match.groups()
        if kind == "fail":
            case.fails = True
            if rest:
                how, text = rest.split(":", 1)
                case.messages.append((how.strip(), _unquoted(text.strip())))
        elif kind == "ordered":
            case.is_ordered = True
        elif kind == "string":
            case.string = _unquoted(rest)
        elif kind == "range vector":
            start, end, step = (seconds(one) for one in re.findall(r"(?:from|to|step) (\S+)", rest))
            case.matrix_times = [start + step * i for i in range(round((end - start) / step) + 1)]
    else:
        case.expected.append(_result(line))


def _unquoted(text):
    if text[:1] in ('"', "'") and text[-1:] == text[:1]:
        return promql_parser.parse(text).val
    return text[1:-1] if text[:1] == "`" else text


def _result(line):
    if re.match(r"^[-+]?(?:\d|\.\d|Inf|NaN|inf)", line) and "{" not in line:
        return None, sampled.points(line)
    (name, labels), values = sampled.series_line(line)
    full = tuple(sorted((*labels, ("__name__", name)))) if name else labels
    return full, values


def run(case, tolerance):
    """None where the case holds, else what is wrong."""
    try:
        got = _evaluated(case)
    except PromqlError as error:
        return _failure(case, str(error))
    if case.fails:
        return f"should have failed, gave {got!r}"
    if case.string is not None:
        return None if got == case.string else f"{got!r} instead of {case.string!r}"
    return _compared(case, got, tolerance)


def _failure(case, message):
    if not case.fails:
        return f"failed: {message}"
    for how, text in case.messages:
        holds = text == message if how == "msg" else re.search(text, message)
        if not holds:
            return f"failed with {message!r} instead of {text!r}"
    return None


def _evaluated(case):
    """A string, or rows of (labels or None for a number, {time: value})."""
    expr = compile_expr(case.query)
    rows = {}
    start, end = case.times[0], case.times[-1]
    for at in case.times:
        if expr.type == "matrix":
            ranges = expr.ranges(case.querier, at, SUBQUERY_STEP, SUBQUERY_STEP)
            return [
                (labels, dict(zip(times.tolist(), values.tolist(), strict=True)))
                for labels, (times, values) in zip(ranges.labels, ranges.series, strict=True)
                if len(times)
            ]
        value = expr.evaluate(case.querier, at, SUBQUERY_STEP, subquery_step=SUBQUERY_STEP, start=start, end=end)
        if isinstance(value, str):
            return value
        elements = value.rows() if isinstance(value, Frame) else [(None, value)]
        if case.is_range and not isinstance(value, Frame):
            elements = [((), value)]
        for labels, number in elements:
            rows.setdefault(labels, {})[at] = number
    return list(rows.items())


def _compared(case, got, tolerance):
    times = case.matrix_times or case.times
    wanted = []
    for labels, values in case.expected:
        points = {round(at, 3): value for at, value in zip(times, values, strict=False) if value is not None}
        if not case.is_range and case.matrix_times is None and len(values) != 1:
            return f"an instant gives one value, not {values}"
        wanted.append((() if labels is None and case.is_range else labels, points))
    got = [(labels, {round(at, 3): value for at, value in points.items()}) for labels, points in got]
    if case.is_ordered:
        if [labels for labels, _ in got] != [labels for labels, _ in wanted]:
            return f"order {[labels for labels, _ in got]}"
    elif sorted(map(str, (labels for labels, _ in got))) != sorted(map(str, (labels for labels, _ in wanted))):
        return f"series {got} instead of {wanted}"
    by_labels = dict(got)
    for labels, points in wanted:
        mine = by_labels[labels]
        if set(mine) != set(points) or not all(_same(mine[at], points[at], tolerance) for at in points):
            return f"{labels}: {mine} instead of {points}"
    return None


def _same(got, wanted, tolerance):
    if np.isnan(got) or np.isnan(wanted):
        return bool(np.isnan(got) and np.isnan(wanted))
    if got == wanted:
        return True
    if np.isinf(got) or np.isinf(wanted):
        return False
    return bool(abs(got - wanted) <= tolerance * (abs(got) + abs(wanted)))
