"""Celery: worker events over Redis or RabbitMQ, stored results, waiting messages, dead letters, the firehose.

Takes batches of one tap (`redis-pubsub redis-key amqp amqp-get`), gives events over several channels: worker events
are the main one, results, queues and the firehose only fill in where the events tell of a task. What could be code
(pickle, yaml) is never looked into.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from collector.formats.celery_envelope import Tails, opened
from collector.formats.celery_events import FINISH, completed, finished, take
from collector.formats.celery_memory import Memory
from collector.formats.celery_messages import (
    Headers,
    Queued,
    Result,
    dead,
    death_of,
    delivered,
    no_message,
    sent_again,
    stored,
    traced,
    waiting,
)
from collector.formats.celery_places import GROUP, OWN_KEYS, RESULT, TRACE, distinct, is_double, is_mine, runs, told
from collector.formats.celery_wire import Told, Wire, regular
from collector.formats.decoded import (
    NOT_JSON,
    Decode,
    Decoded,
    Format,
    MalformedError,
    Reject,
    check_length,
    check_list,
    few,
    not_json,
)
from collector.model.event import Event
from collector.model.record import Batch

EVENTS, RESULTS, QUEUE, FIREHOSE = "", "result", "queue", "firehose"
"""The channels: which of several tells that one fact."""

_STEP = "\x06\x16"
"""What stands between a queue's name and its priority in the key of its list."""


class _Properties(msgspec.Struct, gc=False):
    delivery_tag: str | int | None = None
    body_encoding: str | None = None


class _Envelope(msgspec.Struct, gc=False):
    """A message as kombu publishes it on Redis, whatever is in it."""

    body: str
    content_type: str = msgspec.field(default="application/json", name="content-type")
    properties: _Properties = msgspec.field(default_factory=_Properties)


