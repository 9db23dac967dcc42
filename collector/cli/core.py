"""Whether the hot loops run compiled, or as the Python that they are written in; `hatch_build.py` compiles them."""

from __future__ import annotations

from collector.formats import celery_envelope, celery_events
from collector.sources import redis_messages
from collector.trail import flat

LOOPS = (celery_envelope, celery_events, redis_messages, flat)
"""All that may be compiled; a test compares it with what is."""


def is_compiled() -> bool:
    """Whether all of them are."""
    return not any(str(loop.__file__).endswith(".py") for loop in LOOPS)
