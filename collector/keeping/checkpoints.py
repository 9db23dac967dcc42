"""Checkpoints of a running daemon: what was counted, together with where each source was then.

Takes the state in short steps while the gate is closed, and hands the bytes to a thread. At start it fills a fresh
pipeline with the newest state that is sound. Where the disk does not take a group, it is kept and tried again, within a
bound; beyond it the next one says all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from collector.keeping import habits
from collector.model.clock import Clock
from collector.model.part import Part
from collector.model.record import Gap
from collector.model.shown import counted
from collector.series import saving as series_saving
from collector.shell.axis import SavedAxis
from collector.shell.gate import Gate
from collector.shell.intake import Lane
from collector.shell.pipeline import Pipeline
from collector.shell.suspects import Suspects
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Standing
from collector.state import checkpoint
from collector.state.checkpoint import Commit, Log, RemovedError, Saved
from collector.trail import saving as trail_saving

PERIOD = 1.0
"""Seconds between two checkpoints while anything changes: with the time of the writing, at most 2 s are lost."""
IDLE_PERIOD = 60.0
"""The same while nothing does: the frontier moves all the same."""
DECIDED_SECONDS = 1.0
"""So long a checkpoint waits at most for what was decided on the way to it to be on the disk."""
STEP = 0.005
"""Seconds of one uninterrupted step, as far as single parts allow."""
QUIET, SPREAD = 5_000, 20
"""Trails that did not change and are written again in each checkpoint, until a generation says all by itself: at least
so many, and more where it would take more checkpoints."""
MOST_CHAINED = 4
"""Files that a state may rest on. Each life that ends before its generation says all adds one; the next says it at once
then: a start reads all of them."""
MOST_FORMER = 100
"""Sources that are configured no more and whose places are kept, those that were read last."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes that wait for a disk that does not take them."""
CRASH, LOST = "crash", "state_lost"
"""Reasons of gaps: pushes since the last checkpoint of a process that was killed; what damaged state held."""
EVERYTHING = 1 << 60

_standing = msgspec.msgpack.Decoder(Standing)
_places = msgspec.msgpack.Decoder(list[SavedAxis])


class _Group(msgspec.Struct):
    """Parts on their way to the disk."""

    parts: list[Part]
    commit: Commit
    begins: bool
    """Whether it is the first of a generation."""


