"""A checkpoint and what comes of it: the same answers, and the same behaviour for whatever comes next."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import native
from collector.keeping.checkpoints import QUIET, Checkpoints
from collector.model.clock import ManualClock
from collector.model.contract import Contract, Contracts
from collector.model.event import TASK_KINDS
from collector.model.part import Part
from collector.model.record import Gap
from collector.series import saving as series_saving
from collector.series.expose import Exposed, families
from collector.shell.axis import Axis
from collector.shell.gate import Gate
from collector.shell.intake import Lane
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target
from collector.shell.undertaker import EXPIRES, LENGTH, OLDEST_AGE, UNREVIEWED_AGE
from collector.state import checkpoint
from collector.trail import saving as trail_saving
from collector.trail.keep import Bounds
from collector.trail.listing import Wanted
from tests.unit.parts import T0, batch, event, groups

RULES = """
groups:
- name: g
  interval: 5s
  rules:
  - {record: "failed:rate", expr: "sum by (task) (rate(task_failed_total[30s]))"}
  - {alert: Slow, expr: "histogram_quantile(0.9, sum by (le, task) (rate(task_run_seconds_bucket[1m]))) > 1e9"}
  - {alert: Long, expr: "sum(increase(task_started_total[20m])) > 1e9"}
  - {alert: Celery, expr: 'increase(celery_task_failed_total[10m]) > 1e9'}
"""


OF_THE_LEDGER = (UNREVIEWED_AGE, LENGTH, OLDEST_AGE, EXPIRES)
"""Ages of dead letters are sampled from the ledger, which has a file of its own."""
CONTRACTS = Contracts((Contract(match="x", semantics="must_complete", owner="o", deadline=20.0),))


def made(**bounds: float) -> Pipeline:
    """A pipeline with one source on its sender's time."""
    limits = Limits(bounds=Bounds(**bounds))
    pipeline = Pipeline(limits, groups(RULES), telemetry=Telemetry(), contracts=CONTRACTS)
    pipeline.axes.append(Axis(name="s", application="", is_up=True, was_tried=True, clock="event"))
    return pipeline


