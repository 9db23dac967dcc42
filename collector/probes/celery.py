"""Celery's queues on Redis: a list per priority, and one hash of all that workers hold.

Messages that are held until their ETA are told from those that are worked on by reading each once: what a delivery tag
stands for never changes. Celery's messages do not say when they were sent, so the age of the oldest is not seen here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from collector.probes.reading import Reading
from collector.probes.redis import PAUSE, PER_PAUSE, Asked, Finder, Steps, ask_each, chosen, decoded, texts, total

PRIORITIES = ("", *(f"\x06\x16{step}" for step in range(1, 10)))
"""What a priority adds to the name of a queue's list; which steps there are is a setting of the application."""
MOST_HELD = 20_000
"""Messages that workers hold, of which it is known whose they are; with more, nothing is said of any queue's."""
MOST_NEW = 5_000
"""Messages that are read in one look."""
MOST_BYTES = 8 * 1024 * 1024
"""Bytes of messages that are read in one look."""
LARGEST = 256 * 1024
"""Bytes of a message; a larger one is not read, and then it is not known whose it is."""
_BINDING = "_kombu.binding."
_SEPARATOR = "\x06\x16"
_NOT_WORK = ("celeryev", "celery.pidbox", "reply.celery.pidbox", "celery_delayed_")
_PLUMBING = ("celeryev.", "celery_delayed_")
_PLUMBING_ENDS = (".celery.pidbox",)

Routes: TypeAlias = Mapping[tuple[str, str], str]
"""Exchange and routing key → queue."""


class _Headers(msgspec.Struct):
    eta: Any = None


class _Message(msgspec.Struct):
    headers: _Headers | None = None


_held = msgspec.json.Decoder(tuple[_Message, str | None, str | None])


class Held(msgspec.Struct, frozen=True):
    """A message that a worker holds."""

    exchange: str
    key: str
    due: float
    """Its ETA, Unix seconds; 0 for none."""

    def queue(self, routes: Routes) -> str:
        """Where it came from."""
        return routes.get((self.exchange, self.key), self.key)


class CeleryQueues:
    """`Kind`. `prefix` None: every prefix that is found. `queues` are asked for besides those that are found."""

    def __init__(self, prefix: str | None = None, queues: Collection[str] = ()) -> None:
        self._queues = queues
        self._prefixes: dict[str, None] = {} if prefix is None else {prefix: None}
        self._finder = Finder(f"{'*' if prefix is None else prefix}{_BINDING}*")
        self._held: dict[tuple[str, bytes], Held | None] = {}
        """What was read of each message that is held; None: it is no message of Celery."""

    def look(self, known: Collection[str], now: float) -> Steps:
        """Bindings, what is held, lengths."""
        yield from self._finder.go_on(now)
        routes: dict[tuple[str, str], str] = {}
        yield from self._bindings(routes)
        prefixes = list(self._prefixes) or [""]
        counts: Counter[tuple[str, bool]] = Counter()
        is_told = yield from self._count_held(prefixes, routes, now, counts)
        found = dict.fromkeys([*routes.values(), *(queue for queue, _ in counts)])
        names = [name for name in chosen((), [*self._queues, *found], known) if is_work(name)]
        rows = yield from ask_each(names, lambda name: [("LLEN", p + name + s) for p in prefixes for s in PRIORITIES])
        reading = Reading()
        for at, (name, row) in enumerate(zip(names, rows, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            unacked, scheduled = (counts[name, waits] if is_told else None for waits in (False, True))
            reading.depth(name, {"ready": total(row), "unacked": unacked, "scheduled": scheduled})
        if not is_told:
            reading.says = (
                "workers hold more, or larger, messages than are read in one look: whose they are is not known"
            )
        return reading

    def _bindings(self, routes: dict[tuple[str, str], str]) -> Asked:
        """The queues that were declared."""
        places = [key.decode("utf-8", "replace").partition(_BINDING) for key in self._finder.found]
        work = [(prefix, exchange) for prefix, _, exchange in places if not exchange.startswith(_NOT_WORK)]
        members = yield from ask_each(work, lambda place: [("SMEMBERS", _BINDING.join(place))])
        for at, ((prefix, exchange), (bound,)) in enumerate(zip(work, members, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            self._prefixes.setdefault(prefix)
            for member in texts(bound):
                key, _, rest = member.partition(_SEPARATOR)
                routes[exchange, key] = rest.rpartition(_SEPARATOR)[2]

    def _count_held(self, prefixes: list[str], routes: Routes, now: float, counts: Counter[tuple[str, bool]]) -> Any:
        """Count what is held, by queue and by whether it waits for its ETA. Gives whether that is known."""
        pages = yield [("ZRANGE", f"{prefix}unacked_index", "0", str(MOST_HELD)) for prefix in prefixes]
        tags = [(p, tag) for p, page in zip(prefixes, pages, strict=True) if isinstance(page, list) for tag in page]
        is_whole = len(tags) <= MOST_HELD and all(isinstance(page, list) for page in pages)
        self._held = {tag: self._held[tag] for tag in tags if tag in self._held}
        new = [tag for tag in tags if tag not in self._held][:MOST_NEW]
        sizes = yield from ask_each(new, lambda tag: [("HSTRLEN", f"{tag[0]}unacked", tag[1])])
        few, left = [], MOST_BYTES
        for tag, (size,) in zip(new, sizes, strict=True):
            if isinstance(size, int) and size <= min(LARGEST, left):
                few.append(tag)
                left -= size
        values = yield from ask_each(few, lambda tag: [("HGET", f"{tag[0]}unacked", tag[1])])
        for at, (tag, (value,)) in enumerate(zip(few, values, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            if value is not None:  # else it was acknowledged between two questions
                self._held[tag] = held(value)
        for one in self._held.values():
            if one is not None:
                counts[one.queue(routes), one.due > now] += 1
        return is_whole and len(few) == len(new) < MOST_NEW


def held(value: bytes) -> Held | None:
    """What a value of the hash `unacked` says; None where it is no message of Celery."""
    found = decoded(_held, value)
    if found is None:
        return None
    message, exchange, key = found
    return Held(exchange or "", key or "", _due(message.headers.eta if message.headers else None))


def _due(eta: Any) -> float:
    try:
        due = datetime.fromisoformat(eta)
        return (due if due.tzinfo else due.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def is_work(queue: str) -> bool:
    """Whether tasks wait in a queue, and not what workers tell one another."""
    return bool(queue) and not queue.startswith(_PLUMBING) and not queue.endswith(_PLUMBING_ENDS)
