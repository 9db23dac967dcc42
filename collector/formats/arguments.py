"""What calls were made with, where the wire shows that in clear and a configuration allows it to be shown.

A look of its own at a batch, beside the decoder: who does not ask pays nothing, and no decoder ever sees an argument.
Nothing is unpickled. What cannot be read is left out: the decoder has said what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from collector.formats import key_values
from collector.formats.celery_places import RESULT, TRACE
from collector.formats.decoded import Decode, Decoded, check_length
from collector.formats.remembered import Remembered
from collector.formats.rq_keys import KEYS
from collector.model.callmask import mask_call
from collector.model.event import LONGEST_TEXT
from collector.model.record import Batch

SEEN = 100_000
"""Waiting messages that are known not to be looked at again."""
_NONE = frozenset({"", "()", "[]", "{}", "null"})
_SAQ_JOB = re.compile(r"saq:job:.+", re.DOTALL)
_CALL = re.compile(r"[\w.<>]+\((.*)\)(?: \(.*\))?", re.DOTALL)
"""RQ's description of a job, behind which older versions write its id."""

Call: TypeAlias = tuple[Any, Any, Any]
"""Task id, positional and named arguments: text, or JSON as it stands."""


class _Sent(msgspec.Struct):
    """One of Celery's events."""

    uuid: Any = None
    args: Any = None
    kwargs: Any = None


class _Envelope(msgspec.Struct):
    """A message of kombu's on Redis: its body is base64."""

    body: bytes


class _Result(msgspec.Struct):
    """A stored result of Celery's, where `result_extended` is set."""

    task_id: Any = None
    args: msgspec.Raw = msgspec.Raw(b"")
    kwargs: msgspec.Raw = msgspec.Raw(b"")


class _Headers(msgspec.Struct):
    id: Any = None
    argsrepr: Any = None
    kwargsrepr: Any = None


class _Queued(msgspec.Struct):
    headers: _Headers


class _Message(msgspec.Struct):
    """A message of Dramatiq's or taskiq's."""

    message_id: str = ""
    task_id: str = ""
    args: msgspec.Raw = msgspec.Raw(b"")
    kwargs: msgspec.Raw = msgspec.Raw(b"")


class _Job(msgspec.Struct):
    """A job of SAQ's."""

    key: str
    kwargs: msgspec.Raw = msgspec.Raw(b"")


_envelope = msgspec.json.Decoder(_Envelope).decode
_events = msgspec.json.Decoder(list[_Sent] | _Sent).decode
_result = msgspec.json.Decoder(_Result).decode
_queued = msgspec.json.Decoder(_Queued).decode
_unacked = msgspec.json.Decoder(tuple[_Queued, Any, Any]).decode
_message = msgspec.json.Decoder(_Message).decode
_job = msgspec.json.Decoder(_Job).decode
_text = msgspec.json.Decoder(str).decode
_texts = msgspec.json.Decoder(list[Any]).decode
_hash = msgspec.json.Decoder(dict[str, Any]).decode


def showing(decode: Decode, form: str) -> Decode:
    """The decoder of a form, whose batches say besides what calls were made with."""
    if form not in READERS:
        return decode
    read = READERS[form]()

    def both(batch: Batch) -> Decoded:
        decoded = decode(batch)
        decoded.arguments = dict(_calls(read, batch)) or None
        return decoded

    return both


Read: TypeAlias = Callable[[str, Mapping[str, Any], bytes], Iterator[Call]]
"""The calls of one record: by its tap, what that says of it, and its body."""


def _calls(read: Read, batch: Batch) -> Iterator[tuple[str, str]]:
    """Task ids and what they were called with."""
    for about, body in zip(batch.about or (), batch.bodies, strict=False):
        try:
            check_length(body)
            for task_id, *parts in read(batch.tap, about, body):
                told = [part for part in map(_as_text, parts) if part not in _NONE]
                if told and isinstance(task_id, str):
                    yield task_id[:LONGEST_TEXT], mask_call(" ".join(told))
        except Exception:  # noqa: BLE001, S112 what is shown beside must not cost a fact
            continue


