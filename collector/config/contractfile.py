"""The tasks file on disk: its contracts, or every problem in it. Without a file nothing is declared."""

from __future__ import annotations

from collector.config import taskfile
from collector.model.contract import Contracts
from collector.model.errors import ProblemsError
from collector.model.files import read_text, unread


def load(path: str | None) -> Contracts | None:
    """The contracts of a file; None where there is none. Raises ProblemsError with every problem of it."""
    if path is None:
        return None
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemsError([unread(path, error)]) from error
    return taskfile.load(path, text)