class Checkpoints:
    """One directory's checkpoints: `restored`, `place`, then `keep` until the end, and `close`."""

    def __init__(self, directory: Path, clock: Clock, telemetry: Telemetry) -> None:
        """Looks through the directory. Raises OSError where it cannot be read."""
        self._directory = directory
        self._gate = Gate()
        self._clock = clock
        self._telemetry = telemetry
        self._found = checkpoint.found(directory)
        self._log = Log(directory, self._found)
        self._saved: Saved | None = None
        self._axes: dict[str, SavedAxis] = {}
        self._former: list[SavedAxis] = []
        """Sources that are configured no more; put back, one goes on where it was."""
        self._held: list[_Group] = []
        self._is_alone = False
        """Whether the next generation goes on from nothing: there is none, groups of it were lost, or it would rest on
        too many files."""
        self._one = asyncio.Lock()
        self._is_ending = asyncio.Event()
        self._seen: Any = None
        self._seen_at = 0.0
        self.lost_until: float | None = None
        """Up to when events may have been counted that no window holds any more, Unix seconds; None: there are none."""

    # Start

    def restored(self, make: Callable[[], Pipeline]) -> Pipeline:
        """A pipeline as the newest sound checkpoint left it, or a fresh one. Problems are said."""
        for problem in self._found.problems:
            self._telemetry.state_damaged(problem)
        for name in checkpoint.set_aside(self._found):
            self._telemetry.set_aside(name)
        for saved in self._found.saved:
            pipeline = make()
            try:
                self._fill(pipeline, saved)
            except Exception as error:  # noqa: BLE001 whatever is wrong with it, the state before it may be sound
                self._telemetry.state_damaged(f"checkpoint {saved.number}: {error!r}")
                continue
            self._saved = saved
            break
        else:
            pipeline = make()
        self._log.goes_on_from(self._saved)
        self._is_alone = self._saved is None or len(self._saved.chain) >= MOST_CHAINED
        self._pipeline = pipeline
        self._trails = trail_saving.Saver(pipeline.stitcher.parts)
        self._series = series_saving.Saver(pipeline.store)
        self._habits = habits.Saver(pipeline.casebook, pipeline.desk.flapping)
        if self._saved is not None:
            self._clock.go_on_from(self._saved.commit.at)
            age = self._clock.now() - self._saved.commit.at
            self._telemetry.said("state: goes on with %d open trails, as of %.1f s ago", len(pipeline.stitcher), age)
        return pipeline

    def _fill(self, pipeline: Pipeline, saved: Saved) -> None:
        trails = trail_saving.Loader(pipeline.stitcher.parts)
        series = series_saving.Loader(pipeline.store)
        takes: dict[str, Callable[[Part], None]] = {
            "trail": trails.take,
            "series": series.take,
            "places": self._take_places,
            "habits": lambda part: habits.take(part, pipeline.casebook, pipeline.desk.flapping),
            "rules": lambda part: pipeline.ticker.restore(_standing.decode(part[1])),
        }
        for part in saved.parts():
            takes[part[0].partition(".")[0]](part)
        trails.finish()
        series.finish()

    def _take_places(self, part: Part) -> None:
        self._axes = {axis.name: axis for axis in _places.decode(part[1])}

    def place(self, lanes: Sequence[Lane], gate: Gate, decided: Callable[[float], Awaitable[object]]) -> None:
        """Let each source go on where it was; what is known to be missing is put on record. `gate`: theirs.

        `decided`: waits, for at most so many seconds, until all decisions so far are on the disk.
        """
        self._gate, self._decided = gate, decided
        now = self._clock.now()
        suspects = self._suspects()
        names = {lane.axis.name for lane in lanes}
        former = [saved for name, saved in self._axes.items() if name not in names] if self._saved else []
        self._former = sorted(former, key=lambda one: one.read_at)[-MOST_FORMER:]
        is_lost = self._saved is None and bool(self._found.problems or self._found.saved)
        for lane in lanes:
            axis = lane.axis
            lane.suspects = suspects
            saved = self._axes.get(axis.name) if self._saved else None
            if saved is not None:
                axis.restore(saved)
            elif axis.is_tailed and not axis.is_fleeting:
                for one in former:
                    if _host(one.name) == _host(axis.name):  # another list of streams, or another order of it
                        axis.read_on(one)
                        self._former = [other for other in self._former if other is not one]
            if self._saved is None:
                self.lost_until = now
            if is_lost:
                lane.gap(Gap(source=axis.name, place="", start=now, end=now, estimate=None, reason=LOST))
            elif self._saved and axis.is_pushed and (reason := self._why_missing(self._saved, saved)):
                since, self.lost_until = self._saved.commit.at, now
                lane.gap(Gap(source=axis.name, place="", start=since, end=now, estimate=None, reason=reason))

    def _why_missing(self, state: Saved, saved: SavedAxis | None) -> str:
        """Why pushes to a source may be missing that came after the state that goes on; "": none are."""
        if saved is not None and saved.totals.read and not state.commit.is_last:
            return CRASH
        newest, _ = state.chain[-1]
        damaged = {path for path in self._found.damaged if path >= newest}
        if not state.commit.is_last:  # it was killed, perhaps while it wrote
            damaged -= {self._found.torn}
        return LOST if damaged or state is not self._found.saved[0] else ""

    def _suspects(self) -> Suspects | None:
        """The notes of what was being read when the former process died; None where the disk does not take any."""
        try:
            suspects = Suspects(self._directory)
        except (OSError, ValueError) as error:
            self._telemetry.state_damaged(f"what is being read cannot be noted: {error}")
            return None
        if (span := suspects.died_in) is not None:
            where = f"{counted(span.count, 'record')} of {span.source}, {span.place} from {span.first}"
            self._telemetry.said("state: the process before this one died while it read %s", where)
        return suspects

    # Running

    async def keep(self) -> None:
        """Save until `close`. Not to be cancelled: what a checkpoint has taken is not given twice."""
        while not self._is_ending.is_set():
            began = self._clock.monotonic()
            if self._has_changed(began):
                async with self._one:
                    await self.save()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(PERIOD / 4, PERIOD - (self._clock.monotonic() - began))):
                    await self._is_ending.wait()

    async def close(self) -> bool:
        """The last one, after which nothing is counted any more. Whether the disk took it."""
        self._is_ending.set()
        async with self._one:
            is_kept = await self.save(is_last=True)
        self._log.close()
        return is_kept

    def _has_changed(self, now: float) -> bool:
        """Whether anything has, that a crash would lose."""
        pipeline = self._pipeline
        seen = [
            (axis.totals.read, axis.gaps[-1:], [place.position for place in axis.places.values()])
            for axis in pipeline.axes
        ]
        is_touched = self._trails.is_touched or self._habits.is_touched
        is_changed = seen != self._seen or is_touched or bool(self._held)
        if is_changed or now - self._seen_at >= IDLE_PERIOD:
            self._seen, self._seen_at = seen, now
            return True
        return False

    async def save(self, *, is_last: bool = False) -> bool:
        """One checkpoint; whether it is on the disk."""
        began, at = self._clock.monotonic(), self._clock.now()
        self._give_up_what_is_too_much()
        begins = self._is_alone or (self._log.is_due and not self._held)
        if begins:
            self._trails.restart()
            self._series.restart()
            self._habits.restart()
        async with self._gate.closed():
            most_quiet = max(QUIET, self._trails.quiet // SPREAD)
            parts, busy = await self._taken(EVERYTHING if self._is_alone else most_quiet)
        self._held.append(_Group(parts, Commit(at, self._trails.is_whole, is_last), begins))
        # Sources go on behind what led to them: decisions that are not on the disk by then would never be made.
        await self._decided(DECIDED_SECONDS)
        try:
            size = await asyncio.to_thread(self._write)
        except OSError as error:
            if isinstance(error, RemovedError):  # the next one says all
                self._held.clear()
                self._is_alone = True
            self._telemetry.checkpoint_failed(str(error))
            return False
        self._telemetry.checkpointed(at, busy, self._clock.monotonic() - began, size)
        return True

    async def _taken(self, most_quiet: int) -> tuple[list[Part], float]:
        """All parts, in steps between which others have a turn; and how long the loop was busy with it."""
        busy = 0.0
        parts: list[Part] = []
        began = self._clock.monotonic()
        for part in self._parts(most_quiet):
            parts.append(part)
            spent = self._clock.monotonic() - began
            if spent > STEP:
                self._telemetry.stalled(spent)
                busy += spent
                await asyncio.sleep(0)
                began = self._clock.monotonic()
        return parts, busy + self._clock.monotonic() - began

    def _parts(self, most_quiet: int) -> Iterator[Part]:
        pipeline = self._pipeline
        pipeline.ingest.observe()
        yield "places", msgspec.msgpack.encode([*(axis.saved() for axis in pipeline.axes), *self._former])
        yield "rules", msgspec.msgpack.encode(pipeline.ticker.standing())
        yield from self._trails.parts(most_quiet)
        yield from self._series.parts()
        yield from self._habits.parts()

    def _give_up_what_is_too_much(self) -> None:
        if sum(len(content) for group in self._held for _, content in group.parts) > MOST_HELD:
            self._held.clear()
            self._is_alone = True

    def _write(self) -> int:
        """What is held, oldest first. Runs in a thread. Raises OSError; what was not written stays."""
        size = 0
        while self._held:
            group = self._held[0]
            if group.begins:
                self._log.begin(is_alone=self._is_alone)
                group.begins = self._is_alone = False
            size += self._log.write(group.parts, group.commit)
            del self._held[0]
        return size


def _host(source: str) -> str:
    """All of a source's name but what is read there; of one that somebody gave a name the whole."""
    return source.rpartition("/")[0] if "://" in source else source
