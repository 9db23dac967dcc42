"""Any JSON or CloudEvents topic as events, by a mapping of the user's: paths and headers to fields.

Takes rules, compiled once at load; gives a decoder. A message whose `kind` is in no value table is ignored, where the
mapping says so, else rejected with its reason: nothing is skipped quietly. CloudEvents in binary mode (`ce_*` headers)
are seen as the structured object, with the body under `data`; what stands in an attribute is reached by its name. Paths
reach a record's fields where it has no body; beside a body they are headers.
Source: CloudEvents 1.0, Kafka and HTTP protocol bindings; the distributed tracing extension.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from collector.formats.decoded import NOT_JSON, Decode, Decoded, MalformedError, Reject, check_length, not_json
from collector.formats.spelling import event_of, readable
from collector.model.event import KINDS, Event
from collector.model.record import Batch

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
_UNITS: dict[Unit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
TIMES: frozenset[str] = frozenset(["time", "eta", "expires"])
NUMBERS: frozenset[str] = frozenset([*TIMES, "attempt", "run_seconds"])
FIELDS: tuple[str, ...] = tuple(name for name in Event.__struct_fields__ if name != "labels")
"""The fields that a mapping may fill; `labels` is a map of rules of its own."""

OTHERWISE: tuple[str, ...] = ("reject", "ignore", "keep")
_CE_HEADER = re.compile(r"ce[_-]([a-z0-9]+)")
_STEP = re.compile(r"""(?:^|\.)(?:"([^"]+)"|([^.\[\]"]+))|\[(\d+)\]""")

_ABSENT = object()
_LONGEST_NUMBER_BITS = 128
_LONGEST_ID_BITS = 1024
Step: TypeAlias = str | int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Where one field of the event comes from: exactly one of `path`, `header`, `value`."""

    path: tuple[Step, ...] | None = None
    header: str | None = None
    value: str | None = None
    values: Mapping[str, str] = {}
    """What is written there → what the field says."""
    otherwise: str = "keep"
    """What is done where `values` has no line for it: one of `OTHERWISE`."""
    unit: Unit = "s"
    """Of a time or duration that is a number; 1 where the field counts."""
    add: int = 0
    """Added to a number: 1 where attempts are counted from 0."""


class Mapped(msgspec.Struct, frozen=True):
    """A whole mapping."""

    fields: Mapping[str, Rule]
    labels: Mapping[str, Rule] = {}


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of `a.b[0]."c.d"`, with or without `$.` before it. Raises ValueError."""
    rest = text.removeprefix("$").removeprefix(".") if text.startswith("$") else text
    steps: list[Step] = []
    end = 0
    for match in _STEP.finditer(rest):
        if match.start() != end:
            break
        quoted, name, number = match.groups()
        steps.append(int(number) if number else quoted or name)
        end = match.end()
    if not steps or end != len(rest):
        raise ValueError(f'`{text}` is no path: write names with dots, such as job.id, items[0].name or meta."a.b"')
    return tuple(steps)


def decoder(mapped: Mapped) -> Decode:
    """A decoder of messages by a mapping."""

    def decode(batch: Batch) -> Decoded:
        out = Decoded([], [], [])
        for index, body in enumerate(batch.bodies):
            headers = batch.fields[index] if batch.fields is not None else None
            try:
                event = mapped_event(mapped, body, headers or {})
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            if event is None:
                out.ignored += 1
            else:
                out.events.append(event)
                out.sources.append(index)  # type: ignore[union-attr]  # it is ours, and a list
        return out

    return decode


def mapped_event(mapped: Mapped, body: bytes, headers: Mapping[str, str]) -> Event | None:
    """The event of one message; None where the mapping ignores it. Raises MalformedError."""
    content = _content(body, headers)
    spelled: dict[str, Any] = {}
    for name, rule in mapped.fields.items():
        value = _value(rule, content, headers)
        if value is _ABSENT or value is None:
            continue
        text = _text(value)
        if rule.values and text is not None and text not in rule.values and rule.otherwise != "keep":
            if rule.otherwise == "ignore":
                return None
            raise MalformedError("unknown_kind" if name == "kind" else "bad_field", f"`{name}`: no line of its values")
        if rule.values and text is not None:
            value = rule.values.get(text, value)
        spelled[name] = _number(name, rule, value) if name in NUMBERS else (text if value is text else _text(value))
    labels = {
        name: text
        for name, rule in mapped.labels.items()
        if (text := _text(_value(rule, content, headers))) is not None
    }
    if labels:
        spelled["labels"] = labels
    if spelled.get("kind") not in KINDS and "kind" in mapped.fields and not mapped.fields["kind"].values:
        spelled["kind"] = _last_word(spelled.get("kind"))
    return event_of(spelled)


def _last_word(kind: Any) -> Any:
    """`com.example.job.succeeded` is a success: types of CloudEvents carry a name before it."""
    last = str(kind).rpartition(".")[2]
    return last if last in KINDS else kind


def _content(body: bytes, headers: Mapping[str, str]) -> Any:
    """What the paths walk: the JSON body, or the attributes of a binary CloudEvent with its body under `data`.

    A record without a body (a stream entry of plain fields) is an object of its fields, whose values are texts.
    """
    check_length(body)
    texts = {name: readable(value) for name, value in headers.items()}
    attributes = {match[1]: text for name, text in texts.items() if (match := _CE_HEADER.fullmatch(name))}
    try:
        content = msgspec.json.decode(body) if body.strip() else texts
    except NOT_JSON as error:
        if "specversion" not in attributes or isinstance(error, RecursionError):
            raise not_json(error) from error
        content = None  # whatever the data is, the attributes are there
    return {**attributes, "data": content} if "specversion" in attributes else content


def _value(rule: Rule, content: Any, headers: Mapping[str, str]) -> Any:
    if rule.value is not None:
        return rule.value
    if rule.header is not None:
        found = headers.get(rule.header)
        return _ABSENT if found is None else readable(found)
    for step in rule.path or ():
        if isinstance(step, int):
            if not isinstance(content, list) or step >= len(content):
                return _ABSENT
        elif not isinstance(content, dict) or step not in content:
            return _ABSENT
        content = content[step]
    return content


def _text(value: Any) -> str | None:
    """A value as text; lists and maps are none, nor are numbers that no id is as long as."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _LONGEST_ID_BITS:
        return None
    return str(value) if isinstance(value, str | int | float) else None


def _number(name: str, rule: Rule, value: Any) -> Any:
    """A number in the event's unit; text that is no number is left for its own reader (RFC 3339)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    if not isinstance(value, int | float):
        return value
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER_BITS:
        raise MalformedError("bad_time" if name in TIMES else "bad_field", f"`{name}` is a number beyond all measure")
    if name == "attempt":
        return int(value) + rule.add if float(value).is_integer() else value
    return value * _UNITS[rule.unit]


def told(mapped: Mapped) -> Callable[[bytes, Mapping[str, str]], str]:
    """For people: what the mapping makes of one sample."""

    def tell(body: bytes, headers: Mapping[str, str]) -> str:
        try:
            event = mapped_event(mapped, body, headers)
        except MalformedError as error:
            return f"rejected as {error.reason}: {error.detail}"
        return "ignored: no line of `values` for its kind" if event is None else msgspec.json.encode(event).decode()

    return tell
