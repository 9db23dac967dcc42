"""What the daemon says of itself, on stderr: a line per record, written by a thread.

A reader of stderr that stops reading stops neither the loop nor the end of the process. What comes from outside stays
where it is: it neither begins a line of its own nor moves a terminal's cursor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from typing import Any

import msgspec

from collector.model.secret import mask
from collector.model.shown import counted, shown

MOST_LINES = 10_000
"""Lines that may wait for a reader; what has no room is left out, and counted."""
FLUSH_SECONDS = 0.3
"""At the end the lines that wait have so long."""
_PAUSE = 0.02


class TextLines(logging.Formatter):
    """Time, level and message; a traceback without what looks like a secret."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line; what needs more has them set in."""
        return "\n  ".join(shown(line) for line in super().format(record).split("\n"))

    def formatException(self, ei: Any) -> str:  # noqa: N802  the library's name
        """The traceback, masked: the message of an error may quote what it failed on."""
        return mask(super().formatException(ei))


class JsonLines(TextLines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (Unix seconds), level, message; and the traceback where there is one."""
        line = {"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class UnheldHandler(logging.Handler):
    """Writes to a descriptor in a thread of its own. Nothing that logs waits for whoever reads."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._is_writing = False
        self._wake = threading.Event()
        threading.Thread(target=self._run, name="stderr", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record's line."""
        if len(self._lines) >= MOST_LINES:
            self._left_out += 1
            return
        self._lines.append(self.format(record))
        self._wake.set()

    def flush(self) -> None:
        """Wait until what is queued was written, as long as anybody reads it."""
        until = time.monotonic() + FLUSH_SECONDS
        while (self._lines or self._is_writing) and time.monotonic() < until:
            time.sleep(_PAUSE)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._lines:
                self._is_writing = True
                self._write(self._lines.popleft())
                if self._left_out and not self._lines:
                    left_out, self._left_out = self._left_out, 0
                    self._write(f"{counted(left_out, 'line')} left out here: nobody read this output")
            self._is_writing = False

    def _write(self, line: str) -> None:
        """Past Python's own buffer: its lock, held by a thread that hangs, would abort the end of the process."""
        rest = f"{line}\n".encode(errors="backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                time.sleep(_PAUSE)
            except OSError:
                return  # closed: there is nobody to tell
