"""What a checkpoint costs: prints its longest step, its CPU time and its bytes. For people, nothing asserts on it."""

from __future__ import annotations

import argparse
import gc
import math
import tempfile
import time
from pathlib import Path

from collector.bench.load import messages
from collector.config import rulefiles
from collector.formats import native
from collector.keeping.checkpoints import QUIET
from collector.model.record import Batch
from collector.series import saving as series_saving
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.state.checkpoint import Commit, Log, found
from collector.trail import saving as trail_saving

RATE = 20_000
NOW = 1_790_000_000.0


def fresh() -> Pipeline:
    """A pipeline on the shipped rules, with one source on its sender's time."""
    pipeline = Pipeline(Limits(), rulefiles.load(("shipped",)), telemetry=Telemetry())
    pipeline.axes.append(Axis(name="bench", application="", clock="event", is_up=True, was_tried=True))
    return pipeline


def take(pipeline: Pipeline, bodies: list[bytes]) -> None:
    """Count events, 500 at a time."""
    axis = pipeline.axes[0]
    for start in range(0, len(bodies), 500):
        some = bodies[start : start + 500]
        batch = Batch(source="bench", place="p", bodies=some, receipts=range(len(some)), received_at=0.0)
        pipeline.ingest.count(axis, native.decode, batch, math.inf)
    pipeline.ingest.observe()
    pipeline.store.advance(axis.places["p"].newest)


class Checkpoint:
    """One after the other, of one pipeline."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.trails = trail_saving.Saver(pipeline.stitcher.parts)
        self.series = series_saving.Saver(pipeline.store)
        self.log = Log(folder, found(folder))
        self.log.begin()

    def save(self) -> tuple[float, float, int, float]:
        """CPU seconds on the loop, the longest step, bytes, and seconds until they are on the disk."""
        parts, longest, began = [], 0.0, time.process_time()
        last = began
        for steps in (self.trails.parts(QUIET), self.series.parts()):
            for part in steps:
                now = time.process_time()
                longest, last = max(longest, now - last), now
                parts.append(part)
        busy = time.process_time() - began
        at = time.perf_counter()
        size = self.log.write(parts, Commit(0.0, self.trails.is_whole, is_last=False))
        return busy, longest, size, time.perf_counter() - at


def changed(count: int, folder: Path) -> None:
    """One checkpoint after so many trails have changed, and a restart from it."""
    pipeline = fresh()
    one = Checkpoint(pipeline, folder)
    one.save()
    take(pipeline, messages(count * 4, NOW, open_trails=count))
    busy, longest, size, disk = one.save()
    held = len(pipeline.stitcher)
    print(
        f"{held} open trails, all changed: {busy * 1e3:.0f} ms of CPU, longest step {longest * 1e3:.1f} ms, "
        f"{size / 1e6:.1f} MB, on the disk {disk * 1e3:.0f} ms later"
    )
    again = fresh()
    trails = trail_saving.Loader(again.stitcher.parts)
    series = series_saving.Loader(again.store)
    began = time.process_time()
    for part in found(folder).saved[0].parts():
        (trails if part[0].startswith("trail.") else series).take(part)
    trails.finish()
    series.finish()
    print(f"  restored in {time.process_time() - began:.2f} s of CPU")


def flowing(seconds: int, folder: Path) -> None:
    """A checkpoint for each second of a flow."""
    pipeline = fresh()
    one = Checkpoint(pipeline, folder)
    load = messages(seconds * RATE, NOW, open_trails=20_000)
    busy, longest, size = 0.0, 0.0, 0
    began = time.process_time()
    for second in range(seconds):
        take(pipeline, load[second * RATE : (second + 1) * RATE])
        spent, step, bytes_, _ = one.save()
        busy, longest, size = busy + spent, max(longest, step), size + bytes_
    whole = time.process_time() - began
    print(
        f"{RATE} events/s, one a second: {busy / seconds * 100:.1f}% of a CPU, {busy / whole * 100:.1f}% of the "
        f"counting, longest step {longest * 1e3:.1f} ms, {size / seconds / 1e6:.1f} MB/s"
    )


def main() -> None:
    """Both kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of the flow")
    options = parser.parse_args()
    for what, number in ((changed, 20_000), (changed, 200_000), (flowing, options.seconds)):
        with tempfile.TemporaryDirectory() as folder:
            what(number, Path(folder))
        gc.collect()


if __name__ == "__main__":
    main()