_told = msgspec.json.Decoder(list[Told] | Told).decode
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
        self._out = Decoded([], [], [])
        self._tails = Tails()
        self._is_doubled = False
        """Whether each event may come twice, over two channels."""
        self._readers: dict[str, Callable[[int, Mapping[str, Any], bytes, float], None]] = {
            "redis-pubsub": self._published,
            "redis-key": self._key,
            "amqp": self._message,
            "amqp-get": self._message,
        }

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch, in its order."""
        out = self._out = Decoded([], [], [])
        abouts = batch.about
        if abouts is None or batch.tap not in self._readers:
            out.rejects += [
                Reject(index, "foreign", "not tapped from Celery's broker") for index in range(len(batch.bodies))
            ]
        elif batch.tap == "redis-pubsub":
            places = distinct(abouts)
            self._is_doubled = self._is_doubled or any(map(is_double, places.values()))
            for is_events, start, end in runs(abouts, places):
                if not (is_events and self._all_regular(batch.bodies, start, end)):
                    self._each(batch, abouts, start, end)
        else:
            self._each(batch, abouts, 0, len(batch.bodies))
        completed(out.events, self._memory)
        self._memory.turn()
        self._out = Decoded([], [], [])  # what was told is let go as soon as it is counted, not with the next batch
        return out

    def _each(self, batch: Batch, abouts: Sequence[Mapping[str, Any]], start: int, end: int) -> None:
        """Record by record, whatever is in them."""
        out, read, times = self._out, self._readers[batch.tap], batch.times
        for index in range(start, end):
            body = batch.bodies[index]
            try:
                check_length(body)
                read(index, abouts[index], body, batch.received_at if times is None else times[index])
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
            except NOT_JSON as error:
                wrong = not_json(error, "not_an_object")
                out.rejects.append(Reject(index, wrong.reason, wrong.detail))

    def _all_regular(self, bodies: list[bytes], start: int, end: int) -> bool:
        """Take records of events at once, where all are regular and none was read before; else False, untouched."""
        part = bodies[start:end]
        try:
            listed = list(map(_told, opened(part, self._tails)))
            tags = [regular(one).properties.delivery_tag for one in part] if self._is_doubled else []
        except NOT_JSON:
            return False
        if tags and not self._memory.tags.add(tags):
            return False
        self._finish(listed, start)
        return True

    def _finish(self, listed: list[list[Told] | Told], start: int) -> None:
        out = self._out
        take(listed, start, out, out.sources, self._memory)  # type: ignore[arg-type]  # it is ours
        if out.channels is not None:
            out.channels += [EVENTS] * (len(out.events) - len(out.channels))

    def _keep(self, index: int, event: Event | None, channel: str) -> None:
        out = self._out
        if event is None:
            out.ignored += 1
            return
        if out.channels is None and channel:
            out.channels = [EVENTS] * len(out.events)
        out.events.append(event)
        out.sources.append(index)  # type: ignore[union-attr]  # it is ours
        if out.channels is not None:
            out.channels.append(channel)

    # Redis, published

    def _published(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        channel = told(about, "channel")
        if RESULT in channel:
            self._result(index, channel, body, at)
        elif GROUP in channel or channel.endswith(".pidbox"):
            # How many tasks a chord has (up to Celery 5.4), or control commands. A revocation is a wish: what becomes
            # of it, the worker's own event says.
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
        check_length(content)
        check_list(content)
        try:
            wires = _many(content) if content[:1] == b"[" else [_one(content)]
        except NOT_JSON as error:
            wires = self._piecemeal(index, content, error)
        if self._is_doubled and tag is not None and not self._memory.tags.add([str(tag)]):
            self._out.ignored += len(wires)  # the same publication, on another channel
            return
        for wire in wires:
            event: Event | None = None
            try:
                if (entry := FINISH.get(wire.type)) is not None:
                    said = wire.told()
                    said.kind, finish = entry
                    event = finished(said, finish, self._memory)
            except MalformedError as error:
                self._out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            self._keep(index, event, EVENTS)

    def _piecemeal(self, index: int, content: bytes, error: Exception) -> list[Wire]:
        """The events of a list in which something is none: the others are good."""
        if content[:1] != b"[" or isinstance(error, RecursionError):
            raise error
        wires = []
        for raw in few(_elements(content)):
            try:
                wires.append(_one(raw))
            except NOT_JSON as wrong:
                self._out.rejects.append(Reject(index, "not_an_object", str(wrong)))
        return wires

    # Results and keys

    def _result(self, index: int, place: str, body: bytes, at: float | None) -> None:
        task_id = place.partition(RESULT)[2]
        self._keep(index, stored(_result(body), task_id, at), RESULTS)

    def _key(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        del at
        key, kind = told(about, "key"), about.get("type")
        if kind == "string" and RESULT in key:
            self._result(index, key, _text(body).encode(), None)
        elif kind == "list" and not any(part in key for part in OWN_KEYS):
            self._waiting(index, key, body)
        elif kind == "hash":
            for value in few(_hash(body).values()):
                if isinstance(value, str):
                    self._held(index, value)
        else:
            self._out.ignored += 1

    def _waiting(self, index: int, key: str, body: bytes) -> None:
        for item in few(_texts(body)):
            try:
                queued = _queued(item) if isinstance(item, str) else None
                if queued is None:
                    self._out.ignored += 1
                    continue
                queue = queued.properties.delivery_info.routing_key
                self._once(index, queued, queue if isinstance(queue, str) and queue else key.partition(_STEP)[0])
            except NOT_JSON as error:
                self._out.rejects.append(Reject(index, "not_an_object", str(no_message(error))))

    def _once(self, index: int, queued: Queued, queue: str) -> None:
        tag = queued.properties.delivery_tag
        if isinstance(tag, str) and self._memory.tags.add([tag]):
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
        except NOT_JSON as error:
            self._out.rejects.append(Reject(index, "not_an_object", str(no_message(error))))

    # RabbitMQ

    def _message(self, index: int, about: Mapping[str, Any], body: bytes, at: float) -> None:
        headers = about.get("headers")
        headers = headers if isinstance(headers, dict) else {}
        if about.get("exchange") == TRACE:
            self._traced(index, told(about, "routing_key"), headers, at)
        elif "task" in headers and "id" in headers:
            self._task(index, about, _headers(headers), at)
        else:
            properties = about.get("properties")
            kind = properties.get("content_type") if isinstance(properties, dict) else None
            self._events(index, body, kind if isinstance(kind, str) else "application/json")

    def _task(self, index: int, about: Mapping[str, Any], headers: Headers, at: float) -> None:
        death = death_of(headers)
        if death is not None:
            if headers.redriven:
                self._keep(index, sent_again(headers, death, at, self._memory), EVENTS)
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
    except (*NOT_JSON, TypeError, OverflowError) as error:
        raise MalformedError("not_msgpack", str(error)) from error


def _new() -> Decode:
    return _Celery()


_SENT = "`task_send_sent_event` where tasks are published"
_EVENTS = "workers with `-E`"

FORMAT = Format(
    new=_new,
    is_mine=is_mine,
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
