"""What the formats of frameworks in Redis promise beyond the captures: hostile values, bounds, what is told when."""

from __future__ import annotations

import base64
import json
import pickle
import time
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import FORMATS, REASONS, rq, rq_values, saq
from collector.model.record import Batch
from tests.unit.formats.test_every_format import _assert_regular

T0 = 1_790_000_000.0
EXECUTION = "0123456789abcdef0123456789abcdef"


def batch(*records, at=T0, tap="redis-key"):
    """Records of one tap: (about, body)."""
    return Batch(
        source="s",
        place="keys",
        bodies=[body if isinstance(body, bytes) else json.dumps(body).encode() for _, body in records],
        receipts=list(range(len(records))),
        received_at=at,
        tap=tap,
        about=[about for about, _ in records],
    )


def key(name, body, kind="hash"):
    """A `redis-key` record."""
    return {"db": 0, "key": name, "type": kind, "pttl": -1}, body


def iso(at):
    """A time as RQ writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}Z"


def job(status="queued", **more):
    """A job's hash, of the job `a`."""
    fields = {"status": status, "created_at": iso(T0), "origin": "q", "description": "tasks.add(1, 2)"}
    return key("rq:job:a", fields | more)


def entry(**fields):
    """A result entry of the job `a`."""
    return {"stream": "rq:results:a", "id": "1-0", "fields": fields}, b""


def stored(**fields):
    """The JSON of SAQ's job `a`."""
    at = int(T0 * 1000)
    content = {"function": "f", "key": "a", "queue": "q", "queued": at, "attempts": 1, "started": at + 5} | fields
    return key("saq:job:q:a", json.dumps(content), "string")


def word(text):
    """A status word of SAQ's job `a`."""
    return {"channel": "saq:job:q:a", "pattern": "saq:job:*"}, text.encode()


def told(decoded):
    """Kinds and attempts of what was decoded."""
    return [(event.kind, event.attempt) for event in decoded.events]


# Hostile values

_TEXTS = st.text(max_size=12) | st.sampled_from(
    ["a", "0", "-1", "9" * 40, "1e999", "nan", "2026-11-29T16:44:54Z", "1795970694.5", "failed", "queued", "2", "["]
)
_VALUES = (
    _TEXTS | st.integers() | st.none() | st.builds(lambda raw: {"b64": raw}, _TEXTS) | st.lists(_TEXTS, max_size=2)
)
_NAMES = st.sampled_from(
    [
        *("status", "created_at", "enqueued_at", "started_at", "ended_at", "retries_left", "origin", "data", "type"),
        *("exc_string", "execution_id", "execution_started_at", "worker_name", "birth", "death", "repeats_left"),
        *("function", "key", "queue", "attempts", "queued", "started", "error"),
    ]
)
_OBJECTS = st.dictionaries(_NAMES, _VALUES, max_size=8)
_PLACES = st.sampled_from(
    [
        *("rq:job:a", "x:job:b", f"rq:execution:a:{EXECUTION}", "rq:worker:w", "rq:scheduled:q", "rq:results:a"),
        *("saq:job:q:a", "saq:job:", "saq:q:worker_info:w", "saq:q:incomplete", "", "x"),
        f"__keyspace@0__:rq:execution:a:{EXECUTION}",
    ]
)
_BODIES = (
    st.binary(max_size=30)
    | st.sampled_from([b"active", b"queued", b"complete", b"failed", b"aborting", b"hset", b"[" * 5000, b'"' * 3])
    | (_OBJECTS | _VALUES).map(lambda thing: json.dumps(thing).encode())
    | _OBJECTS.map(lambda thing: json.dumps(json.dumps(thing)).encode())
)
_ABOUTS = st.builds(
    lambda place, kind, fields: {"key": place, "channel": place, "stream": place, "type": kind, "fields": fields},
    _PLACES,
    st.sampled_from(["hash", "string", "zset", "none", 7]),
    _OBJECTS | _VALUES,
)
_BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["redis-key", "redis-pubsub", "redis-stream"]),
        st.lists(st.tuples(_ABOUTS, _BODIES), max_size=4),
        st.floats(T0, T0 + 10),
    ),
    max_size=6,
)


