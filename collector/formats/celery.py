"""Celery: worker events over Redis or RabbitMQ, stored results, waiting messages, dead letters, the firehose.

Takes batches of one tap (`redis-pubsub redis-key amqp amqp-get`), gives events over several channels: worker events
are the main one, results, queues and the firehose only fill in where the events tell of a task. What could be code
(pickle, yaml) is never looked into.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from collector.formats.celery_events import TYPES, Memory, Wire
from collector.formats.celery_messages import (
    Headers,
    Queued,
    Result,
    dead,
    death_of,
    delivered,
    no_message,
    stored,
    traced,
    waiting,
)
from collector.formats.decoded import LONGEST_BODY, Decode, Decoded, Format, MalformedError, Reject
from collector.model.event import Event
from collector.model.record import Batch

EVENTS, RESULTS, QUEUE, FIREHOSE = "", "result", "queue", "firehose"
"""The channels: which of several tells that one fact."""

_RESULT = "celery-task-meta-"
_TRACE = "amq.rabbitmq.trace"
_OWN_KEYS = (_RESULT, "celery-taskset-meta-", "_kombu.binding", ".celery.pidbox", "unacked_index")
_STEP = "\x06\x16"
"""What stands between a queue's name and its priority in the key of its list."""
_BAD = (msgspec.MsgspecError, ValueError, RecursionError)


class _Properties(msgspec.Struct, gc=False):
    delivery_tag: str | int | None = None
    body_encoding: str | None = None


class _Envelope(msgspec.Struct, gc=False):
    """A message as kombu publishes it on Redis."""

    body: str
    content_type: str = msgspec.field(default="application/json", name="content-type")
    properties: _Properties = msgspec.field(default_factory=_Properties)


