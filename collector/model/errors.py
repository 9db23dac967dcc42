"""One small tree of errors. Third-party errors are translated into it at the edge; each is met once.

`ProblemsError` is somebody's file, `SourceError` and `ChannelError` are somebody's system; anything else is our bug.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong in a file, and what to do about it. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class TasktrailError(Exception):
    """The root: caught by the command line, printed as one line, never as a traceback."""


class ProblemsError(TasktrailError):
    """A file cannot be used. Carries every problem found in it, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(map(str, self.problems)))


class TooManyError(TasktrailError):
    """A push holds more parts than are read at once; nothing of it was counted."""


class SourceError(TasktrailError):
    """A source lost its broker or was refused. `retryable` is False where waiting cannot help (a wrong password)."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(message)


class ChannelError(TasktrailError):
    """A target did not take a notification. `retry_after` is in seconds, where the target named one."""

    def __init__(self, message: str, *, retryable: bool, retry_after: float | None = None) -> None:
        self.retryable = retryable
        self.retry_after = retry_after
        super().__init__(message)
