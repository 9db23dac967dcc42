"""What stands in the JSON at an SAQ job's key. Arguments and results are not among what is read."""

from __future__ import annotations

import msgspec

from collector.formats.decoded import NOT_JSON, not_json
from collector.formats.tracebacks import exception_of
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT

ATTEMPTS = 1000
"""Attempts of a job that are told apart."""


class Stored(msgspec.Struct):
    """The JSON at a job's key."""

    function: str
    key: str
    queue: str = ""
    status: str = "new"
    attempts: int = 0
    queued: float = 0
    scheduled: float = 0
    started: float = 0
    touched: float = 0
    completed: float = 0
    error: str | None = None
    worker_id: str | None = None


_decode_text = msgspec.json.Decoder(str).decode
_decode_stored = msgspec.json.Decoder(Stored).decode


class Seen(msgspec.Struct, gc=False):
    """What a job's JSON said last, as far as it is still needed."""

    status: str
    attempts: int
    started: float | None
    touched: float | None
    completed: float | None
    error: str | None
    message: str | None
    worker: str | None
    has_traceback: bool

    def failed_attempt(self) -> int:
        """Whose error it is: a running attempt still shows that of the one before."""
        return self.attempts - (self.status == "active")


def stored_of(body: bytes) -> Stored:
    """The JSON in a string's JSON. Raises MalformedError."""
    try:
        return _decode_stored(_decode_text(body))
    except NOT_JSON as error:
        raise not_json(error) from error


def seen_of(stored: Stored) -> Seen:
    """What is remembered of it."""
    told = stored.error or ""
    failure = exception_of(told)
    return Seen(
        status=stored.status,
        attempts=max(0, min(stored.attempts, ATTEMPTS)),
        started=millis(stored.started),
        touched=millis(stored.touched),
        completed=millis(stored.completed),
        error=(failure[0][:LONGEST_TEXT] or None) if failure else None,
        message=(failure[1] if failure else told)[:LONGEST_TEXT] or None,
        worker=(stored.worker_id or "")[:LONGEST_TEXT] or None,
        has_traceback=failure is not None,
    )


def millis(told: float) -> float | None:
    """Unix seconds of milliseconds; None where there is no time of ours."""
    return seconds(told / 1000)


def seconds(told: float) -> float | None:
    """The same of seconds."""
    return told if EARLIEST <= told < LATEST else None
