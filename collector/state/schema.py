"""The tables of the state file, as the steps that lead from one version to the next.

A step is never changed once it was released: a new need is a new step. Whole values are msgpack, which keeps every
float as it is; beside them stands in plain columns what a person with `sqlite3` asks for.
"""

from __future__ import annotations

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE alerts (
        rule TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        changed_at REAL NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (rule, fingerprint)
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
    CREATE TABLE groups (
        receiver TEXT NOT NULL,
        group_key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (receiver, group_key)
    ) WITHOUT ROWID;
    CREATE TABLE members (
        receiver TEXT NOT NULL,
        group_key TEXT NOT NULL,
        token TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (receiver, group_key, token)
    ) WITHOUT ROWID;
    CREATE TABLE past (
        token TEXT PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        receiver TEXT NOT NULL,
        title TEXT NOT NULL,
        tries INTEGER NOT NULL,
        not_before REAL NOT NULL,
        rests_until REAL NOT NULL,
        value BLOB NOT NULL
    );
    CREATE TABLE told (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        receiver TEXT NOT NULL,
        group_key TEXT NOT NULL,
        status TEXT NOT NULL,
        title TEXT NOT NULL,
        tries INTEGER NOT NULL
    );
    """,
    """
    CREATE TABLE queues (
        source TEXT NOT NULL,
        queue TEXT NOT NULL,
        found_at REAL NOT NULL,
        PRIMARY KEY (source, queue)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE dead_letters (
        id TEXT PRIMARY KEY,
        task TEXT NOT NULL,
        queue TEXT NOT NULL,
        source TEXT NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        at REAL NOT NULL,
        fingerprint TEXT NOT NULL,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE dead_letter_history (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        at REAL NOT NULL,
        state TEXT NOT NULL,
        actor TEXT NOT NULL,
        reason TEXT NOT NULL,
        ticket TEXT NOT NULL
    );
    CREATE INDEX dead_letter_history_id ON dead_letter_history (id);
    """,
    """
    CREATE TABLE kept (
        number INTEGER PRIMARY KEY,
        home TEXT NOT NULL,
        id TEXT NOT NULL,
        first_at REAL NOT NULL,
        last_at REAL NOT NULL,
        task TEXT NOT NULL,
        queue TEXT NOT NULL,
        state TEXT NOT NULL,
        error TEXT NOT NULL,
        trace TEXT NOT NULL,
        reason TEXT NOT NULL,
        rank INTEGER NOT NULL,
        kept_at REAL NOT NULL,
        size INTEGER NOT NULL,
        value BLOB NOT NULL
    );
    CREATE UNIQUE INDEX kept_id ON kept (id, home, first_at);
    CREATE INDEX kept_trace ON kept (trace) WHERE trace != '';
    CREATE INDEX kept_time ON kept (first_at, home, id, last_at, task, queue, state, error);
    CREATE INDEX kept_state ON kept (state, first_at, home, id, last_at, task, queue, error);
    CREATE INDEX kept_rank ON kept (rank, kept_at, size);
    """,
)
"""`PRAGMA user_version` counts the steps that a file has taken."""
