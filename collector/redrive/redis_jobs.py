"""Redrive of Dramatiq and RQ on Redis: what is dead moves back to its queue, as its framework would put it there.

One script moves it and notes that it was sent, so two processes at once, or one after a crash, cannot send it twice.
Nothing is unpickled, and neither framework is imported. Dramatiq's message gets a new id in Redis and one option more,
all else stays byte for byte; of RQ's job only those fields change that `rq requeue` changes, and there is one more.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from collector.model.redrive import HEADER
from collector.redrive.message import KEPT_SECONDS, MARKERS, Message, Place
from collector.redrive.redis_server import Command, Way

_NOTED = b"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end "
_NOTE = b"redis.call('HSET', KEYS[1], ARGV[1], '1') redis.call('EXPIRE', KEYS[1], ARGV[2]) return 1"

# KEYS: notes, dead ids, dead messages, queue, its messages. ARGV: record, seconds, dead id, new id, message
_DRAMATIQ = (
    _NOTED + b"if redis.call('HDEL', KEYS[3], ARGV[3]) == 0 then return -1 end "
    b"redis.call('ZREM', KEYS[2], ARGV[3]) "
    b"redis.call('HSET', KEYS[5], ARGV[4], ARGV[5]) redis.call('RPUSH', KEYS[4], ARGV[4]) " + _NOTE
)
# KEYS: notes, registry, job, queue, queues, dependents, dependencies. ARGV: record, seconds, job, time to live, fields
_RQ = (
    _NOTED + b"if redis.call('EXISTS', KEYS[3]) == 0 or redis.call('ZREM', KEYS[2], ARGV[3]) == 0 then return -1 end "
    b"redis.call('HSET', KEYS[3], unpack(ARGV, 5)) "
    b"if tonumber(ARGV[4]) > 0 then for n = 3, 7 do if n < 4 or n > 5 then redis.call('EXPIRE', KEYS[n], ARGV[4]) end "
    b"end end redis.call('SADD', KEYS[5], KEYS[4]) redis.call('RPUSH', KEYS[4], ARGV[3]) " + _NOTE
)
_XQ = re.compile(r"(.+:[^:]+)\.XQ(?:\.msgs)?")
_FAILED = re.compile(r"(.+?):failed:(.+)")
_HEADER = HEADER.encode()
_ASKED = (HEADER, "ttl", "rate_limit_key")
NOT_JSON = "its message is not JSON: send it again by Dramatiq's own broker.enqueue"
RATE_LIMITED = "it is rate limited: requeue it with `rq requeue --queue QUEUE ID`"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _parts(pattern: re.Pattern[str], place: str) -> tuple[str, ...]:
    found = pattern.fullmatch(place)
    assert found is not None  # noqa: S101  the plan lets no other through
    return found.groups()


# Dramatiq


def _asks_dramatiq(at: Place) -> list[Command]:
    (queue,) = _parts(_XQ, at.place)
    return [("HGET", f"{queue}.XQ.msgs", at.receipt)]


def _reads_dramatiq(at: Place, replies: list[Any]) -> Message | None:
    (body,) = replies
    if body is None:
        return None
    try:
        message = _fields(body)
        options = _fields(message["options"])
        marked = msgspec.json.decode(options[HEADER], type=str) if HEADER in options else ""
    except (ValueError, KeyError, RecursionError):
        return Message(at=at, marked="", content=None, refused=NOT_JSON)
    return Message(at=at, marked=marked, content=(message, options))


def _sends_dramatiq(message: Message, mark: str, _now: float) -> Command:
    """As `broker.enqueue` does: under an id in Redis of its own, because the old one was used."""
    at, (fields, options) = message.at, message.content
    (queue,) = _parts(_XQ, at.place)
    identity = str(uuid.uuid4())
    changed = {**options, "redis_message_id": identity, HEADER: mark}
    body = msgspec.json.encode({**fields, "options": changed})
    keys = (MARKERS, f"{queue}.XQ", f"{queue}.XQ.msgs", queue, f"{queue}.msgs")
    return ("EVAL", _DRAMATIQ, "5", *keys, at.id, str(KEPT_SECONDS), at.receipt, identity, body)


# RQ


def _asks_rq(at: Place) -> list[Command]:
    prefix, _ = _parts(_FAILED, at.place)
    return [("ZSCORE", at.place, at.receipt), ("HMGET", f"{prefix}:job:{at.receipt}", *_ASKED)]


def _reads_rq(at: Place, replies: list[Any]) -> Message | None:
    score, (marked, ttl, limited) = replies
    if score is None:
        return None
    lives = ttl if ttl is not None and ttl.isdigit() else b"0"
    return Message(
        at=at, marked=(marked or b"").decode("utf-8", "replace"), content=lives, refused=RATE_LIMITED if limited else ""
    )


def _sends_rq(message: Message, mark: str, now: float) -> Command:
    """As `FailedJobRegistry.requeue` does: its times and its error are taken back, and it waits at the end."""
    at, ttl = message.at, message.content
    prefix, queue = _parts(_FAILED, at.place)
    job = f"{prefix}:job:{at.receipt}"
    keys = (MARKERS, at.place, job, f"{prefix}:queue:{queue}", f"{prefix}:queues")
    fields: Mapping[str, str | bytes] = {
        "status": "queued",
        "origin": queue,
        "enqueued_at": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "started_at": "",
        "ended_at": "",
        "exc_info": zlib.compress(b""),
        HEADER: mark,
    }
    flat = [part for pair in fields.items() for part in pair]
    more = (f"{job}:dependents", f"{job}:dependencies")
    return ("EVAL", _RQ, "7", *keys, *more, at.id, str(KEPT_SECONDS), at.receipt, ttl, *flat)


DRAMATIQ = Way(_asks_dramatiq, _reads_dramatiq, _sends_dramatiq)
RQ = Way(_asks_rq, _reads_rq, _sends_rq)
