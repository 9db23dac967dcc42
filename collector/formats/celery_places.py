"""Where Celery's records come from: which of a capture's are its own, which channels are those of events, which keys.

Takes how a record was tapped, and as little of its body as tells; gives yes or no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

RESULT, GROUP = "celery-task-meta-", "celery-taskset-meta-"
_OTHERS = re.compile(r"celery-task(?:set)?-meta-|\.pidbox$")
"""Channels that are not those of events."""
TRACE = "amq.rabbitmq.trace"
_OWN_CHANNELS = ("celeryev", ".pidbox", RESULT, GROUP)
OWN_KEYS = (RESULT, GROUP, "_kombu.binding", ".celery.pidbox", "unacked_index")


def told(about: Mapping[str, Any], name: str) -> str:
    """A text of what the tap tells of a record; "" where there is none."""
    value = about.get(name)
    return value if isinstance(value, str) else ""


def is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """Whether a record of a capture is Celery's."""
    test = _MINE.get(tap)
    return test is not None and test(about, body)


def _is_published(about: Mapping[str, Any], body: bytes) -> bool:
    channel = str(about.get("channel"))
    return any(part in channel for part in _OWN_CHANNELS) or b'"body_encoding"' in body


def _is_key(about: Mapping[str, Any], body: bytes) -> bool:
    key, kind = str(about.get("key")), about.get("type")
    if any(part in key for part in OWN_KEYS):
        return True
    return kind in ("list", "hash") and b'\\"delivery_tag\\"' in body and b'\\"task\\"' in body


def _is_message(about: Mapping[str, Any], body: bytes) -> bool:
    headers = about.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    if about.get("exchange") == TRACE:
        properties = headers.get("properties")
        inner = properties.get("headers") if isinstance(properties, dict) else None
        exchange = str(headers.get("exchange_name"))
        return (isinstance(inner, dict) and "task" in inner) or "celeryev" in exchange or ".pidbox" in exchange
    if "task" in headers and "id" in headers:
        return True
    return "celeryev" in str(about.get("exchange")) or ("hostname" in headers and b'"sw_ident"' in body)


_MINE: dict[str, Callable[[Mapping[str, Any], bytes], bool]] = {
    "redis-pubsub": _is_published,
    "redis-key": _is_key,
    "amqp": _is_message,
    "amqp-get": _is_message,
}


def distinct(abouts: Sequence[Mapping[str, Any]]) -> Mapping[int, Mapping[str, Any]]:
    """The descriptions of a batch by their identity: most messages share that of their channel."""
    return dict(zip(map(id, abouts), abouts, strict=True))


def is_double(about: Mapping[str, Any]) -> bool:
    """Whether it is the second channel of all events, as Sentinel's compatibility mode has it: unformatted."""
    return "{db}" in told(about, "channel")


def runs(
    abouts: Sequence[Mapping[str, Any]], places: Mapping[int, Mapping[str, Any]]
) -> Iterator[tuple[bool, int, int]]:
    """Runs of published messages on events' channels, and of others: from where to where. `places`: the distinct."""
    kinds = {key: _OTHERS.search(told(about, "channel")) is None for key, about in places.items()}
    if all(kinds.values()):
        yield True, 0, len(abouts)
        return
    start = 0
    for is_events, run in groupby(kinds[id(about)] for about in abouts):
        end = start + sum(1 for _ in run)
        yield is_events, start, end
        start = end
