"""Asks the probes, each at its pace, and lets rules see what they say. Shell: no decisions of its own.

One task per probe. What a probe said at its last look and does not say now, ends with a stale marker: also everything,
when it cannot be asked. Queues that were there are remembered beyond restarts, so that one whose key is gone because it
is empty is known to be empty.
"""

from __future__ import annotations

import asyncio
import math
import random
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from collector.model.clock import Clock
from collector.model.errors import SourceError
from collector.model.labels import Labels, Matcher, labels_of
from collector.model.secret import mask
from collector.model.stale import STALE
from collector.probes.reading import METRICS, Probe, Reading, Sample
from collector.series import celery
from collector.shell.telemetry import Telemetry

EVERY = 10.0
"""Seconds between two looks, where the configuration says nothing else."""
REFUSED_SECONDS = 300.0
"""The same where the server does not allow to ask."""
LOOK_SECONDS = 60.0
"""A look that takes longer is given up."""
FORGET_SECONDS = 7 * 86_400.0
"""A queue that no look has found for so long is forgotten."""
RENEW_SECONDS = 86_400.0
"""A queue that is found is written down again so often."""
BLIND_SECONDS = 3_600.0
"""A single queue that is unknown holds up rules for so long at most: others than it are read by the same rules."""
MOST_KNOWN = 10_000
"""Queues of one source that are remembered."""
UP: Sample = ("tasktrail_probe_up", ())
PER_STEP = 500
"""Samples that are put in one step of the loop."""


_PROBED = METRICS | {*celery.PROBED.values()}


class Selects(Protocol):
    """A selector of a rule."""

    @property
    def name(self) -> str | None:
        """The metric; None: any."""
        ...

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """Conditions."""
        ...


class Unseen:
    """What probes cannot say at present: by source its queues, "" for all of them."""

    def __init__(self) -> None:
        self.queues: dict[str, frozenset[str]] = {}

    def hides(self, selector: Selects) -> bool:
        """Whether a selector can match a series that is unknown now."""
        if selector.name is not None and selector.name not in _PROBED:
            return False
        return any(_fits(selector, source, queue) for source, queues in self.queues.items() for queue in queues)


def _fits(selector: Selects, source: str, queue: str) -> bool:
    given = {"source": source, "queue": queue, "queue_name": queue}
    return all(
        matcher.matches(given[matcher.name])
        for matcher in selector.matchers
        if matcher.name == "source" or (queue and matcher.name in given)
    )


class Memory(Protocol):
    """Where queues are remembered beyond the process."""

    def load(self, source: str) -> Mapping[str, float]:
        """Queue → when it was last found, Unix seconds."""
        ...

    def save(self, source: str, found: Mapping[str, float], gone: Iterable[str]) -> None:
        """Write down queues and when they were found; forget others."""
        ...


class Inventory:
    """The queues of one source that were ever found, and when last."""

    def __init__(self, source: str, memory: Memory | None) -> None:
        self._source = source
        self._memory = memory
        self._seen = dict(memory.load(source)) if memory is not None else {}

    @property
    def queues(self) -> list[str]:
        """All of them."""
        return list(self._seen)

    def note(self, queues: Iterable[str], now: float) -> None:
        """These were found at a look."""
        found: dict[str, float] = {}
        for queue in queues:
            at = self._seen.get(queue)
            if (at is None and len(self._seen) < MOST_KNOWN) or (at is not None and now - at >= RENEW_SECONDS):
                found[queue] = self._seen[queue] = now
        gone = [queue for queue, at in self._seen.items() if now - at >= FORGET_SECONDS]
        for queue in gone:
            del self._seen[queue]
        if self._memory is not None and (found or gone):
            self._memory.save(self._source, found, gone)