_envelope = msgspec.json.Decoder(_Envelope).decode
_one = msgspec.json.Decoder(Wire).decode
_many = msgspec.json.Decoder(list[Wire]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_packed = msgspec.msgpack.Decoder().decode
_result = msgspec.json.Decoder(Result).decode
_texts = msgspec.json.Decoder(list[str | dict[str, str]]).decode
_hash = msgspec.json.Decoder(dict[str, str | dict[str, str]]).decode
_queued = msgspec.json.Decoder(Queued).decode
_unacked = msgspec.json.Decoder(tuple[Queued, Any, Any]).decode
_text = msgspec.json.Decoder(str).decode


class _Celery:
    """The decoder of one source."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._out = Decoded([], [], [], channels=[])
        self._readers: dict[str, Callable[[int, Mapping[str, Any], bytes, float], None]] = {
            "redis-pubsub": self._published,
            "redis-key": self._key,
            "amqp": self._message,
            "amqp-get": self._message,
        }

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch, in its order."""
        out = self._out = Decoded([], [], [], channels=[])
        read = self._readers.get(batch.tap)
        abouts, times = batch.about, batch.times
        for index, body in enumerate(batch.bodies):
            if read is None or abouts is None:
                out.rejects.append(Reject(index, "foreign", "not tapped from a broker of Celery's"))
            elif len(body) > LONGEST_BODY:
                out.rejects.append(Reject(index, "too_large", f"{len(body)} bytes, at most {LONGEST_BODY} are read"))
            else:
                try:
                    read(index, abouts[index], body, batch.received_at if times is None else times[index])
                except MalformedError as error:
                    out.rejects.append(Reject(index, error.reason, error.detail))
                except RecursionError:
                    out.rejects.append(Reject(index, "too_deep", "nested too deeply"))
                except _BAD as error:
                    reason = "not_an_object" if isinstance(error, msgspec.ValidationError) else "not_json"
                    out.rejects.append(Reject(index, reason, str(error)))
        if not any(out.channels or ()):
            out.channels = None
        return out

    def _keep(self, index: int, event: Event | None, channel: str) -> None:
        out = self._out
        if event is None:
            out.ignored += 1
            return
        out.events.append(event)
        out.sources.append(index)  # type: ignore[union-attr]  # it is ours
        out.channels.append(channel)  # type: ignore[union-attr]

    # Redis, published

    def _published(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        channel: str = about.get("channel") or ""
        if _RESULT in channel:
            self._result(index, channel, body, at)
        elif channel.endswith(".pidbox"):
            # Control commands. A revocation is a wish: what becomes of it, the worker's own event says.
            self._out.ignored += 1
        else:
            self._enveloped(index, body)

    def _enveloped(self, index: int, body: bytes) -> None:
        envelope = _envelope(body)
        properties = envelope.properties
        content = envelope.body.encode()
        if properties.body_encoding == "base64":
            try:
                content = binascii.a2b_base64(content, strict_mode=True)
            except binascii.Error as error:
                raise MalformedError("not_base64", f"the envelope's body is no base64: {error}") from error
        self._events(index, content, envelope.content_type, properties.delivery_tag)

    def _events(self, index: int, content: bytes, content_type: str, tag: Any = None) -> None:
        """One event, or a list of them."""
        if content_type != "application/json":
            content = _as_json(content, content_type)
        try:
            wires = _many(content) if content[:1] == b"[" else [_one(content)]
        except _BAD as error:
            wires = self._piecemeal(index, content, error)
        if tag is not None:
            tag = str(tag)
            if self._memory.tags.get(tag) is not None:
                self._out.ignored += len(wires)  # the same publication, on another channel
                return
            self._memory.tags.put(tag, True)
        memory, out = self._memory, self._out
        events, sources, channels = out.events, out.sources, out.channels
        for wire in wires:
            read = TYPES.get(wire.type)
            event = None
            if read is not None:
                try:
                    event = read(wire, memory)
                except MalformedError as error:
                    out.rejects.append(Reject(index, error.reason, error.detail))
                    continue
            if event is None:
                out.ignored += 1
            else:
                events.append(event)
                sources.append(index)  # type: ignore[union-attr]
                channels.append(EVENTS)  # type: ignore[union-attr]

    def _piecemeal(self, index: int, content: bytes, error: Exception) -> list[Wire]:
        """The events of a list in which something is none: the others are good."""
        if content[:1] != b"[" or isinstance(error, RecursionError):
            raise error
        wires = []
        for raw in _elements(content):
            try:
                wires.append(_one(raw))
            except _BAD as wrong:
                self._out.rejects.append(Reject(index, "not_an_object", str(wrong)))
        return wires

    # Results and keys

    def _result(self, index: int, place: str, body: bytes, at: float | None) -> None:
        task_id = place.partition(_RESULT)[2]
        self._keep(index, stored(_result(body), task_id, at), RESULTS)

    def _key(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        del at
        key, kind = about.get("key") or "", about.get("type")
        if kind == "string" and _RESULT in key:
            self._result(index, key, _text(body).encode(), None)
        elif kind == "list" and not any(part in key for part in _OWN_KEYS):
            self._waiting(index, key, body)
        elif kind == "hash":
            for value in _hash(body).values():
                if isinstance(value, str):
                    self._held(index, value)
        else:
            self._out.ignored += 1

    def _waiting(self, index: int, key: str, body: bytes) -> None:
        for item in _texts(body):
            try:
                queued = _queued(item) if isinstance(item, str) else None
                if queued is None:
                    self._out.ignored += 1
                    continue
                queue = queued.properties.delivery_info.routing_key
                self._once(index, queued, queue if isinstance(queue, str) and queue else key.partition(_STEP)[0])
            except _BAD as error:
                self._out.rejects.append(Reject(index, "not_an_object", str(no_message(error))))

    def _once(self, index: int, queued: Queued, queue: str) -> None:
        tag = queued.properties.delivery_tag
        if isinstance(tag, str) and self._memory.tags.get(tag) is None:
            self._memory.tags.put(tag, True)
            try:
                self._keep(index, waiting(queued.headers, queue, self._memory), QUEUE)
            except MalformedError as error:
                self._out.rejects.append(Reject(index, error.reason, error.detail))
        else:
            self._out.ignored += 1

    def _held(self, index: int, value: str) -> None:
        """A message that a worker holds: `[message, exchange, routing key]`."""
        try:
            queued, _, queue = _unacked(value)
            delivered(queued.headers, queue if isinstance(queue, str) and queue else None, self._memory)
            self._out.ignored += 1
        except MalformedError as error:
            self._out.rejects.append(Reject(index, error.reason, error.detail))
        except _BAD as error:
            self._out.rejects.append(Reject(index, "not_an_object", str(no_message(error))))

    # RabbitMQ

    def _message(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        headers = about.get("headers")
        headers = headers if isinstance(headers, dict) else {}
        if about.get("exchange") == _TRACE:
            self._traced(index, about.get("routing_key") or "", headers, at)
        elif "task" in headers and "id" in headers:
            self._task(index, about, _headers(headers))
        else:
            properties = about.get("properties")
            kind = properties.get("content_type") if isinstance(properties, dict) else None
            self._events(index, body, kind if isinstance(kind, str) else "application/json")

    def _task(self, index: int, about: Mapping[str, Any], headers: Headers) -> None:
        death = death_of(headers)
        if death is not None:
            self._keep(index, dead(headers, death, self._memory), EVENTS)
        elif headers.x_death:
            delivered(headers, None, self._memory)
            self._out.ignored += 1
        else:
            headers.redelivered = headers.redelivered or about.get("redelivered")
            queue = about.get("queue") or about.get("routing_key")
            self._keep(index, waiting(headers, queue if isinstance(queue, str) else None, self._memory), QUEUE)

    def _traced(self, index: int, routing_key: str, about: dict[str, Any], at: float) -> None:
        properties = about.get("properties")
        inner = properties.get("headers") if isinstance(properties, dict) else None
        if not isinstance(inner, dict) or "task" not in inner or "id" not in inner:
            self._out.ignored += 1  # events and control messages, which have taps of their own
            return
        queues = about.get("routed_queues") or about.get("routing_keys")
        event, is_dead = traced(_headers(inner), routing_key, queues, at, self._memory)
        self._keep(index, event, EVENTS if is_dead else FIREHOSE)


def _headers(headers: dict[str, Any]) -> Headers:
    return msgspec.convert(headers, Headers)


def _as_json(content: bytes, content_type: str) -> bytes:
    """What is packed as JSON. Raises MalformedError for serializers whose content could be code, or is not known."""
    if content_type not in ("application/x-msgpack", "application/msgpack"):
        raise MalformedError("not_json", "events are read as JSON or msgpack: set `event_serializer` to json")
    try:
        return msgspec.json.encode(_packed(content))
    except (*_BAD, TypeError, OverflowError) as error:
        raise MalformedError("not_msgpack", str(error)) from error


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """Whether a record of a capture is Celery's."""
    test = _MINE.get(tap)
    return test is not None and test(about, body)


def _is_published(about: Mapping[str, Any], body: bytes) -> bool:
    channel = str(about.get("channel"))
    return "celeryev" in channel or ".pidbox" in channel or _RESULT in channel or b'"body_encoding"' in body


def _is_key(about: Mapping[str, Any], body: bytes) -> bool:
    key, kind = str(about.get("key")), about.get("type")
    if any(part in key for part in _OWN_KEYS):
        return True
    return kind in ("list", "hash") and b'\\"delivery_tag\\"' in body and b'\\"task\\"' in body


def _is_message(about: Mapping[str, Any], body: bytes) -> bool:
    headers = about.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    if about.get("exchange") == _TRACE:
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


def _new() -> Decode:
    return _Celery()


_SENT = "`task_send_sent_event` where tasks are published"
_EVENTS = "workers with `-E`"

FORMAT = Format(
    new=_new,
    is_mine=_is_mine,
    facts={
        "sent": _SENT,
        "received": _EVENTS,
        "started": f"{_EVENTS} (or `task_track_started` and a Redis result backend)",
        "succeeded": f"{_EVENTS}, or a Redis result backend",
        "failed": f"{_EVENTS}, or a Redis result backend",
        "retried": f"{_EVENTS}, or a Redis result backend",
        "dead_lettered": "RabbitMQ, with a dead-letter exchange",
        "rejected": _EVENTS,
        "revoked": f"{_EVENTS}, or a Redis result backend",
        "redelivered": _EVENTS,
        "task": _EVENTS,
        "queue": f"{_SENT}, or `result_extended`, or messages that wait",
        "worker": _EVENTS,
        "attempt": _EVENTS,
        "error": f"{_EVENTS}, or a Redis result backend",
        "wait": _SENT,
        "run": _EVENTS,
        "trace": "messages that wait or are held, dead letters; all with spans or the hook",
        "heartbeat": "yes",
    },
)
