"""A store with a few names, fed by hand as the stitcher feeds it."""

from __future__ import annotations

from collector.model.labels import Matcher
from collector.series.observe import METRICS, observe
from collector.series.store import Store
from collector.trail.rows import Errors, Rows
from collector.trail.transitions import FACT_CODE, MEASURES, STRIDE, Transitions


def match(**labels):
    """Matchers of equality."""
    return tuple(Matcher(name=name, op="=", value=value, test=value.__eq__) for name, value in labels.items())


class Fleet:
    """A store, and one-line ways to feed it."""

    def __init__(self, keep=(300.0,), **options):
        self.rows = Rows()
        self.errors = Errors()
        self.store = Store(METRICS, self.rows, self.errors, **options)
        for window in keep:
            self.store.keep(window)
        self.out = Transitions()

    def fact(self, fact, at, *, task="t", queue="q", source="s", error=None):
        """Note a fact for the next `flush`."""
        code = self.rows.row(task, queue, source) * STRIDE + FACT_CODE[fact]
        if error is None:
            self.out.codes.append(code)
            self.out.ats.append(at)
        else:
            self.out.errors.append((code, self.errors.intern(error), at))

    def measured(self, measure, seconds, at, *, task="t", queue="q", source="s"):
        """Note an observation for the next `flush`."""
        self.out.measures.append(self.rows.row(task, queue, source) * 3 + MEASURES.index(measure))
        self.out.seconds.append(seconds)
        self.out.measured_ats.append(at)
        self.out.witnesses.append("id")

    def noted(self, worker):
        """What follows is of this worker."""
        out = self.out
        out.notes = [*(out.notes or []), (len(out.codes), len(out.errors), len(out.measures), worker)]

    def flush(self):
        """Let the store observe what was noted."""
        observe(self.out, self.store)
        self.out.clear()

    def facts(self, fact, *ats, **names):
        """Observe facts at these instants."""
        for at in ats:
            self.fact(fact, at, **names)
        self.flush()

    def one(self, name, /, **labels):
        """The only set that equality matchers select."""
        (found,) = self.store.select(name, match(**labels))
        return found

    def increase(self, name, /, start, end, **labels):
        """The increases of what is selected."""
        return self.store.increase(self.one(name, **labels), start, end).tolist()

    def value(self, name, /, at=None, **labels):
        """Label set -> value of what is present, at the frontier unless told otherwise."""
        series = self.one(name, **labels)
        values, there = self.store.value(series, self.store.frontier if at is None else at)
        mask = [True] * len(values) if there is None else there.tolist()
        rows = zip(series.labels, values.tolist(), mask, strict=True)
        return {labels: value for labels, value, is_there in rows if is_there}
