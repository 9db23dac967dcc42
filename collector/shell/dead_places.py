"""What a dead-letter place tells of a message beside its trail: where it lies and lay, how it begins, when it goes.

Takes the record that an event was read from; gives `Found`. A table by how the record was tapped, and rows of what
frameworks delete by themselves. What is not told stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from collector.deadletter.fingerprint import top_frame
from collector.deadletter.record import Found, Origin
from collector.formats import first_bytes
from collector.formats.conventions import hop
from collector.formats.spelling import readable
from collector.model.event import Event
from collector.model.record import Batch

DAY = 86_400.0
_LONGEST = 300
"""Characters of a place or id."""
_LARGEST = 4 * 1024 * 1024
"""Bytes of a body that is looked through for its message."""
_LONGEST_STACK = 64 * 1024
"""Characters of a stack trace that are: its root is at its end."""
_FIREHOSE = "amq.rabbitmq.trace"
_ORIGINAL_ID = ("original_id", "original-id", "message_id")
_ORIGINAL_STREAM = ("original_stream", "original-stream", "stream")

# the place's name → how long its framework keeps what lies there (seconds), and by what setting
KEPT: tuple[tuple[re.Pattern[str], float, str], ...] = (
    (re.compile(r"\.XQ(?:\.msgs)?$"), 7 * DAY, "Dramatiq keeps dead messages for 7 days (dead_message_ttl)"),
    (re.compile(r"^rq:failed:"), 365 * DAY, "RQ keeps failed jobs for a year (failure_ttl)"),
)
_RQ_RESULTS = re.compile(r"^(.+):results:(.+)$")
_BULLMQ_EVENTS = re.compile(r"^(.+:.+):events$")
_MESSAGE_ID = re.compile(r'"message_id": ?"([^"]{1,300})"')
_XQ_HASH = re.compile(r"\.XQ\.msgs$")
_Look: TypeAlias = Callable[[Batch, int, Event, Mapping[str, Any]], Found]
_hash = msgspec.json.Decoder(dict[str, Any]).decode


def found(batch: Batch, index: int, event: Event, at: float) -> Found:
    """What the record behind a dead letter's event tells. `at`: the axis time of the event."""
    about: Mapping[str, Any] = batch.about[index] if batch.about else {}
    look = _PLACES.get(batch.tap, _plain)
    if event.kind != "dead_lettered":  # it failed for good: where its framework keeps it, if it does
        look = _kept if batch.tap == "redis-stream" else _nothing
    elif _is_event(batch, index):
        look = _plain
    told = look(batch, index, event, about)
    for name, seconds, by in KEPT:
        if name.search(told.place):
            return msgspec.structs.replace(told, expires_at=(event.time or at) + seconds, expires_by=by)
    return told


def _cut(value: object) -> str:
    return readable(str(value))[:_LONGEST]


def _message(body: bytes, **told: Any) -> Found:
    """A record whose body is the message itself."""
    frame = told.pop("frame", "") or top_frame(body[:_LARGEST].decode("utf-8", "replace"))
    return Found(size=len(body), preview=first_bytes(body), frame=frame, **told)


def _kafka(batch: Batch, index: int, _event: Event, about: Mapping[str, Any]) -> Found:
    headers = (batch.fields[index] if batch.fields else None) or {}
    topic, _, partition = batch.place.rpartition("/")
    topic, partition = str(about.get("topic") or topic), str(about.get("partition", partition))
    said = hop(headers)
    stack = next((readable(text) for name, text in headers.items() if name.endswith("stacktrace")), "")
    origin = Origin()
    if said is not None:
        origin = Origin(topic=_cut(said.topic), partition=said.partition, offset=said.offset, group=_cut(said.group))
    return _message(
        batch.bodies[index],
        place=_cut(f"{topic}/{partition}"),
        receipt=_cut(about.get("offset", batch.receipts[index])),
        written_at=batch.times[index] if batch.times else None,
        read_by=batch.source,
        origin=origin,
        frame=_root_frame(stack),
        error=_cut(said.error) if said else "",
    )


def _root_frame(stack: str) -> str:
    """Where the cause at the bottom of a Java stack trace was raised."""
    parts = reversed(stack[-_LONGEST_STACK:].split("Caused by:"))
    return next((frame for part in parts if (frame := top_frame(part))), "")


