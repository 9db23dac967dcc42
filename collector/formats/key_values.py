"""What formats over Redis keys share: the loop over a batch, and values as captures hold them. Nothing is executed."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.formats.decoded import NOT_JSON, Decoded, MalformedError, Reject, check_length, not_json
from collector.formats.pickled import Made, PickleError, plain
from collector.formats.remembered import Remembered
from collector.model.event import EARLIEST, LATEST, LONGEST_TEXT, Event
from collector.model.record import Batch

_NOTE = re.compile(r"__keyspace@[0-9]+__:(.+)", re.DOTALL)
_decode = msgspec.json.Decoder().decode
LONGEST_REPR = 4000
"""Characters of an error's text that are looked at."""


class Telling:
    """Reads records in their order. A format says what `read` and `release` do."""

    def __init__(self) -> None:
        self.out = Decoded([], [], [])
        self.index = 0
        self.at = 0.0
        """The newest moment that any record was received at."""

    def __call__(self, batch: Batch) -> Decoded:
        """The events of a batch; of an empty one what waited and is due."""
        out = self.out = Decoded([], [], [])
        times = batch.times or [batch.received_at] * len(batch.bodies)
        self.index = 0
        self._now(times[0] if times else batch.received_at)
        for index, body in enumerate(batch.bodies):
            self.index = index
            self._now(times[index])
            before = len(out.events) + len(out.rejects)
            try:
                check_length(body)
                self.read(batch.tap, batch.about[index] if batch.about else {}, body, times[index])
            except MalformedError as error:
                self.reject(error)
            out.ignored += len(out.events) + len(out.rejects) == before
        self.close()
        return out

    def _now(self, at: float) -> None:
        self.at = max(self.at, at)
        self.release(self.at)

    def read(self, tap: str, about: Mapping[str, Any], body: bytes, at: float) -> None:
        """One record. Raises MalformedError."""
        raise NotImplementedError

    def release(self, at: float) -> None:
        """Tell what waited until this moment."""

    def close(self) -> None:
        """The batch is at its end."""

    def reject(self, error: MalformedError) -> None:
        """One part of the record that is read is not what it should be."""
        self.out.rejects.append(Reject(self.index, error.reason, error.detail))

    def tell(self, kind: str, task_id: str, **fields: Any) -> None:
        """One fact."""
        told = {name: value for name, value in fields.items() if value is not None}
        self.keep(Event(kind=kind, task_id=task_id[:LONGEST_TEXT], **told))  # type: ignore[arg-type]

    def keep(self, event: Event) -> None:
        """The same, as an event."""
        self.out.events.append(event)
        assert self.out.sources is not None  # noqa: S101 it is ours
        self.out.sources.append(self.index)


def place_of(tap: str, about: Mapping[str, Any]) -> str:
    """Key, channel or stream of a record; "" where there is none."""
    value = about.get({"redis-pubsub": "channel", "redis-stream": "stream"}.get(tap, "key"))
    return value if isinstance(value, str) else ""


def noted(channel: str) -> str:
    """The key that a keyspace notification is about; "" where it is none."""
    match = _NOTE.fullmatch(channel)
    return match[1] if match else ""


def value_of(body: bytes) -> Any:
    """A key's content: JSON. Raises MalformedError."""
    try:
        return _decode(body)
    except NOT_JSON as error:
        raise not_json(error) from error


def raw_of(value: Any) -> bytes:
    """The bytes of a value: text, or `{"b64": ...}`. Raises MalformedError."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedError("bad_field", "not base64") from error
    raise MalformedError("bad_field", "neither text nor bytes")


def unpickled(raw: bytes) -> Any:
    """A pickle as plain values, without executing anything. Raises MalformedError."""
    try:
        return plain(raw)
    except PickleError as error:
        raise MalformedError("not_pickle", str(error)) from error


def fields_of(raw: bytes, *, needs: tuple[str, ...]) -> dict[str, Any]:
    """A pickled dict that has these fields. Raises MalformedError."""
    value = unpickled(raw)
    if not isinstance(value, dict):
        raise MalformedError("not_an_object", "the pickle is no dict")
    if missing := next((name for name in needs if name not in value), None):
        raise MalformedError("bad_field", f"the pickle has no `{missing}`")
    return value


def scores_of(body: bytes) -> list[tuple[Any, float]]:
    """Members and scores of a sorted set. Raises MalformedError."""
    value = value_of(body)
    if not isinstance(value, list):
        raise MalformedError("bad_field", "not the members of a sorted set")
    pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
    if len(pairs) != len(value) or not all(
        isinstance(score, int | float) and abs(score) <= 1e300 for _, score in pairs
    ):
        raise MalformedError("bad_field", "not the members of a sorted set")
    return [(member, float(score)) for member, score in pairs]


def names_of(body: bytes) -> list[tuple[str, float]]:
    """The members of a sorted set that are text, and their scores. Raises MalformedError."""
    return [(member, score) for member, score in scores_of(body) if isinstance(member, str)]


def sign_of_life(workers: Remembered[bool], worker: str, *, is_gone: bool) -> Event | None:
    """What a worker's key tells: it came, it lives, it fell silent; `workers`: who is there."""
    before = workers.get(worker)
    if is_gone and not before:
        return None
    workers.put(worker, not is_gone)
    return Event(kind="offline" if is_gone else "heartbeat" if before else "online", task_id="", worker=worker)


def millis(value: Any) -> float | None:
    """Unix seconds of milliseconds; None where there is no time of ours."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if EARLIEST * 1000 <= value < LATEST * 1000 else None


def span_of(told: Mapping[str, Any]) -> tuple[float, float]:
    """When a result's try began and ended. Raises MalformedError."""
    began, ended = millis(told["st"]), millis(told["ft"])
    if began is None or ended is None:
        raise MalformedError("bad_time", "`st` and `ft` are no times")
    return began, ended


def count_of(value: Any) -> int:
    """A small number, also as text. Raises MalformedError."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000:
        return value
    raise MalformedError("bad_field", "not a small number")


def text_of(value: Any) -> str | None:
    """A text that may stand in an event; None for none."""
    return value[:LONGEST_TEXT] or None if isinstance(value, str) else None


def exception_of(value: Any) -> tuple[str | None, str | None]:
    """Class and message of a pickled exception."""
    if not isinstance(value, Made):
        return None, None
    name = value.name.rpartition(".")[2]
    return text_of(name), text_of(", ".join(str(one) for one in value.arguments if _is_simple(one)))


def _is_simple(value: Any) -> bool:
    """Text, or a number that is not larger than can be written."""
    return isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 64)


def is_made(value: Any, name: str) -> bool:
    """Whether a pickle would make one of this class."""
    return isinstance(value, Made) and value.name == name
