"""The directory of the state: which one it is, and that nobody else uses it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from collector.model.errors import TasktrailError
from collector.model.files import is_regular

NONE = "none"
SYSTEM = "/var/lib/tasktrail"
_LOCK = "lock"


def chosen(configured: str | None, environ: Mapping[str, str]) -> Path | None:
    """Where the state is kept; None for memory only (`none`). Raises TasktrailError where no place can be written.

    Configured, else the first path of $STATE_DIRECTORY, else /var/lib/tasktrail where it is there and writable, else
    below $XDG_STATE_HOME (~/.local/state), which is made.
    """
    if configured == NONE:
        return None
    if configured:
        return _made(Path(configured))
    given = environ.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return _made(Path(given))
    if os.access(SYSTEM, os.W_OK | os.X_OK):
        return Path(SYSTEM)
    home = environ.get("XDG_STATE_HOME") or (environ.get("HOME", "") and f"{environ['HOME']}/.local/state")
    if not home:
        raise TasktrailError("no directory for the state: name one with --state DIR, or --state none for memory only")
    return _made(Path(home) / "tasktrail")


def _made(path: Path) -> Path:
    """The directory, made where it is missing. Raises TasktrailError where it cannot be written."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise TasktrailError(_unusable(path, error.strerror or str(error))) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise TasktrailError(_unusable(path, "it is not writable"))
    return path


def _unusable(path: Path, why: str) -> str:
    return f"--state {path}: {why}; name another directory, or --state none for memory only"


class Lock:
    """Holds a directory until it is closed, or the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Raises TasktrailError where another process holds it."""
        path = directory / _LOCK
        if not is_regular(path):
            raise TasktrailError(_unusable(directory, f"its `{_LOCK}` is no regular file"))
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TasktrailError(_unusable(directory, error.strerror or str(error))) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            message = f"--state {directory}: the daemon with pid {holder} uses it; name another directory"
            raise TasktrailError(message) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)
