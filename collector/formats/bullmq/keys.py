"""The keys of BullMQ: `<prefix>:<queue>:events`, `<prefix>:<queue>:<job id>`.

A prefix has no colon outside of a hash tag (`{a:b}`); what follows it up to the last part is the queue's name, which
may have some, as job ids may.
"""

from __future__ import annotations

import re
from functools import lru_cache

EVENTS = ":events"
_PREFIX = re.compile(r"(?:\{[^}]*\}|[^:{]|\{)*")


@lru_cache(4096)
def split(base: str, prefix: str = "") -> tuple[str, str]:
    """Prefix and queue of `<prefix>:<queue>`; the queue is "" where there is none. `prefix`: where it is known."""
    if prefix and base.startswith(f"{prefix}:"):
        return prefix, base[len(prefix) + 1 :]
    match = _PREFIX.match(base)
    found = match[0] if match else ""
    return found, base[len(found) + 1 :]


def task_id(key: str, prefix: str = "") -> str:
    """`<queue>:<job id>` of a job's key."""
    return split.__wrapped__(key, prefix)[1]  # ids are too many to be remembered
