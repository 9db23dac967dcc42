"""Which dead letters can be redriven, and how: a plan, before anything is written to anybody. Pure.

Takes records; gives those whose message can be taken from where it lies to where it came from, and of each other the
reason why not and what to do by hand. What a message itself says (it is gone, it was redriven too often) comes later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from collector.model.redrive import Mark

Kind: TypeAlias = Literal["kafka", "redis-stream", "rabbitmq", "dramatiq", "rq"]
"""What is redriven on: a target's kind of place."""
Fields: TypeAlias = Mapping[str, Any]
"""A record as `/api/dead-letters` lists it."""
LIMIT = 3
"""A message that came back so often is not sent once more."""
LARGEST_BATCH = 100


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that can be redriven: where it lies and where it goes."""

    id: str
    task_id: str
    source: str
    place: str
    receipt: str
    target: str
    """Topic, stream or queue."""
    partition: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be sent, in the order in which it died; and why the rest would not."""

    letters: list[Letter]
    refused: Counter[str]
    """How many by reason."""


# how a place looks → what to do by hand, where the target is of another kind
BY_HAND: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\.XQ(?:\.msgs)?$"),
        "Dramatiq: name the target dramatiq+redis:// (on RabbitMQ amqp://), or broker.enqueue the decoded message",
    ),
    (re.compile(r":failed:"), "RQ: name the target rq+redis://, or requeue it with `rq requeue --queue QUEUE ID`"),
    (re.compile(r":failed$"), "BullMQ: retry it with job.retry(), or from a dashboard"),
    (
        re.compile(r"/(?!\d{1,9}$)[^/]*$"),  # an exchange and a routing key, rather than a topic and a partition
        "RabbitMQ: name the target amqp://, or move it with a shovel to the queue that `origin` names",
    ),
)
_ENTRY = re.compile(r"\d+-\d+")
_OFFSET = re.compile(r"\d{1,19}")
_PARTITION = re.compile(r".+/\d{1,9}")
_XQ = re.compile(r".+:([^:]+)\.XQ(?:\.msgs)?")
_FAILED = re.compile(r".+?:failed:(.+)")

# what refuses a record before it is looked where it lies, first reason first
_REFUSALS: tuple[tuple[Callable[[Fields], bool], str], ...] = (
    (lambda one: one["state"] in ("redriven", "discarded", "compensated"), "it has been decided already"),
    (lambda one: bool(one["is_virtual"]), "nothing keeps its message: send the task again"),
    (lambda one: one["state"] == "expired", "its place should have deleted it by now"),
    (lambda one: not one["place"], "where it lies is not known"),
)


def plan(
    records: Iterable[Fields], kind: Kind, allowed: Callable[[str], bool], lies_in: str = "", named: str = ""
) -> Plan:
    """What can be redriven over a target of a kind; `allowed`: which topics, streams or queues may be written to.

    `lies_in`: on RabbitMQ the queue in which messages lie whose record names only an exchange. `named`: the one topic,
    stream or queue that may be written to, where it is one: a task that was in it came from there, if nothing tells
    another origin.
    """
    letters: list[Letter] = []
    refused: Counter[str] = Counter()
    for one in sorted(records, key=lambda one: (one["at"], one["id"])):
        why = next((reason for holds, reason in _REFUSALS if holds(one)), "")
        letter = None if why else _letter(one, kind, lies_in, named)
        if letter is None:
            refused[why or _elsewhere(one["place"], kind)] += 1
        elif not letter.place:
            refused["RabbitMQ: say with --from in which queue it lies: its record names only the exchange"] += 1
        elif not letter.target:
            refused[f"where it came from is not known: {_UNTOLD[kind]}{_perhaps(one)}"] += 1
        elif not allowed(letter.target):
            refused[f"its origin {letter.target} is not named in --target"] += 1
        else:
            letters.append(letter)
    return Plan(letters=letters, refused=refused)


