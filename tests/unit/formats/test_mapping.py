"""Mappings: any JSON or CloudEvents message as an event, and what is wrong with one that cannot be."""

from __future__ import annotations

import json

import pytest

from collector.config.settings import load
from collector.formats.mapping import Mapped, Rule, mapped_event, parse_path, told
from collector.model.errors import ProblemsError
from collector.model.record import Batch
from collector.wiring.plugs import feed

T0 = 1_790_000_000

CONFIG = """
sources:
  - url: kafka://localhost:9092/jobs
    mapping:
      kind: {path: status, values: {done: succeeded, broke: failed, queued: sent}, otherwise: ignore}
      task_id: job.id
      task: job."full.name"
      queue: {value: reports}
      time: {path: at, unit: ms}
      attempt: {path: tries, add: 1}
      run_seconds: {path: took, unit: us}
      error: errors[0].class
      traceparent: {header: traceparent}
      labels: {tenant: job.tenant}
"""
BODY = {
    "status": "broke",
    "job": {"id": 7, "full.name": "report.make", "tenant": "acme"},
    "at": T0 * 1000 + 500,
    "tries": "0",
    "took": 2_500_000,
    "errors": [{"class": "KeyError"}],
}
TRACE = "0af7651916cd43dd8448eb211c80319c"


def batch(*bodies: bytes, headers: dict[str, str] | None = None) -> Batch:
    """Messages, each with these headers."""
    return Batch(
        source="s",
        place="jobs/0",
        bodies=list(bodies),
        receipts=[*range(len(bodies))],
        received_at=T0,
        fields=None if headers is None else [headers] * len(bodies),
    )


def decode(config: str = CONFIG):
    """The decoder that a configuration's source gets."""
    (url,) = load("tasktrail.yaml", config, {}).sources
    return feed(url).decode


def test_paths_constants_headers_and_tables_make_an_event():
    """Every way to fill a field, with units and attempts from 0."""
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    (event,) = decode()(batch(json.dumps(BODY).encode(), headers=headers)).events
    assert (event.kind, event.task_id, event.task, event.queue) == ("failed", "7", "report.make", "reports")
    assert (event.time, event.attempt, event.run_seconds, event.error) == (T0 + 0.5, 1, 2.5, "KeyError")
    assert (event.trace_id, event.labels) == (TRACE, {"tenant": "acme"})


def test_what_no_line_names_is_ignored_or_rejected():
    """`otherwise: ignore` passes over with a count; without it the message is rejected with its reason."""
    other = json.dumps({**BODY, "status": "heartbeat"}).encode()
    out = decode()(batch(other))
    assert (out.events, out.rejects, out.ignored) == ([], [], 1)
    out = decode(CONFIG.replace(", otherwise: ignore", ""))(batch(other))
    assert [reject.reason for reject in out.rejects] == ["unknown_kind"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"[]", "missing_kind"),
        (b'{"status": "done"}', "missing_id"),
        (b'{"status": "done", "job": {"id": 1}, "at": "yesterday"}', "bad_time"),
        (b'{"status": "done", "job": {"id": 1}, "tries": 1.5}', "bad_field"),
        (b"[" * 20_000, "too_deep"),
    ],
)
def test_a_bad_message_is_rejected_and_the_next_one_counts(body, reason):
    """Each with its reason, at its index."""
    out = decode()(batch(body, json.dumps(BODY).encode()))
    assert [(reject.index, reject.reason) for reject in out.rejects] == [(0, reason)]
    assert (len(out.events), out.sources) == (1, [1])


FLAT = """
sources:
  - url: redis-stream://localhost:6379/0/flat
    mapping:
      kind: {path: status, values: {begun: started}}
      task_id: id
      attempt: {path: tries, add: 1}
      caller: {header: from}
      labels: {tenant: tenant}
"""


def test_paths_reach_the_plain_fields_of_an_entry_without_a_body():
    """An entry of fields is an object of texts: its id, a number and a label come out of it, also by `header`."""
    fields = {"status": "begun", "id": "z1", "tries": "0", "from": "shop", "tenant": "acme"}
    (event,) = decode(FLAT)(batch(b"", headers=fields)).events
    assert (event.kind, event.task_id, event.attempt, event.caller) == ("started", "z1", 1, "shop")
    assert event.labels == {"tenant": "acme"}


