"""A fake of the store's event-fed side: it counts events, and writes down what it was asked."""

# ruff: noqa: ARG002, D101, D102, D103 - a fake fits a Protocol that says what its methods are for

from __future__ import annotations

import numpy as np

from collector.model.labels import labels_of


class Set:
    def __init__(self, name, kind, labels):
        self.name = name
        self.kind = kind
        self.labels = labels


def task(name, **more):
    return labels_of({"task": name, **more})


class Events:
    """Metrics with the event times of each series; `quantiles` and `steps` hold what it was asked."""

    version = 0

    def __init__(self):
        self.metrics = {}
        self.quantiles = []
        self.steps = []

    def put(self, name, kind, events):
        """`events`: labels to times (or, for gauges, to a value)."""
        self.metrics[name] = (Set(name, kind, tuple(events)), list(events.values()))

    def select(self, name, matchers):
        names = self.metrics if name is None else [name] if name in self.metrics else []
        found = []
        for one in names:
            whole, _ = self.metrics[one]
            if all(m.matches(one) for m in matchers if m.name == "__name__"):
                is_divided = whole.kind == "histogram" and any(m.name == "le" for m in matchers)
                found.append(self.divided(one) if is_divided else whole)
        return tuple(found)

    def divided(self, name):
        """A histogram's two buckets: "1" has every second event, "+Inf" all."""
        whole, times = self.metrics[name]
        labels = tuple(labels_of([*one, ("le", mark)]) for one in whole.labels for mark in ("1", "+Inf"))
        self.metrics[f"{name} by le"] = (whole, [part for own in times for part in (own[::2], own)])
        return Set(f"{name} by le", "counter", labels)

    def events(self, series):
        return self.metrics[series.name][1]

    def value(self, series, at):
        if series.kind == "gauge":
            return np.array(self.events(series), float), None
        return np.array([sum(time <= at for time in times) for times in self.events(series)], float), None

    def increase(self, series, start, end):
        assert series.kind == "counter"
        return np.array([sum(start < time <= end for time in times) for times in self.events(series)], float)

    def quantile(self, series, groups, count, q, start, end):
        self.quantiles.append((series.name, groups.tolist(), count, q, start, end))
        return np.arange(count) + 0.5

    def samples(self, series, start, end, step):
        self.steps.append((series.name, start, end, step))
        times = np.arange(np.floor(start / step) + 1, np.floor(end / step) + 1) * step
        values = np.array([self.value(series, at)[0] for at in times])
        return [(times, values[:, row]) for row in range(len(series.labels))]

    def born(self, series):
        return np.array([series.kind == "gauge" or len(times) > 0 for times in self.events(series)], bool)

    def changed(self, series, since):
        return True
