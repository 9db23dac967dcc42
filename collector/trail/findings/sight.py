"""What a kind of finding is shown of one life of a trail, and what it says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from collector.model.contract import Contract
from collector.trail.findings.usual import Usual
from collector.trail.tally import Life, Placed
from collector.trail.trail import Found


class Verdict(NamedTuple):
    """Something that is found at the axis time `at`, or (without `about`) that it is worth a look then.

    `at` leaves time for what was overtaken: the same facts in another order, each up to grace late, give the same.
    """

    about: Placed | None
    """The fact that it is about. Life and kind and its time make a finding the same one."""
    at: float
    detail: str = ""
    """What people need to know of it."""


class Departure(NamedTuple):
    """A worker that is gone, as far as one start on it goes."""

    at: float
    """When the start is lost unless its end was seen: axis time, with grace."""
    how: str
    """`silent`, `restarted` or `offline`."""


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One life, and all that it is held against."""

    life: Life
    is_latest: bool
    """Whether no newer life of the id is known."""
    telling_since: float
    """Since when the source tells of starts; infinity: it does not."""
    row: int
    """What the trail counts under."""
    terms: Contract
    usual: Usual
    decided: float
    """Up to which axis time everything is known."""
    grace: float
    error: Callable[[int], str]
    """The name of an error class."""
    departure: Callable[[Placed, float], Departure | None]
    """Of a start and its longest run in seconds: how its worker left after it, where that is known."""
    idle: Callable[[Placed], float | None]
    """Of a start: when it is sure that it is over, because its worker says that it does nothing."""
    found: tuple[Found, ...] = ()
    """What was found of this life so far."""