@pytest.mark.parametrize("name", ["rq", "saq"])
@settings(max_examples=300, deadline=None)
@given(batches=_BATCHES)
def test_hostile_records_are_counted_by_reason(name, batches):
    """Whatever keys and channels hold, nothing raises, every reject has a known reason, every event is regular."""
    decode = FORMATS[name].new()
    for tap, records, at in batches:
        out = decode(batch(*records, tap=tap, at=at))
        assert {reject.reason for reject in out.rejects} <= set(REASONS)
        assert len(out.sources) == len(out.events)
        assert out.sources == sorted(out.sources)
        for event in out.events:
            _assert_regular(event)
        for about, body in records:
            FORMATS[name].is_mine(tap, about, body)


@pytest.mark.parametrize(
    ("record", "tap", "reason"),
    [
        (key("rq:job:a", b'{"status":'), "redis-key", "not_json"),
        (key("rq:job:a", b"[1]"), "redis-key", "not_an_object"),
        (key("rq:job:a", b'{"a":' + b"[" * 20_000), "redis-key", "too_deep"),
        (job(started_at="yesterday"), "redis-key", "bad_time"),
        (job(retries_left="lots"), "redis-key", "bad_field"),
        (entry(type="9"), "redis-stream", "unknown_kind"),
        (entry(type="1", execution_ended_at="1e308"), "redis-stream", "bad_time"),
        (key("rq:scheduled:q", b'{"a": 1}', "zset"), "redis-key", "bad_field"),
    ],
)
def test_what_is_wrong_with_rq_is_named(record, tap, reason):
    """A record of RQ's that cannot be read has its reason, and the next one is read."""
    decode = rq.FORMAT.new()
    out = decode(batch(record, tap=tap))
    assert [reject.reason for reject in out.rejects] == [reason]
    assert told(decode(batch(key("rq:job:b", job()[1])))) == [("sent", None)]


@pytest.mark.parametrize(
    ("record", "tap", "reason"),
    [
        (key("saq:job:q:a", b'"{"', "string"), "redis-key", "not_json"),
        (key("saq:job:q:a", {"b64": "gAR9"}, "string"), "redis-key", "bad_field"),
        (stored(attempts="x"), "redis-key", "bad_field"),
        (word("dancing"), "redis-pubsub", "unknown_kind"),
    ],
)
def test_what_is_wrong_with_saq_is_named(record, tap, reason):
    """A record of SAQ's that cannot be read has its reason, and the next one is read."""
    decode = saq.FORMAT.new()
    assert [reject.reason for reject in decode(batch(record, tap=tap)).rejects] == [reason]
    assert told(decode(batch(stored(status="queued", attempts=0)))) == [("sent", None)]


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    "call",
    [
        pickle.dumps(_Bomb()),
        b"\x80\x04\x8c\xff",
        b"\x80\x04" + b"(" * 100_000,
        b"\x80\x05\x8d" + (1 << 60).to_bytes(8, "little"),
        b"not a pickle",
        pickle.dumps(("tasks.add", None, (_Bomb(),), {})),
    ],
)
def test_a_call_is_never_unpickled(call):
    """Whatever stands in a job's call, nothing of it runs; the name is read where it stands first."""
    fields = {"data": {"b64": base64.b64encode(zlib.compress(call)).decode()}, "description": "from_description()"}
    assert rq_values.task_of(fields) in {"from_description", "tasks.add", "_pytest.outcomes"}


def test_bombs_are_not_expanded():
    """Compressed nonsense is expanded up to a named limit, and what is looked at stays small."""
    bomb = zlib.compress(b"\0" * 50_000_000)
    assert len(rq_values.traceback(base64.b64encode(bomb).decode())) <= rq_values.TAIL_BYTES
    assert rq_values.task_of({"data": {"b64": base64.b64encode(bomb).decode()}}) is None


def test_the_error_stands_at_the_end_of_a_long_traceback():
    """A traceback longer than what is kept still gives its class and message."""
    text = "Traceback (most recent call last):\n" + '  File "x.py", line 1, in f\n    f()\n' * 50_000 + "a.B: no\nmore"
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    assert rq_values.failure({"exc_string": packed}) == ("B", "no\nmore")


