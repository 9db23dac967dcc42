"""The tables of the state file, as the steps that lead from one version to the next.

A step is never changed once it was released: a new need is a new step. Values are JSON as msgspec writes it, so that a
person with `sqlite3` can read what is there.
"""

from __future__ import annotations

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE alerts (
        fingerprint TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE silences (
        id TEXT PRIMARY KEY,
        ends_at REAL NOT NULL,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE acks (
        fingerprint TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE secrets (
        name TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE told (
        receiver TEXT NOT NULL,
        target TEXT NOT NULL,
        group_key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (receiver, target, group_key)
    ) WITHOUT ROWID;
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        at REAL NOT NULL,
        value BLOB NOT NULL
    );
    """,
)
"""`PRAGMA user_version` counts the steps that a file has taken."""