_WORDS: dict[Kind, str] = {
    "kafka": "a topic of Kafka",
    "redis-stream": "a stream of Redis",
    "rabbitmq": "a dead-letter queue of RabbitMQ",
    "dramatiq": "a dead-letter queue of Dramatiq on Redis",
    "rq": "a failed registry of RQ",
}


def _elsewhere(place: str, kind: Kind) -> str:
    by_hand = next((by_hand for pattern, by_hand in BY_HAND if pattern.search(place)), "")
    return by_hand or f"it does not lie in {_WORDS[kind]}: name a target of its own kind"


# what of a message would have told its origin; elsewhere its place does
_UNTOLD: Mapping[Kind, str] = {
    "kafka": "it has no header such as kafka_dlt-original-topic",
    "redis-stream": "it has no field original_stream, original-stream or stream",
    "rabbitmq": "its x-death names no queue",
}


def _perhaps(one: Fields) -> str:
    """What somebody may say of the origin who knows it."""
    queue = _queue(one)
    return f"; if it was {queue}, name that alone in --target" if queue else ""


def _queue(one: Fields) -> str:
    """The queue that its task was in, where that is another one than it lies in now."""
    return "" if one["queue"] in (one["place"], one["place"].rpartition("/")[0]) else str(one["queue"])


def _letter(one: Fields, kind: Kind, lies_in: str, named: str) -> Letter | None:
    """The letter of a record that lies in a place of this kind, by the form of place and receipt."""
    place, receipt = one["place"], one["receipt"]
    found = _LETTERS[kind](one["origin"], place, receipt)
    if found is None:
        return None
    if not found[0] and _queue(one) == named:
        found = (named, None)
    if kind == "rabbitmq":  # what comes over an exchange has died there: where it lies now, no record says
        place = lies_in or ("" if "/" in place else place)
    said = {"place": place, **{name: one[name] for name in ("id", "task_id", "source", "receipt")}}
    return Letter(**said, target=found[0], partition=found[1])


_To: TypeAlias = tuple[str, int | None] | None
"""Topic, stream or queue, and partition; None: it does not lie in a place of this kind."""


def _kafka(origin: Fields, place: str, receipt: str) -> _To:
    is_mine = _PARTITION.fullmatch(place) and _OFFSET.fullmatch(receipt)
    return (origin.get("topic", ""), origin.get("partition")) if is_mine else None


def _stream(origin: Fields, _place: str, receipt: str) -> _To:
    return (origin.get("topic", ""), None) if _ENTRY.fullmatch(receipt) else None


def _rabbitmq(origin: Fields, _place: str, _receipt: str) -> _To:
    """A reason of death is what RabbitMQ alone tells."""
    return (origin.get("queue", ""), None) if origin.get("reason") else None


def _dramatiq(_origin: Fields, place: str, receipt: str) -> _To:
    found = _XQ.fullmatch(place) if receipt else None
    return (found[1], None) if found else None


def _rq(_origin: Fields, place: str, receipt: str) -> _To:
    found = _FAILED.fullmatch(place) if receipt else None
    return (found[1], None) if found else None


_LETTERS: Mapping[Kind, Callable[[Fields, str, str], _To]] = {
    "kafka": _kafka,
    "redis-stream": _stream,
    "rabbitmq": _rabbitmq,
    "dramatiq": _dramatiq,
    "rq": _rq,
}


def mark(letter: Letter, before: Mark | None, limit: int) -> Mark | str:
    """The mark that a message goes with; or why it does not go: the guard against a loop."""
    number = 1 if before is None else before.number + 1
    if number > limit:
        return f"it came back {limit} times: repair it, or resolve it otherwise"
    return Mark(letter.id, number, letter.task_id)


def batch_size(rate: float) -> int:
    """How many letters go together, at so many a second; 0: as fast as it goes."""
    return LARGEST_BATCH if rate <= 0 else max(1, min(LARGEST_BATCH, int(rate)))
