"""Messages of hand-written consumers on Kafka and Redis Streams: no lifecycle events, only where a message stands.

On a main topic it was sent, on a retry topic its try failed and another will come, in a dead-letter place it was given
up. What consumers did in between shows in committed offsets (Kafka) and in pending entries (Redis groups): groups.py.
A message is known by `task_id` or `id` of its body, else by its place; hops are joined by the original place that
their headers name. Source: product contract, section 4; conventions.py for the headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.formats.conventions import Hop, Role, attempt_before, hop, main_of, role_of
from collector.formats.decoded import Decode, Decoded, Format, MalformedError, Reject, check_length
from collector.formats.groups import KafkaGroups, Moved, RedisGroups
from collector.formats.spelling import event_of, readable
from collector.model.event import KINDS, Event
from collector.model.record import Batch
from collector.model.redrive import HEADER, mark_of

MOST_PLACES = 50_000
"""Places of messages whose ids are remembered, twice over: they join the next hop of what has no id of its own."""

_ID = ("task_id", "id")
_NAME = ("task", "type", "event", "event_type", "name")
_COPIED_ID, _COPIED_STREAM = ("original_id", "original-id"), ("original_stream", "original-stream")
_ORIGINAL_ID = (*_COPIED_ID, "message_id")
_ORIGINAL_STREAM = (*_COPIED_STREAM, "stream")
_ERROR = ("error", "exception", "reason")
_DELIVERIES = ("deliveries", "delivery_count", "attempts", "times_delivered")
_CLASS = re.compile(r"[A-Za-z_][\w.$]*")
_COUNT = re.compile("[0-9]{1,6}")
_ENTRY = re.compile("[0-9]{1,20}-[0-9]{1,20}")
_object = msgspec.json.Decoder(dict[str, Any]).decode


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message in its place."""

    where: str
    """Topic or stream."""
    place: str
    """`topic-partition-offset`, or the entry id within its stream."""
    at: float
    """The broker's time, Unix seconds."""
    headers: Mapping[str, str]
    content: Mapping[str, Any]
    """The body's fields, or the entry's."""

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of these fields that says something."""
        values = (self.content.get(name) for name in names)
        return next((str(value) for value in values if isinstance(value, str | int) and value != ""), None)


class _Seen(msgspec.Struct, frozen=True):
    """A message as it was last seen."""

    task_id: str
    queue: str
    """Where its task was first."""
    where: str
    place: str


class _Decoder:
    """One source's messages."""

    def __init__(self, retry: tuple[str, ...], dead_letter: tuple[str, ...]) -> None:
        self._retry = retry
        self._dead_letter = dead_letter
        self._seen: dict[str, _Seen] = {}
        self._seen_before: dict[str, _Seen] = {}
        """By place, and by task id its last place: what joins the next hop."""
        self._kafka = KafkaGroups()
        self._redis = RedisGroups()

    def decode(self, batch: Batch) -> Decoded:
        """A batch of messages, or of what was asked about their consumers."""
        out = Decoded([], [], [])
        for index in range(len(batch.bodies)):
            try:
                events = self._events(batch, index)
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            out.events += events
            out.sources += [index] * len(events)  # type: ignore[operator]  # it is ours, and a list
            out.ignored += not events
        return out

    def _events(self, batch: Batch, index: int) -> list[Event]:
        about: Mapping[str, Any] = batch.about[index] if batch.about else {}
        body = batch.bodies[index]
        at = batch.times[index] if batch.times is not None else batch.received_at
        if batch.tap == "kafka-group-offsets":
            return self._settled(self._kafka.committed(str(about.get("group", "")), _offsets(body)))
        if batch.tap == "redis-key":
            return self._settled(self._redis.polled(str(about.get("key", "")), _groups(body), at))
        message = _message(batch, index, about, at)
        return [event_of(fields) for fields in self._facts(message)]

    def _facts(self, message: _Message) -> list[dict[str, Any]]:
        """What a message's place says of its task."""
        said = hop(message.headers)
        role = role_of(message.where, self._retry, self._dead_letter)
        redriven = mark_of(readable(message.headers.get(HEADER) or str(message.content.get(HEADER, ""))))
        if redriven is not None and role == "main":
            said = None  # the headers of its death are still on it: it was sent again
        elif role == "main" and not self._dead_letter and self._is_given_up(message, said):
            role = "dead_letter"
        if said is not None and role != "dead_letter":  # @RetryableTopic's last topic has the headers of the others
            role = said.role
        before = self._before(message, said)
        original = _original(message, said) or (before.place if before else None)
        here = message.where if role == "main" else main_of(message.where)
        queue = before.queue if before and role != "main" else (_topic_of(message, original, said) or here)
        known = redriven.task_id if redriven else (message.first(_ID) or (before.task_id if before else None))
        task_id = known or original or message.place
        self._remember(_Seen(task_id, queue, message.where, message.place))
        common = {
            "task_id": task_id,
            "task": message.first(_NAME),
            "queue": queue,
            "time": message.at,
            "traceparent": readable(message.headers.get("traceparent") or str(message.content.get("traceparent", ""))),
        }
        self._kafka.stands(message.where, message.place, task_id)
        if role != "dead_letter":
            self._redis.sent(message.where, message.place, task_id)
        if role == "main":
            return [{**common, "kind": "sent"}]
        if original is not None:
            self._kafka.moved_on(original)
        # Named rather than remembered: an entry's id is unique in its own stream only.
        stream = _topic_of(message, original, None) or (before.where if before else message.where)
        moved = self._redis.died(stream, original or "", message.first(_DELIVERIES), message.at)
        if role == "retry":
            return [{**common, "kind": "retried", **_failure(message, said, role)}]
        caught_up = [_fields(one) for one in moved]
        return [*caught_up, {**common, "kind": "dead_lettered", **_failure(message, said, role)}]

    def _is_given_up(self, message: _Message, said: Hop | None) -> bool:
        """Whether a message says of itself that it was moved away for good, whatever its place is called.

        A copy of a stream's entry that names another stream, its id there and why it left; or what retry topics passed
        on to a topic that is neither one of them nor theirs.
        """
        if said is not None:
            is_theirs = message.where == main_of(said.topic)
            return said.role == "retry" and not is_theirs and role_of(said.topic, self._retry) == "retry"
        original, stream = message.first(_COPIED_ID), message.first(_COPIED_STREAM)
        if original is None or not _ENTRY.fullmatch(original) or stream in (None, message.where):
            return False
        return message.first(_ERROR) is not None or message.first(_DELIVERIES) is not None

    def _before(self, message: _Message, said: Hop | None) -> _Seen | None:
        """The message one hop before: by the place that this one names, else by the id that it still has."""
        for key in (_original(message, said), message.first(_ID)):
            found = (self._seen.get(key) or self._seen_before.get(key)) if key else None
            if found is not None:
                return found
        return None

    def _remember(self, seen: _Seen) -> None:
        if len(self._seen) >= 2 * MOST_PLACES:
            self._seen, self._seen_before = {}, self._seen
        self._seen[seen.place] = self._seen[seen.task_id] = seen

    def _settled(self, moved: list[Moved]) -> list[Event]:
        return [event_of(_fields(one)) for one in moved]


