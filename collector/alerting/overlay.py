"""A querier with a few recorded metrics on top that nobody else sees: for one evaluation between slots."""

from __future__ import annotations

from typing import Any

import numpy as np

from collector.model.labels import Labels, Matcher


class _Recorded:
    """The series that an evaluation recorded for itself."""

    kind = "sampled"

    def __init__(self, name: str, values: dict[Labels, float], at: float) -> None:
        self.name = name
        self.labels = tuple(values)
        self.values = np.fromiter(values.values(), float, len(values))
        self.at = at


class Overlay:
    """Answers for what was put into it, and asks the querier below for all else."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self._recorded: dict[str, dict[Labels, float]] = {}
        self._at = 0.0
        self.version = below.version

    def put(self, name: str, values: dict[Labels, float], at: float) -> None:
        """What a recording rule gives at this instant; two rules of one name add to one metric."""
        self._recorded[name] = {**self._recorded.get(name, {}), **values}
        self._at = at

    def select(self, name: str | None, matchers: tuple[Matcher, ...]) -> tuple[Any, ...]:
        """As the querier below, with recorded metrics in place of what it has under their names."""
        if name is not None and name not in self._recorded:
            return self._below.select(name, matchers)  # type: ignore[no-any-return]
        below = () if name is not None else self._below.select(name, matchers)
        names = self._recorded if name is None else (name,)
        own = (self._set(metric, matchers) for metric in names)
        others = (one for one in below if one.name not in self._recorded)
        return (*others, *(one for one in own if one.labels))

    def value(self, series: Any, at: float) -> tuple[Any, Any]:
        """Values at an instant; of recorded ones those of now, or of an earlier instant from below."""
        if not isinstance(series, _Recorded):
            return self._below.value(series, at)  # type: ignore[no-any-return]
        if at >= series.at:
            return series.values, None
        earlier = self._earlier(series, lambda one: zip(one.labels, *_present(self._below.value(one, at)), strict=True))
        found = [earlier.get(labels, (np.nan, False)) for labels in series.labels]
        return np.array([value for value, _ in found]), np.array([is_there for _, is_there in found], bool)

    def samples(self, series: Any, start: float, end: float, step: float) -> list[tuple[Any, Any]]:
        """Samples in (start, end]; of recorded ones what is below and the one of now."""
        if not isinstance(series, _Recorded):
            return self._below.samples(series, start, end, step)  # type: ignore[no-any-return]
        earlier = self._earlier(
            series,
            lambda one: (
                (labels, times, values)
                for labels, (times, values) in zip(
                    one.labels, self._below.samples(one, start, min(end, series.at), step), strict=True
                )
            ),
        )
        found = []
        for labels, value in zip(series.labels, series.values, strict=True):
            times, values = earlier.get(labels, (np.zeros(0), np.zeros(0)))
            is_before = times < series.at
            times, values = times[is_before], values[is_before]
            if start < series.at <= end:
                times, values = np.append(times, series.at), np.append(values, value)
            found.append((times, values))
        return found

    def born(self, series: Any) -> Any:
        """Recorded series have a sample."""
        return np.ones(len(series.labels), bool) if isinstance(series, _Recorded) else self._below.born(series)

    def changed(self, series: Any, since: int) -> bool:
        """Recorded series are new."""
        return isinstance(series, _Recorded) or self._below.changed(series, since)

    def increase(self, series: Any, start: float, end: float) -> Any:
        """Only event-fed series are asked: they are below."""
        return self._below.increase(series, start, end)

    def quantile(self, series: Any, *arguments: Any) -> Any:
        """Only event-fed series are asked: they are below."""
        return self._below.quantile(series, *arguments)

    def _set(self, name: str, matchers: tuple[Matcher, ...]) -> _Recorded:
        def fits(labels: Labels) -> bool:
            known = {**dict(labels), "__name__": name}
            return all(matcher.matches(known.get(matcher.name, "")) for matcher in matchers)

        kept = {labels: value for labels, value in self._recorded[name].items() if fits(labels)}
        return _Recorded(name, kept, self._at)

    def _earlier(self, series: _Recorded, rows: Any) -> dict[Labels, tuple[Any, Any]]:
        """What is below under the same name, by labels."""
        return {
            labels: (first, second)
            for one in self._below.select(series.name, ())
            for labels, first, second in rows(one)
        }


def _present(answer: tuple[Any, Any]) -> tuple[Any, Any]:
    values, mask = answer
    return values, np.ones(len(values), bool) if mask is None else mask
