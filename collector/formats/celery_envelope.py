"""The envelope that kombu puts around what it publishes on Redis, opened without parsing it where its form is known.

kombu writes the body first and the delivery tag last; what stands between the two is the same in all messages of one
sender and routing key. Once such a tail was parsed and found regular, an envelope with the same tail has its body where
that one had it. Part of the compiled core, like `trail/flat.py`: the types are in `celery_envelope.pxd`.
"""

from __future__ import annotations

from pybase64 import b64decode

from collector.formats.celery_wire import regular

_BEGIN, _END = b'{"body": "', b'"}}'
_TAG = 36
"""Characters of a delivery tag: a UUID."""
_REST = _TAG + len(_END)
_MOST, _LONGEST = 1000, 1000
"""Tails that are known, and bytes of one."""


def opened(messages: list[bytes], tails: set[bytes]) -> list[bytes]:
    """The bodies of regular envelopes; what was learned is added to `tails`.

    Where one is not regular raises as `regular` does, or binascii.Error. Where a tail is known, what the delivery tag
    is made of is not looked at.
    """
    bodies = []
    begin, rest = len(_BEGIN), _REST
    for message in messages:
        end = message.find(b'"', begin)
        tail = message[end : len(message) - rest]
        if tail in tails and message.startswith(_BEGIN) and message.endswith(_END):
            bodies.append(b64decode(message[begin:end], None, True))
        else:
            bodies.append(_parsed(message, tail, tails))
    return bodies


def _parsed(message: bytes, tail: bytes, tails: set[bytes]) -> bytes:
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
        if len(tails) >= _MOST:
            tails.clear()
        tails.add(tail)
    return envelope.body
