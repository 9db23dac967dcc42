"""RQ's key names, under any prefix, and which records are of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ID = r"[^:]+"
_EXECUTION = rf"execution:(?P<id>{_ID}):(?P<execution>[0-9a-f]{{32}})"

KEYS: dict[str, re.Pattern[str]] = {
    kind: re.compile(rf"(?P<prefix>.+):{form}", re.DOTALL)
    for kind, form in {
        "job": rf"job:(?P<id>{_ID})",
        "execution": _EXECUTION,
        "worker": r"worker:(?P<worker>(?:(?!:executions$).)+)",
        "scheduled": r"scheduled:(?P<queue>.+)",
    }.items()
}
"""Keys that something is read from."""
RESULTS = re.compile(rf"(?P<prefix>.+):results:(?P<id>{_ID})", re.DOTALL)
"""Streams, one for each job."""
NOTE = re.compile(r"__keyspace@[0-9]+__:(?P<key>.+)", re.DOTALL)
"""Channels of the server's notifications."""

_USUAL = re.compile(
    r"rq:(?:queues|workers|suspended|groups|clean_groups|cron_jobs|cron_schedulers|rl-keys"
    r"|(?:queue|wip|started|finished|failed|scheduled|deferred|canceled|ready|job|execution|executions|results|worker"
    r"|workers|scheduler|scheduler-lock|clean_registries|group|pubsub|cron|cron_job|cron_scheduler|rl):.+)",
    re.DOTALL,
)
"""All that RQ keeps under its usual prefix."""
_UNMISTAKABLE = KEYS["execution"]
_CONTENT = {"job": (b'"created_at"', b'"status"'), "worker": (b'"birth"', b'"last_heartbeat"')}
"""By what hashes under another prefix are known."""


def told(about: Mapping[str, Any], name: str) -> str:
    """A text of what the tap tells of a record; "" where there is none."""
    value = about.get(name)
    return value if isinstance(value, str) else ""


def is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """RQ's records: whatever is under `rq:`, and under another prefix what nothing else looks like."""
    match tap:
        case "redis-stream":
            fields = about.get("fields")
            return bool(RESULTS.fullmatch(told(about, "stream"))) and isinstance(fields, dict) and "type" in fields
        case "redis-pubsub":
            channel = told(about, "channel")
            note = NOTE.fullmatch(channel)
            return _is_key(note["key"]) if note else bool(_USUAL.fullmatch(channel))
        case "redis-key":
            key = told(about, "key")
            return _is_key(key) or (about.get("type") == "hash" and _is_hash(key, body))
    return False


def _is_key(key: str) -> bool:
    return bool(_USUAL.fullmatch(key) or _UNMISTAKABLE.fullmatch(key))


def _is_hash(key: str, body: bytes) -> bool:
    return any(
        KEYS[kind].fullmatch(key) and all(name in body for name in content) for kind, content in _CONTENT.items()
    )
