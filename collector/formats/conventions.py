"""How consumers move a message on that they could not do: headers and names of retry and dead-letter topics.

A table: a prefix of header names → what each of its headers says. Values are text, or Spring's big-endian integers.
Sources: Spring Kafka 3/4 (DeadLetterPublishingRecoverer, @RetryableTopic), Kafka Connect's error headers, Kafka
Streams 4.2 (KIP-1034), SmallRye's dead-letter-queue failure strategy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from collector.formats.spelling import readable

Role: TypeAlias = Literal["main", "retry", "dead_letter"]


class Hop(msgspec.Struct, frozen=True):
    """What its headers say of a message that was moved on. Empty or None: not said."""

    role: Role
    topic: str = ""
    """From where it came: the hop before."""
    partition: int | None = None
    offset: int | None = None
    group: str = ""
    error: str = ""
    message: str = ""
    coming_attempt: int | None = None
    """Of a retry topic: which attempt will come, from 1."""


class _Convention(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write the same facts: the names of headers, first choice first."""

    role: Role
    sign: str
    """A header whose presence shows the convention."""
    topic: str
    partition: str
    offset: str
    group: str = ""
    errors: tuple[str, ...]
    message: str
    stacktrace: str = ""


_CONVENTIONS: tuple[_Convention, ...] = (
    _Convention(
        role="dead_letter",
        sign="kafka_dlt-original-topic",
        topic="kafka_dlt-original-topic",
        partition="kafka_dlt-original-partition",
        offset="kafka_dlt-original-offset",
        group="kafka_dlt-original-consumer-group",
        errors=("kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-fqcn", "kafka_dlt-key-exception-fqcn"),
        message="kafka_dlt-exception-message",
        stacktrace="kafka_dlt-exception-stacktrace",
    ),
    _Convention(
        role="dead_letter",
        sign="__connect.errors.topic",
        topic="__connect.errors.topic",
        partition="__connect.errors.partition",
        offset="__connect.errors.offset",
        group="__connect.errors.connector.name",
        errors=("__connect.errors.exception.class.name",),
        message="__connect.errors.exception.message",
    ),
    _Convention(
        role="dead_letter",
        sign="__streams.errors.topic",
        topic="__streams.errors.topic",
        partition="__streams.errors.partition",
        offset="__streams.errors.offset",
        errors=("__streams.errors.exception",),
        message="__streams.errors.message",
    ),
    _Convention(
        role="dead_letter",
        sign="dead-letter-topic",
        topic="dead-letter-topic",
        partition="dead-letter-partition",
        offset="dead-letter-offset",
        errors=("dead-letter-cause-class-name", "dead-letter-exception-class-name"),
        message="dead-letter-reason",
    ),
    _Convention(
        role="retry",
        sign="kafka_original-topic",
        topic="kafka_original-topic",
        partition="kafka_original-partition",
        offset="kafka_original-offset",
        group="kafka_original-consumer-group",
        errors=("kafka_exception-cause-fqcn", "kafka_exception-fqcn"),
        message="kafka_exception-message",
        stacktrace="kafka_exception-stacktrace",
    ),
)
_ATTEMPTS = "retry_topic-attempts"
_WRAPPERS = ("ListenerExecutionFailedException", "TimestampedException")
"""Spring's own classes, around the one that is meant."""
_CAUSE = re.compile(r"^Caused by: ([\w.$]+)", re.MULTILINE)

# What topics and streams are called that hold such messages, where no header says it.
_RETRY_NAME = re.compile(r"(?i)[-._:]retry(?:[-._:](\d+))?$")
_DEAD_NAME = re.compile(
    r"(?i)(?:[-._:](?:dlt|dlq|dead[-_]?letters?|dead)$|^(?:dead[-._:]?letters?|dead|dlq)[-._:])"  # the longest first
)
_ONLY_DEAD = re.compile(r"(?i)dead[-._:]letters?")
"""Not one that belongs to a topic called `letters`."""


def hop(headers: Mapping[str, str]) -> Hop | None:
    """What the headers say of a message that was moved on; None where no convention is in them."""
    for one in _CONVENTIONS:
        if one.sign in headers:
            return Hop(
                role=one.role,
                topic=readable(headers[one.topic]),
                partition=number(headers.get(one.partition)),
                offset=number(headers.get(one.offset)),
                group=readable(headers.get(one.group, "")),
                error=_error(one, headers),
                message=readable(headers.get(one.message, "")),
                coming_attempt=number(headers.get(_ATTEMPTS)),
            )
    return None


def _error(one: _Convention, headers: Mapping[str, str]) -> str:
    """The class that is meant: the cause, not the framework's wrapper around it."""
    named = [readable(headers[name]) for name in one.errors if headers.get(name)]
    causes = _CAUSE.findall(readable(headers.get(one.stacktrace, ""))) if one.stacktrace else []
    meant = [name for name in (*named[:1], *reversed(causes), *named) if not name.endswith(_WRAPPERS)]
    return meant[0] if meant else (named[0] if named else "")


_LONGEST_NUMBER = 20
"""Characters of 64 bits with their sign."""


def number(value: str | None) -> int | None:
    """A header's number: decimal text, or a big-endian integer of up to 8 bytes; None for anything else."""
    if not value or len(value) > _LONGEST_NUMBER:
        return None
    if value.isascii() and (value.isdigit() or (value[0] == "-" and value[1:].isdigit())):
        # Four bytes that are all digits would be a partition above 800 million: it is text.
        return int(value)
    raw = value.encode("utf-8", "surrogateescape")
    return int.from_bytes(raw, "big", signed=True) if len(raw) <= 8 else None


def role_of(name: str, retry: tuple[str, ...] = (), dead_letter: tuple[str, ...] = ()) -> Role:
    """The role of a topic or stream: by the globs that were configured, else by what it is called."""
    if any(fnmatchcase(name, glob) for glob in dead_letter):
        return "dead_letter"
    if any(fnmatchcase(name, glob) for glob in retry):
        return "retry"
    if retry or dead_letter:
        return "main"
    return "dead_letter" if _DEAD_NAME.search(name) else ("retry" if _RETRY_NAME.search(name) else "main")


def main_of(name: str) -> str:
    """The topic whose messages these are, by what a retry or dead-letter topic is called: `orders.DLT` → `orders`.

    A name that says nothing of that is given back.
    """
    if _ONLY_DEAD.fullmatch(name):
        return name
    return _RETRY_NAME.sub("", _DEAD_NAME.sub("", name)) or name


def attempt_before(name: str) -> int | None:
    """Which attempt failed before a message came to this retry topic, where its name counts: `orders-retry-0` → 1."""
    found = _RETRY_NAME.search(name)
    return int(found[1]) + 1 if found and found[1] and len(found[1]) < 3 else None
