"""The leaves: instant selectors, range selectors and subqueries. They turn what the querier has into frames and ranges.

Several metrics behind one selector (a regular expression on the name) lie one after the other.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from collector.model.labels import Labels, Matcher
from collector.promql.errors import PromqlError
from collector.promql.frame import EMPTY, Frame, Instant, PerLabels, Ranges, Relabel, both
from collector.promql.matchers import NAME, matcher
from collector.promql.querier import Array, SeriesSet

LOOKBACK = 300_000
"""How old a sample may be to be an instant's value, in milliseconds."""
MOST_STEPS = 100_000
"""Steps of a subquery, times those of the subqueries around it: they are evaluated in one go."""
MOST_SAMPLES = 10_000_000
"""Samples of a range of event-fed series: they are as many as the range has intervals, whatever happened in it."""
EVERY_BUCKET = matcher("le", "=~", ".*")
"""Asked with this, an event-fed histogram comes as a series per bucket."""


class FrameNode(Protocol):
    """A compiled expression that gives an instant vector."""

    def eval(self, now: Instant) -> Frame:
        """The vector at an instant."""
        ...


class ScalarNode(Protocol):
    """A compiled expression that gives a number."""

    def eval(self, now: Instant) -> float:
        """The number at an instant."""
        ...


class RangeNode(Protocol):
    """A compiled expression that gives a range vector."""

    def eval(self, now: Instant) -> Ranges:
        """The samples of the window that ends at an instant."""
        ...


class Selector(msgspec.Struct, frozen=True):
    """Which series an expression reads, and how far back. Durations in seconds."""

    name: str | None
    """Metric name; None where only matchers say which."""
    matchers: tuple[Matcher, ...]
    window: float
    """Of a range selector; 0 for an instant one."""
    reach: float
    """How far back from the instant it can read: window, offset, and the subqueries around it."""


class When(msgspec.Struct, frozen=True):
    """The modifiers `offset` and `@`, in milliseconds."""

    offset: int = 0
    at: int | Literal["start", "end"] | None = None

    def instant(self, now: Instant) -> int:
        """The instant that is read, before the offset counts."""
        if self.at is None:
            return now.at
        if self.at == "start":
            return now.start
        return now.end if self.at == "end" else self.at


class Source:
    """The series of one selector: asks the querier, joins the labels of several metrics, adds names where wanted."""

    def __init__(self, name: str | None, matchers: tuple[Matcher, ...], *, named: bool) -> None:
        self.name = name
        self.matchers = matchers
        self.never = False
        self._named = named
        self._names: dict[str, Relabel] = {}
        self._parts: tuple[tuple[Labels, ...], ...] = ()
        self._joined: tuple[Labels, ...] = ()
        if name is not None:
            about_name = [one for one in matchers if one.name == NAME]
            self.matchers = tuple(one for one in matchers if one.name != NAME)
            self.never = not all(one.matches(name) for one in about_name)

    def whole(self, now: Instant) -> tuple[SeriesSet, ...]:
        """The series sets that match, event-fed histograms undivided."""
        return () if self.never else now.querier.select(self.name, self.matchers)

    def sets(self, now: Instant) -> tuple[SeriesSet, ...]:
        """The same with event-fed histograms as a series per bucket."""
        sets = self.whole(now)
        if any(one.kind == "histogram" for one in sets):
            return now.querier.select(self.name, (*self.matchers, EVERY_BUCKET))
        return sets

    def labels(self, sets: tuple[SeriesSet, ...]) -> tuple[Labels, ...]:
        """The labels of all sets, one after the other; the same object while no set's labels changed."""
        # the names of several metrics are what keeps their series apart, whoever looks at them or not
        is_named = self._named or len(sets) > 1
        parts = tuple(self._with_name(one) if is_named else one.labels for one in sets)
        if len(parts) == 1:
            return parts[0]
        if len(parts) != len(self._parts) or any(a is not b for a, b in zip(parts, self._parts, strict=True)):
            self._parts = parts
            self._joined = sum(parts, ())
        return self._joined

    def _with_name(self, one: SeriesSet) -> tuple[Labels, ...]:
        if not one.name:
            return one.labels
        relabel = self._names.get(one.name)
        if relabel is None:
            pair = (NAME, one.name)
            relabel = self._names[one.name] = Relabel(lambda labels: tuple(sorted((*labels, pair))))
        return relabel(one.labels)


