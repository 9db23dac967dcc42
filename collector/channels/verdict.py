"""What an HTTP answer means for a notification, and what of a target's URL may be shown: for all HTTP channels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import unquote

from collector.model.errors import ChannelError
from collector.model.secret import STARS, Secret, mask

_RETRYABLE = frozenset((408, 425, 429))
_LONGEST_WAIT = 600.0  # so long nobody is told anything by this target: one that names more is asked again all the same
_MOST_DETAIL = 160


def refusal(name: str, status: int, *, retry_after: float | None = None, detail: str = "") -> ChannelError:
    """The error for an answer that is not 2xx: 408, 425, 429 and 5xx are worth another try, all others are final."""
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    said = f": {' '.join(detail.split())[:_MOST_DETAIL]}" if detail.strip() else ""
    retryable = status in _RETRYABLE or status >= 500
    return ChannelError(f"{name} answered {status}{phrase}{said}", retryable=retryable, retry_after=retry_after)


def seconds_to_wait(retry_after: str | None, date: str | None) -> float | None:
    """A Retry-After header in seconds. One that is a date is measured against the answer's own Date header."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(retry_after) - parsedate_to_datetime(date or "")).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(seconds, _LONGEST_WAIT) if seconds >= 0 else None  # NaN is not >= 0 either


def tag(url: str) -> str:
    """Six hex digits that tell two targets apart and say nothing of their secrets."""
    return hashlib.sha256(url.encode()).hexdigest()[:6]


def veil(text: str, url: str, shown: str = "", secrets: Iterable[Secret] = ()) -> str:
    """The text without the secrets and all that stands in the URL after its scheme, except what stands in `shown` too.

    In a chat service's URL every part may be the secret, and its error texts like to repeat them.
    """
    rest = url.partition("://")[2]
    parts = {part for part in re.split(r"[/:@?&=#,]+", rest) if len(part) > 3}
    for secret in secrets:
        value = secret.reveal()
        parts |= {part for part in (value, *value.split()[1:]) if len(part) > 3}
    for part in sorted(parts | {unquote(part) for part in parts}, key=len, reverse=True):
        if part not in shown:
            text = text.replace(part, STARS)
    return mask(text)
