"""BullMQ: the events stream of each queue, and the job hashes that say what the stream leaves out.

Task id: `<queue>:<job id>`. Both kinds of record come in any order: a hash read after an entry (the live source says
so, by `after` in `about`) completes the entry's event as it is made; a hash that was polled at some time completes
afterwards what was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.formats.bullmq.decode import Decoder
from collector.formats.bullmq.job import looks_like_a_job
from collector.formats.bullmq.keys import EVENTS
from collector.formats.bullmq.steps import QUEUE_WORDS
from collector.formats.decoded import Format

__all__ = ["FORMAT", "Decoder"]


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """An entry of an events stream, or a job's hash."""
    if tap == "redis-stream":
        fields = about.get("fields")
        if not isinstance(fields, dict) or not str(about.get("stream")).endswith(EVENTS) or "event" not in fields:
            return False
        return "jobId" in fields or (isinstance(fields["event"], str) and fields["event"] in QUEUE_WORDS)
    return tap == "redis-key" and about.get("type") == "hash" and looks_like_a_job(body)


FORMAT = Format(
    new=Decoder,
    is_mine=_is_mine,
    facts={
        "sent": "yes",
        "started": "yes",
        "succeeded": "yes",
        "failed": "yes",
        "retried": "yes",
        "dead_lettered": "option `failed_is_dead_letter=true`",
        "revoked": "yes",
        "redelivered": "yes",
        "task": "yes",
        "queue": "yes",
        "worker": "option `name` of Worker",
        "attempt": "yes",
        "error": "yes",
        "wait": "yes",
        "run": "yes",
        "trace": "option `telemetry` of Queue and Worker",
    },
)
