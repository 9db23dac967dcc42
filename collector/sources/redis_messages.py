"""What a subscription is told, taken apart: columns of messages, and whatever else the server says.

Compiled like `trail/flat.py`: the types are in `redis_messages.pxd`.
"""

from __future__ import annotations

from typing import Any

import hiredis

_FED = 16 * 1024
"""Bytes that hiredis is given at once: after every reply it moves all that it was given and has not parsed yet."""


def take_apart(
    parser: hiredis.Reader, piece: bytes, patterns: list[bytes], channels: list[bytes], bodies: list[bytes]
) -> list[Any]:
    """Add the messages in a piece of the stream to the three columns; gives the other replies, in their order.

    Raises hiredis.ProtocolError.
    """
    others: list[Any] = []
    length, fed = len(piece), _FED
    feed, gets, mark = parser.feed, parser.gets, b"pmessage"
    for start in range(0, length, fed):
        feed(piece, start, min(fed, length - start))
        while (reply := gets()) is not False:
            if reply.__class__ is list and len(reply) == 4 and reply[0] == mark:
                _, pattern, channel, body = reply
                patterns.append(pattern)
                channels.append(channel)
                bodies.append(body)
            else:
                others.append(reply)
    return others