# What is told when


def test_attempts_between_two_looks_are_counted():
    """`retries_left` three lower than before is three attempts that were given back, and a last one that failed."""
    decode = rq.FORMAT.new()
    ended = {"started_at": iso(T0 + 4), "ended_at": iso(T0 + 5), "enqueued_at": iso(T0 + 3)}
    assert told(decode(batch(job(retries_left="3")))) == [("sent", None)]
    out = decode(batch(job("failed", retries_left="0", **ended), at=T0 + 6))
    assert told(out) == [(kind, attempt) for attempt in (1, 2, 3) for kind in ("started", "retried")]
    failed = {"execution_id": EXECUTION, "execution_started_at": str(T0 + 4), "execution_ended_at": str(T0 + 5)}
    assert told(decode(batch(entry(type="2", **failed), tap="redis-stream", at=T0 + 6))) == [
        ("started", None),
        ("failed", None),
    ]


def test_a_hash_that_was_read_before_its_run_began_tells_of_no_retry():
    """It waits and was never run, though its run was heard of already; once it was, that run was given back."""
    decode = rq.FORMAT.new()
    note = {"channel": f"__keyspace@0__:rq:execution:a:{EXECUTION}"}, b"hset"
    assert told(decode(batch(note, tap="redis-pubsub", at=T0 + 1))) == []
    assert told(decode(batch(job(retries_left="3"), at=T0 + 1.01))) == [("sent", None)]
    ended = {"started_at": iso(T0 + 1.02), "ended_at": iso(T0 + 1.03)}
    out = decode(batch(job("scheduled", retries_left="2", **ended), at=T0 + 1.1))
    assert [event.kind for event in out.events] == ["started", "retried"]


def test_a_run_that_began_after_the_one_that_was_given_back_is_not_given_back_itself():
    """A job that is first seen waiting for its second try, whose run was heard of before its hash was read."""
    decode = rq.FORMAT.new()
    for number, at in enumerate((T0 + 1, T0 + 1.5)):
        note = {"channel": f"__keyspace@0__:rq:execution:a:{number:032x}"}, b"hset"
        decode(batch(note, tap="redis-pubsub", at=at))
    ended = {"started_at": iso(T0 + 1.1), "ended_at": iso(T0 + 1.2)}
    out = decode(batch(job(retries_left="2", **ended), at=T0 + 1.51))
    assert [event.kind for event in out.events] == ["sent", "started", "retried"]


def test_an_end_without_a_result_entry_is_told_by_the_hash():
    """A job whose results are not kept ends by its hash, a little later; and only once."""
    decode = rq.FORMAT.new()
    done = job("finished", started_at=iso(T0 + 1), ended_at=iso(T0 + 2), worker_name="w")
    assert told(decode(batch(done, at=T0 + 3))) == [("sent", None)]
    assert told(decode(batch(at=T0 + 3 + rq.HOLD_SECONDS))) == [("succeeded", None)]
    assert told(decode(batch(done, at=T0 + 9))) == told(decode(batch(at=T0 + 20))) == []


def test_a_repeated_job_without_results_succeeds_each_time():
    """`repeats_left` one lower is a success, also where results are not kept; the next run was sent anew."""
    decode = rq.FORMAT.new()
    run = {"started_at": iso(T0 + 1), "ended_at": iso(T0 + 2), "worker_name": "w"}
    assert told(decode(batch(job(repeats_left="1")))) == [("sent", None)]
    assert told(decode(batch(job("scheduled", repeats_left="0", **run), at=T0 + 3))) == []
    assert told(decode(batch(at=T0 + 3 + rq.HOLD_SECONDS))) == [("succeeded", None)]
    execution = key(f"rq:execution:a:{EXECUTION}", {"created_at": str(T0 + 9), "worker_name": "w"})
    out = decode(batch(key("rq:scheduled:q", [["a", T0 + 8]], "zset"), execution, at=T0 + 9))
    assert [(one.kind, one.time, one.eta) for one in out.events] == [
        ("sent", T0 + 2 + rq.MOMENT, T0 + 8),
        ("started", T0 + 9, None),
    ]


