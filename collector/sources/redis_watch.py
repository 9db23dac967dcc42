"""What to watch of a framework that keeps its tasks in Redis, as a value: one row of a table per framework.

Keys are polled, paced, and read again only when something names them: a new member of a watched collection, a message
on a channel, a key that SCAN finds. Only commands that read are ever sent.

Texts hold `{prefix}`, `{namespace}` (the prefix with a colon, where there is one) and `{queue}`, and in a follow-up the
groups of its expression: `{id}`. In expressions `{prefix}` stands escaped, and `{queue}` is a group `queue` of what may
be a queue's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from collector.sources.redis_wire import RedisAddress

MEMBERS = 1000
"""How many members of a collection are read, where a row says nothing else."""
VALUE_BYTES = 256 * 1024
"""How much of one value is read, or handed over where it cannot be cut in the server."""

Kind: TypeAlias = Literal["string", "list", "set", "zset", "hash", "stream"]


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """What a name (a member that came, left or moved; a channel) says of other keys."""

    name: str
    """An expression for the whole name."""
    read: tuple[str, ...] = ()
    """Keys to read now, once."""
    entries: tuple[str, ...] = ()
    """Streams whose new entries are to be read now."""
    poll: tuple[str, ...] = ()
    """Keys to poll from now on, until the member that named them is gone."""
    until: tuple[str, ...] = ()
    """Keys that will be written once: polled, in turns, until they are."""


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of one form, and how they are read. The first row whose expression fits a key is its row."""

    match: str
    """An expression for the whole key."""
    kind: Kind
    first: int = 0
    """Members read from the front of a list or sorted set."""
    last: int = MEMBERS
    """Members read from the end; of a set, and of a stream's pending entries: the most that are taken."""
    fields: tuple[str, ...] = ()
    """The fields of a hash that are read; none named: all."""
    times: tuple[str, ...] = ()
    """Fields of a hash, or of the JSON in a string, that say when something happened: RFC 3339, seconds or millis."""
    is_polled: bool = False
    """Polled once SCAN has found it."""
    is_undated: bool = False
    """Whether nothing in it says when anything happened: what is there at the start is handed over as `before`."""
    is_tailed: bool = False
    """A stream that is tailed once SCAN has found it."""
    follow: tuple[Follow, ...] = ()
    """By the members of a collection; the groups of the key's own expression are words, too."""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A pub/sub pattern; `__keyspace@{db}__:...` where the server's notifications are of use."""

    pattern: str
    follow: tuple[Follow, ...] = ()
    """By the channel's name."""


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to watch of one framework."""

    sees: str
    """For people: what can be seen this way, what cannot, and what adds it."""
    prefix: str = ""
    """What keys begin with, where the configuration says nothing else."""
    queues: tuple[str, ...] = ()
    """The queues, where the configuration names none; empty: all that are found."""
    roots: tuple[str, ...] = ()
    """Keys polled from the start; those with `{queue}` once for each queue that is named."""
    tails: tuple[str, ...] = ()
    """Streams tailed from the start, likewise."""
    scan: str = ""
    """A glob of keys to look for with SCAN, forever and paced; "": never."""
    keys: tuple[Keys, ...] = ()
    channels: tuple[Channel, ...] = ()
    entries: tuple[Follow, ...] = ()
    """By the fields of a tailed stream's entries, each as `stream field value`."""
    poll: float = 0.25
    """Seconds between polls, where the configuration says nothing else."""


class RedisWatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One database and what to watch in it. Empty values are those of the row."""

    name: str
    address: RedisAddress
    watch: Watch
    prefix: str = ""
    queues: tuple[str, ...] = ()
    poll: float = 0.0
    start_max_age: float | None = 3600.0
    """How old what is found at the start may be, seconds; None: whatever is there."""


class Plan(msgspec.Struct, frozen=True):
    """A row with its texts filled in for one source."""

    roots: tuple[str, ...]
    tails: tuple[str, ...]
    scan: str
    keys: tuple[tuple[re.Pattern[str], Keys, tuple[FollowPlan, ...]], ...]
    channels: tuple[tuple[str, tuple[FollowPlan, ...]], ...]
    entries: tuple[FollowPlan, ...]
    words: Mapping[str, str]

    def words_of(self, key: str) -> dict[str, str]:
        """The words, and what the groups of its row's expression are in this key."""
        found = next((found for match, _, _ in self.keys if (found := match.fullmatch(key))), None)
        return {**self.words, **(found.groupdict("") if found else {})}

    def row(self, key: str) -> tuple[Keys, tuple[FollowPlan, ...]] | None:
        """How a key is read, and what its members say; None where no row fits it."""
        return next(((row, follow) for match, row, follow in self.keys if match.fullmatch(key)), None)


FollowPlan: TypeAlias = tuple[re.Pattern[str], Follow]
_WORD = re.compile(r"\{(\w+)\}")


def filled(text: str, words: Mapping[str, str]) -> str:
    """A text with its `{words}` filled in; unknown ones stay."""
    return _WORD.sub(lambda match: words.get(match[1], match[0]), text)


def plan(options: RedisWatchOptions) -> Plan:
    """What a source has to do, by its row and its options."""
    watch = options.watch
    queues = options.queues or watch.queues
    prefix = options.prefix or watch.prefix
    words = {"prefix": prefix, "namespace": prefix and f"{prefix}:", "db": str(options.address.database)}
    inside = {name: re.escape(words[name]) for name in ("prefix", "namespace")}
    inside |= {"queue": f"(?P<queue>{'|'.join(map(re.escape, queues)) or '.+'})"}

    def follows(rows: Iterable[Follow]) -> tuple[FollowPlan, ...]:
        return tuple((re.compile(filled(row.name, inside), re.DOTALL), row) for row in rows)

    def named(texts: Iterable[str]) -> tuple[str, ...]:
        each = [filled(text, {**words, "queue": queue}) for text in texts if "{queue}" in text for queue in queues]
        return (*(filled(text, words) for text in texts if "{queue}" not in text), *each)

    return Plan(
        roots=named(watch.roots),
        tails=named(watch.tails),
        scan=filled(watch.scan, {**words, "prefix": globbed(words["prefix"])}),
        keys=tuple((re.compile(filled(row.match, inside), re.DOTALL), row, follows(row.follow)) for row in watch.keys),
        channels=tuple(
            (filled(row.pattern, {**words, "prefix": globbed(words["prefix"])}), follows(row.follow))
            for row in watch.channels
        ),
        entries=follows(watch.entries),
        words=words,
    )


def globbed(text: str) -> str:
    """A text as Redis' glob patterns take it literally."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)
