"""The native format: what is an event, what is not and why, and that nothing escapes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import REASONS, native
from collector.formats.decoded import Decoded, Reject, first_bytes
from collector.formats.native import MOST_ELEMENTS
from collector.model.event import TASK_KINDS, Event
from collector.model.record import Batch

AT = 1_790_000_000.25
GOOD = b'{"kind":"started","task_id":"a","time":1790000000.25,"task":"pay.settle","queue":"payments"}'
EVENT = Event(kind="started", task_id="a", time=AT, task="pay.settle", queue="payments")
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
pack = msgspec.msgpack.encode


def decoded(*bodies: bytes, fields: list[Mapping[str, str] | None] | None = None, longest: int = 1000) -> Decoded:
    """The given bodies as one batch, through the format. `longest` is small, so that no test needs 16 MB."""
    batch = Batch(
        source="s", place="p", bodies=list(bodies), receipts=list(range(len(bodies))), received_at=AT, fields=fields
    )
    return native.decode(batch, longest)


def event(**changed: object) -> bytes:
    """A good event as JSON with some fields changed; None leaves the field out."""
    fields = {"kind": "started", "task_id": "a", "time": AT} | changed
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


MALFORMED: list[tuple[str, bytes, str]] = [
    ("no body", b"", "empty"),
    ("only white space", b" \r\n\t", "empty"),
    ("longer than what is read", b'{"kind":"sent","task_id":"a","x":"' + b"x" * 1000 + b'"}', "too_large"),
    ("hundreds of objects in one another", b'{"x":' * 150 + b"1" + b"}" * 150, "missing_kind"),
    ("broken UTF-8 in a name", event().replace(b'"a"', b'"\xff\xfe"'), "not_utf8"),
    ("broken UTF-8 everywhere", b"\xf0\x28\x8c\x28", "not_utf8"),
    ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "not_utf8"),
    ("text", b"hello", "not_json"),
    ("JSON cut in half", event()[:20], "not_json"),
    ("two objects", event() + event(), "not_json"),
    ("a null key", b'{null: 1, "kind": "sent", "task_id": "a"}', "not_json"),
    ("a list that is cut", b"[" + event() + b",", "not_json"),
    ("pickle", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "not_msgpack"),
    ("msgpack cut in half", pack({"kind": "sent", "task_id": "abc"})[:-3], "not_msgpack"),
    ("a msgpack list longer than its body", b"\xdd\xff\xff\xff\xff", "not_msgpack"),
    ("broken UTF-8 in msgpack", b"\x81\xa4kind\xa2\xff\xfe", "not_utf8"),
    ("null", b"null", "not_an_object"),
    ("a number", b"42", "not_an_object"),
    ("a string", b'"started"', "not_an_object"),
    ("a list in a list", b"[[]]", "not_an_object"),
    ("no kind", event(kind=None), "missing_kind"),
    ("an empty object", b"{}", "missing_kind"),
    ("kind null", b'{"kind":null,"task_id":"a"}', "missing_kind"),
    ("an unknown kind", event(kind="exploded"), "unknown_kind"),
    ("a kind in capitals", event(kind="STARTED"), "unknown_kind"),
    ("a kind that is no string", event(kind=["started"]), "unknown_kind"),
    ("no id", event(task_id=None), "missing_id"),
    ("an empty id", event(task_id=""), "missing_id"),
    ("an id that is a number", event(task_id=7), "bad_id"),
    ("an id that is a list", event(task_id=["a"]), "bad_id"),
    ("an id longer than any", event(task_id="x" * 1001, time=None), "too_large"),
    ("a time in year 9999", event(time="9999-12-31T23:59:59Z"), "bad_time"),
    ("a time in year 9999 as a number", event(time=253_402_300_799), "bad_time"),
    ("a time in milliseconds", event(time=1_790_000_000_250), "bad_time"),
    ("a negative time", event(time=-1.0), "bad_time"),
    ("a time of zero", event(time=0), "bad_time"),
    ("NaN as Python writes it", event(time=math.nan), "bad_time"),
    ("infinity as Python writes it", event(time=-math.inf), "bad_time"),
    ("a number beyond floats", event(time=AT).replace(b"1790000000.25", b"1e999"), "bad_time"),
    ("an integer beyond floats", event(time=10**400), "bad_time"),
    ("NaN in msgpack", pack({"kind": "sent", "task_id": "a", "time": math.nan}), "bad_time"),
    ("a time in words", event(time="yesterday"), "bad_time"),
    ("a time without an offset", event(time="2026-09-21T14:13:20"), "bad_time"),
    ("a number as text", event(time="1790000000"), "bad_time"),
    ("a time that is true", event(time=True), "bad_time"),
    ("a time that is a map", event(time={"seconds": 1}), "bad_time"),
    ("an eta in words", event(eta="soon"), "bad_time"),
    ("an expiry before there were tasks", event(expires=3), "bad_time"),
    ("attempt 0", event(attempt=0), "bad_field"),
    ("attempt in words", event(attempt="first"), "bad_field"),
    ("a negative run time", event(run_seconds=-1), "bad_field"),
    ("labels that are a list", event(labels=["a"]), "bad_field"),
    ("a label that is a map", event(labels={"a": {}}), "bad_field"),
    ("a task that is a number", event(task=7), "bad_field"),
    ("bytes for a name in msgpack", pack({"kind": "sent", "task_id": "a", "task": b"t"}), "bad_field"),
    ("a null key in msgpack", pack({None: 1, "kind": "sent", "task_id": "a"}), "not_an_object"),
]


@pytest.mark.parametrize(("body", "reason"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_each_kind_of_malformed_body_is_rejected_for_its_reason(body, reason):
    """What is not an event is told apart by a reason from the closed list, and spoils neither neighbour."""
    out = decoded(GOOD, body, GOOD)
    assert out.events == [EVENT, EVENT]
    assert out.sources == [0, 2]
    assert [(reject.index, reject.reason) for reject in out.rejects] == [(1, reason)]
    assert reason in REASONS


@pytest.mark.parametrize(
    "body", [b"[" * 10_000, b'{"a":' * 10_000, b"\x91" * 10_000, b"\x81\xa1a" * 10_000, b"[" * 10_000 + b"]" * 10_000]
)
def test_ten_thousand_levels_are_too_deep(body):
    """A body nested without end is a reject like any other."""
    out = decoded(GOOD, body, GOOD, longest=100_000)
    assert len(out.events) == 2
    assert [reject.reason for reject in out.rejects] == ["too_deep"]


# reasons of other formats, whose own tests reach them
OF_OTHERS = {"not_protobuf", "not_base64", "foreign", "not_pickle"}


def test_every_reason_can_be_reached():
    """No reason is on the list for show."""
    assert {*(case[2] for case in MALFORMED), "too_deep"} == set(REASONS) - OF_OTHERS


def test_an_id_too_long_to_keep_is_refused_and_a_name_is_cut():
    """A cut id would be another task's; a cut name still says which."""
    out = decoded(event(task_id="x" * 1001), event(task="t" * 1001, error_message="m" * 5000), longest=9000)
    assert [reject.reason for reject in out.rejects] == ["bad_id"]
    assert out.events[0].task == "t" * 1000
    assert out.events[0].error_message == "m" * 1000


