"""Redrive on Redis Streams: an entry goes back to its stream in one script with the note that it was sent.

The fields are those that lie there, and one field more.
"""

from __future__ import annotations

from typing import Any

from collector.model.redrive import HEADER
from collector.redrive.message import KEPT_SECONDS, MARKERS, Message, Place
from collector.redrive.redis_server import Command, Way

_SEND = (
    b"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return false end "
    b"local entry = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3)) "
    b"redis.call('HSET', KEYS[1], ARGV[1], entry) redis.call('EXPIRE', KEYS[1], ARGV[2]) return entry"
)
_HEADER = HEADER.encode()


def _asks(at: Place) -> list[Command]:
    return [("XRANGE", at.place, at.receipt, at.receipt)]


def _reads(at: Place, replies: list[Any]) -> Message | None:
    (entries,) = replies
    if not entries:
        return None
    _, flat = entries[-1]
    fields = list(zip(flat[::2], flat[1::2], strict=True))
    marks = [value for name, value in fields if name == _HEADER]
    return Message(at=at, marked=marks[-1].decode("utf-8", "replace") if marks else "", content=fields)


def _sends(message: Message, mark: str, _now: float) -> Command:
    kept = [part for name, value in message.content if name != _HEADER for part in (name, value)]
    head = ("EVAL", _SEND, "2", MARKERS, message.at.target, message.at.id, str(KEPT_SECONDS))
    return (*head, *kept, _HEADER, mark.encode())


STREAM = Way(_asks, _reads, _sends, kind="stream ")