class Saving:
    """Both savers of a pipeline, with everything they gave."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.trails = trail_saving.Saver(pipeline.stitcher.parts)
        self.series = series_saving.Saver(pipeline.store)
        self.parts: list[Part] = []
        self.standing = pipeline.ticker.standing()

    def save(self, quiet: int = QUIET) -> None:
        """One checkpoint."""
        self._pipeline.ingest.observe()
        self.standing = self._pipeline.ticker.standing()
        self.parts += [*self.trails.parts(quiet), *self.series.parts()]

    def restart(self) -> None:
        """A new generation, which does not rest on the one before."""
        self.trails.restart()
        self.series.restart()
        self.parts.clear()


def restored(saving: Saving, **bounds: float) -> Pipeline:
    """A fresh pipeline, filled."""
    pipeline = made(**bounds)
    trails = trail_saving.Loader(pipeline.stitcher.parts)
    series = series_saving.Loader(pipeline.store)
    for part in saving.parts:
        (trails if part[0].startswith("trail.") else series).take(part)
    trails.finish()
    series.finish()
    pipeline.ticker.restore(saving.standing)
    pipeline.undertaker.resume()
    return pipeline


def count(pipeline: Pipeline, bodies: list[bytes]) -> tuple[int, ...]:
    """Count events, and let time go on to the newest; what became of them."""
    outcome = pipeline.ingest.count(pipeline.axes[0], native.decode, batch(bodies, is_head=True), math.inf)
    return (outcome.accepted, outcome.duplicate, outcome.malformed, outcome.ignored)


def walk(pipeline: Pipeline, at: float) -> None:
    """Let the frontier go on."""
    for _ in pipeline.advance(Target(at)):
        pass
    pipeline.store.advance(at)  # between stops it stays at the last one, and a stop may turn out to be none


def shown(family: Exposed) -> tuple[str, list[object]]:
    """A metric as /metrics has it."""
    buckets = family.values if family.buckets is None else family.buckets
    return family.name, sorted(
        zip(family.labels, family.born_at.tolist(), family.values.tolist(), buckets.tolist(), strict=True)
    )


def answers(pipeline: Pipeline) -> list[object]:
    """What it says to every question."""
    pipeline.ingest.observe()
    store = pipeline.store
    at = store.frontier
    found: list[object] = [at, pipeline.stitcher.evictions, store.evictions]
    found += [shown(family) for family in families(store) if family.name not in OF_THE_LEDGER]
    windows = [(at - back, at - until) for back, until in ((5, 0), (30, 5), (60, 0), (300, 0), (1200, 60))]
    for name in ("task_started_total", "task_failed_total", "task_run_seconds_count", "celery_task_failed_total"):
        for series, window in itertools.product(store.select(name, ()), windows):
            found.append(sorted(zip(series.labels, map(str, store.increase(series, *window)), strict=True)))
    for series, window in itertools.product(store.select("task_run_seconds", ()), windows):
        count = len(series.labels)
        quantiles = store.quantile(series, np.arange(count), count, 0.9, *window)
        found.append(sorted(zip(series.labels, map(str, quantiles), strict=True)))
    for series in store.select("failed:rate", ()):
        found += [(times.tolist(), values.tolist()) for times, values in store.samples(series, 0, at, 5)]
    found.append(sorted(map(repr, pipeline.stitcher.reader.trails())))
    found += [repr(step) for step in pipeline.stitcher.listing.pages(Wanted()) if step]
    trace = pipeline.stitcher.reader.trace("t1")
    found.append(sorted(map(repr, trace.tasks)) if trace else None)
    found.append(
        repr(pipeline.stitcher.reader.evidence(range(len(pipeline.rows)), ("failed", "run", "dead_lettered"), 0.0))
    )
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, list[bytes]]]:
    """Steps: how far time goes on before each, and what comes in it, a little late or early."""
    steps = []
    at = T0
    for _ in range(draw(st.integers(2, 8))):
        at += draw(st.sampled_from([0.3, 2.0, 7.0, 70.0]))
        bodies = [
            event(
                draw(st.sampled_from(["sent", "started", "succeeded", "failed", "retried", *TASK_KINDS])),
                draw(st.sampled_from("abcdef")),
                at - draw(st.integers(0, 60)) / 10,
                task=draw(st.sampled_from(["x", "y", None])),
                queue=draw(st.sampled_from(["q", "q", "p", None])),
                worker=draw(st.sampled_from(["w@1", "w@2", None])),
                attempt=draw(st.sampled_from([1, 2, None])),
                error=draw(st.sampled_from(["E", None])),
                trace_id=draw(st.sampled_from([None, "t1"])),
                idempotency_key=draw(st.sampled_from([None, None, "k"])),
            )
            for _ in range(draw(st.integers(1, 8)))
        ]
        steps.append((at, bodies))
    return steps


@pytest.mark.case("K20.1")
@settings(max_examples=80, deadline=None)
@given(histories(), st.integers(0, 7), st.integers(0, 7), st.sampled_from([0, 1, QUIET]))
def test_a_restored_state_goes_on_as_if_nothing_had_been(
    history: list[tuple[float, list[bytes]]], split: int, again: int, quiet: int
) -> None:
    """Saved at each step, begun anew at one, restored at another: all answers, and all that follows, are the same."""
    undisturbed = made()
    saving = Saving(undisturbed)
    copy: Pipeline | None = None
    for number, (at, bodies) in enumerate(history):
        outcomes = [count(one, bodies) for one in (undisturbed, copy) if one is not None]
        assert len(set(outcomes)) == 1
        for one in (undisturbed, copy):
            if one is not None:
                walk(one, at - 2.0)
        if copy is None:
            if number == again:
                saving.restart()
            saving.save(quiet)
            if number == min(split, len(history) - 1):
                saving.save(1 << 60)
                copy = restored(saving)
        if copy is not None:
            assert answers(copy) == answers(undisturbed)
    assert copy is not None
    for one in (undisturbed, copy):
        walk(one, history[-1][0] + 100.0)
    assert answers(copy) == answers(undisturbed)


def test_what_went_before_a_new_generation_stays_gone() -> None:
    """A dead letter that was closed since the last save does not come back from the generation before."""
    pipeline = made()
    count(pipeline, [event(kind, "a", T0 + at) for at, kind in enumerate(("sent", "dead_lettered"))])
    saving = Saving(pipeline)
    saving.save()
    count(pipeline, [event("sent", "a", T0 + 2.0)])
    saving.trails.restart()
    saving.save(0)
    assert restored(saving).stitcher.parts.settler.dead == {}


def test_a_restored_state_grows_like_any_other() -> None:
    """More series, trails and error classes than there was room for when it was saved find theirs afterwards."""

    def some(first: int, last: int) -> list[bytes]:
        return [
            event(kind, f"{number}", T0 + number / 100 + when, task=f"t{number}", worker="w", error=f"E{number}")
            for number in range(first, last)
            for when, kind in enumerate(("sent", "started", "failed"))
        ]

    undisturbed = made()
    count(undisturbed, some(0, 50))
    walk(undisturbed, T0 + 1)
    saving = Saving(undisturbed)
    saving.save(1 << 60)
    copy = restored(saving)
    for one in (undisturbed, copy):
        count(one, some(40, 400))
        walk(one, T0 + 30)
    assert answers(copy) == answers(undisturbed)


class Setup:
    """A process' way through a directory: what it restores, counts and writes."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.telemetry = Telemetry()
        self.checkpoints = Checkpoints(folder, clock, self.telemetry)
        self.pipeline = self.checkpoints.restored(made)
        axis = self.pipeline.axes[0]
        axis.clock, axis.is_pushed = "event", True
        self.gate = Gate()
        self.lane = Lane(axis, native.decode, self.pipeline.ingest, clock, self.telemetry, lambda: None, self.gate)
        self.checkpoints.place([self.lane], self.gate, self.decided)

    async def decided(self, seconds: float) -> None:
        """There is nothing else that is kept."""

    def started(self) -> float:
        """How many starts are counted."""
        self.pipeline.ingest.observe()
        self.pipeline.store.advance(T0 + 100)
        store = self.pipeline.store
        return sum(float(store.value(one, T0 + 100)[0].sum()) for one in store.select("task_started_total", ()))