def joined(parts: list[tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
    """Values and masks of several sets, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if all(mask is None for _, mask in parts):
        return np.concatenate([values for values, _ in parts]), None
    masks = [np.ones(len(values), bool) if mask is None else mask for values, mask in parts]
    return np.concatenate([values for values, _ in parts]), np.concatenate(masks)


class InstantVector:
    """`name{matchers} offset d @ t`."""

    def __init__(self, source: Source, when: When) -> None:
        self.source = source
        self.when = when

    def eval(self, now: Instant) -> Frame:
        """The newest value of each series."""
        sets = self.source.sets(now)
        if not sets:
            return EMPTY
        querier = now.querier
        at = self.at(now) / 1000
        parts = [querier.value(one, at) for one in sets]
        if now.born_only:
            parts = [(values, both(mask, querier.born(one))) for one, (values, mask) in zip(sets, parts, strict=True)]
        return Frame(self.source.labels(sets), *joined(parts))

    def at(self, now: Instant) -> int:
        """The instant that is read, in milliseconds."""
        return self.when.instant(now) - self.when.offset

    def times(self, now: Instant) -> Frame:
        """As `eval`, with the time of each sample in place of its value; event-fed series are always of now."""
        frame = self.eval(now)
        at = self.at(now)
        times = []
        for one in self.source.sets(now):
            if one.kind == "sampled":
                samples = now.querier.samples(one, (at - LOOKBACK) / 1000, at / 1000, now.step)
                times += [stamps[-1] if len(stamps) else np.nan for stamps, _ in samples]
            else:
                times += [at / 1000] * len(one.labels)
        return frame.with_values(np.array(times, float))


class RangeVector:
    """`name{matchers}[d] offset d @ t`."""

    def __init__(self, source: Source, when: When, window: int) -> None:
        self.source = source
        self.when = when
        self.window = window
        self.skips_histograms = False
        """Set where event-fed histograms are read another way and only the sampled series are wanted."""

    def span(self, now: Instant) -> tuple[float, float]:
        """The window (start, end] in Unix seconds."""
        end = self.when.instant(now) - self.when.offset
        return (end - self.window) / 1000, end / 1000

    def sets(self, now: Instant) -> tuple[SeriesSet, ...]:
        """The series sets that match and are wanted."""
        if self.skips_histograms:
            return tuple(one for one in self.source.whole(now) if one.kind != "histogram")
        return self.source.sets(now)

    def eval(self, now: Instant) -> Ranges:
        """The samples of each series in the window."""
        start, end = self.span(now)
        sets = self.sets(now)
        series: list[tuple[Array, Array]] = []
        made = sum(len(one.labels) for one in sets if one.kind != "sampled") * int((end - start) / now.step + 1)
        if made > MOST_SAMPLES:
            raise PromqlError(f"a range of {made} samples: at most {MOST_SAMPLES} are read, shorten it")
        for one in sets:
            found = now.querier.samples(one, start, end, now.step)
            if now.born_only:
                nothing = (np.zeros(0), np.zeros(0))
                born = now.querier.born(one).tolist()
                found = [samples if is_born else nothing for samples, is_born in zip(found, born, strict=True)]
            series += found
        return Ranges(self.source.labels(sets), series, start, end)


class Subquery:
    """`expr[d:step] offset d @ t`: the expression at every step of a window."""

    def __init__(self, inner: FrameNode, when: When, window: int, step: int) -> None:
        self._inner = inner
        self._when = when
        self._window = window
        self._step = step
        self._are_distinct = PerLabels(lambda labels: len(set(labels)) == len(labels))

    def eval(self, now: Instant) -> Ranges:
        """What the expression gave at the multiples of the step in (end - window, end]."""
        end = self._when.instant(now) - self._when.offset
        step = self._step or now.subquery_step
        first = ((end - self._window) // step + 1) * step
        grid = range(first, end + 1, step)
        inside = now.within * max(1, len(grid))
        if inside > MOST_STEPS:
            raise PromqlError(f"a subquery of {inside} steps, with those around it: at most {MOST_STEPS} are evaluated")
        at_steps = msgspec.structs.replace(now, within=inside)
        frames = [(at, self._inner.eval(msgspec.structs.replace(at_steps, at=at))) for at in grid]
        labels, series = self._gathered(frames)
        return Ranges(labels, series, (end - self._window) / 1000, end / 1000)

    def _gathered(self, frames: list[tuple[int, Frame]]) -> tuple[tuple[Labels, ...], list[tuple[Array, Array]]]:
        labels = frames[0][1].labels if frames else ()
        if all(frame.labels is labels for _, frame in frames) and self._are_distinct(labels):
            return labels, _stacked(frames) if labels else []
        return _merged(frames)


def _merged(frames: list[tuple[int, Frame]]) -> tuple[tuple[Labels, ...], list[tuple[Array, Array]]]:
    """Elements by their labels, wherever they stand in each frame."""
    points: dict[Labels, tuple[list[float], list[float]]] = {}
    for at, frame in frames:
        for row, value in frame.rows():
            times, values = points.setdefault(row, ([], []))
            times.append(at / 1000)
            values.append(value)
    return tuple(points), [(np.array(times), np.array(values)) for times, values in points.values()]


def _stacked(frames: list[tuple[int, Frame]]) -> list[tuple[Array, Array]]:
    times = np.array([at / 1000 for at, _ in frames])
    values = np.stack([frame.values for _, frame in frames], axis=1)
    if all(frame.present is None for _, frame in frames):
        return [(times, line) for line in values]
    everyone = np.ones(values.shape[0], bool)
    present = np.stack([everyone if frame.present is None else frame.present for _, frame in frames], axis=1)
    return [(times[mask], line[mask]) for line, mask in zip(values, present, strict=True)]


class Constant:
    """A number or a string of the text."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def eval(self, now: Instant) -> Any:  # noqa: ARG002 - the same at every instant
        """The value."""
        return self.value
