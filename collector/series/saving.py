"""The series over a restart: what changed of a store as parts, and a store filled with them again.

Written are identities (which series has which column), the columns that changed, past slots that were touched, facts
that wait, and samples. Tables that only lead to a column are made again as facts come. A store that is filled may have
other rules than the one that was saved: what they newly ask for begins now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from collector.model.labels import Labels
from collector.model.part import Part
from collector.series import celery
from collector.series.bank_saving import DECODERS, BankLoader, Numbers, changed, indexes_of, parts_of
from collector.series.buckets import LE
from collector.series.catalogue import Family
from collector.series.members import Members
from collector.series.sampled import Sample
from collector.series.store import Store
from collector.series.window import Bank, Pending

_SLOTS_BYTES = 128 * 1024
"""Bytes of slots per part, about."""
_SLOTS = 200
"""Slots per part, at most."""
_SAMPLES = 2_000
"""Samples per part."""

_encode = msgspec.msgpack.Encoder().encode


class _Clock(msgspec.Struct, array_like=True):
    """What is short, and written whole."""

    frontier: float
    tick: int
    version: int
    ages: list[tuple[int, int]]
    evictions: dict[str, int]
    host_evictions: dict[str, int]
    retired: list[tuple[str, str, int]]
    size: int
    hosts: list[str]
    host_metrics: list[str]


class _Family(msgspec.Struct, array_like=True):
    """The series of one metric. In a host's family the name is our metric's."""

    name: str
    is_by_host: bool
    labels: list[Labels]
    columns: Numbers
    owners: Numbers
    downs: Numbers
    """Of a gauge's columns."""


class _Lowest(msgspec.Struct, array_like=True):
    columns: Numbers
    counts: Numbers


class _Slot(msgspec.Struct, array_like=True):
    end: int
    keys: Numbers
    counts: Numbers | None


class _Slots(msgspec.Struct, array_like=True):
    known_from: int
    merged: dict[int, int]
    ends: Numbers
    """Of all slots that there are."""


class _Waiting(msgspec.Struct, array_like=True):
    """Which runs of facts (or of observations) wait, and those that are new."""

    name: str
    serial: int
    serials: list[int]
    fresh: dict[int, list[Numbers]]


def _families(store: Store) -> Iterator[tuple[str, bool, Family]]:
    for family in store.catalogue.families:
        yield family.metric.name, False, family
    for name, family in store.hosts.families.items():
        yield name, True, family


def _banks(store: Store) -> dict[str, Bank]:
    histograms = store.catalogue.histograms
    return {"counts": store.catalogue.counts, "observed": histograms.counts, "sums": histograms.sums}


def _pending(store: Store) -> dict[str, Pending]:
    return {"facts": store.facts, "observations": store.observations}


