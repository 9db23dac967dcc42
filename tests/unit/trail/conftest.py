"""A bench to stitch on: facts in, counts out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from collector.model.event import Event
from collector.trail.keep import Bounds
from collector.trail.rows import Errors, Rows
from collector.trail.stitcher import Stitcher
from collector.trail.transitions import FACTS, MEASURES, PAIRED, STRIDE, Transitions

T = 1_790_000_000.0


class Bench:
    """One stitcher with everything that came out of it."""

    def __init__(self, **bounds):
        self.rows = Rows()
        self.errors = Errors()
        self.stitcher = Stitcher(self.rows, self.errors, Bounds(**bounds), 5.0)
        self.out = Transitions()
        self.outcome = Counter()

    def event(self, kind, at, task_id="a", **fields):
        """A fact at T + `at` by the sender's clock, unless `time` says otherwise."""
        fields.setdefault("time", T + at)
        fields.setdefault("task", "pay")
        fields.setdefault("queue", "q")
        return Event(kind=kind, task_id=task_id, **fields)

    def stitch(self, *events, ats=None, source="s", application="", channel=""):
        """Stitch events; their axis time is the sender's, where it names one."""
        ats = [event.time for event in events] if ats is None else [T + at for at in ats]
        out = Transitions()
        done = self.stitcher.stitch(source, application, events, ats, out, channel)
        if out.measures:
            self.stitcher.watch(source, application, out, np.array(out.measures), np.array(out.seconds))
        for column in Transitions.COLUMNS:
            getattr(self.out, column).extend(getattr(out, column))
        for name, count in zip(("accepted", "duplicate", "ignored"), done, strict=True):
            self.outcome[name] += count
        return self

    def expire(self, at):
        """Let the frontier reach T + `at`."""
        while self.stitcher.expire(T + at, self.out):
            pass
        return self

    def entries(self):
        """(fact, row names, at) of everything counted."""
        counts = [*zip(self.out.codes, self.out.ats, strict=True), *((code, at) for code, _, at in self.out.errors)]
        return [
            (FACTS[fact], self.rows.names(code // STRIDE), round(at - T, 6))
            for code, at in counts
            for fact in PAIRED.get(code % STRIDE, (code % STRIDE,))
        ]

    def counts(self, task=None):
        """Totals by fact; ups and downs are left out."""
        named = Counter(fact for fact, names, _ in self.entries() if task in (None, names[0]))
        return {fact: count for fact, count in named.items() if not fact.endswith(("_up", "_down"))}

    def gauge(self, name, at=float("inf")):
        """Ups minus downs by T + `at`."""
        seen = Counter(fact for fact, _, when in self.entries() if when <= at)
        return seen[f"{name}_up"] - seen[f"{name}_down"]

    def lowest(self, name):
        """The lowest that a gauge ever is, per instant."""
        return min((self.gauge(name, at) for fact, _, at in self.entries() if fact.startswith(name)), default=0)

    def measures(self):
        """Sorted (measure, seconds)."""
        pairs = zip(self.out.measures, self.out.seconds, strict=True)
        return sorted((MEASURES[code % 3], round(seconds, 6)) for code, seconds in pairs)

    def state(self, task_id="a"):
        """The state of a trail."""
        return self.stitcher.reader.find(task_id).state


@pytest.fixture
def bench():
    """A stitcher with the usual bounds."""
    return Bench()


@pytest.fixture
def make_bench():
    """Make stitchers, with bounds of one's own."""
    return Bench