def _fields(moved: Moved) -> dict[str, Any]:
    return {"kind": moved.kind, "task_id": moved.task_id, "time": moved.at, "worker": moved.worker}


def _original(message: _Message, said: Hop | None) -> str | None:
    """The place that the message was in one hop before."""
    if said is not None:
        if said.topic and said.partition is not None and said.offset is not None:
            return f"{said.topic}-{said.partition}-{said.offset}"
        return None
    return message.first(_ORIGINAL_ID)


def _topic_of(message: _Message, original: str | None, said: Hop | None) -> str | None:
    """The name of the topic or stream in which the message was one hop before; of a retry topic what it retries."""
    if said is not None and said.topic:
        return main_of(said.topic)
    return message.first(_ORIGINAL_STREAM) if original and "-" in original else None


def _failure(message: _Message, said: Hop | None, role: Role) -> dict[str, Any]:
    """Error and attempt of a message that was moved on."""
    if said is None:
        text = message.first(_ERROR) or ""
        name = _CLASS.match(text)
        deliveries = message.first(_DELIVERIES)
        return {
            "error": name[0] if name else None,
            "error_message": text,
            "attempt": int(deliveries) or None if deliveries and _COUNT.fullmatch(deliveries) else None,
        }
    attempt = said.coming_attempt - 1 if said.coming_attempt and said.coming_attempt > 1 else None
    if attempt is None and role == "retry":
        attempt = attempt_before(message.where)
    return {"error": said.error, "error_message": said.message, "attempt": attempt, "worker": said.group}