def test_regular_bodies_are_one_to_one():
    """Where every body is one event, no index is made."""
    assert decoded(GOOD, GOOD) == Decoded([EVENT, EVENT], None, [])
    assert decoded() == Decoded([], [], [])


def test_a_list_counts_each_element_by_itself():
    """One bad element costs one event, and it is named by its number."""
    out = decoded(GOOD, b"[" + GOOD + b',7,{"kind":"sent"},' + GOOD + b"]", GOOD, b"[]")
    assert out.sources == [0, 1, 1, 2]
    assert out.events == [EVENT] * 4
    assert [(reject.index, reject.reason) for reject in out.rejects] == [(1, "not_an_object"), (1, "missing_id")]
    assert [reject.detail.partition(":")[0] for reject in out.rejects] == ["element 1", "element 2"]


def test_msgpack_says_the_same_as_json():
    """A map and a list in msgpack, also mixed with JSON in one batch, give what JSON gives."""
    fields = json.loads(GOOD)
    out = decoded(pack(fields), GOOD, pack([fields, 7, fields]), pack(fields))
    assert out.events == [EVENT] * 5
    assert out.sources == [0, 1, 2, 2, 3]
    assert [(reject.index, reject.reason) for reject in out.rejects] == [(2, "not_an_object")]


@pytest.mark.parametrize(
    "spelling",
    [
        "2026-09-21T14:13:20.25Z",
        "2026-09-21T14:13:20.250000+00:00",
        "2026-09-21t16:13:20.25+02:00",
        "2026-09-21T08:43:20.25-05:30",
    ],
)
def test_a_time_may_be_rfc_3339(spelling):
    """Text with an offset is the same instant as Unix seconds, in all three fields of time."""
    assert decoded(event(time=spelling, eta=spelling, expires=spelling)).events == [
        Event(kind="started", task_id="a", time=AT, eta=AT, expires=AT)
    ]


