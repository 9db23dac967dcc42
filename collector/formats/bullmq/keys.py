"""The keys of BullMQ: `<prefix>:<queue>:events`, `<prefix>:<queue>:<job id>`.

BullMQ refuses a colon in a queue's name, and in a job's id but for the two of its own ids of repeated jobs; a prefix
may have some. Older versions allowed them in queues: behind a prefix that is known, or the usual one, all is the
queue's.
"""

from __future__ import annotations

import re
from functools import lru_cache

EVENTS = ":events"
_USUAL = "bull"
_JOB = re.compile(r"(?:.*:)?([^:]*:repeat:[^:]*:[0-9]+)|(?:.*:)?([^:]*:[^:]*)", re.DOTALL)
"""Queue and job id at the end of a key."""


@lru_cache(4096)
def split(base: str, prefix: str = "") -> tuple[str, str]:
    """Prefix and queue of `<prefix>:<queue>`; the queue is "" where there is none. `prefix`: where it is known."""
    if known := _known(base, prefix):
        return known, base[len(known) + 1 :]
    found, _, queue = base.rpartition(":")
    return (found, queue) if found else (base, "")


def task_id(key: str, prefix: str = "") -> str:
    """`<queue>:<job id>` of a job's key."""
    if known := _known(key, prefix):
        return key[len(known) + 1 :]
    match = _JOB.fullmatch(key)
    return (match[1] or match[2]) if match else ""


def _known(key: str, prefix: str) -> str:
    """The prefix of a key, where it is the one that is known or the usual one."""
    return next((known for known in (prefix, _USUAL) if known and key.startswith(f"{known}:")), "")
