"""Which events fit a flat trail's slots, and what bits they set: tables compiled for the hot loop."""

from __future__ import annotations

from collector.trail.trail import (
    EXPLICIT_SHIFT,
    FLAT_KINDS,
    M_END,
    M_FINAL,
    M_IRREGULAR,
    M_RECEIVED,
    M_SENT,
    M_STARTED,
    NAMED_SHIFT,
)

# Per kind: the marks with which an event of it does not fit the slots (the kinds beyond have none), those whose facts
# it must not be later or earlier than, and the bits it sets by what it names.
_ENDING = M_IRREGULAR | M_END
MISFIT = (M_IRREGULAR | M_SENT, M_IRREGULAR | M_RECEIVED, M_IRREGULAR | M_STARTED, _ENDING, _ENDING, _ENDING)
ORDERED = (M_FINAL, 0, M_END, M_STARTED, M_STARTED, M_STARTED)
SEEN = tuple(1 << kind for kind in range(FLAT_KINDS))
NAMED = tuple(bit | bit << NAMED_SHIFT for bit in SEEN)
EXPLICIT = tuple(bit | bit << EXPLICIT_SHIFT for bit in SEEN)
TOLD = tuple(bit | bit << NAMED_SHIFT | bit << EXPLICIT_SHIFT for bit in SEEN)
