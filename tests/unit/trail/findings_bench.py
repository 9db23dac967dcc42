"""A bench for what trails are found to be: walks the axis as a pipeline does, and tells what was found when."""

from __future__ import annotations

from collector.model.contract import Contracts
from collector.trail.saving import Loader, Saver
from collector.trail.transitions import FACTS, STRIDE
from tests.unit.trail.conftest import Bench, T

_NAMED = {"policy_violations", "findings", "recovered"}


class Court(Bench):
    """A bench whose findings can be asked for. Times are seconds after T."""

    def __init__(self, *contracts, **bounds):
        super().__init__(**bounds)
        self.stitcher.promises.use(Contracts(contracts))
        self.stitcher.findings.use(Contracts(contracts))

    def feed(self, *events):
        """Stitch events one by one, each after what was due before it came."""
        for event in sorted(events, key=lambda one: one.time):
            self.walk(event.time - T)
            self.stitch(event)
        return self

    def walk(self, at):
        """Stop at each instant at which something may be decided, up to `at`."""
        while (due := self.stitcher.next_due()) is not None and due <= T + at:
            self.expire(due - T)
        return self.expire(at)

    def beats(self, worker, start, end, every=2.0):
        """Heartbeats of a worker."""
        return [
            self.event("heartbeat", start + number * every, "", worker=worker, task=None, queue=None)
            for number in range(int((end - start) / every) + 1)
        ]

    def found(self):
        """(what, when) of all that was found, deadlines left out."""
        out = self.stitcher.findings.out
        plain = [(FACTS[code % STRIDE], at) for code, at in zip(out.codes, out.ats, strict=True)]
        named = [
            (f"recovered {name}" if FACTS[code % STRIDE] == "recovered" else name, at)
            for code, error, at in out.errors
            if FACTS[code % STRIDE] in _NAMED
            for name in [self.errors.name(error)]
        ]
        known = [(what, round(at - T, 3)) for what, at in plain if what == "lost"]
        return sorted(known + [(what, round(at - T, 3)) for what, at in named], key=lambda one: (one[1], one[0]))

    def lines(self, task_id="a"):
        """The timeline's kinds."""
        return [one.kind for one in self.stitcher.reader.find(task_id).events]


def restarted(court, *contracts, **bounds):
    """Another bench that goes on where this one was, as after a restart."""
    again = Court(*contracts, **bounds)
    loader = Loader(again.stitcher.parts)
    for part in Saver(court.stitcher.parts).parts(1 << 30):
        loader.take(part)
    loader.finish()
    return again
