"""A stitcher over a restart: what changed of it as parts, and a stitcher filled with them again.

Everything is named by what means the same in another process: rows, error classes, channels and homes by their numbers
together with the table of their names. A trail that was touched is looked up where it is when its turn comes, so it
does not matter how often it was touched or which way it went. `restart` begins a new generation of parts: the small
tables are written whole, and trails that nobody touches are written again some at a time (`most_quiet`), so that after
a while the parts since the restart say all (`is_whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from collector.model.part import Part
from collector.trail.evidence import Notes, Saved
from collector.trail.findings.judge import Findings
from collector.trail.findings.saved import SavedFindings
from collector.trail.keep import Home, Keep
from collector.trail.memory import Generations, Stamp
from collector.trail.misfits import Misfits
from collector.trail.promises import Promises
from collector.trail.rows import Errors, Rows, Texts
from collector.trail.settle import Settler
from collector.trail.trail import Trail

CHUNK = 1_000
"""Trails per part: a step of about a millisecond."""

_encode = msgspec.msgpack.Encoder().encode


class Parts(msgspec.Struct, frozen=True):
    """What a stitcher is made of."""

    rows: Rows
    errors: Errors
    texts: Texts
    notes: Notes
    settler: Settler
    keep: Keep
    keys: Generations[str]
    misfits: Misfits
    channels: dict[tuple[str, str], int]
    promises: Promises
    findings: Findings


class _Found(msgspec.Struct, array_like=True):
    """What is found and to be found, but for what is on the trails."""

    deadlines: list[tuple[int, str, int, float]] = []
    findings: SavedFindings = msgspec.field(default_factory=SavedFindings)


class _Names(msgspec.Struct, array_like=True):
    """New names, in the order of their numbers."""

    rows: list[tuple[str, str, str]]
    errors: list[str]
    channels: list[tuple[str, str]]
    homes: list[str]
    queues: list[tuple[str | None, str | None]] | None
    """All of them, where any changed."""
    is_all: bool
    """Whether the names are all there are, rather than those that are new."""


class _Totals(msgspec.Struct, array_like=True):
    """What is short, and written whole."""

    decided: float
    evictions: dict[str, int]
    dead_overflow: int
    keys_early: int
    rows_overflowed: int
    finished: list[Stamp]
    """Of each home."""
    keys: Stamp


class _Frozen(msgspec.Struct, array_like=True):
    """Finished trails of one home, in one generation."""

    home: int
    serial: int
    ids: list[str]
    bodies: list[bytes] | None
    """None: as they were last written."""


class _Open(msgspec.Struct, array_like=True):
    home: int
    trails: list[Trail]


class _Gone(msgspec.Struct, array_like=True):
    home: int
    ids: list[str]


class _Key(msgspec.Struct, array_like=True):
    serial: int
    key: str
    task_id: str


class Saver:
    """Gives the parts that have changed since they were last asked for."""

    def __init__(self, parts: Parts) -> None:
        self._of = parts
        parts.keep.is_saved = True
        parts.settler.touched_dead, parts.settler.touched_keys = {}, {}
        self._known = [0, 0, 0, 0]
        """How many rows, errors, channels and homes were written."""
        self._queues: dict[str | None, str | None] = {}
        self._quiet: list[tuple[Home, Iterator[str]]] = []
        self.quiet = 0
        """Trails that there were at the restart."""
        self.restart()

    def restart(self) -> None:
        """Write everything once more: the small tables at once, the trails with time."""
        of = self._of
        self._known = [0, 0, 0, 0]
        self._queues = {}
        of.notes.touched = None
        # What went since the last save stays touched: until all is written, what was saved before is still read.
        of.settler.touched_dead = dict.fromkeys(of.settler.dead) | (of.settler.touched_dead or {})
        of.settler.touched_keys = dict.fromkeys(of.keys.remembered()) | (of.settler.touched_keys or {})
        known = [(home, [*home.finished.remembered(), *home.open]) for home in of.keep.homes]
        self._quiet = [(home, iter(ids)) for home, ids in known]
        self.quiet = sum(len(ids) for _, ids in known)

    @property
    def is_whole(self) -> bool:
        """Whether all has been written since the restart."""
        return not self._quiet

    @property
    def is_touched(self) -> bool:
        """Whether any trail has changed since."""
        return any(home.touched for home in self._of.keep.homes)

    def parts(self, most_quiet: int) -> Iterator[Part]:
        """What has changed, and at most so many trails that have not; each step is a short one.

        Nothing may be stitched or expired until the last one was taken.
        """
        of = self._of
        yield "trail.names", _encode(self._names())
        for home in of.keep.homes:
            touched, home.touched = home.touched, {}
            yield from self._trails(home, iter(touched.items()))
        while self._quiet and most_quiet > 0:
            home, ids = self._quiet[0]
            wanted = min(CHUNK, most_quiet)
            chunk = list(islice(ids, wanted))
            most_quiet -= wanted
            yield from self._trails(home, ((task_id, True) for task_id in chunk))
            if len(chunk) < wanted:
                del self._quiet[0]
        yield from self._memories()
        yield "trail.notes", _encode(of.notes.changes())
        yield "trail.found", _encode(_Found(of.promises.saved(), of.findings.saved()))
        yield "trail.totals", _encode(self._totals())

    def _names(self) -> _Names:
        of = self._of
        rows, errors, channels, homes = self._known
        queues = None
        if of.rows.queues != self._queues:
            self._queues = dict(of.rows.queues)
            queues = list(self._queues.items())
        names = _Names(
            of.rows.since(rows),
            of.errors.since(errors),
            list(of.channels)[channels:],
            [home.name for home in of.keep.homes[homes:]],
            queues,
            is_all=not any(self._known),
        )
        self._known = [len(of.rows), len(of.errors), len(of.channels), len(of.keep.homes)]
        return names

    def _trails(self, home: Home, ids: Iterator[tuple[str, bool]]) -> Iterator[Part]:
        """Ids, and whether more of each than its place has changed."""
        index, opened, place = home.index, home.open.get, home.finished.place
        while chunk := list(islice(ids, CHUNK)):
            trails: list[Trail] = []
            gone: list[str] = []
            frozen: dict[int, dict[str, bytes]] = {}
            moved: dict[int, list[str]] = {}
            for task_id, is_changed in chunk:
                trail = opened(task_id)
                if trail is not None:
                    trails.append(trail)
                elif (found := place(task_id)) is None:
                    gone.append(task_id)
                elif is_changed:
                    frozen.setdefault(found[0], {})[task_id] = found[1]
                else:
                    moved.setdefault(found[0], []).append(task_id)
            if trails:
                yield "trail.open", _encode(_Open(index, trails))
            for serial, bodies in frozen.items():
                yield "trail.frozen", _encode(_Frozen(index, serial, list(bodies), list(bodies.values())))
            for serial, names in moved.items():
                yield "trail.frozen", _encode(_Frozen(index, serial, names, None))
            if gone:
                yield "trail.gone", _encode(_Gone(index, gone))

    def _memories(self) -> Iterator[Part]:
        """Open dead letters and idempotency keys."""
        of, settler = self._of, self._of.settler
        dead, settler.touched_dead = settler.touched_dead or {}, {}
        keys, settler.touched_keys = settler.touched_keys or {}, {}
        ids = iter(dead)
        while chunk := list(islice(ids, CHUNK)):
            yield "trail.dead", _encode([(task_id, settler.dead.get(task_id, {})) for task_id in chunk])
        names = iter(keys)
        while chunk := list(islice(names, CHUNK)):
            placed = [(key, of.keys.place(key)) for key in chunk]
            yield "trail.keys", _encode([_Key(found[0], key, found[1]) for key, found in placed if found])

    def _totals(self) -> _Totals:
        of = self._of
        return _Totals(
            of.misfits.decided,
            of.keep.evictions,
            of.settler.dead_overflow,
            of.settler.keys_early,
            of.rows.overflowed,
            [home.finished.stamp for home in of.keep.homes],
            of.keys.stamp,
        )


class _Home:
    """A home on its way back."""

    def __init__(self) -> None:
        self.open: dict[str, Trail] = {}
        self.parts: dict[int, dict[str, bytes]] = {}

    def let_go(self, task_id: str) -> Trail | bytes | None:
        for part in self.parts.values():
            if (data := part.pop(task_id, None)) is not None:
                return data
        return self.open.pop(task_id, None)


class Loader:
    """Takes parts in their order, and fills an unused stitcher with what they say."""

    def __init__(self, parts: Parts) -> None:
        self._of = parts
        self._homes: list[_Home] = []
        self._names: tuple[list[tuple[str, str, str]], list[str], list[tuple[str, str]], list[str]] = ([], [], [], [])
        self._queues: list[tuple[str | None, str | None]] = []
        self._dead: dict[str, dict[int, int]] = {}
        self._keys: dict[int, dict[str, str]] = {}
        self._notes: list[Saved] = []
        self._totals: _Totals | None = None
        self._found = _Found()
        self._takes: dict[str, tuple[msgspec.msgpack.Decoder[Any], Callable[[Any], None]]] = {
            name: (msgspec.msgpack.Decoder(form), take)
            for name, form, take in (
                ("trail.names", _Names, self._take_names),
                ("trail.open", _Open, self._take_open),
                ("trail.frozen", _Frozen, self._take_frozen),
                ("trail.gone", _Gone, self._take_gone),
                ("trail.dead", list[tuple[str, dict[int, int]]], self._take_dead),
                ("trail.keys", list[_Key], self._take_keys),
                ("trail.notes", Saved, self._notes.append),
                ("trail.found", _Found, self._take_found),
                ("trail.totals", _Totals, self._take_totals),
            )
        }

    def take(self, part: Part) -> None:
        """One more part. Raises ValueError or LookupError for what no saver has written."""
        decoder, take = self._takes[part[0]]
        take(decoder.decode(part[1]))

    def _take_names(self, names: _Names) -> None:
        rows, errors, channels, homes = self._names
        if names.is_all:
            for old in self._names:
                old.clear()
        rows += names.rows
        errors += names.errors
        channels += names.channels
        homes += names.homes
        if names.queues is not None:
            self._queues = names.queues
        while len(self._homes) < len(homes):
            self._homes.append(_Home())

    def _take_open(self, part: _Open) -> None:
        home, intern = self._homes[part.home], self._of.texts.intern
        opened = home.open
        for trail in part.trails:
            if home.parts and trail.task_id not in opened:
                home.let_go(trail.task_id)
            trail.worker, trail.caller = intern(trail.worker), intern(trail.caller)
            opened[trail.task_id] = trail

    def _take_frozen(self, part: _Frozen) -> None:
        home = self._homes[part.home]
        for number, task_id in enumerate(part.ids):
            before = home.let_go(task_id)
            body = before if part.bodies is None else part.bodies[number]
            if body is not None:  # else it is written again later
                data = _encode(body) if isinstance(body, Trail) else body
                home.parts.setdefault(part.serial, {})[task_id] = data

    def _take_gone(self, part: _Gone) -> None:
        for task_id in part.ids:
            self._homes[part.home].let_go(task_id)

    def _take_dead(self, part: Sequence[tuple[str, dict[int, int]]]) -> None:
        for task_id, rows in part:
            if rows:
                self._dead[task_id] = rows
            else:
                self._dead.pop(task_id, None)

    def _take_keys(self, part: Sequence[_Key]) -> None:
        for one in part:
            self._keys.setdefault(one.serial, {})[one.key] = one.task_id

    def _take_found(self, found: _Found) -> None:
        self._found = found

    def _take_totals(self, totals: _Totals) -> None:
        self._totals = totals

    def finish(self) -> None:
        """All parts were taken: from now on the stitcher is what it was. Raises ValueError where they are not whole."""
        of, totals = self._of, self._totals
        if totals is None:
            raise ValueError("the saved trails have no end")
        rows, errors, channels, homes = self._names
        of.rows.restore(rows)
        of.rows.queues.update(self._queues)
        of.rows.overflowed = totals.rows_overflowed
        of.errors.restore(errors)
        of.channels.update((channel, number) for number, channel in enumerate(channels))
        of.settler.sources.extend(source for source, _ in channels)
        of.settler.dead.update(self._dead)
        of.settler.dead_overflow, of.settler.keys_early = totals.dead_overflow, totals.keys_early
        of.keys.restore(totals.keys, self._keys)
        of.misfits.decided = totals.decided
        of.keep.evictions.update(totals.evictions)
        of.notes.restore(self._notes)
        for name, stamp, home in zip(homes, totals.finished, self._homes, strict=True):
            of.keep.restore(of.keep.home(name), stamp, home.open, home.parts)
        of.keep.resume(totals.decided)
        of.promises.restore(self._found.deadlines, totals.decided)
        of.findings.restore(self._found.findings)
