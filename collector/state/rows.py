"""Values to statements, rows to values: what alerts, groups and the outbox look like in the state file."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from collector.model.alert import Notification
from collector.model.saved import GroupChange, RuleName, SavedAlert, SavedGroup, SavedMember, SavedPast, Unsent
from collector.state.store import Store

Statement: TypeAlias = tuple[Any, ...]
"""SQL, then its values."""

MOST_TOLD = 10_000
"""Lines of who was told what; the oldest go."""

_AT = "SELECT value FROM outbox WHERE id = ?"
_pack = msgspec.msgpack.Encoder().encode
_saved_alert = msgspec.msgpack.Decoder(SavedAlert)
_saved_group = msgspec.msgpack.Decoder(SavedGroup)
_saved_member = msgspec.msgpack.Decoder(SavedMember)
_saved_past = msgspec.msgpack.Decoder(SavedPast)
_notification = msgspec.msgpack.Decoder(Notification)
_name = msgspec.json.Encoder().encode
T = TypeVar("T")

EMPTY: tuple[Statement, ...] = (
    ("DELETE FROM alerts",),
    ("DELETE FROM groups",),
    ("DELETE FROM members",),
    ("DELETE FROM past",),
    ("DELETE FROM outbox",),
    ("DELETE FROM meta WHERE name LIKE 'broken %'",),
)
"""Forget all alerts and groups, what is to be sent and who refuses, to write them anew."""


def alert(rule: RuleName, fingerprint: str, saved: SavedAlert | None) -> Statement:
    """One alert of a rule as it is now, or gone."""
    name = _name(rule).decode()
    if saved is None:
        return "DELETE FROM alerts WHERE rule = ? AND fingerprint = ?", name, fingerprint
    values = saved.alert.state, saved.changed_at, _pack(saved)
    return "INSERT OR REPLACE INTO alerts VALUES (?, ?, ?, ?, ?)", name, fingerprint, *values


def forgotten(before: float) -> Statement:
    """Alerts that ended before an instant: nobody reads so far back again."""
    return "DELETE FROM alerts WHERE state = 'resolved' AND changed_at < ?", before


def group(change: GroupChange) -> Iterator[Statement]:
    """One group as it is now, and those of its alerts that changed; or gone, with all of them."""
    place = change.receiver, change.key
    if change.group is None:
        yield "DELETE FROM groups WHERE receiver = ? AND group_key = ?", *place
        yield "DELETE FROM members WHERE receiver = ? AND group_key = ?", *place
        return
    yield "INSERT OR REPLACE INTO groups VALUES (?, ?, ?)", *place, _pack(change.group)
    for member in change.members:
        if member.alert is None and member.later is None:
            yield "DELETE FROM members WHERE receiver = ? AND group_key = ? AND token = ?", *place, member.token
        else:
            yield "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", *place, member.token, _pack(member)


def past(one: SavedPast) -> Statement:
    """An episode of a backlog, or gone."""
    if one.alert is None:
        return "DELETE FROM past WHERE token = ?", one.token
    return "INSERT OR REPLACE INTO past VALUES (?, ?)", one.token, _pack(one)


def unsent(one: Unsent) -> Statement:
    """A notification that is to be sent."""
    said = one.notification
    columns = one.row, said.at, said.key, said.target, said.receiver, said.title
    values = one.tries, one.not_before, one.rests_until, _pack(said)
    return "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *columns, *values


def unsent_at(store: Store, row: int) -> Notification | None:
    """The notification that stands in a row; None where there is none that can be read."""
    try:
        return next((_notification.decode(value) for (value,) in store.rows(_AT, row)), None)
    except (sqlite3.Error, msgspec.MsgspecError):
        return None


def tried(row: int, tries: int, not_before: float, rests_until: float) -> Statement:
    """It was not taken, and is tried again."""
    sql = "UPDATE outbox SET tries = ?, not_before = ?, rests_until = ? WHERE id = ?"
    return sql, tries, not_before, rests_until, row


def gone(row: int) -> Statement:
    """It is sent, or given up."""
    return "DELETE FROM outbox WHERE id = ?", row


def told(number: int, notification: Notification, tries: int, now: float) -> Iterator[Statement]:
    """Who was told what, and when; the oldest of such lines goes."""
    said = notification
    columns = said.key, said.target, said.receiver, said.group_key, said.status, said.title, tries
    yield "INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", number, now, *columns
    if number > MOST_TOLD:
        yield "DELETE FROM told WHERE id <= ?", number - MOST_TOLD


def meta(name: str, value: float | None) -> Statement:
    """One number under a name; None where there is none any more."""
    if value is None:
        return "DELETE FROM meta WHERE name = ?", name
    return "INSERT OR REPLACE INTO meta VALUES (?, ?)", name, value


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a former process has left. `unread`: rows that another version or a damage has made unreadable."""

    alerts: list[SavedAlert]
    groups: list[tuple[SavedGroup, list[SavedMember]]]
    past: list[SavedPast]
    unsent: list[Unsent]
    numbers: dict[str, float]
    last_told: int
    unread: int


def found(store: Store) -> Found:
    """All that is in the file. Raises sqlite3.Error."""
    unread = 0

    def decoded(
        decoder: msgspec.msgpack.Decoder[T], rows: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[T, tuple[Any, ...]]]:
        nonlocal unread
        for *columns, value in rows:
            try:
                yield decoder.decode(value), tuple(columns)
            except (msgspec.MsgspecError, TypeError):
                unread += 1

    alerts = [one for one, _ in decoded(_saved_alert, store.rows("SELECT value FROM alerts"))]
    members: dict[tuple[str, str], list[SavedMember]] = {}
    for member, place in decoded(_saved_member, store.rows("SELECT receiver, group_key, value FROM members")):
        members.setdefault((place[0], place[1]), []).append(member)
    groups = [
        (one, members.get((one.receiver, one.key), []))
        for one, _ in decoded(_saved_group, store.rows("SELECT value FROM groups"))
    ]
    rows = store.rows("SELECT id, tries, not_before, rests_until, value FROM outbox ORDER BY id")
    unsent = [
        Unsent(row=row, notification=one, tries=int(tries), not_before=not_before, rests_until=rests_until)
        for one, (row, tries, not_before, rests_until) in decoded(_notification, rows)
        if all(map(_is_number, (tries, not_before, rests_until)))
    ]
    unread += sum(not all(map(_is_number, row[1:4])) for row in rows)
    episodes = [one for one, _ in decoded(_saved_past, store.rows("SELECT value FROM past"))]
    ((last_told,),) = store.rows("SELECT coalesce(max(id), 0) FROM told")
    rows = store.rows("SELECT name, value FROM meta")
    numbers = {name: float(value) for name, value in rows if _is_number(value)}
    unread += len(rows) - len(numbers)
    return Found(
        alerts=alerts,
        groups=groups,
        past=episodes,
        unsent=unsent,
        numbers=numbers,
        last_told=last_told,
        unread=unread,
    )


def _is_number(value: Any) -> bool:
    """Whether it is what we wrote: SQLite keeps anything in any column."""
    return isinstance(value, int | float) and math.isfinite(value)
