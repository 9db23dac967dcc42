"""What one event costs, with ten times the rules, the series or the open trails: it should not know of them.

Measured is what is paid per event: decoding, stitching, counting, folding into the windows. What is paid per time, the
evaluation of rules, is not in it: `rules.py` measures that.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from collector.alerting.rulefile import GroupSpec
from collector.bench.load import OPEN, QUEUES, TASKS, messages
from collector.config import rulefiles
from collector.formats import native
from collector.model.record import Batch
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target, instant_of

BATCH = 500
TIMES = 10
COUNT = 80_000
REPEATS = 5


def per_event(load: Sequence[bytes], specs: Sequence[GroupSpec], more_series: int = 0) -> float:
    """CPU seconds of one event of a load, under these rules, beside so many other tasks that each have series."""
    pipeline = Pipeline(Limits(rows=100_000, series=1_000_000), specs, telemetry=Telemetry())
    axis = Axis(name="bench", application="", clock="event")
    pipeline.axes.append(axis)
    encode = msgspec.json.Encoder().encode
    first = msgspec.json.decode(load[0])["time"] - 1.0
    others = [
        encode({"kind": kind, "task_id": f"o{n}", "task": f"other{n}", "queue": "q", "time": first, "run_seconds": 0.1})
        for n in range(more_series)
        for kind in ("sent", "received", "started", "succeeded")
    ]
    _take(pipeline, axis, others)
    gc.collect()
    return _take(pipeline, axis, load) / len(load)


def _take(pipeline: Pipeline, axis: Axis, load: Sequence[bytes]) -> float:
    spent = 0.0
    for start in range(0, len(load), BATCH):
        bodies = list(load[start : start + BATCH])
        batch = Batch(source="bench", place="p", bodies=bodies, receipts=range(len(bodies)), received_at=0.0)
        began = time.process_time()
        pipeline.ingest.count(axis, native.decode, batch, math.inf)
        pipeline.ingest.observe()
        at = instant_of(axis.places["p"].newest)
        pipeline.store.advance(at)
        spent += time.process_time() - began
        for _ in pipeline.advance(Target(at, at)):
            pass
    return spent


def report() -> Iterator[str]:
    """The figures, as lines: the least of interleaved repeats, because others use the machine too."""
    now = 1_790_000_000.0
    usual, crowded = messages(COUNT, now), messages(COUNT, now, open_trails=TIMES * OPEN)
    rules = rulefiles.load(["shipped"])
    many = [msgspec.structs.replace(spec, name=f"{spec.name} {n}") for n in range(TIMES) for spec in rules]
    more = (TIMES - 1) * len(TASKS) * len(QUEUES)
    ways: dict[str, Callable[[], float]] = {
        "": partial(per_event, usual, rules),
        "rules": partial(per_event, usual, many),
        "series": partial(per_event, usual, rules, more),
        "open trails": partial(per_event, crowded, rules),
    }
    costs: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(REPEATS):
        for way, measure in ways.items():
            costs[way].append(measure())
    base, *others = (min(found) for found in costs.values())
    said = ", ".join(f"{TIMES}x the {way} {other / base:.2f}x" for way, other in zip([*ways][1:], others, strict=True))
    yield f"CPU per event: {base * 1e6:.2f} us; with {said}"
