"""Reading a state file that a daemon may be writing, or that one has left behind, however it ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from collector.model.errors import TasktrailError
from collector.state.store import FILE


class Reading:
    """What is asked of an open state file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds in what is on the disk. Raises sqlite3.Error."""
        return self._connection.execute(sql).fetchall()


@contextmanager
def reading(directory: Path) -> Iterator[Reading]:
    """The state of a directory, as of one instant. Raises TasktrailError where there is none, or it cannot be read."""
    path = directory / FILE
    if not path.is_file():
        raise TasktrailError(f"{directory}: there is no {FILE}; name the directory that `tasktrail run --state` uses")
    try:
        # Not `mode=ro`: what a killed process has left in the log beside the file is taken in first.
        with closing(sqlite3.connect(path, timeout=5.0)) as connection:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            yield Reading(connection)
    except sqlite3.Error as error:
        raise TasktrailError(f"{path}: cannot be read: {error}") from error