def files_in(folder: Path) -> int:
    """How many checkpoints there are."""
    return len(list(folder.glob(f"{checkpoint.PREFIX}*")))


@pytest.fixture
def clock() -> ManualClock:
    """The time of the tests."""
    return ManualClock(T0 + 50)


async def test_a_stop_in_order_leaves_no_gap(tmp_path: Path, clock: ManualClock) -> None:
    """What was counted before the last checkpoint is counted after the restart, and nothing is missing."""
    first = Setup(tmp_path, clock)
    await first.lane.take(batch([event("started", "1", T0)]))
    assert await first.checkpoints.close()
    second = Setup(tmp_path, clock)
    assert second.started() == 1
    assert second.lane.axis.totals.read == 1
    assert second.lane.axis.gaps == []


async def test_a_gap_that_goes_on_is_saved(tmp_path: Path, clock: ManualClock) -> None:
    """While it does, though there is no further one, the next checkpoint is due at once."""
    first = Setup(tmp_path, clock)
    for end in (10, 20):
        first.lane.gap(Gap(source="s", place="p", start=T0, end=T0 + end, estimate=None, reason="full"))
        assert [first.checkpoints._has_changed(0.0) for _ in range(2)] == [True, False]
    assert len(first.lane.axis.gaps) == 1


