"""A querier over sampled series, kept as plain lists, and Prometheus' notation to fill it: `a{b="c"} 0+1x5 _ stale`."""

# ruff: noqa: ARG002, D101, D102, D103 - a fake fits a Protocol that says what its methods are for

from __future__ import annotations

import math
import re

import numpy as np
import promql_parser

from collector.model.labels import labels_of

LOOKBACK = 300.0
STALE_BITS = 0x7FF0000000000002
STALE = np.array([STALE_BITS], np.uint64).view(np.float64)[0]


def is_stale(values):
    return np.atleast_1d(values).view(np.uint64) == STALE_BITS


class SampledSet:
    kind = "sampled"

    def __init__(self, name, labels, samples):
        self.name = name
        self.labels = labels
        self.samples = samples


class SampledQuerier:
    """Series by metric name. Equal selections give the same labels object until the next load."""

    def __init__(self):
        self.metrics = {}
        self.version = 0
        self._sets = {}

    def add(self, name, labels, times, values):
        series = self.metrics.setdefault(name, {}).setdefault(labels, {})
        series.update(zip(times, values, strict=True))
        self.version += 1
        self._sets.clear()

    def load(self, step, line):
        metric, values = series_line(line)
        name, labels = metric
        times = [step * i for i, value in enumerate(values) if value is not None]
        self.add(name, labels, times, [value for value in values if value is not None])

    def select(self, name, matchers):
        key = (name, *((one.name, one.op, one.value) for one in matchers))
        if key not in self._sets:
            names = [one for one in self.metrics if name is None or one == name]
            found = (self._matching(one, matchers) for one in names)
            self._sets[key] = tuple(one for one in found if one.labels)
        return self._sets[key]

    def _matching(self, name, matchers):
        kept, samples = [], []
        for labels, series in self.metrics[name].items():
            full = dict(labels) | {"__name__": name}
            if all(one.matches(full.get(one.name, "")) for one in matchers):
                kept.append(labels)
                times = np.array(sorted(series), float)
                samples.append((times, np.array([series[at] for at in times.tolist()], float)))
        return SampledSet(name, tuple(kept), samples)

    def value(self, series, at):
        values = np.full(len(series.labels), np.nan)
        present = np.zeros(len(series.labels), bool)
        for row, (times, samples) in enumerate(series.samples):
            last = int(np.searchsorted(times, at, "right")) - 1
            if last >= 0 and times[last] > round(at - LOOKBACK, 3) and not is_stale(samples[last])[0]:
                values[row], present[row] = samples[last], True
        return values, present

    def samples(self, series, start, end, step):
        found = []
        for times, samples in series.samples:
            inside = (times > start) & (times <= end) & ~is_stale(samples)
            found.append((times[inside], samples[inside]))
        return found

    def born(self, series):
        return np.ones(len(series.labels), bool)

    def changed(self, series, since):
        return self.version > since

    def increase(self, series, start, end):
        raise AssertionError("a sampled series has no exact increase")

    quantile = increase


METRIC = re.compile(
    r"""\s*([^\s{]*(?:\{(?:[^"'`}]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)*\})?)(?:\s+|$)(.*)""", re.DOTALL
)
EXPANDING = re.compile(r"^(.+?)(?:([+-])([^+x-][^x]*|[^x]*e[+-][^x]*))?x(\d+)$")


def series_line(line):
    """((name, labels), values): a value is None where there is no sample."""
    found = METRIC.match(line)
    return metric(found.group(1)), points(found.group(2))


def metric_of(line):
    """Name and labels of a series that is loaded."""
    return metric(METRIC.match(line).group(1))


def metric(text):
    """Name and labels of a series as written."""
    if text in ("", "{}"):
        return "", ()
    node = promql_parser.parse(text)
    pairs = {one.name: one.value for one in node.matchers.matchers}
    if node.name:
        pairs["__name__"] = node.name
    name = pairs.pop("__name__", "")
    return name, labels_of(pairs)


def points(text):
    """Values in the expanding notation: `1 2x3 0+5x2 _ _x3 stale NaN -Inf`."""
    values = []
    for token in text.split():
        if "{{" in token or "@st" in token:
            raise NotImplementedError("native histograms and start timestamps")
        values += expanded(token)
    return values


def expanded(token):
    found = EXPANDING.match(token)
    if found is None:
        return [one_value(token)]
    first, sign, step, times = found.groups()
    start = one_value(first)
    if start is None:
        return [None] * int(times)
    if sign is None:
        return [start] * (int(times) + 1)
    delta = one_value(step) * (-1 if sign == "-" else 1)
    values = [start]
    for _ in range(int(times)):
        values.append(values[-1] + delta)
    return values


def one_value(token):
    if token == "_":
        return None
    if token == "stale":
        return STALE
    value = float(token.replace("Inf", "inf").replace("NaN", "nan"))
    return value if not math.isnan(value) else math.nan