def _stream(batch: Batch, index: int, event: Event, about: Mapping[str, Any]) -> Found:
    stream = str(about.get("stream") or batch.place)
    if (kept := _kept(batch, index, event, about)).place:
        return kept
    fields = about.get("fields")
    content: Mapping[str, Any] = fields if isinstance(fields, Mapping) else (batch.fields or [{}])[index] or {}
    origin_id = next((content[name] for name in _ORIGINAL_ID if content.get(name)), "")
    origin_stream = next((content[name] for name in _ORIGINAL_STREAM if content.get(name)), "")
    whole = batch.bodies[index] or msgspec.json.encode(
        {readable(str(name)): readable(str(value)) for name, value in content.items()}
    )
    return _message(
        whole,
        place=_cut(stream),
        receipt=_cut(about.get("id") or batch.receipts[index]),
        origin=Origin(topic=_cut(origin_stream), id=_cut(origin_id), group=_cut(content.get("group", ""))),
    )


def _kept(batch: Batch, _index: int, event: Event, about: Mapping[str, Any]) -> Found:
    """A job that failed for good, of a framework that keeps such jobs: RQ and BullMQ."""
    stream = str(about.get("stream") or batch.place)
    if results := _RQ_RESULTS.match(stream):
        # What was held back may be told while another job's results are read: the event says whose it is.
        return Found(place=_cut(f"{results[1]}:failed:{event.queue or ''}"), receipt=_cut(event.task_id))
    if events := _BULLMQ_EVENTS.match(stream):
        return Found(place=_cut(f"{events[1]}:failed"), receipt=_cut(event.task_id.rpartition(":")[2]))
    return Found()


def _key(batch: Batch, index: int, event: Event, about: Mapping[str, Any]) -> Found:
    key = str(about.get("key") or batch.place)
    if not _XQ_HASH.search(key):
        return Found()
    identity, message = _of_hash(batch.bodies[index]).get(event.task_id, ("", b""))
    told: dict[str, Any] = {
        "place": _cut(key),
        "receipt": _cut(identity),
        "origin": Origin(queue=_cut(event.queue or "")),
    }
    return _message(message, **told) if message else Found(**told)


@lru_cache(maxsize=1)  # many of one hash come together, and each is asked for by itself
def _of_hash(body: bytes) -> Mapping[str, tuple[str, bytes]]:
    """The messages of a hash by their id, each with its field; empty where it cannot be read."""
    if len(body) > _LARGEST:
        return {}
    try:
        fields = _hash(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    # The last one is the message's own: what stands before it are options and arguments.
    ids = {name: _MESSAGE_ID.findall(value)[-1:] for name, value in texts.items()}
    return {found[0]: (name, texts[name].encode("utf-8", "replace")) for name, found in ids.items() if found}


def _amqp(batch: Batch, index: int, _event: Event, about: Mapping[str, Any]) -> Found:
    headers, properties = _table(about.get("headers")), _table(about.get("properties"))
    key = str(about.get("routing_key") or "")
    if about.get("exchange") == _FIREHOSE:
        inner = _table(headers.get("properties"))
        headers, properties = _table(inner.get("headers")), inner
        place = key.partition(".")[2]
    elif about.get("queue"):
        place = str(about["queue"])
    else:
        exchange = about.get("exchange")
        place = f"{exchange}/{key}" if exchange else key
    deaths = headers.get("x-death")
    latest = _table(deaths[0]) if isinstance(deaths, list) and deaths else {}
    return _message(
        batch.bodies[index],
        place=_cut(place),
        receipt=_cut(properties.get("message_id") or ""),
        origin=Origin(
            queue=_cut(headers.get("x-first-death-queue") or latest.get("queue") or ""),
            exchange=_cut(headers.get("x-first-death-exchange") or latest.get("exchange") or ""),
            reason=_cut(headers.get("x-first-death-reason") or latest.get("reason") or ""),
        ),
    )


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_event(batch: Batch, index: int) -> bool:
    """Whether a record is an event that tells of the dead letter, rather than its message."""
    fields = (batch.fields[index] if batch.fields else None) or {}
    return fields.get("kind") == "dead_lettered" or b"dead_lettered" in batch.bodies[index][:_LARGEST]


def _nothing(_batch: Batch, _index: int, _event: Event, _about: Mapping[str, Any]) -> Found:
    """Nothing keeps it."""
    return Found()


def _plain(batch: Batch, index: int, _event: Event, _about: Mapping[str, Any]) -> Found:
    """An event that somebody told: it is not the message."""
    return Found(receipt=_cut(batch.receipts[index]))


_PLACES: Mapping[str, _Look] = {
    "kafka": _kafka,
    "redis-stream": _stream,
    "redis-key": _key,
    "amqp": _amqp,
    "amqp-get": _amqp,
}