async def test_what_was_decided_is_on_the_disk_before_the_positions_are(tmp_path: Path, clock: ManualClock) -> None:
    """Else a crash in between loses a decision for ever: sources go on behind what led to it. Reading does not wait."""
    first = Setup(tmp_path, clock)
    found: list[int] = []

    async def decided(_: float) -> None:
        await first.lane.take(batch([event("started", "2", T0)]))  # would hang at a closed gate
        found.append(len(checkpoint.found(tmp_path).saved))

    first.checkpoints.place([first.lane], first.gate, decided)
    await first.lane.take(batch([event("started", "1", T0)]))
    assert await first.checkpoints.save()
    assert found == [0]
    assert await first.checkpoints.close()
    assert found == [0, 1]


async def test_lives_that_are_too_short_to_say_all_leave_no_long_chain(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed again and again before a generation says all, a start reads a few files all the same, and counts right."""
    monkeypatch.setattr("collector.keeping.checkpoints.QUIET", 1)
    monkeypatch.setattr("collector.keeping.checkpoints.SPREAD", 1 << 30)
    lengths, files = [], []
    for number in range(30):
        life = Setup(tmp_path, clock)
        assert life.started() == 2 * number
        await life.lane.take(batch([event("started", f"{number}.{each}", T0) for each in range(2)]))
        assert await life.checkpoints.save()
        life.checkpoints._log.close()
        (saved, *_) = checkpoint.found(tmp_path).saved
        lengths.append(len(saved.chain))
        files.append(files_in(tmp_path))
    assert 1 < max(lengths) <= 4
    assert max(files) <= 8


async def test_the_more_there_is_the_more_is_said_at_once(tmp_path: Path, clock: ManualClock) -> None:
    """However much there is, a generation says all within a number of checkpoints."""
    first = Setup(tmp_path, clock)
    await first.lane.take(batch([event("started", str(number), T0) for number in range(1000)]))
    first.checkpoints._trails.restart()
    assert first.checkpoints._trails.quiet == 1000


async def test_what_the_disk_does_not_take_is_written_with_the_next(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is said and tried again; when it has room, nothing is missing of what came in between."""
    first = Setup(tmp_path, clock)
    await first.checkpoints.save()
    await first.lane.take(batch([event("started", "1", T0)]))
    with monkeypatch.context() as patch:
        patch.setattr("collector.state.checkpoint.os.fdatasync", fails)
        assert not await first.checkpoints.save()
    assert first.telemetry.get("tasktrail_state_durable") == 0
    await first.lane.take(batch([event("started", "2", T0)]))
    assert await first.checkpoints.close()
    assert first.telemetry.get("tasktrail_state_durable") == 1
    assert Setup(tmp_path, clock).started() == 2


async def test_after_too_much_was_held_the_next_says_all(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the disk is bounded: beyond it groups are given up, and a generation is begun that needs none."""
    monkeypatch.setattr("collector.keeping.checkpoints.MOST_HELD", 1)
    first = Setup(tmp_path, clock)
    await first.checkpoints.save()
    with monkeypatch.context() as patch:
        patch.setattr("collector.state.checkpoint.os.fdatasync", fails)
        for number in range(3):
            await first.lane.take(batch([event("started", str(number), T0)]))
            assert not await first.checkpoints.save()
    assert await first.checkpoints.close()
    assert Setup(tmp_path, clock).started() == 3


def fails(_: int) -> None:
    """A full disk."""
    raise OSError(28, "No space left on device")


async def test_a_file_that_somebody_removed_is_written_anew(tmp_path: Path, clock: ManualClock) -> None:
    """The next checkpoint fails, as what the file held is gone; the one after it says all in another file."""
    first = Setup(tmp_path, clock)
    await first.lane.take(batch([event("started", "1", T0)]))
    assert await first.checkpoints.save()
    for path in generations(tmp_path):
        path.unlink()
    assert not await first.checkpoints.save()
    assert first.telemetry.get("tasktrail_state_failing") == 1
    assert await first.checkpoints.save()
    assert first.telemetry.get("tasktrail_state_failing") == 0
    first.checkpoints._log.close()
    assert Setup(tmp_path, clock).started() == 1


async def test_a_state_that_cannot_be_used_leads_to_the_one_before(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where filling a pipeline fails it is said, and the older generation is taken; none left is a gap on record."""
    first = Setup(tmp_path, clock)
    await first.lane.take(batch([event("started", "1", T0)]))
    await first.checkpoints.close()
    monkeypatch.setattr(series_saving.Loader, "finish", raises)
    second = Setup(tmp_path, clock)
    assert second.started() == 0
    assert [gap.reason for gap in second.lane.axis.gaps] == ["state_lost"]


def generations(folder: Path) -> list[Path]:
    """The files, oldest first."""
    return sorted(folder.glob("checkpoint-*"))


def cut(path: Path) -> None:
    """Take the end of a file away, and with it its last commit."""
    os.truncate(path, path.stat().st_size - 8)


async def test_pushes_that_damage_took_are_a_gap(tmp_path: Path, clock: ManualClock) -> None:
    """Where every generation is damaged and the state goes back to before the first push, the pushes are a gap."""
    first = Setup(tmp_path, clock)
    await first.checkpoints.save()
    await first.lane.take(batch([event("started", "1", T0)]))
    await first.checkpoints.close()
    await Setup(tmp_path, clock).checkpoints.close()
    for path in generations(tmp_path):
        cut(path)
    clock.at += 5.0
    third = Setup(tmp_path, clock)
    assert third.started() == 0
    assert [(gap.reason, gap.start, gap.end) for gap in third.lane.axis.gaps] == [("state_lost", T0 + 50, T0 + 55)]
    assert third.telemetry.get("tasktrail_state_set_aside", ("damaged-checkpoint-000000000001",)) == 1


@pytest.mark.parametrize("pushes", [0, 1])
async def test_a_kill_has_one_answer_whether_or_not_it_hits_a_write(
    tmp_path: Path, clock: ManualClock, pushes: int
) -> None:
    """Pushes may be missing where there were some before; an end that a kill tore is no damage, unlike a wrong byte."""
    first = Setup(tmp_path, clock)
    await first.lane.take(batch([event("started", "1", T0)] * pushes))
    for _ in range(2):
        await first.checkpoints.save()
    first.checkpoints._log.close()
    (path,) = generations(tmp_path)
    killed = Setup(tmp_path, clock)
    cut(path)
    torn = Setup(tmp_path, clock)
    for one in (killed, torn):
        assert [gap.reason for gap in one.lane.axis.gaps] == ["crash"] * pushes
        assert (one.checkpoints.lost_until is not None) == bool(pushes)
    os.truncate(path, path.stat().st_size + 16)
    assert [gap.reason for gap in Setup(tmp_path, clock).lane.axis.gaps] == ["crash" if pushes else "state_lost"]


async def test_an_end_in_order_is_no_end_where_what_followed_is_damaged(tmp_path: Path, clock: ManualClock) -> None:
    """A generation that ended in order says nothing of the pushes that the damaged one after it held."""
    await Setup(tmp_path, clock).checkpoints.close()
    second = Setup(tmp_path, clock)
    await second.lane.take(batch([event("started", "1", T0)]))
    await second.checkpoints.close()
    cut(generations(tmp_path)[-1])
    assert [gap.reason for gap in Setup(tmp_path, clock).lane.axis.gaps] == ["state_lost"]


def raises(_: object) -> None:
    """A bug."""
    raise KeyError("no such thing")


async def test_a_batch_that_is_cancelled_is_counted_whole(clock: ManualClock, tmp_path: Path) -> None:
    """A source that is ended in the middle of a large batch leaves the state where its position says it is."""
    one = Setup(tmp_path, clock)
    bodies = [event("started", str(number), T0) for number in range(2_500)]
    taking = asyncio.create_task(one.lane.take(batch(bodies, position=2_500)))
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert one.lane.axis.totals.read == 2_500
    assert one.lane.axis.place("p").position == 2_500