def test_a_time_may_be_a_msgpack_timestamp():
    """The timestamp type of msgpack is read like the text."""
    moment = datetime.fromtimestamp(AT, UTC).astimezone(timezone(timedelta(hours=2)))
    assert decoded(pack({"kind": "started", "task_id": "a", "time": moment})).events[0].time == AT


def test_traceparent_gives_what_is_absent():
    """`traceparent` fills trace and span id, never overrules them, and is not kept."""
    parent = f"00-{TRACE}-{SPAN}-01"
    both, span, neither = decoded(
        event(traceparent=parent),
        event(traceparent=parent, trace_id="1" * 32),
        event(traceparent="00-" + "0" * 32 + f"-{SPAN}-01"),
    ).events
    assert (both.trace_id, both.span_id, both.traceparent) == (TRACE, SPAN, None)
    assert (span.trace_id, span.span_id) == ("1" * 32, SPAN)
    assert (neither.trace_id, neither.span_id) == (None, None)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("0AF76519-16CD-43DD-8448-EB211C80319C", TRACE),
        ("8448eb211c80319c", "00000000000000008448eb211c80319c"),
        ("12345", None),
        (12345, None),
        ("z" * 31, None),
    ],
)
def test_a_trace_id_in_another_spelling_is_read_or_ignored(written, kept):
    """A trace that cannot be joined never costs the fact."""
    assert decoded(event(trace_id=written)).events[0].trace_id == kept


def test_empty_strings_and_nulls_are_absent():
    """A sender that fills every field with something says no more than one that leaves them out."""
    names = ("task", "queue", "worker", "caller", "error", "parent_id", "trace_id", "traceparent", "time")
    body = json.dumps({"kind": "sent", "task_id": "a", "labels": None, **dict.fromkeys(names, "")}).encode()
    assert decoded(body).events == [Event(kind="sent", task_id="a")]


def test_a_worker_needs_no_task():
    """The kinds about workers have the empty id, and their own fields."""
    out = decoded(event(kind="heartbeat", task_id=None, worker="w1"), event(kind="offline", task_id="", worker="w1"))
    assert [(event.kind, event.task_id, event.worker) for event in out.events] == [
        ("heartbeat", "", "w1"),
        ("offline", "", "w1"),
    ]


def test_unknown_fields_are_ignored():
    """A sender may add its own, whatever it is; also a byte order mark and white space say nothing."""
    body = b'\xef\xbb\xbf \n{"x": [[{"kind": 1}]], ' + GOOD[1:] + b"\n"
    assert decoded(body).events == [EVENT]


def test_record_fields_fill_what_the_body_lacks():
    """Headers complete an event, in text; the body wins, and other headers are nobody's."""
    fields = {"task": "other", "worker": "w1", "attempt": "2", "traceparent": f"00-{TRACE}-{SPAN}-01", "x": "y"}
    out = decoded(GOOD, GOOD, GOOD, fields=[fields, None, {"x": "y"}])
    full, *bare = out.events
    assert (full.task, full.worker, full.attempt, full.trace_id) == ("pay.settle", "w1", 2, TRACE)
    assert bare == [EVENT, EVENT]
    assert out.sources == [0, 1, 2]


def test_record_fields_in_text_fill_alike():
    """What needs no check is filled into the decoded event, with the same result as the long way."""
    fields = {"task": "other", "worker": "w1", "caller": "", "traceparent": f"00-{TRACE}-{SPAN}-01"}
    short, long = decoded(GOOD, GOOD, fields=[fields, fields | {"labels": ""}]).events
    assert (
        short
        == long
        == Event(
            kind="started",
            task_id="a",
            time=AT,
            task="pay.settle",
            queue="payments",
            worker="w1",
            trace_id=TRACE,
            span_id=SPAN,
        )
    )


