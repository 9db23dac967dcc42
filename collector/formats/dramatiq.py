"""Dramatiq, as it can be seen from outside: its messages in Redis, polled, and on RabbitMQ by firehose or peek.

A message is JSON, the same on both brokers, and its `message_id` is the task's id over all attempts. `options.retries`
counts the attempts that failed and were to be tried again. What is acknowledged goes without a word, and a message that
was fetched is not yet running: starts, successes and the error of the last attempt are for the hook to tell.

Remembers which messages it has told of, in bounded memories: a key's whole content comes at each poll.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from collector.formats.decoded import Decoded, Format, MalformedError, Reject, check_length, few, not_json
from collector.formats.tracebacks import exception_of
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event, Kind, Text
from collector.model.record import Batch
from collector.model.redrive import HEADER

REMEMBERED = 100_000
"""Messages, and ids of messages in Redis, that are remembered; the longest unseen goes first."""
MOST_RETRIES_AT_ONCE = 100
"""Retries told of one message at once, from the latest back: more is no retry policy but a made-up number."""
MOMENT = 0.001
"""Seconds before its death at which a redriven message was sent at the latest."""
OLD_SECONDS = 3600.0
"""A message that was dead for longer when it was first seen is no news."""
BEAT_MILLIS = 2000.0
"""How much a worker's heartbeat has to be later than the last one to be told."""
_FIREHOSE = "amq.rabbitmq.trace"
_DELAYED, _DEAD, _MESSAGES = ".DQ", ".XQ", ".msgs"
_HEARTBEATS, _ACKS = "__heartbeats__", "__acks__."
_SILENT = frozenset(["redis-pubsub", "rabbitmq-management"])
"""Notes of keys that changed, and lengths: they name no message."""

_ERRORS = (ValueError, RecursionError, OverflowError)
"""Every exception type of msgspec's decoders."""

Millis = float | None


class _Options(msgspec.Struct):
    """Of a message's options those that say something of its life."""

    retries: Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)] = 0
    traceback: str | None = None
    """Of the attempt that failed last and was to be tried again."""
    requeue_timestamp: Millis = None
    eta: Millis = None
    pipe_target: Any = None
    group_completion_uuid: Any = None
    redriven: Any = msgspec.field(default=None, name=HEADER)
    """The mark of a redrive."""


class _Message(msgspec.Struct):
    message_id: Text
    actor_name: Text
    queue_name: Text
    message_timestamp: float = 0.0
    options: _Options = msgspec.field(default_factory=_Options)

    @property
    def queue(self) -> str:
        """The queue it is worked off from: delayed and dead messages lie in queues of their own."""
        return self.queue_name.removesuffix(_DELAYED).removesuffix(_DEAD) or self.queue_name


_message = msgspec.json.Decoder(_Message).decode
_hash = msgspec.json.Decoder(dict[str, Any]).decode
_names = msgspec.json.Decoder(list[str]).decode
_scores = msgspec.json.Decoder(list[tuple[str, float]]).decode

T = TypeVar("T")