def test_a_job_id_may_be_used_again():
    """A job made anew under an old id is sent again."""
    decode = rq.FORMAT.new()
    assert told(decode(batch(job()))) == [("sent", None)]
    assert told(decode(batch(job(created_at=iso(T0 + 60))))) == [("sent", None)]


def test_a_json_that_is_later_than_words_wait_says_of_what_the_job_failed():
    """On a busy machine: the same fact is told once more, with its error, and then no more."""
    decode = saq.FORMAT.new()
    decode(batch(stored(status="queued", attempts=0), at=T0))
    decode(batch(word("active"), word("failed"), tap="redis-pubsub", at=T0 + 0.1))
    assert told(decode(batch(at=T0 + 3))) == [("started", 1), ("failed", 1)]
    text = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    g()\nKeyError: 7\n'
    late = stored(status="failed", attempts=1, completed=int(T0 * 1000) + 90, error=text)
    found = decode(batch(late, at=T0 + 5)).events
    assert [(one.kind, one.attempt, one.error, one.time) for one in found] == [("failed", 1, "KeyError", None)]
    assert told(decode(batch(late, at=T0 + 6))) == []


def test_words_wait_for_the_json_that_explains_them():
    """Quick attempts are told together, each by what is known of it: the last by its JSON, others by their words."""
    decode = saq.FORMAT.new()
    decode(batch(stored(status="queued", attempts=0), at=T0))
    words = [word(text) for text in ("active", "queued", "active", "complete")]
    assert told(decode(batch(*words, tap="redis-pubsub", at=T0 + 0.1))) == []
    done = stored(status="complete", attempts=2, completed=int((T0 + 1) * 1000), worker_id="w")
    out = decode(batch(done, at=T0 + 0.2))
    assert told(out) == [("started", 1), ("retried", 1), ("started", 2), ("succeeded", 2)]
    assert [event.worker for event in out.events] == [None, None, "w", "w"]


def test_words_of_a_job_that_left_nothing_are_told_alone():
    """With no JSON to read, words are told as they are, after a while, without a name or number."""
    decode = saq.FORMAT.new()
    decode(batch(word("active"), word("complete"), tap="redis-pubsub"))
    out = decode(batch(at=T0 + saq.HOLD_SECONDS))
    assert [(event.kind, event.task_id, event.queue) for event in out.events] == [
        ("started", "a", "q"),
        ("succeeded", "a", "q"),
    ]


def test_a_job_swept_from_a_dead_worker_was_given_back_not_retried():
    """After `aborting`, `queued` is no verdict, whether or not the JSON was seen between the two."""
    for between in ([], [stored(status="aborting", error="swept")]):
        decode = saq.FORMAT.new()
        decode(batch(word("active"), tap="redis-pubsub"))
        told_of = told(decode(batch(word("aborting"), tap="redis-pubsub", at=T0 + 3)))
        told_of += told(decode(batch(*between, at=T0 + 3.1)))
        words = [word(text) for text in ("queued", "active", "complete")]
        decode(batch(*words, tap="redis-pubsub", at=T0 + 8))
        done = stored(status="complete", attempts=2, completed=int((T0 + 9) * 1000))
        told_of += told(decode(batch(done, at=T0 + 8.1)))
        assert [kind for kind, _ in told_of if kind != "sent"] == ["started", "requeued", "started", "succeeded"]


def test_progress_is_no_start():
    """A job that reports progress publishes `active` again: that is the same attempt."""
    decode = saq.FORMAT.new()
    decode(batch(stored(status="active")))
    decode(batch(*[word("active")] * 3, tap="redis-pubsub"))
    done = stored(status="complete", completed=int((T0 + 1) * 1000))
    decode(batch(word("complete"), tap="redis-pubsub"))
    assert told(decode(batch(done))) == [("succeeded", 1)]


def test_a_queue_may_have_colons():
    """The JSON says where in its channel's name a job's key begins, however often it is read."""
    decode = saq.FORMAT.new()
    events = []
    for status in ("new", "active", "complete"):
        about, body = stored(key="k", queue="q:eu", status=status)
        events += decode(batch(({**about, "key": "saq:job:q:eu:k"}, body))).events
    assert {(event.task_id, event.queue) for event in events} == {("k", "q:eu")}
    assert [event.kind for event in events] == ["sent", "started", "succeeded"]


