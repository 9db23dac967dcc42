"""A job's hash, read once: what it says of name, worker, attempts, errors, parent and trace.

Arguments and results (`data`, `returnvalue`) are neither needed nor kept. A field that is not what it should be is
left out, and the record is counted as malformed.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from collector.formats.decoded import NOT_JSON, check_length, not_json
from collector.model.event import LONGEST_TEXT, trace_context

EntryId = tuple[int, int]
"""Milliseconds and number of a stream entry."""

_CLASS = re.compile(r"([A-Za-z_$][\w$.]{0,199})(?: \[\w{1,80}\])?(?::\s?|\n|$)")
_FRAMES = "\n    at "
_MARKS = (b'"timestamp"', b'"opts"', b'"name"')
_LONGEST_RUN = 1e9


class _Fields(msgspec.Struct, rename={"finished": "finishedOn", "processed": "processedOn", "reason": "failedReason",
                                      "parent_key": "parentKey"}):  # fmt: skip
    """Of the hash only these; values are text, or an object that holds what is no text."""

    name: Any = None
    opts: Any = None
    delay: Any = None
    finished: Any = None
    processed: Any = None
    atm: Any = None
    ats: Any = None
    pb: Any = None
    tm: Any = None
    defa: Any = None
    parent_key: Any = None
    reason: Any = None
    stacktrace: Any = None


class _Options(msgspec.Struct):
    tm: str = ""


class _Telemetry(msgspec.Struct):
    traceparent: str = ""


class Job(msgspec.Struct, gc=False, kw_only=True):
    """What a job's hash said at one moment. Unknown is None, 0 or ""."""

    name: str | None
    worker: str | None
    made: int
    """Attempts that ended and count (`atm`)."""
    starts: int
    """Attempts that started, also those that do not count (`ats`); 0 in old versions."""
    is_finished: bool
    is_delayed: bool
    is_doomed: bool
    """Its next start fails without running: it stalled too often, or a child of it failed."""
    run_seconds: float | None
    """Of the last attempt of a finished job, by the worker's clock."""
    reason: str | None
    """The message of the newest failure."""
    traces: list[str]
    """A stack trace for every failure, newest last."""
    trace: tuple[str, str] | None
    """Trace id and span id of who added it."""
    parent_key: str
    is_whole: bool
    """Every field was what it should be."""
    after: EntryId | None = None
    """It was read after this entry of its queue's stream; None: nobody knows when."""

    @property
    def failures(self) -> int:
        """Attempts that failed: all that count, but for the last one of a job that succeeded."""
        return self.made - (self.is_finished and len(self.traces) < self.made)

    @property
    def has_run(self) -> bool:
        """Whether it was ever started."""
        return self.starts > 0 or self.made > 0

    def error(self, attempt: int | None) -> tuple[str | None, str | None]:
        """Class and message of the failure that ended an attempt (None: the newest), as far as they are there."""
        back = 1 if attempt is None else self.failures - attempt + 1
        return error_of(self.traces[-back]) if 0 < back <= len(self.traces) else (None, None)


_fields = msgspec.json.Decoder(_Fields).decode
_options = msgspec.json.Decoder(_Options).decode
_telemetry = msgspec.json.Decoder(_Telemetry).decode
_traces = msgspec.json.Decoder(list[str]).decode
_BROKEN = (ValueError, RecursionError)


def looks_like_a_job(body: bytes) -> bool:
    """Whether a hash is that of a job: by the fields that each has, and no other hash of BullMQ."""
    return all(mark in body for mark in _MARKS)


def read_job(body: bytes) -> Job:
    """The job of a hash, a JSON object of text by field. Raises MalformedError."""
    check_length(body)
    try:
        fields = _fields(body)
    except NOT_JSON as error:
        raise not_json(error, "not_an_object") from error
    return _job(fields)


def _job(fields: _Fields) -> Job:
    broken: list[str] = []
    made, starts, delay, processed, finished = (
        _number(value, broken) for value in (fields.atm, fields.ats, fields.delay, fields.processed, fields.finished)
    )
    took = (finished - processed) / 1000
    traces = _inner(_traces, fields.stacktrace, broken)
    return Job(
        name=text_of(fields.name),
        worker=text_of(fields.pb),
        made=made,
        starts=starts,
        is_finished=finished > 0,
        is_delayed=delay > 0,
        is_doomed=fields.defa is not None,
        run_seconds=took if finished and processed and 0 <= took < _LONGEST_RUN else None,
        reason=text_of(fields.reason),
        traces=traces or [],
        trace=_trace(fields, broken),
        parent_key=text_of(fields.parent_key) or "",
        is_whole=not broken,
    )


def _number(value: Any, broken: list[str]) -> int:
    """A count or a time in milliseconds; 0 where there is none."""
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number < 1 << 53:
        broken.append("number")
        return 0
    return number


def _inner(decode: Any, value: Any, broken: list[str]) -> Any:
    """JSON inside of a field; None where there is none."""
    if value is None or value == "":
        return None
    try:
        return decode(value)
    except (*_BROKEN, TypeError):
        broken.append("json")
        return None


def _trace(fields: _Fields, broken: list[str]) -> tuple[str, str] | None:
    """The producer's span; of a job without one the trace of its last failed run."""
    options = _inner(_options, fields.opts, broken)
    told = _inner(_telemetry, (options.tm if options else "") or fields.tm, broken)
    return trace_context(told.traceparent) if told else None


def text_of(value: Any) -> str | None:
    """Text as an event may hold it; None where it is none, or empty."""
    return value[:LONGEST_TEXT] if isinstance(value, str) and value else None


def error_of(trace: str) -> tuple[str | None, str | None]:
    """Class and message of a stack trace of Node: `TypeError: no such thing` and lines of `    at ...`."""
    head = trace.partition(_FRAMES)[0]
    match = _CLASS.match(head)
    if match is None:
        return None, text_of(head)
    return match[1], text_of(head[match.end() :])
