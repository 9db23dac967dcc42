"""How alerts behave over the hours, over a restart: when each fired and how it flaps, as parts of a checkpoint.

Gives what changed since it was asked last; `restart` begins anew, so that the next parts say all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from collector.model.part import Part
from collector.routing.flapping import Changes, Flapping
from collector.shell.casebook import Casebook

CHUNK = 500
"""Alerts in one part."""


class Habits(msgspec.Struct, frozen=True):
    """Of some alerts, by fingerprint; those that changed last are last."""

    fired: dict[str, list[float]]
    changes: dict[str, Changes]


_decoder = msgspec.msgpack.Decoder(Habits)


class Saver:
    """Gives the parts that have changed since they were last asked for."""

    def __init__(self, casebook: Casebook, flapping: Flapping) -> None:
        self._casebook = casebook
        self._flapping = flapping
        self._touched: tuple[dict[str, None], dict[str, None]] = {}, {}
        self.restart()

    @property
    def is_touched(self) -> bool:
        """Whether there is anything to give."""
        return any(self._touched)

    def restart(self) -> None:
        """Let the next parts say all."""
        self._touched = dict.fromkeys(self._casebook.fired), dict.fromkeys(self._flapping.changes)
        self._casebook.touched, self._flapping.touched = self._touched

    def parts(self) -> Iterator[Part]:
        """What changed."""
        fired, changes = (list(touched) for touched in self._touched)
        for touched in self._touched:
            touched.clear()
        for names in _chunks(fired):
            times = {name: list(self._casebook.fired[name]) for name in names if name in self._casebook.fired}
            yield _part(Habits(times, {}))
        for names in _chunks(changes):
            known = {name: self._flapping.changes[name] for name in names if name in self._flapping.changes}
            yield _part(Habits({}, known))


def take(part: Part, casebook: Casebook, flapping: Flapping) -> None:
    """Fill both with what a part says; later parts go on from earlier ones. Raises msgspec.MsgspecError."""
    habits = _decoder.decode(part[1])
    casebook.restore(habits.fired)
    flapping.restore(habits.changes)


def _part(habits: Habits) -> Part:
    return "habits", msgspec.msgpack.encode(habits)


def _chunks(names: list[str]) -> Iterator[list[str]]:
    left = iter(names)
    while chunk := list(islice(left, CHUNK)):
        yield chunk
