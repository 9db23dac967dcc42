"""The dead-letter ledger in the state file: records as they are now, and a history to which lines are only added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from collector.deadletter.ledger import Changes
from collector.deadletter.record import DeadLetter, Entry, state_of
from collector.state.rows import Statement

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(DeadLetter).decode


def ledger_statements(changes: Changes | None) -> Iterator[Statement]:
    """What changed, as statements; a history goes only with its record."""
    if changes is None:
        return
    for name in changes.gone:
        yield "DELETE FROM dead_letters WHERE id = ?", name
        yield "DELETE FROM dead_letter_history WHERE id = ?", name
    for one in changes.records:
        columns = one.id, one.task, one.queue, one.source, one.owner, one.state, one.at, one.fingerprint
        yield "INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *columns, _pack(one)
    for entry in changes.entries:
        written = entry.number, entry.id, entry.at, entry.state, entry.actor, entry.reason, entry.ticket
        yield "INSERT OR IGNORE INTO dead_letter_history VALUES (?, ?, ?, ?, ?, ?, ?)", *written


class Rows(Protocol):
    """Whatever can be asked for rows of the state file."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds. Raises sqlite3.Error."""
        ...


def ledger_found(store: Rows) -> tuple[list[DeadLetter], list[Entry]]:
    """All that a former process has written; what cannot be read is passed over. Raises sqlite3.Error."""
    records = []
    for (value,) in store.rows("SELECT value FROM dead_letters"):
        try:
            records.append(_unpack(value))
        except (msgspec.MsgspecError, TypeError):
            continue  # of a damaged file; the others hold
    rows = store.rows("SELECT number, id, at, state, actor, reason, ticket FROM dead_letter_history ORDER BY number")
    return records, [entry for row in rows for entry in _entry(row)]


def _entry(row: tuple[Any, ...]) -> Iterator[Entry]:
    number, name, at, state, actor, reason, ticket = row
    try:
        said = state_of(str(state))
    except ValueError:
        return
    yield Entry(number=number, id=name, at=at, state=said, actor=actor, reason=reason, ticket=ticket)