class _Recent(Generic[T]):
    """The last things that were looked up or put, at most so many."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._most = most

    def get(self, key: str) -> T | None:
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def put(self, key: str, value: T) -> None:
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


class _Decoder:
    """One source's messages, and what was told of them."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When the first record came: retries of messages that were sent later happened while we looked on."""
        self._marks: _Recent[bool] = _Recent()
        """Redrives that were told."""
        self._told: _Recent[int] = _Recent()
        """Message id → retries told."""
        self._parents: _Recent[str] = _Recent()
        """Message id → the message that it is to follow in a pipeline."""
        self._waiting: _Recent[tuple[str, str, str, int]] = _Recent()
        """Id in Redis → message id ("" where it could not be read), task, queue, retries."""
        self._died: _Recent[float] = _Recent()
        """Id in Redis → when it died, milliseconds."""
        self._dead: _Recent[bool] = _Recent()
        """What was told as dead: ids in Redis, or on RabbitMQ message ids with their time of death."""
        self._beats: _Recent[float] = _Recent()
        """Worker → its last heartbeat told, milliseconds; 0 where it has fetched something and none was told yet."""

    def decode(self, batch: Batch) -> Decoded:
        """The events of a batch, in its order. Raises nothing."""
        sources: list[int] = []
        out = Decoded([], sources, [])
        abouts: Sequence[Mapping[str, Any]] = batch.about or [{}] * len(batch.bodies)
        # All contents first: a poll hands over its keys in any order, and what they say of a message belongs together.
        contents = [self._content(batch.tap, about, body) for about, body in zip(abouts, batch.bodies, strict=True)]
        for index, (about, content) in enumerate(zip(abouts, contents, strict=True)):
            at = batch.times[index] if batch.times else batch.received_at
            self._since = at if self._since is None else self._since
            told = list(self._facts(batch.tap, about, content, at))
            out.ignored += not told
            for one in told:
                if isinstance(one, Event):
                    out.events.append(one)
                    sources.append(index)
                else:
                    out.rejects.append(Reject(index, one.reason, one.detail))
        return out

    # What a record holds

    def _content(self, tap: str, about: Mapping[str, Any], body: bytes) -> Any:
        """Decoded, and learned where other records need it; a MalformedError where it is nothing."""
        try:
            if tap == "redis-key":
                return self._key(about, body)
            return None if tap in _SILENT else _read(body)
        except MalformedError as error:
            return error
        except _ERRORS as error:
            return not_json(error)

    def _key(self, about: Mapping[str, Any], body: bytes) -> Any:
        """New messages of a hash with their ids in Redis, the ids in a set, the scores of a sorted set."""
        name, kind = _name(str(about.get("key"))), about.get("type")
        check_length(body)
        if kind == "hash" and name.endswith(_MESSAGES):
            return self._new(_hash(body), is_dead=name.endswith(_DEAD + _MESSAGES))
        if kind == "zset" and name.endswith(_DEAD):
            for member, score in _scores(body):
                self._died.put(member, score)
        elif kind == "zset" and name == _HEARTBEATS:
            return _scores(body)
        elif kind == "set" and name.startswith(_ACKS):
            return _names(body)
        return None

    def _new(self, messages: Mapping[str, Any], *, is_dead: bool) -> list[tuple[str, _Message | MalformedError]]:
        found: list[tuple[str, _Message | MalformedError]] = []
        for identity, raw in few(messages.items()):
            if (self._dead if is_dead else self._waiting).get(identity) is not None:
                continue
            try:
                message = _read(raw.encode() if isinstance(raw, str) else b"\xff")
            except MalformedError as error:
                found.append((identity, error))
                message = _Message(message_id="", actor_name="", queue_name="")
            else:
                found.append((identity, message))
            if is_dead:
                self._dead.put(identity, value=True)
            else:
                retries = message.options.retries
                self._waiting.put(identity, (message.message_id, message.actor_name, message.queue, retries))
        return found

    # What it says

    def _facts(self, tap: str, about: Mapping[str, Any], content: Any, at: float) -> Iterator[Event | MalformedError]:
        if content is None:
            return
        if isinstance(content, MalformedError):
            yield content
        elif isinstance(content, _Message):
            yield from self._delivered(tap, about, content, at)
        elif (name := _name(str(about["key"]))) == _HEARTBEATS:
            yield from self._heartbeats(content)
        elif name.startswith(_ACKS):
            yield from self._fetched(name, content)
        else:
            for identity, message in content:
                if isinstance(message, MalformedError):
                    yield message
                elif name.endswith(_DEAD + _MESSAGES):
                    yield from self._buried(message, _seconds(self._died.get(identity)), at)
                else:
                    yield from self._enqueued(message)

    def _enqueued(self, message: _Message, died: float | None = None) -> Iterator[Event]:
        """A message that lies in a queue: it was sent, and so many of its attempts failed. `died`: where it is dead."""
        options, identity = message.options, message.message_id
        told = self._told.get(identity)
        sent = _seconds(message.message_timestamp)
        if told is None:
            eta = None if options.retries else _seconds(options.eta)
            yield self._event("sent", message, time=sent, eta=eta)
            if sent is None or self._since is None or sent < self._since:
                told = max(0, options.retries - 1)  # what failed before we looked on is past
        mark = options.redriven
        if isinstance(mark, str) and self._marks.get(mark) is None:
            self._marks.put(mark, value=True)
            if told is not None:
                yield self._event("sent", message, time=None if died is None else died - MOMENT)
        first = max(told or 0, options.retries - MOST_RETRIES_AT_ONCE) + 1
        for retry in range(first, options.retries):
            yield self._event("retried", message, attempt=retry)
        if options.retries >= first:
            error, text = exception_of(options.traceback or "") or (None, None)
            yield self._event(
                "retried",
                message,
                attempt=options.retries,
                time=_seconds(options.requeue_timestamp),
                error=(error or "")[:LONGEST_TEXT] or None,
                error_message=(text or "")[:LONGEST_TEXT] or None,
            )
        self._told.put(identity, max(told or 0, options.retries))
        target = options.pipe_target
        if isinstance(target, dict) and isinstance(target.get("message_id"), str):
            self._parents.put(target["message_id"], identity)

    def _buried(self, message: _Message, died: float | None, at: float) -> Iterator[Event]:
        """A message in a dead-letter queue. It lies there as it was enqueued last: its last error is not in it."""
        if died is not None and died < at - OLD_SECONDS:
            return
        yield from self._enqueued(message, died)
        if died is not None:
            # RabbitMQ names whole seconds of another clock; nothing dies before it was enqueued.
            enqueued = _seconds(message.options.requeue_timestamp), _seconds(message.message_timestamp)
            died = max(died, *(moment for moment in enqueued if moment is not None), EARLIEST)
        yield self._event("dead_lettered", message, attempt=message.options.retries + 1, time=died)

    def _delivered(self, tap: str, about: Mapping[str, Any], message: _Message, at: float) -> Iterator[Event]:
        """A message as RabbitMQ shows it: by the firehose, by a peek, or as a dead letter of an exchange."""
        headers = _table(about.get("headers"))
        key = str(about.get("routing_key"))
        is_traced = about.get("exchange") == _FIREHOSE
        if is_traced and key.startswith("deliver.") and not key.endswith((_DELAYED, _DEAD)):
            yield from self._enqueued(message)
            worker = str(headers.get("connection") or "").partition(" -> ")[0][:LONGEST_TEXT]
            attempt = message.options.retries + 1
            yield self._event("received", message, attempt=attempt, worker=worker or None)
            return
        death = _death(_table(_table(headers.get("properties")).get("headers")) if is_traced else headers)
        if death is None:
            if tap != "amqp-get":
                yield from self._enqueued(message)
            return
        identity = f"{message.message_id} {death}"
        if self._dead.get(identity) is None:
            self._dead.put(identity, value=True)
            yield from self._buried(message, death or None, at)

    def _fetched(self, name: str, identities: list[str]) -> Iterator[Event]:
        """What a worker has fetched and not acknowledged: received, not necessarily running."""
        worker, _, queue = name.removeprefix(_ACKS).partition(".")
        if self._beats.get(worker) is None:
            self._beats.put(worker, 0.0)
        if queue.endswith(_DELAYED):
            return  # it only waits there for its time
        for identity in identities:
            message_id, task, its_queue, retries = self._waiting.get(identity) or ("", "", "", 0)
            if message_id:
                yield Event(
                    kind="received", task_id=message_id, task=task, queue=its_queue, worker=worker, attempt=retries + 1
                )

    def _heartbeats(self, scores: list[tuple[str, float]]) -> Iterator[Event]:
        """Of those that have fetched something: publishers beat too."""
        for worker, millis in scores:
            last = self._beats.get(worker)
            if last is not None and millis >= last + BEAT_MILLIS:
                self._beats.put(worker, millis)
                yield Event(kind="heartbeat", task_id="", worker=worker, time=_seconds(millis))

    def _event(self, kind: Kind, message: _Message, **fields: Any) -> Event:
        group = message.options.group_completion_uuid
        return Event(
            kind=kind,
            task_id=message.message_id,
            task=message.actor_name,
            queue=message.queue,
            parent_id=self._parents.get(message.message_id),
            labels={"group": group[:LONGEST_TEXT]} if isinstance(group, str) and group else None,
            **fields,
        )