def test_beside_a_body_the_other_fields_are_headers():
    """A path that the body lacks is not looked for among Kafka's headers or the entry's other fields."""
    (reject,) = decode(FLAT)(batch(b'{"status": "begun"}', headers={"id": "z1"})).rejects
    assert reject.reason == "missing_id"


CLOUD = Mapped(
    {
        "kind": Rule(path=("type",)),
        "task_id": Rule(path=("subject",)),
        "time": Rule(path=("time",)),
        "task": Rule(path=("data", "task")),
        "traceparent": Rule(path=("traceparent",)),
    }
)
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "e1",
    "source": "/jobs",
    "type": "com.example.job.succeeded",
    "subject": "7",
    "time": "2026-09-21T14:13:20Z",
    "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
}


def test_cloud_events_mean_the_same_in_both_modes():
    """Structured and binary mode, over Kafka and HTTP, are the same event."""
    structured = mapped_event(CLOUD, json.dumps({**ATTRIBUTES, "data": {"task": "a"}}).encode(), {})
    over_kafka = mapped_event(CLOUD, b'{"task": "a"}', {f"ce_{name}": value for name, value in ATTRIBUTES.items()})
    over_http = mapped_event(CLOUD, b'{"task": "a"}', {f"ce-{name}": value for name, value in ATTRIBUTES.items()})
    assert structured == over_kafka == over_http
    assert structured is not None
    assert (structured.kind, structured.task_id, structured.task, structured.trace_id) == ("succeeded", "7", "a", TRACE)


def test_a_binary_cloud_event_may_carry_anything():
    """Data that is no JSON costs the paths into it, not the event."""
    event = mapped_event(CLOUD, b"\x00\xff", {f"ce_{name}": value for name, value in ATTRIBUTES.items()})
    assert event is not None
    assert (event.task_id, event.task) == ("7", None)


@pytest.mark.parametrize(
    ("text", "steps"),
    [("a", ("a",)), ("$.a.b[0]", ("a", "b", 0)), ('a."b.c".d', ("a", "b.c", "d")), ("[1].x", (1, "x"))],
)
def test_paths_are_read(text, steps):
    """Names, quoted names and indexes."""
    assert parse_path(text) == steps


@pytest.mark.parametrize("text", ["", "$", ".", "a..b", "a[x]", "a.", "a[0", '"a'])
def test_what_is_no_path_says_how_to_write_one(text):
    """Each is refused with an example."""
    with pytest.raises(ValueError, match="write names with dots"):
        parse_path(text)


WRONG = {
    "kind: status\n      task_id: id\n      tenant: x": (6, "tenant"),
    "kind: status": (5, "needs `task_id`"),
    "task_id: id": (5, "needs `kind`"),
    "kind: {path: status, values: {x: suceeded}}\n      task_id: id": (5, "suceeded"),
    "kind: {path: status, header: h}\n      task_id: id": (5, "exactly one"),
    "kind: {value: sent}\n      task_id: {path: 'a..b'}": (6, "no path"),
    "kind: {value: sent}\n      task_id: {path: id, unit: ms}": (6, "have a unit"),
    "kind: {value: sent}\n      task_id: {path: id, add: 1}": (6, "add: 1"),
    "kind: {value: sent}\n      task_id: id\n      time: {path: t, unit: hours}": (7, "hours"),
    "kind: {path: s, otherwise: skip, values: {a: sent}}\n      task_id: id": (5, "otherwise"),
    "kind: {path: s, otherwise: ignore}\n      task_id: id": (5, "there are none"),
}


@pytest.mark.parametrize("lines", WRONG)
def test_a_wrong_mapping_is_refused_with_its_place(lines):
    """What is wrong, where, before anything runs."""
    line, words = WRONG[lines]
    with pytest.raises(ProblemsError) as caught:
        load("t.yaml", f"sources:\n  - url: kafka://h:1/t\n    name: x\n    mapping:\n      {lines}\n", {})
    assert any(problem.line in (line, line + 1) and words in problem.message for problem in caught.value.problems), (
        caught.value.problems
    )


def test_a_sample_is_explained():
    """A person sees the event, or why there is none."""
    (url,) = load("tasktrail.yaml", CONFIG, {}).sources
    assert url.mapping is not None
    tell = told(url.mapping)
    assert json.loads(tell(json.dumps(BODY).encode(), {}))["task_id"] == "7"
    assert tell(b"{", {}).startswith("rejected as not_json")
    assert tell(b'{"status": "x"}', {}).startswith("ignored")