def _message(batch: Batch, index: int, about: Mapping[str, Any], at: float) -> _Message:
    """One record as a message. Raises MalformedError where there is nothing that names it."""
    fields = batch.fields[index] if batch.fields is not None else None
    headers: Mapping[str, str] = fields or {}
    body = batch.bodies[index]
    check_length(body)
    if batch.tap == "redis-stream":
        entry = about.get("fields") if about else None
        content = entry if isinstance(entry, Mapping) else _fields_of(body, headers)
        stream = str(about.get("stream") or batch.place)
        return _Message(
            where=stream, place=str(about.get("id") or batch.receipts[index]), at=at, headers={}, content=content
        )
    topic, _, partition = batch.place.rpartition("/")
    topic, partition = str(about.get("topic") or topic), str(about.get("partition", partition))
    offset = about.get("offset", batch.receipts[index])
    return _Message(where=topic, place=f"{topic}-{partition}-{offset}", at=at, headers=headers, content=_content(body))


def _content(body: bytes) -> Mapping[str, Any]:
    """The fields of a JSON body. One that is no JSON object has none: its place names it."""
    try:
        check_length(body)
        return _object(body) if body.lstrip()[:1] == b"{" else {}
    except (MalformedError, ValueError, RecursionError):
        return {}


def _fields_of(body: bytes, others: Mapping[str, Any]) -> Mapping[str, Any]:
    texts = {name: readable(value) for name, value in others.items() if isinstance(value, str)}
    return {**texts, **_content(body)}


def _offsets(body: bytes) -> dict[str, int]:
    """Committed offsets by `topic/partition`. Raises MalformedError."""
    check_length(body)
    try:
        return msgspec.json.decode(body, type=dict[str, int])
    except (ValueError, RecursionError) as error:
        raise MalformedError("bad_field", f"committed offsets are numbers by topic/partition: {error}") from error


def _groups(body: bytes) -> Any:
    """What XINFO and XPENDING say of a stream. Raises MalformedError."""
    check_length(body)
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedError("not_json", str(error)) from error


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    """A message that is no event of ours, and what was asked about the groups that read it."""
    if tap == "kafka-group-offsets":
        return True
    if tap == "redis-key":
        return about.get("type") == "stream" and body.startswith(b'{"len"') and b'"groups"' in body[:60]
    if tap == "kafka":
        headers = about.get("headers")
        names = (
            {str(pair[0]): "" for pair in headers if isinstance(pair, list) and pair}
            if isinstance(headers, list)
            else {}
        )
        return hop(names) is not None or _is_message(_content(body))
    if tap == "redis-stream":
        fields = about.get("fields")
        if not isinstance(fields, Mapping) or len(fields) < 2:
            return False
        # One of the fields may hold an event of ours, or something that was meant to be one.
        return _is_message(_fields_of(body, fields)) if _content(body) else not body and _is_message(fields)
    return False


def _is_message(content: Mapping[str, Any]) -> bool:
    """Whether fields are those of somebody's message rather than of an event, also of a broken one."""
    return bool(content) and content.get("kind") not in KINDS and "task_id" not in content and "event" not in content


def decoder(retry: tuple[str, ...] = (), dead_letter: tuple[str, ...] = ()) -> Decode:
    """A decoder that tells roles by these globs over topics or streams; without any, by what they are called."""
    return _Decoder(retry, dead_letter).decode


FORMAT = Format(
    new=decoder,
    is_mine=_is_mine,
    facts={
        "sent": "yes",
        "started": "Redis groups",
        "succeeded": "committed or acknowledged",
        "retried": "retry topics",
        "dead_lettered": "yes",
        "redelivered": "Redis groups",
        "task": "field `type`",
        "queue": "yes",
        "worker": "the group",
        "attempt": "where the headers say it",
        "error": "where the headers say it",
        "trace": "header traceparent",
    },
)
