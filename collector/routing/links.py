"""Signed links: whoever has one may do what it says, until it expires. An action and a key in, a text for a URL out.

The text names a group by a digest, so that it stays short and tells nothing to those who see it on its way.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal, TypeAlias

import msgspec

Action: TypeAlias = Literal["ack", "silence"]

LASTS = 7 * 86_400.0
"""Seconds that a link holds: a message is read late, but not for ever."""
_SIGNATURE = 16


class Link(msgspec.Struct, frozen=True, array_like=True):
    """What a link allows."""

    action: Action
    group: str
    expires_at: int


_decoder = msgspec.json.Decoder(Link)


def group_id(receiver: str, group_key: str) -> str:
    """The digest that stands for a group: 16 hex digits."""
    return hashlib.sha256(f"{receiver}\n{group_key}".encode()).hexdigest()[:16]


def sign(link: Link, key: bytes) -> str:
    """The link as text for a URL's path."""
    body = msgspec.json.encode(link)
    return base64.urlsafe_b64encode(_signature(body, key) + body).decode().rstrip("=")


def verify(text: str, key: bytes, now: float) -> Link:
    """What a text allows. Raises ValueError for what was not signed with this key, or has expired."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError("this is no link of ours") from None
    given, body = raw[:_SIGNATURE], raw[_SIGNATURE:]
    if not hmac.compare_digest(given, _signature(body, key)):
        raise ValueError("this is no link of ours, or its key is no more: look at the alerts themselves")
    link = _decoder.decode(body)
    if link.expires_at <= now:
        raise ValueError("this link has expired: look at the alerts themselves")
    return link


def _signature(body: bytes, key: bytes) -> bytes:
    return hmac.digest(key, b"link\n" + body, "sha256")[:_SIGNATURE]
