"""OTLP spans of producers and consumers as events: what the messaging conventions say of a message.

A producer's span is a `sent`, a receiving span a `received`, a processing span a start and its end. Old and new names
of the conventions are read; Celery's own attributes say more. Source: OpenTelemetry semantic conventions for messaging,
1.11 to 1.36, and opentelemetry-instrumentation-celery.

A span that failed is a `failed`: that another try will come is not in it, except where the framework says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from collector.formats.decoded import NOT_JSON, Decoded, Format, MalformedError, Reject, check_length, not_json
from collector.formats.otlp_spans import CONSUMER, ERROR, Attributes, Span, from_json, from_protobuf
from collector.formats.spelling import event_of
from collector.model.event import Event
from collector.model.record import Batch

CHANNEL = "otlp"
_TAPS = frozenset(["otlp-http", "otlp-json"])
MOST_SENT = 50_000
"""Ids whose `sent` is remembered, twice over: a retry publishes its message again, within the same trace."""

# Where each field stands, newest convention first.
_FIELDS: dict[str, tuple[str, ...]] = {
    "task_id": ("messaging.message.id", "messaging.message_id"),
    "task": ("celery.task_name", "messaging.message.type"),
    "queue": ("messaging.destination.name", "messaging.destination"),
}
_OPERATION = ("messaging.operation.type", "messaging.operation", "messaging.operation.name")
_WORKER = ("service.instance.id", "host.name", "service.name")
_CALLER = ("service.name",)
# what an operation tells; one that is not here (settle, ack, ...) tells nothing of a task
_MEANING: dict[str, str] = {
    "publish": "send",
    "send": "send",
    "create": "send",
    "receive": "receive",
    "poll": "receive",
    "process": "process",
    "deliver": "process",
    "apply_async": "send",
    "run": "process",
}
_CELERY_END = {"SUCCESS": "succeeded", "FAILURE": "failed", "RETRY": "retried"}
_CELERY_ERROR = re.compile(r"(?:Retry in [^:]+: )?([A-Za-z_][\w.]*)\(")


def _first(attributes: Attributes, names: tuple[str, ...]) -> str | None:
    return next((str(attributes[name]) for name in names if attributes.get(name) not in (None, "")), None)


class _Decoder:
    """One source's spans."""

    def __init__(self) -> None:
        self._sent: dict[str, str] = {}
        self._sent_before: dict[str, str] = {}

    def decode(self, batch: Batch) -> Decoded:
        """A batch of exports; each messaging span counts by itself, other spans are nothing to us."""
        out = Decoded([], [], [], channels=[])
        for index, body in enumerate(batch.bodies):
            about = batch.about[index] if batch.about else {}
            try:
                spans = list(_spans(body, batch.tap, about))
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, error.detail))
                continue
            self._take(out, index, spans)
        return out

    def _take(self, out: Decoded, index: int, spans: list[Span]) -> None:
        for span in spans:
            try:
                events = list(self._events(span))
            except MalformedError as error:
                out.rejects.append(Reject(index, error.reason, f"span {span.name[:100]}: {error.detail}"))
                continue
            out.ignored += not events
            out.events += events
            out.sources += [index] * len(events)  # type: ignore[operator]  # it is ours, and a list
            out.channels += [CHANNEL] * len(events)  # type: ignore[operator]  # likewise

    def _events(self, span: Span) -> Iterator[Event]:
        attributes = span.attributes
        operation = _first(attributes, ("celery.action",)) or _first(attributes, _OPERATION)
        meaning = _MEANING.get(operation or ("process" if span.kind == CONSUMER else "send"))
        task_id = _first(attributes, _FIELDS["task_id"]) or _kafka_id(attributes)
        if meaning is None or task_id is None:
            return
        known = {field: value for field, names in _FIELDS.items() if (value := _first(attributes, names)) is not None}
        known |= {"task_id": task_id, "trace_id": span.linked_trace or span.trace_id, "span_id": span.span_id}
        yield from (event_of(spelled) for spelled in _MEANINGS[meaning](self, span, known))

    def send(self, span: Span, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Published; nothing for a retry's second message, which Celery publishes with the same id and trace."""
        task_id, trace_id = known["task_id"], span.trace_id
        if (self._sent.get(task_id) or self._sent_before.get(task_id)) == trace_id:
            return
        if len(self._sent) >= MOST_SENT:
            self._sent, self._sent_before = {}, self._sent
        self._sent[task_id] = trace_id
        yield {**known, "kind": "sent", "time": span.started, "caller": _first(span.resource, _CALLER)}

    def receive(self, span: Span, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Handed over to a consumer."""
        yield {**known, "kind": "received", "time": span.ended, "worker": _first(span.resource, _WORKER)}

    def process(self, span: Span, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Run from start to end: both are known once it ended. A run that was killed exports no span."""
        attributes = span.attributes
        fields = {**known, "worker": _first(span.resource, _WORKER)}
        if "celery.action" in attributes:
            fields["attempt"] = int(attributes.get("celery.retries") or 0) + 1
        yield {**fields, "kind": "started", "time": span.started}
        state = str(attributes.get("celery.state") or "")
        kind = _CELERY_END.get(state) or ("failed" if span.status == ERROR else "succeeded")
        end = {**fields, "kind": kind, "time": span.ended, "run_seconds": max(0.0, span.ended - span.started)}
        if kind != "succeeded":
            end |= _error(span)
        yield end


_MEANINGS: dict[str, Callable[[_Decoder, Span, Mapping[str, Any]], Iterator[dict[str, Any]]]] = {
    "send": _Decoder.send,
    "receive": _Decoder.receive,
    "process": _Decoder.process,
}


def _kafka_id(attributes: Attributes) -> str | None:
    """`topic-partition-offset`, where Kafka's place of the message is in the span."""
    topic = _first(attributes, _FIELDS["queue"])
    partition = _first(attributes, ("messaging.destination.partition.id", "messaging.kafka.partition"))
    offset = _first(attributes, ("messaging.kafka.offset", "messaging.kafka.message.offset"))
    return f"{topic}-{partition}-{offset}" if topic and partition and offset else None


def _error(span: Span) -> dict[str, Any]:
    """Class and message: of the span event `exception`, else what the attributes say."""
    reason = _first(span.attributes, ("celery.retry.reason",)) or ""
    said = _CELERY_ERROR.match(reason)
    name = _first(span.exception, ("exception.type",)) or (said and said[1]) or _first(span.attributes, ("error.type",))
    message = _first(span.exception, ("exception.message",)) or reason or span.message
    return {"error": name.rpartition(".")[2] if name else None, "error_message": message}


def _spans(body: bytes, tap: str, about: Mapping[str, Any]) -> Iterator[Span]:
    """The messaging spans of one export. Raises MalformedError."""
    check_length(body)
    headers = about.get("headers")
    content_type = str(headers.get("content-type", "")) if isinstance(headers, Mapping) else ""
    is_json = tap == "otlp-json" or "json" in content_type
    try:
        yield from from_json(body) if is_json else from_protobuf(body)
    except (*NOT_JSON, OverflowError) as error:
        raise (not_json(error) if is_json else MalformedError("not_protobuf", str(error))) from error


def _is_mine(tap: str, _about: Mapping[str, Any], _body: bytes) -> bool:
    return tap in _TAPS


FORMAT = Format(
    new=lambda: _Decoder().decode,
    is_mine=_is_mine,
    facts={
        "sent": "yes",
        "received": "receive spans",
        "started": "when it ended",
        "succeeded": "yes",
        "failed": "yes",
        "retried": "Celery",
        "task": "Celery",
        "queue": "yes",
        "worker": "yes",
        "attempt": "Celery",
        "error": "yes",
        "wait": "yes",
        "run": "yes",
        "trace": "yes",
    },
)