class Saver:
    """Gives the parts of a store that have changed since they were last asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since = 0
        self._families: dict[tuple[str, bool], tuple[int, int, bytes]] = {}
        self._serials: dict[str, int] = {}
        self.restart()

    def restart(self) -> None:
        """Write everything once more."""
        store = self._store
        self._since = 0
        self._families.clear()
        self._serials.clear()
        store.sampled.log = None
        store.catalogue.histograms.slots.touched = None
        for bank in _banks(store).values():
            for level in bank.levels:
                level.touched = None

    def parts(self) -> Iterator[Part]:
        """What has changed; each step is a short one. Nothing may be counted until the last one was taken."""
        store, since = self._store, self._since
        self._since = store.version
        is_copied = store.catalogue.histograms.counts.is_copied
        yield "series.clock", _encode(self._clock())
        for name, is_by_host, family in _families(store):
            yield from self._identities(name, is_by_host, family)
        for name, bank in _banks(store).items():
            yield from parts_of(name, bank, since)
        histograms = store.catalogue.histograms
        columns = changed(histograms.counts, 0 if is_copied else since)
        lowest = histograms.lowest.reshape(-1, len(LE)).take(columns, axis=0)
        yield "series.lowest", _encode(_Lowest(Numbers.of(columns), Numbers.of(lowest)))
        yield from self._slots()
        for name, pending in _pending(store).items():
            yield "series.waiting", _encode(self._waiting(name, pending))
        yield from self._samples()

    def _clock(self) -> _Clock:
        store = self._store
        catalogue, hosts = store.catalogue, store.hosts
        return _Clock(
            store.frontier,
            store.tick,
            store.version,
            store.ages,
            dict(catalogue.evictions),
            dict(hosts.evictions),
            [(*key, number) for key, number in catalogue.retired.items()],
            catalogue.size,
            hosts.names,
            list(hosts.families),
        )

    def _identities(self, name: str, is_by_host: bool, family: Family) -> Iterator[Part]:  # noqa: FBT001
        members = family.members
        stamp = (members.epoch, len(members.labels), members.owners.tobytes())
        if self._families.get((name, is_by_host)) == stamp:
            return
        self._families[name, is_by_host] = stamp
        columns = np.array(members.columns, np.int64)
        downs = self._store.catalogue.downs.take(columns) if family.metric.type == "gauge" else columns[:0]
        owners = Numbers.of(np.array(members.owners))
        saved = _Family(name, is_by_host, members.labels, Numbers.of(columns), owners, Numbers.of(downs))
        yield "series.family", _encode(saved)

    def _slots(self) -> Iterator[Part]:
        slots = self._store.catalogue.histograms.slots
        touched, slots.touched = slots.touched, set()
        ends = Numbers.of(np.array(slots.ends, np.int64))
        yield "series.slots", _encode(_Slots(slots.known_from, slots.merged, ends))
        found: list[_Slot] = []
        size = 0
        for index in indexes_of(slots.ends, touched):
            keys, counts = slots.held[index]
            found.append(_Slot(slots.ends[index], Numbers.of(keys), None if counts is None else Numbers.of(counts)))
            size += keys.nbytes
            if size >= _SLOTS_BYTES or len(found) >= _SLOTS:
                yield "series.observed", _encode(found)
                found, size = [], 0
        if found:
            yield "series.observed", _encode(found)

    def _waiting(self, name: str, pending: Pending) -> _Waiting:
        newest = self._serials.get(name, 0)
        self._serials[name] = pending.serial
        return _Waiting(
            name,
            pending.serial,
            [serial for _, serial, _ in pending.runs],
            {serial: [Numbers.of(array) for array in run] for _, serial, run in pending.runs if serial > newest},
        )

    def _samples(self) -> Iterator[Part]:
        sampled = self._store.sampled
        log, sampled.log = sampled.log, []
        everything = (one for series in sampled.everything() for one in series)
        samples = everything if log is None else iter(log)
        while some := list(islice(samples, _SAMPLES)):
            yield "series.samples", _encode(some)


class Loader:
    """Takes parts in their order, and fills an unused store with what they say."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock: _Clock | None = None
        self._families: dict[tuple[str, bool], _Family] = {}
        self._banks = {name: BankLoader(bank) for name, bank in _banks(store).items()}
        self._lowest = np.zeros((0, len(LE)), np.int64)
        self._slots: _Slots | None = None
        self._observed: dict[int, _Slot] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._samples: list[Sequence[Sample]] = []
        self._takes: dict[str, tuple[msgspec.msgpack.Decoder[Any], Callable[[Any], None]]] = {
            name: (msgspec.msgpack.Decoder(form), take)
            for name, form, take in (
                ("series.clock", _Clock, self._take_clock),
                ("series.family", _Family, self._take_family),
                ("series.lowest", _Lowest, self._take_lowest),
                ("series.slots", _Slots, self._take_slots),
                ("series.observed", list[_Slot], self._take_observed),
                ("series.waiting", _Waiting, self._take_waiting),
                ("series.samples", list[Sample], self._samples.append),
            )
        }
        columns, rows = DECODERS["series.columns"], DECODERS["series.rows"]
        self._takes["series.columns"] = columns, lambda part: self._banks[part.bank].take_columns(part)
        self._takes["series.rows"] = rows, lambda part: self._banks[part.bank].take_rows(part)

    def take(self, part: Part) -> None:
        """One more part. Raises ValueError or LookupError for what no saver has written."""
        decoder, take = self._takes[part[0]]
        take(decoder.decode(part[1]))

    def _take_clock(self, clock: _Clock) -> None:
        self._clock = clock

    def _take_family(self, family: _Family) -> None:
        self._families[family.name, family.is_by_host] = family

    def _take_lowest(self, part: _Lowest) -> None:
        columns = part.columns.array
        if len(columns):
            missing = max(0, int(columns.max()) + 1 - len(self._lowest))
            self._lowest = np.concatenate([self._lowest, np.zeros((missing, len(LE)), np.int64)])
            self._lowest[columns] = part.counts.array.reshape(-1, len(LE))

    def _take_slots(self, slots: _Slots) -> None:
        self._slots = slots

    def _take_observed(self, slots: list[_Slot]) -> None:
        self._observed.update((slot.end, slot) for slot in slots)

    def _take_waiting(self, waiting: _Waiting) -> None:
        before = self._waiting.get(waiting.name)
        runs = {**(before.fresh if before else {}), **waiting.fresh}
        waiting.fresh = {serial: runs[serial] for serial in waiting.serials}
        self._waiting[waiting.name] = waiting

    def finish(self) -> None:
        """All parts were taken: from now on the store is what it was. Raises ValueError where they are not whole."""
        store, clock, slots = self._store, self._clock, self._slots
        if clock is None or slots is None:
            raise ValueError("the saved series have no end")
        own_hosts = list(store.hosts.families)
        for bank in self._banks.values():
            bank.finish()
        self._finish_clock(store, clock)
        self._finish_families(store)
        self._finish_histograms(store, slots)
        for name, pending in _pending(store).items():
            waiting = self._waiting[name]
            for serial in waiting.serials:
                pending.push(tuple(numbers.array for numbers in waiting.fresh[serial]))
            pending.serial = waiting.serial
        for some in self._samples:
            for metric, labels, at, value in some:
                store.sampled.put(metric, labels, at, value, clock.version)
        store.catalogue.resume(clock.version)
        store.count_by_host(name for name in celery.NAMES if celery.ours(name) in own_hosts)

    @staticmethod
    def _finish_clock(store: Store, clock: _Clock) -> None:
        store.frontier, store.tick, store.version, store.ages = clock.frontier, clock.tick, clock.version, clock.ages
        store.sampled.frontier = clock.frontier
        catalogue = store.catalogue
        catalogue.evictions, catalogue.size = Counter(clock.evictions), clock.size
        catalogue.retired = Counter({(task, fact): number for task, fact, number in clock.retired})
        store.hosts.evictions = Counter(clock.host_evictions)
        store.hosts.restore(clock.hosts, clock.host_metrics)

    def _finish_families(self, store: Store) -> None:
        catalogue = store.catalogue
        catalogue.downs = np.zeros(len(catalogue.counts.current), np.int64)
        for name, is_by_host, family in _families(store):
            members = family.members = Members()
            saved = self._families.get((name, is_by_host))
            if saved is None:  # a metric that came with this version
                continue
            columns, owners = saved.columns.array, saved.owners.array
            for labels, column, owner in zip(saved.labels, columns.tolist(), owners.tolist(), strict=True):
                members.add(catalogue.shared(labels), column, owner)
            if family.metric.type == "gauge":
                catalogue.downs[columns] = saved.downs.array

    def _finish_histograms(self, store: Store, saved: _Slots) -> None:
        histograms = store.catalogue.histograms
        room = len(histograms.counts.current)
        lowest = np.zeros((room, len(LE)), np.int64)
        lowest[: len(self._lowest)] = self._lowest
        histograms.resume(lowest.flatten())  # it will be resized, which a view cannot be
        slots = histograms.slots
        slots.known_from, slots.merged = saved.known_from, saved.merged
        slots.ends = saved.ends.array.tolist()
        slots.held = [
            (slot.keys.array, None if slot.counts is None else slot.counts.array)
            for slot in (self._observed[end] for end in slots.ends)
        ]
