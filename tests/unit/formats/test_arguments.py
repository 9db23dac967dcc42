"""What calls were made with: of each form that shows it in clear, only where that is asked for, and masked."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest

from collector.config.source_urls import parse_source
from collector.formats import FORMATS
from collector.formats.arguments import showing
from collector.model.record import Batch
from collector.shell.pipeline import Limits
from collector.wiring.plugs import feed
from tests.unit.parts import T0, pipeline
from tests.unit.shell.test_pipeline import live

ARGS, KWARGS = ["zebra-71"], {"password": "hunter2"}
REPRS = {"args": repr(tuple(ARGS)), "kwargs": repr(KWARGS)}
QUEUED = {"headers": {"task": "a", "id": "x", "argsrepr": REPRS["args"], "kwargsrepr": REPRS["kwargs"]},
          "properties": {"delivery_tag": "t1", "delivery_info": {"routing_key": "q"}}}  # fmt: skip
RQ_JOB = {"status": "queued", "created_at": "2026-01-01T00:00:00Z", "origin": "q",
          "enqueued_at": "2026-01-01T00:00:00Z",
          "description": "mod.a('zebra-71', password='hunter2')", "data": {"b64": ""}}  # fmt: skip
MESSAGE = {"queue_name": "q", "actor_name": "a", "message_id": "x", "message_timestamp": 1_750_000_000_000,
           "options": {}, "args": ARGS, "kwargs": KWARGS}  # fmt: skip
SAQ_JOB = {"function": "a", "key": "x", "queue": "q", "kwargs": {"n": ARGS, **KWARGS}}
TASKIQ = {"task_id": "x", "task_name": "a", "labels": {}, "args": ARGS, "kwargs": KWARGS}
RESULT = {"status": "FAILURE", "task_id": "x", "result": None, "args": ARGS, "kwargs": KWARGS}


def event(kind: str = "task-received") -> dict[str, object]:
    """A worker event of Celery's."""
    return {"type": kind, "uuid": "x", "name": "a", "hostname": "w", "timestamp": T0, **REPRS}


def enveloped(*events: dict[str, object]) -> bytes:
    """As they are published on Redis."""
    body = base64.b64encode(json.dumps(list(events)).encode()).decode()
    return json.dumps({"body": body, "properties": {"body_encoding": "base64"}}).encode()


def text(value: object) -> bytes:
    """A string in Redis that holds JSON, as a tap gives it."""
    return json.dumps(json.dumps(value)).encode()


RECORDS = {
    "events over Redis": ("celery", "redis-pubsub", {"channel": "/0.celeryev/task.multi"}, enveloped(event())),
    "events over RabbitMQ": ("celery", "amqp", {"exchange": "celeryev", "headers": {"hostname": "w"},
                                                "properties": {"content_type": "application/json"}},
                             json.dumps(event()).encode()),
    "a stored result": ("celery", "redis-key", {"key": "celery-task-meta-x", "type": "string"}, text(RESULT)),
    "a published result": ("celery", "redis-pubsub", {"channel": "celery-task-meta-x"}, json.dumps(RESULT).encode()),
    "a waiting message": ("celery", "redis-key", {"key": "q", "type": "list"},
                          json.dumps([json.dumps(QUEUED)]).encode()),
    "a message in hand": ("celery", "redis-key", {"key": "unacked", "type": "hash"},
                          json.dumps({"t1": json.dumps([QUEUED, "", "q"])}).encode()),
    "a message on RabbitMQ": ("celery", "amqp", {"queue": "dead", "headers": QUEUED["headers"]}, b"[]"),
    "the firehose": ("celery", "amqp", {"exchange": "amq.rabbitmq.trace", "routing_key": "publish.",
                                        "headers": {"properties": {"headers": QUEUED["headers"]}}}, b"[]"),
    "a job's description": ("rq", "redis-key", {"key": "rq:job:x", "type": "hash"}, json.dumps(RQ_JOB).encode()),
    "a job": ("saq", "redis-key", {"key": "saq:job:q:x", "type": "string"}, text(SAQ_JOB)),
    "an entry": ("taskiq", "redis-stream", {"stream": "q", "id": "1750000000000-0",
                                            "fields": {"data": json.dumps(TASKIQ)}}, b""),
    "messages in Redis": ("dramatiq", "redis-key", {"key": "dramatiq:q.msgs", "type": "hash"},
                          json.dumps({"r1": json.dumps(MESSAGE)}).encode()),
    "messages on RabbitMQ": ("dramatiq", "amqp-get", {"queue": "q.XQ", "headers": {}, "routing_key": "q.XQ"},
                             json.dumps(MESSAGE).encode()),
}  # fmt: skip


def batch(tap: str, about: dict, body: bytes) -> Batch:
    """One record, twice."""
    return Batch(source="s", place="p", bodies=[body] * 2, receipts=[1, 2], received_at=T0, tap=tap, about=[about] * 2)


@pytest.mark.parametrize("name", RECORDS)
def test_hidden_unless_allowed(name):
    """A decoder says nothing of arguments; with the look beside it the same, and them, without what is secret."""
    form, *record = RECORDS[name]
    hidden = FORMATS[form].new()(batch(*record))
    assert "zebra" not in repr(hidden)
    shown = showing(FORMATS[form].new(), form)(batch(*record))
    assert set(shown.arguments) == {"x"}
    assert "zebra-71" in shown.arguments["x"]
    assert "***" in shown.arguments["x"]
    assert "hunter2" not in repr(shown)
    shown.arguments = None
    assert shown == hidden


@pytest.mark.parametrize("name", RECORDS)
def test_torn_records_cost_nothing(name):
    """Where a record is cut anywhere, or another thing altogether, the decoder's facts are what they were."""
    form, tap, about, body = RECORDS[name]
    for torn in [*(body[:end] for end in range(0, len(body), 7)), b"null", b"[1]", b'{"a":1}', b'"x"', b"\xff" * 9]:
        shown = showing(FORMATS[form].new(), form)(batch(tap, about, torn))
        shown.arguments = None
        assert shown == FORMATS[form].new()(batch(tap, about, torn))


def told(*, is_allowed: bool) -> tuple[str, str]:
    """What the timeline and the evidence of a failed task say, as JSON."""
    made = pipeline(limits=Limits(show_arguments=is_allowed))
    decode = feed(parse_source("celery+redis://h/0", {}, str), show_arguments=is_allowed).decode
    failed = {"type": "task-failed", "uuid": "x", "hostname": "w", "timestamp": T0, "exception": "KeyError(1)"}
    body = enveloped(event("task-sent"), event(), failed)
    about = {"channel": "/0.celeryev/task.multi"}
    made.ingest.count(made.axes[0], decode, msgspec.structs.replace(batch("redis-pubsub", about, body)), T0)
    (alert,) = [one for one in live(made, T0 + 1) if one.state == "firing"]
    return tuple(msgspec.json.encode(one).decode() for one in (made.stitcher.reader.find("x"), alert.evidence))


def test_to_the_trail_and_into_the_evidence():
    """Where it is allowed the task and the alert's evidence say it; where it is not, neither does."""
    for said in told(is_allowed=True):
        assert "('zebra-71',) {'password': ***}" in said
    for said in told(is_allowed=False):
        assert "zebra" not in said
