"""Silences, acks and the key of links in the state file: what routing keeps, as rows of the store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from collector.model.labels import labels_of
from collector.routing.keeping import Ack, Keep, Silence
from collector.routing.matchers import Op, matcher
from collector.state.store import Store

_encode = msgspec.json.encode
_KEY = "INSERT OR IGNORE INTO secrets VALUES ('links', ?)"


class Remembered(Keep):
    """Keeps in a store. Made at the start: reading waits for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = b""

    def silences(self) -> Iterable[Silence]:
        """All that were saved; what is no silence any more is passed over."""
        for (value,) in self._store.rows("SELECT value FROM silences"):
            try:
                yield silence_of(msgspec.json.decode(value))
            except (ValueError, KeyError, TypeError):
                continue  # of a damaged file; the others hold

    def acks(self) -> Iterable[Ack]:
        """All that were saved."""
        for (value,) in self._store.rows("SELECT value FROM acks"):
            try:
                ack = msgspec.json.decode(value, type=Ack)
            except msgspec.DecodeError:
                continue
            yield msgspec.structs.replace(ack, labels=labels_of(ack.labels))

    def save_silence(self, silence: Silence) -> None:
        """A row by its id."""
        self._store.put(*_silence_row(silence))

    def forget_silence(self, silence_id: str) -> None:
        """Its row goes."""
        self._store.put("DELETE FROM silences WHERE id = ?", silence_id)

    def save_ack(self, ack: Ack) -> None:
        """A row by its fingerprint."""
        self._store.put(*_ack_row(ack))

    def forget_ack(self, fingerprint: str) -> None:
        """Its row goes."""
        self._store.put("DELETE FROM acks WHERE fingerprint = ?", fingerprint)

    def save_all(self, silences: Iterable[Silence], acks: Iterable[Ack]) -> None:
        """All rows anew, as one; the key of links too."""
        rows = [*map(_silence_row, silences), *map(_ack_row, acks)]
        emptied = [("DELETE FROM silences",), ("DELETE FROM acks",)]
        self._store.put_all([*emptied, *rows, (_KEY, self._key)] if self._key else [*emptied, *rows])

    def link_key(self) -> bytes:
        """The key of the first process that used this file."""
        for (value,) in self._store.rows("SELECT value FROM secrets WHERE name = 'links'"):
            self._key = bytes(value)
            return self._key
        if not self._key:
            self._key = secrets.token_bytes(32)
        self._store.put(_KEY, self._key)
        return self._key


def _silence_row(silence: Silence) -> tuple[Any, ...]:
    sql = "INSERT OR REPLACE INTO silences VALUES (?, ?, ?)"
    return sql, silence.id, silence.ends_at, _encode(plain(silence))


def _ack_row(ack: Ack) -> tuple[Any, ...]:
    return "INSERT OR REPLACE INTO acks VALUES (?, ?)", ack.fingerprint, _encode(ack)


def plain(silence: Silence) -> dict[str, Any]:
    """A silence as data for JSON."""
    conditions = [[one.name, one.op, one.value] for one in silence.matchers]
    return {**msgspec.structs.asdict(silence), "matchers": conditions}


def silence_of(value: dict[str, Any]) -> Silence:
    """The silence that was written so. Raises ValueError, KeyError or TypeError."""
    conditions = tuple(matcher(name, cast("Op", op), text) for name, op, text in value["matchers"])
    return Silence(**{**value, "matchers": conditions})