class Probing(msgspec.Struct, kw_only=True):
    """One source's probe at work."""

    source: str
    probe: Probe
    every: float = EVERY
    inventory: Inventory
    named: Callable[[str], Iterable[str]]
    """The queues of a source that events have named."""
    put: Callable[[str, Labels, float, float], None]
    unseen: Unseen
    telemetry: Telemetry
    clock: Clock
    is_celery: bool = False
    """Whether celery-exporter has names for what is said."""
    labels: dict[Sample, tuple[Sample, ...]] = {}
    """A sample of a reading → the series that it feeds."""
    live: dict[Sample, None] = {}
    """Samples of the last look: their series have not ended."""
    lost: dict[str, float] = {}
    """Queues that are unknown, and since when."""
    says: str | None = None

    def __post_init__(self) -> None:
        self.unseen.queues[self.source] = frozenset({""})

    async def run(self) -> None:
        """Look for ever."""
        try:
            while True:
                began = self.clock.monotonic()
                wait = await self.look()
                spent = self.clock.monotonic() - began
                await asyncio.sleep(max(wait / 4, wait - spent) * random.uniform(0.95, 1.0))  # noqa: S311 spreads load
        finally:
            await self.probe.close()

    async def look(self) -> float:
        """Look once, and let it be seen; gives how long to wait for the next time."""
        known = dict.fromkeys([*self.inventory.queues, *self.named(self.source)])
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                reading = await self.probe.look(known, self.clock.now())
        except (SourceError, TimeoutError) as error:
            is_refused = isinstance(error, SourceError) and not error.retryable
            await self._lose(str(error) or f"no answer within {LOOK_SECONDS:.0f} s", is_refused=is_refused)
            return REFUSED_SECONDS if is_refused else self.every
        except Exception as error:  # noqa: BLE001 a bug of ours, or odd keys: that one probe is down, the daemon is not
            await self._lose(f"internal error: {error!r}\n{traceback.format_exc()}", is_refused=False)
            return self.every
        now = self.clock.now()
        self.inventory.note(reading.queues, now)
        self.lost = {queue: self.lost.get(queue, now) for queue in reading.unknown}
        unseen = frozenset(queue for queue, since in self.lost.items() if now - since < BLIND_SECONDS)
        # Rules are evaluated between two steps: what ends is unknown before it does, what comes back is so until then.
        self.unseen.queues[self.source] |= unseen
        await self._say(reading, is_up=True)
        self.unseen.queues[self.source] = unseen
        self._tell(reading.says)
        return self.every

    async def _lose(self, text: str, *, is_refused: bool) -> None:
        """It could not be asked. Where that is not allowed there is nothing to wait for: it holds up no rule."""
        self.unseen.queues[self.source] = frozenset() if is_refused else frozenset({""})
        await self._say(Reading(), is_up=False)
        await self.probe.close()
        self._tell(f"lengths of queues are not known: {mask(text)}")

    def _tell(self, line: str) -> None:
        """Say a line for people when it changes."""
        if line != (self.says or ""):
            self.telemetry.said("source %s: %s", self.source, line or "lengths of queues are known again")
        self.says = line

    async def _say(self, reading: Reading, *, is_up: bool) -> None:
        """Put samples, in steps between which everyone else has a turn; what is no longer said ends."""
        at = math.floor(self.clock.now() * 1000) / 1000
        said: dict[Sample, None] = {UP: None}
        self.put(UP[0], labels_of({"source": self.source}), at, float(is_up))
        for number, (sample, value) in enumerate(reading.samples.items(), 1):
            said[sample] = None
            for name, labels in self._series(sample):
                self.put(name, labels, at, value)
            if number % PER_STEP == 0:
                await asyncio.sleep(0)
        for number, sample in enumerate([sample for sample in self.live if sample not in said], 1):
            for name, labels in self._series(sample):
                self.put(name, labels, at, STALE)
            if number % PER_STEP == 0:
                await asyncio.sleep(0)
        self.live = said
        if len(self.labels) > 2 * len(reading.samples) + PER_STEP:
            self.labels = {}

    def _series(self, sample: Sample) -> tuple[Sample, ...]:
        found = self.labels.get(sample)
        if found is None:
            name, labels = sample
            own = {**dict(labels), "source": self.source}
            found = ((name, labels_of(own)),)
            is_theirs = own.get("state", "ready") == "ready" and name in celery.PROBED
            if self.is_celery and is_theirs:
                theirs = {"queue_name": own["queue"], "source": self.source, "job": celery.JOB}
                found = (*found, (celery.PROBED[name], labels_of(theirs)))
            self.labels[sample] = found
        return found
