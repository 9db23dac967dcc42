"""Which dead letters can be redriven, and how: a plan, before anything is written to anybody. Pure.

Takes records; gives those whose message can be taken from where it lies to where it came from, and of each other the
reason why not and what to do by hand. What a message itself says (it is gone, it was redriven too often) comes later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from collector.model.redrive import Mark

Kind: TypeAlias = Literal["kafka", "redis-stream"]
Fields: TypeAlias = Mapping[str, Any]
"""A record as `/api/dead-letters` lists it."""
LIMIT = 3
"""A message that came back so often is not sent once more."""
LARGEST_BATCH = 100


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that can be redriven: where it lies and where it goes."""

    id: str
    task_id: str
    place: str
    receipt: str
    target: str
    """Topic or stream."""
    partition: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be sent, in the order in which it died; and why the rest would not."""

    letters: list[Letter]
    refused: Counter[str]
    """How many by reason."""


# how a place looks → why its messages are not redriven from here, and what to do by hand
BY_HAND: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\.XQ(?:\.msgs)?$"),
        "Dramatiq: send the actor's message again (broker.enqueue of the decoded message)",
    ),
    (re.compile(r":failed:"), "RQ: requeue it with `rq requeue --queue QUEUE ID`"),
    (re.compile(r":failed$"), "BullMQ: retry it with job.retry(), or from a dashboard"),
)
_ENTRY = re.compile(r"\d+-\d+")
_OFFSET = re.compile(r"\d{1,19}")
_PARTITION = re.compile(r".+/\d{1,9}")

# what refuses a record before it is looked where it lies, first reason first
_REFUSALS: tuple[tuple[Callable[[Fields], bool], str], ...] = (
    (lambda one: one["state"] in ("redriven", "discarded", "compensated"), "it has been decided already"),
    (lambda one: bool(one["is_virtual"]), "nothing keeps its message: send the task again"),
    (lambda one: one["state"] == "expired", "its place should have deleted it by now"),
    (lambda one: not one["place"], "where it lies is not known"),
)


def plan(records: Iterable[Fields], kind: Kind, allowed: Callable[[str], bool]) -> Plan:
    """What can be redriven over a target of a kind; `allowed`: which topics or streams may be written to."""
    letters: list[Letter] = []
    refused: Counter[str] = Counter()
    for one in sorted(records, key=lambda one: (one["at"], one["id"])):
        why = next((reason for holds, reason in _REFUSALS if holds(one)), "") or _by_hand(one["place"])
        letter = None if why else _letter(one, kind)
        if why or letter is None:
            refused[why or _elsewhere(one["place"], kind)] += 1
        elif not letter.target:
            refused["where it came from is not known"] += 1
        elif not allowed(letter.target):
            refused[f"its origin {letter.target} is not named in --target"] += 1
        else:
            letters.append(letter)
    return Plan(letters=letters, refused=refused)


_WORDS: dict[Kind, str] = {"kafka": "a topic of Kafka", "redis-stream": "a stream of Redis"}


_EXCHANGE = re.compile(r"/(?!\d{1,9}$)[^/]*$")
"""An exchange and a routing key, rather than a topic and a partition."""


def _elsewhere(place: str, kind: Kind) -> str:
    if _EXCHANGE.search(place):
        return "RabbitMQ: move it back with a shovel, from its dead-letter queue to the queue that `origin` names"
    return f"it does not lie in {_WORDS[kind]}: name a target of its own kind"


def _by_hand(place: str) -> str:
    return next((by_hand for pattern, by_hand in BY_HAND if pattern.search(place)), "")


def _letter(one: Fields, kind: Kind) -> Letter | None:
    """The letter of a record that lies in a place of this kind, by the form of place and receipt."""
    origin, place, receipt = one["origin"], one["place"], one["receipt"]
    said = {"id": one["id"], "task_id": one["task_id"], "place": place, "receipt": receipt}
    if kind == "kafka" and _PARTITION.fullmatch(place) and _OFFSET.fullmatch(receipt):
        return Letter(**said, target=origin.get("topic", ""), partition=origin.get("partition"))
    if kind == "redis-stream" and _ENTRY.fullmatch(receipt):
        return Letter(**said, target=origin.get("topic", ""))
    return None


def mark(letter: Letter, before: Mark | None, limit: int) -> Mark | str:
    """The mark that a message goes with; or why it does not go: the guard against a loop."""
    number = 1 if before is None else before.number + 1
    if number > limit:
        return f"it came back {limit} times: repair it, or resolve it otherwise"
    return Mark(letter.id, number, letter.task_id)


def batches(letters: Sequence[Letter], rate: float) -> Iterator[tuple[Sequence[Letter], float]]:
    """Letters that go together, and the seconds until the next ones; `rate` a second, 0: as fast as it goes."""
    size = LARGEST_BATCH if rate <= 0 else max(1, min(LARGEST_BATCH, int(rate)))
    for start in range(0, len(letters), size):
        part = letters[start : start + size]
        yield part, len(part) / rate if rate > 0 else 0.0