def test_words_may_be_behind_the_json():
    """Words that come after the JSON that they lead to was read for another reason tell nothing twice."""
    decode = saq.FORMAT.new()
    decode(batch(word("active"), tap="redis-pubsub", at=T0 + 0.1))
    done = stored(status="failed", attempts=2, completed=int((T0 + 1) * 1000))
    first = told(decode(batch(done, at=T0 + 0.2)))
    words = [word(text) for text in ("queued", "active", "active", "failed")]
    rest = told(decode(batch(*words, tap="redis-pubsub", at=T0 + 0.3))) + told(decode(batch(at=T0 + 9)))
    assert first == [("sent", None), ("started", 1), ("started", 2), ("failed", 2)]
    assert rest == [("retried", 1)]
    decode(batch(word("active"), tap="redis-pubsub", at=T0 + 9))  # late progress
    assert told(decode(batch(at=T0 + 20)))[:1] == [("started", None)]  # so late that it is another life


def test_late_progress_is_nothing():
    """Progress that was reported before the end and is heard behind its JSON is no new life."""
    decode = saq.FORMAT.new()
    decode(batch(stored(status="complete", completed=int((T0 + 1) * 1000))))
    words = [word(text) for text in ("active", "active", "complete")]
    decode(batch(*words, tap="redis-pubsub", at=T0 + 0.2))
    assert told(decode(batch(at=T0 + 9))) == []


def test_what_was_missed_while_nobody_listened_is_counted_by_the_json():
    """Attempts whose words were lost are known by the number in the JSON."""
    decode = saq.FORMAT.new()
    assert told(decode(batch(stored(status="active")))) == [("sent", None), ("started", 1)]
    done = stored(status="complete", attempts=3, completed=int((T0 + 1) * 1000))
    assert told(decode(batch(done, at=T0 + 2))) == [("started", 3), ("succeeded", 3)]
    assert told(decode(batch(at=T0 + 5))) == [("retried", 1), ("started", 2), ("retried", 2)]


def test_a_key_may_be_used_again():
    """A key that is enqueued again after its end is sent again, whichever comes first, word or JSON."""
    decode = saq.FORMAT.new()
    decode(batch(stored(status="complete", completed=int((T0 + 1) * 1000))))
    again = stored(status="complete", queued=int((T0 + 60) * 1000), completed=int((T0 + 61) * 1000))
    decode(batch(word("active"), word("complete"), tap="redis-pubsub", at=T0 + 61))
    assert told(decode(batch(again, at=T0 + 61))) == [("sent", None), ("started", 1), ("succeeded", 1)]


@pytest.mark.parametrize("module", [rq, saq])
def test_memory_is_bounded(module, monkeypatch):
    """However many jobs pass, no more than the named number is remembered, and what waited is not lost."""
    monkeypatch.setattr(module, "JOBS", 10)
    decode = module.FORMAT.new()
    events = 0
    for number in range(100):
        if module is rq:
            records, tap = [key(f"rq:job:{number}", job()[1])], "redis-key"
        else:
            records, tap = [({"channel": f"saq:job:q:{number}"}, b"active")], "redis-pubsub"
        events += len(decode(batch(*records, tap=tap)).events)
    assert 5 <= len(decode._jobs) <= 10
    assert events == (100 if module is rq else 100 - len(decode._jobs))


def test_arguments_are_not_kept():
    """Nothing of a job's arguments, results, metadata or error texts is remembered."""
    decode = saq.FORMAT.new()
    secret = "hunter2"
    error = f"Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nKeyError: '{secret}'\n"
    out = decode(batch(stored(status="failed", kwargs={"p": secret}, result=secret, meta={"p": secret}, error=error)))
    assert out.events[-1].error_message == f"'{secret}'"
    assert secret not in repr(vars(decode._jobs))
    decode = rq.FORMAT.new()
    decode(batch(job("finished", description=f"f('{secret}')", ended_at=iso(T0 + 1), result=secret)))
    assert secret not in repr([vars(decode), vars(decode._jobs)])
