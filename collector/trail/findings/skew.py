"""Skewed clocks: a worker whose signs of life say another time than the axis has, again and again."""

from __future__ import annotations

from collections.abc import Sequence

SEEN = 5
"""Signs that are compared: each of them must say so."""
_AHEAD, BEHIND = 2.0, 30.0
"""Seconds. Nothing travels back in time; behind may also be slow, so there is more room."""


def skew(offsets: Sequence[float]) -> float:
    """Seconds that a clock is ahead (negative: behind) by the last signs' sender's time minus axis time; 0.0: fine."""
    if len(offsets) < SEEN:
        return 0.0
    least, most = min(offsets), max(offsets)
    return least if least > _AHEAD else most if most < -BEHIND else 0.0