def _read(body: bytes) -> _Message:
    """A message. Raises MalformedError."""
    check_length(body)
    try:
        return _message(body)
    except msgspec.ValidationError as error:
        text = str(error)
        missing = "missing_id" if "missing" in text else "bad_id"
        reason = "not_an_object" if "$" not in text and "missing" not in text else "bad_field"
        raise MalformedError(missing if "message_id" in text else reason, text) from error
    except _ERRORS as error:
        raise not_json(error) from error


def _seconds(millis: float | None) -> float | None:
    """Unix seconds; None where there are none, or none that can be."""
    return millis / 1000 if millis is not None and EARLIEST <= millis / 1000 < LATEST else None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _death(headers: Mapping[str, Any]) -> float | None:
    """When a dead letter died, Unix seconds; 0 where that is not said; None where it is no dead letter."""
    deaths = headers.get("x-death")
    if not isinstance(deaths, list) or not deaths:
        return None
    try:
        died = datetime.fromisoformat(str(_table(deaths[0]).get("time"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return died if EARLIEST <= died < LATEST else 0.0


def _name(key: str) -> str:
    """A key without its namespace: names of queues have no colon."""
    return key.rpartition(":")[2]


def _is_mine(tap: str, about: Mapping[str, Any], body: bytes) -> bool:
    if tap in ("amqp", "amqp-get"):
        return _is_message(body)
    channel = str(about.get("channel"))
    if tap == "redis-pubsub":
        key = channel.partition("__:")[2] if channel.startswith("__keyspace@") else ""
    elif tap == "redis-key":
        key = str(about.get("key"))
    else:
        return False
    name = _name(key)
    if key.startswith("dramatiq:") or name == _HEARTBEATS or name.startswith(_ACKS):
        return True
    if name.endswith((_DELAYED, _DEAD, _DELAYED + _MESSAGES, _DEAD + _MESSAGES)):
        return True
    return name.endswith(_MESSAGES) and (tap == "redis-pubsub" or about.get("type") == "none" or _is_message(body))


def _is_message(body: bytes) -> bool:
    return body[:1] == b"{" and b"actor_name" in body and b"message_id" in body


_IN_REDIS = "Redis, what a poll finds"
_ON_RABBIT = "RabbitMQ with the firehose"
FORMAT = Format(
    new=lambda: _Decoder().decode,
    is_mine=_is_mine,
    facts={
        "sent": f"{_IN_REDIS}; {_ON_RABBIT}",
        "received": f"{_IN_REDIS}; {_ON_RABBIT}",
        "started": "hook",
        "succeeded": "hook",
        "failed": "hook",
        "retried": f"yes; {_ON_RABBIT}",
        "dead_lettered": "yes; RabbitMQ with peek=QUEUE.XQ",
        "task": "yes",
        "queue": "yes",
        "worker": "Redis; hook",
        "attempt": "yes",
        "error": "of attempts that are tried again; hook",
        "run": "hook",
        "wait": "hook",
        "heartbeat": "Redis",
    },
)
