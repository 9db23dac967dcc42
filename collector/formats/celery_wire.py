"""Celery's worker events as they are on the wire, and kombu's envelope around them on Redis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from collector.formats.decoded import MalformedError
from collector.formats.spelling import WHEN
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event, Text, Time


class _Properties(msgspec.Struct, gc=False):
    body_encoding: Literal["base64"]
    delivery_tag: str = ""


class Regular(msgspec.Struct, gc=False):
    """An envelope that is as nearly all are; its body comes decoded."""

    body: bytes
    properties: _Properties
    content_type: Literal["application/json"] = msgspec.field(default="application/json", name="content-type")


regular = msgspec.json.Decoder(Regular).decode


class Told(Event, gc=False, kw_only=True, omit_defaults=True):
    """A worker event that is an event of ours already, but for what `FINISH` does: the names on the wire are others.

    A body that decodes as one is right as it stands and costs nothing more; any other is read as a `Wire`, field by
    field.
    """

    kind: str = msgspec.field(name="type")  # type: ignore[assignment]  # the wire's word, until it is finished
    task_id: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)] = msgspec.field(name="uuid", default="")
    time: Time = msgspec.field(name="timestamp", default=None)
    task: Text | None = msgspec.field(name="name", default=None)
    worker: Text | None = msgspec.field(name="hostname", default=None)
    run_seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e9)] | None = msgspec.field(name="runtime", default=None)
    eta: Any = None
    expires: Any = None
    retries: int | None = None
    requeue: Any = None
    expired: Any = None
    exception: Any = None
    traceback: Any = None
    active: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    """Of a worker: how many tasks it has in hand."""
    processed: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] | None = None
    """Of a worker: how many tasks it has begun."""
    freq: Any = None
    """Of a worker: seconds from one heartbeat to the next."""


class Wire(msgspec.Struct, gc=False):
    """The same fields, whatever is in them; arguments and results are skipped without being built."""

    type: str
    uuid: Any = None
    hostname: Any = None
    timestamp: Any = None
    name: Any = None
    queue: Any = None
    retries: Any = None
    parent_id: Any = None
    root_id: Any = None
    eta: Any = None
    expires: Any = None
    runtime: Any = None
    exception: Any = None
    traceback: Any = None
    requeue: Any = None
    expired: Any = None

    def told(self) -> Told:
        """The event with what is no text left out and what is long cut. Raises MalformedError."""
        return Told(
            kind=self.type,
            task_id=task_id_of(self.uuid) if self.uuid is not None else "",
            time=seconds_of(self.timestamp),
            task=text(self.name),
            queue=text(self.queue),
            worker=text(self.hostname),
            parent_id=text(self.parent_id),
            root_id=text(self.root_id),
            eta=self.eta,
            expires=self.expires,
            run_seconds=_run(self.runtime),
            retries=self.retries if self.retries.__class__ is int else None,
            exception=self.exception,
            traceback=self.traceback,
            requeue=self.requeue,
            expired=self.expired,
        )


def text(value: Any) -> str | None:
    """A name as an event may hold it: cut where it is long, None where it is empty or no text."""
    if value.__class__ is not str or not value:
        return None
    name: str = value
    return name if len(name) <= LONGEST_TEXT else name[:LONGEST_TEXT]


def task_id_of(value: Any) -> str:
    """The id of a task. Raises MalformedError."""
    if value.__class__ is str and 0 < len(value) <= LONGEST_TEXT:
        task_id: str = value
        return task_id
    if value is None or value == "":
        raise MalformedError("missing_id", "there is no task id")
    raise MalformedError("bad_id", f"a task id is text of at most {LONGEST_TEXT} characters")


def seconds_of(value: Any) -> float | None:
    """Unix seconds of a sender's number. Raises MalformedError for what cannot be a time."""
    if value is None:
        return None
    if value.__class__ in (float, int) and EARLIEST <= value < LATEST:
        return float(value)
    raise MalformedError("bad_time", WHEN)


def _run(value: Any) -> float | None:
    return float(value) if value.__class__ in (float, int) and 0 <= value < 1e9 else None