def test_an_entry_of_fields_alone_is_the_event():
    """With an empty body the record's fields are all there is, numbers and labels as text."""
    fields = {
        "kind": "failed",
        "task_id": "a",
        "time": str(AT),
        "eta": "2026-09-21T14:13:20.25Z",
        "run_seconds": "1.5",
        "labels": '{"tenant":"t1"}',
    }
    assert decoded(b"", fields=[fields]).events == [
        Event(kind="failed", task_id="a", time=AT, eta=AT, run_seconds=1.5, labels={"tenant": "t1"})
    ]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, "missing_kind"),
        ({"kind": "sent"}, "missing_id"),
        ({"kind": "sent", "task_id": "a", "attempt": "two"}, "bad_field"),
        ({"kind": "sent", "task_id": "a", "run_seconds": "nan"}, "bad_field"),
        ({"kind": "sent", "task_id": "a", "labels": "[" * 5000}, "bad_field"),
        ({"kind": "sent", "task_id": "a", "time": "nan"}, "bad_time"),
        ({"kind": "sent", "task_id": "a", "time": "soon"}, "bad_time"),
    ],
)
def test_fields_that_are_no_event_have_their_reason(changed, reason):
    """An entry is judged by the same list as a body."""
    out = decoded(b"", fields=[changed])
    assert [reject.reason for reject in out.rejects] == [reason]


def test_fields_complete_every_element_of_a_list():
    """A record's headers hold for all that it carries."""
    out = decoded(b'[{"task_id":"a"},{"task_id":"b"},{}]', b"[]", fields=[{"kind": "sent"}, {}])
    assert [(event.kind, event.task_id) for event in out.events] == [("sent", "a"), ("sent", "b")]
    assert out.rejects == [Reject(0, "missing_id", "element 2: sent without a `task_id`")]


def test_a_body_too_large_is_not_read_where_there_are_fields():
    """The bound holds on every way in."""
    out = decoded(GOOD, GOOD + b" " * 1000, fields=[None, None])
    assert [reject.reason for reject in out.rejects] == ["too_large"]
    assert out.events == [EVENT]


def test_a_detail_quotes_nothing_that_could_be_a_secret():
    """Details are written to logs as they are."""
    secret = "password=hunter2"
    out = decoded(event(kind=secret), event(time=secret), event(task_id=[secret]), event(attempt=secret))
    assert len(out.rejects) == 4
    assert not [reject.detail for reject in out.rejects if "hunter2" in reject.detail]
    assert decoded(event(kind="exploded")).rejects[0].detail == "`exploded`"


def test_first_bytes_are_short_readable_and_masked():
    """Of a body that was rejected people see the beginning, without the password in it."""
    assert first_bytes(b'{"password":"hunter2","kind":\xff') == '{"password":***,"kind":\N{REPLACEMENT CHARACTER}'
    assert len(first_bytes(b"x" * 10_000)) == 200


@settings(max_examples=100, deadline=None)
@given(events=st.lists(st.tuples(st.sampled_from(TASK_KINDS), st.text(min_size=1, max_size=8)), max_size=20))
def test_one_bad_body_costs_one_reject(events):
    """Good events around a bad body are all there, at their own indexes."""
    bodies = [msgspec.json.encode(Event(kind=kind, task_id=task_id)) for kind, task_id in events]
    middle = len(bodies) // 2
    bodies.insert(middle, b'{"kind":')
    out = native.decode(
        Batch(source="s", place="p", bodies=bodies, receipts=list(range(len(bodies))), received_at=1.79e9)
    )
    assert [(event.kind, event.task_id) for event in out.events] == events
    assert out.sources == [index for index in range(len(bodies)) if index != middle]
    assert [reject.index for reject in out.rejects] == [middle]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * MOST_ELEMENTS + b"1]",
        b"[" + b"{}," * 20 * MOST_ELEMENTS + b"{}]",
        msgspec.msgpack.encode([0] * (MOST_ELEMENTS + 1)),
    ],
)
def test_a_list_without_end_is_one_reject(body):
    """A body holds at most so many elements as are read within one short step."""
    read = decoded(body, longest=1_000_000)
    assert [(reject.reason, reject.detail) for reject in read.rejects] == [
        ("too_large", f"a list of more than {MOST_ELEMENTS} elements")
    ]