def _as_text(value: Any) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(value)[: 4 * LONGEST_TEXT].decode("utf-8", "ignore")
    return value if isinstance(value, str) else ""


def _celery(tap: str, about: Mapping[str, Any], body: bytes) -> Iterator[Call]:
    if tap == "redis-pubsub":
        channel = key_values.place_of(tap, about)
        if RESULT in channel:
            yield from _stored(channel, body)
        elif not channel.endswith(".pidbox"):
            yield from _told(_envelope(body).body)
    elif tap == "redis-key":
        yield from _celery_key(key_values.place_of(tap, about), about.get("type"), body)
    elif tap in {"amqp", "amqp-get"}:
        headers = about.get("headers") or {}
        if about.get("exchange") == TRACE:
            headers = headers["properties"]["headers"]
        if "task" in headers and "id" in headers:
            yield headers["id"], headers.get("argsrepr"), headers.get("kwargsrepr")
        elif about.get("exchange") != TRACE:
            yield from _told(body)


def _told(body: bytes) -> Iterator[Call]:
    events = _events(body)
    for event in events if isinstance(events, list) else [events]:
        if event.args is not None or event.kwargs is not None:
            yield event.uuid, event.args, event.kwargs


def _stored(place: str, body: bytes) -> Iterator[Call]:
    result = _result(body)
    yield result.task_id or place.partition(RESULT)[2], result.args, result.kwargs


def _celery_key(key: str, kind: Any, body: bytes) -> Iterator[Call]:
    if kind == "string" and RESULT in key:
        yield from _stored(key, _text(body).encode())
    elif kind == "list":
        for item in _texts(body):
            headers = _queued(item).headers
            yield headers.id, headers.argsrepr, headers.kwargsrepr
    elif kind == "hash":
        for item in _hash(body).values():
            headers = _unacked(item)[0].headers
            yield headers.id, headers.argsrepr, headers.kwargsrepr


def _rq(tap: str, about: Mapping[str, Any], body: bytes) -> Iterator[Call]:
    """The description of a job, where it is a call as RQ writes it."""
    match = KEYS["job"].fullmatch(key_values.place_of(tap, about)) if tap == "redis-key" else None
    if match is not None and about.get("type") == "hash":
        call = _CALL.fullmatch(_hash(body).get("description") or "")
        if call is not None and call[1]:
            yield match["id"], f"({call[1]})", ""


def _saq(tap: str, about: Mapping[str, Any], body: bytes) -> Iterator[Call]:
    if tap == "redis-key" and about.get("type") == "string" and _SAQ_JOB.fullmatch(key_values.place_of(tap, about)):
        job = _job(_text(body))
        yield job.key, "", job.kwargs


def _taskiq(tap: str, about: Mapping[str, Any], _body: bytes) -> Iterator[Call]:
    if tap == "redis-stream":
        message = _message(key_values.raw_of(about["fields"]["data"]))
        yield message.task_id, message.args, message.kwargs


def _dramatiq() -> Read:
    """Waiting messages are read with every poll, and looked at once."""
    seen: Remembered[bool] = Remembered(SEEN)

    def read(tap: str, about: Mapping[str, Any], body: bytes) -> Iterator[Call]:
        if tap in {"amqp", "amqp-get"}:
            message = _message(body)
            yield message.message_id, message.args, message.kwargs
        elif tap == "redis-key" and about.get("type") == "hash":
            for identity, item in _hash(body).items():
                if not seen.get(identity):
                    seen.put(identity, value=True)
                    message = _message(item)
                    yield message.message_id, message.args, message.kwargs

    return read


READERS: dict[str, Callable[[], Read]] = {
    "celery": lambda: _celery,
    "rq": lambda: _rq,
    "saq": lambda: _saq,
    "taskiq": lambda: _taskiq,
    "dramatiq": _dramatiq,
}
"""The forms that show them in clear."""
