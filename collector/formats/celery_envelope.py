"""The envelope that kombu puts around what it publishes on Redis, opened without parsing it where its form is known.

kombu writes the body first and the delivery tag last; what stands between the two is the same in all messages of one
sender and routing key. Once such a tail was parsed and found regular, an envelope with the same tail has its body where
that one had it. Part of the compiled core, like `trail/flat.py`: the types are in `celery_envelope.pxd`.
"""

from __future__ import annotations

from pybase64 import b64decode

from collector.formats.celery_wire import regular
from collector.formats.decoded import SMALL_BODY

_BEGIN, _END = b'{"body": "', b'"}}'
_TAG = 36
"""Characters of a delivery tag: a UUID."""
_REST = _TAG + len(_END)
_LONG = f"more than {SMALL_BODY} bytes"
_MOST, _LONGEST = 1000, 1000
"""Tails that are known, and bytes of one."""
_RECENT = 4
"""Tails that are tried before one is looked for: often the next message is of a sender that was heard just before."""


class Tails:
    """What was learned of a source's envelopes."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.recent: tuple[bytes, ...] = ()


def opened(messages: list[bytes], tails: Tails) -> list[bytes]:
    """The bodies of regular envelopes; what is new is learned.

    Where one is not regular, or not written as kombu writes it, raises as `regular` does, or ValueError: that is also
    one that is longer than SMALL_BODY. Where a tail is known, what the delivery tag is made of is not looked at.
    """
    bodies = []
    begin, rest, most = len(_BEGIN), _REST, SMALL_BODY - _REST
    recent = tails.recent
    for message in messages:
        behind = len(message) - rest
        if behind > most:
            raise ValueError(_LONG)
        for tail in recent:
            end = behind - len(tail)
            if end >= begin and message.startswith(tail, end) and message.startswith(_BEGIN) and message.endswith(_END):
                bodies.append(b64decode(message[begin:end], None, True))
                break
        else:
            bodies.append(_looked_up(message, tails))
            recent = tails.recent
    return bodies


def _looked_up(message: bytes, tails: Tails) -> bytes:
    """The body of an envelope whose tail was not seen just before; parsed where it is not known at all."""
    begin = len(_BEGIN)
    end = message.find(b'"', begin)
    tail = message[end : len(message) - _REST]
    if tail not in tails.known:
        return _parsed(message, tail, tails)
    tails.recent = (tail, *tails.recent[: _RECENT - 1])
    if message.startswith(_BEGIN) and message.endswith(_END):
        return b64decode(message[begin:end], None, True)
    return regular(message).body


def _parsed(message: bytes, tail: bytes, tails: Tails) -> bytes:
    """The body of an envelope whose tail is not known yet. It is from now on, where all else is as kombu writes it."""
    envelope = regular(message)
    tag = envelope.properties.delivery_tag.encode()
    if (
        len(tag) == _TAG
        and len(tail) <= _LONGEST
        and message.startswith(_BEGIN)
        and message.endswith(tag + _END)
        and b"\\" not in message
        and b'"body"' not in tail
    ):
        if len(tails.known) >= _MOST:
            tails.known.pop()
        tails.known.add(tail)
    return envelope.body
